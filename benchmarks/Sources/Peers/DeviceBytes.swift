import Glibc

/// Bytes that went to the disk so far.
struct DeviceBytes {
    /// What this process caused (`write_bytes` of /proc/self/io): counted when pages turn dirty, without the file system's journal.
    var process: Int
    /// What the whole device took (/proc/diskstats), other processes' writes and the file system's journal included; `nil` where unknown.
    var device: Int?

    static func now(of directory: String) -> Self {
        let process = lines("/proc/self/io").first { $0.hasPrefix("write_bytes:") }?.split(separator: " ").last.flatMap { Int($0) }
        var status = stat()
        guard stat(directory, &status) == 0 else { return Self(process: process ?? 0, device: nil) }
        // The major and minor numbers as glibc packs them; its functions for this are macros.
        let packed = UInt64(status.st_dev)
        let major = Int(packed >> 8 & 0xFFF | packed >> 32 & ~0xFFF)
        let minor = Int(packed & 0xFF | packed >> 12 & ~0xFF)
        var device: Int?
        for line in lines("/proc/diskstats") {
            let fields = line.split(separator: " ")
            guard fields.count > 9, Int(fields[0]) == major, Int(fields[1]) == minor else { continue }
            device = Int(fields[9]).map { $0 * 512 }
        }
        return Self(process: process ?? 0, device: device)
    }

    /// What the whole device took since then.
    func device(since earlier: Self) -> Int? {
        guard let device, let before = earlier.device else { return nil }
        return device - before
    }

    static func lines(_ path: String) -> [Substring] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n")
    }

    /// What a directory takes on the disk, as `du -s` counts.
    static func used(by directory: String) -> Int {
        var status = stat()
        guard lstat(directory, &status) == 0 else { return 0 }
        var total = Int(status.st_blocks) * 512
        guard status.st_mode & S_IFMT == S_IFDIR, let listing = opendir(directory) else { return total }
        defer { closedir(listing) }
        while let entry = readdir(listing) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { total += used(by: directory + "/" + name) }
        }
        return total
    }
}
