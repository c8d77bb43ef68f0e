import EventLog
import Glibc
import Synchronization

/// Standard output, buffered.
final class StandardOutput: Sendable {
    /// Nobody reads any more (`| head`): the command ends, quietly.
    struct ReaderIsGone: Error {}
    /// A signal came while the reader took nothing: what was left is dropped.
    struct IsTold: Error {}

    static let shared = StandardOutput()
    private static let bufferBytes = 1 << 16
    /// A pipe that has room has room for so many (PIPE_BUF), and a terminal nearly always.
    private static let pieceBytes = 1024
    private let buffer = Monitor<[UInt8]>([])
    private let heedsSignals = Atomic(false)

    /// From now on who waits for a reader that takes nothing (`| less`) ends with ``IsTold`` when a signal comes, which stays to be asked for.
    func heedSignals() { heedsSignals.store(true, ordering: .relaxed) }

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
            if heedsSignals.load(ordering: .relaxed) { return try Self.write(&buffer, milliseconds: -1) }
            try buffer.withUnsafeBytes { try writeAll($0, to: STDOUT_FILENO, "standard output") }
        }
    }

    /// Writes what the reader has room for within so many milliseconds each time; keeps the rest, and says whether there is none.
    func flushWhatFits(milliseconds: Int = 0) throws -> Bool {
        try buffer.withLock { buffer in
            try Self.write(&buffer, milliseconds: milliseconds)
            return buffer.isEmpty
        }
    }

    func drop() { buffer.withLock { $0.removeAll() } }

    private static func write(_ buffer: inout [UInt8], milliseconds: Int) throws {
        var written = 0
        defer { buffer.removeFirst(written) }
        try buffer.withUnsafeBytes { bytes in
            while written < bytes.count {
                switch Signals.waitToWrite(milliseconds: milliseconds) {
                // Who does not wait has nothing to be told.
                case .signal where milliseconds == 0: return
                case .signal: throw IsTold()
                case .timeout: return
                default: break
                }
                let piece = bytes[written..<min(written + pieceBytes, bytes.count)]
                try writeAll(UnsafeRawBufferPointer(rebasing: piece), to: STDOUT_FILENO, "standard output")
                written += piece.count
            }
        }
    }
}
