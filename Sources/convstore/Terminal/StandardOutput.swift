import EventLog
import Glibc

/// Standard output, buffered.
final class StandardOutput: Sendable {
    /// Nobody reads any more (`| head`): the command ends, quietly.
    struct ReaderIsGone: Error {}

    static let shared = StandardOutput()
    private static let bufferBytes = 1 << 16
    private let buffer = Monitor<[UInt8]>([])

    /// Keeps text until the buffer is full enough for ``flushIfFull()`` or the command ends.
    func write(_ text: String) { buffer.withLock { $0.append(contentsOf: text.utf8) } }

    /// Lends the buffer to whoever writes much.
    func write(_ body: (inout [UInt8]) throws -> Void) throws {
        let isFull = try buffer.withLock { buffer in
            try body(&buffer)
            return buffer.count >= Self.bufferBytes
        }
        if isFull { try flush() }
    }

    func writeLine(_ text: String) throws {
        try write { buffer in
            buffer.append(contentsOf: text.utf8)
            buffer.append(0x0A)
        }
    }

    func flush() throws {
        try buffer.withLock { buffer in
            guard !buffer.isEmpty else { return }
            defer { buffer.removeAll(keepingCapacity: true) }
            try buffer.withUnsafeBytes { try writeAll($0, to: STDOUT_FILENO, "standard output") }
        }
    }
}
