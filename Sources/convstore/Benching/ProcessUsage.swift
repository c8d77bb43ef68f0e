import Glibc

/// What the system counts of this process.
enum ProcessUsage {
    static var id: Int32 { getpid() }

    /// Bytes that it caused to be written to devices.
    static var bytesWritten: Int { field("write_bytes:", of: "/proc/self/io") ?? 0 }

    /// The most memory that it ever had resident.
    static var peakBytes: Int { (field("VmHWM:", of: "/proc/self/status") ?? 0) * 1024 }

    private static func field(_ name: String, of path: String) -> Int? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, CInt(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if text.hasPrefix(name) { return Int(text.dropFirst(name.count).filter { "0"..."9" ~= $0 }) }
        }
        return nil
    }
}
