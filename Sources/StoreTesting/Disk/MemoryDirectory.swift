#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A directory in memory, where the system has such a place, that goes with the object.
package final class MemoryDirectory: Sendable {
    package let path: String

    package init(isTemporary: Bool = true) {
        self.isTemporary = isTemporary
        let parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        var template = Array("\(parent)/convstore-simulated-XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!).map { String(cString: $0) } }
        guard let made else { fatalError("\(parent): no directory can be made there") }
        path = made
    }

    /// It stays if this is taken back.
    private let isTemporary: Bool

    deinit { if isTemporary { Self.remove(path) } }

    /// Makes a directory in it.
    package func make(_ name: String) -> String {
        mkdir(path + "/" + name, 0o700)
        return path + "/" + name
    }

    /// Copies the plain files of a directory into another, which must not be there. Locks stay behind: nobody holds the copy.
    package static func copy(_ from: String, to: String) {
        mkdir(to, 0o700)
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        for name in names(from) where !name.hasSuffix("-lock") && name != "lock" {
            let source = open(from + "/" + name, O_RDONLY)
            let target = open(to + "/" + name, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            precondition(source >= 0 && target >= 0, "\(from)/\(name) cannot be copied")
            while true {
                let count = read(source, &buffer, buffer.count)
                precondition(count >= 0, "\(from)/\(name) cannot be read")
                if count == 0 { break }
                precondition(write(target, buffer, count) == count, "\(to)/\(name) cannot be written")
            }
            close(source)
            close(target)
        }
    }

    package static func remove(_ path: String) {
        for name in names(path) {
            let child = path + "/" + name
            if unlink(child) != 0 { remove(child) }
        }
        rmdir(path)
    }

    /// Flips one bit of a file, where there is something else than zeros if that is found soon. Answers in which byte; `nil`: it is empty.
    package static func flip(_ path: String, _ random: inout SeededGenerator) -> Int? {
        let file = open(path, O_RDWR)
        guard file >= 0 else { return nil }
        defer { close(file) }
        let size = Int(lseek(file, 0, SEEK_END))
        guard size > 0 else { return nil }
        var byte: UInt8 = 0, place = 0
        for _ in 0..<64 where byte == 0 {
            place = random.below(size)
            guard pread(file, &byte, 1, off_t(place)) == 1 else { return nil }
        }
        byte ^= 1 << UInt8(random.below(8))
        precondition(pwrite(file, &byte, 1, off_t(place)) == 1, "\(path) cannot be written")
        return place
    }

    package static func names(_ path: String) -> [String] {
        guard let handle = opendir(path) else { return [] }
        defer { closedir(handle) }
        var result: [String] = []
        while let entry = readdir(handle) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if name != ".", name != ".." { result.append(name) }
        }
        return result
    }
}
