import Glibc

/// A file of a few lines, such as a token's.
enum SmallFile {
    private static let bytesMax = 64 << 10

    /// Its text without white space around it. Throws 66 if it cannot be read, 65 if it is no text.
    static func read(_ path: String) throws -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(.noInput, "\(path): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress! + count, $0.count - count) }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw Failure(.inputOutput, "\(path): \(String(cString: strerror(errno)))") }
            if got == 0 { break }
            count += got
        }
        guard count <= bytesMax, let text = String(validating: bytes[..<count], as: UTF8.self) else { throw Failure(.data, "\(path) is no short text") }
        var trimmed = Substring(text)
        while trimmed.first?.isWhitespace ?? false { trimmed.removeFirst() }
        while trimmed.last?.isWhitespace ?? false { trimmed.removeLast() }
        return String(trimmed)
    }
}
