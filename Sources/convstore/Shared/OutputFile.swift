import Glibc

/// A file that a command writes beside its output (`--rejects`, `--acks`, proofs). Buffered; a failed write is exit 74.
struct OutputFile: ~Copyable {
    let path: String
    private let descriptor: CInt
    private var buffer: [UInt8] = []

    /// Makes the file, or empties it. Throws 73; 64 for `-`.
    init(creating path: String, isPrivate: Bool = false) throws {
        descriptor = try Self.make(path, isPrivate)
        self.path = path
    }

    private static func make(_ path: String, _ isPrivate: Bool) throws -> CInt {
        // Elsewhere it stands for a stream, and these have their own lines: nobody wants a file of this name.
        guard path != "-" else { throw Failure(.usage, "this goes to a file: name one instead of -") }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw Failure(.cannotCreate, "\(path) cannot be written: \(String(cString: strerror(errno)))") }
        if isPrivate { fchmod(descriptor, 0o600) }
        return descriptor
    }

    deinit { close(descriptor) }

    mutating func write(_ bytes: some Collection<UInt8>) throws {
        buffer.append(contentsOf: bytes)
        if buffer.count >= 1 << 16 { try flush() }
    }

    mutating func flush() throws {
        guard !buffer.isEmpty else { return }
        try buffer.withUnsafeBytes { try writeAll($0, to: descriptor, path) }
        buffer.removeAll(keepingCapacity: true)
    }
}

/// Writes all bytes, whatever interrupts it.
func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt, _ name: String) throws {
    var written = 0
    while written < bytes.count {
        let count = Glibc.write(descriptor, bytes.baseAddress! + written, bytes.count - written)
        if count >= 0 {
            written += count
        } else if errno == EPIPE, descriptor == STDOUT_FILENO {
            throw StandardOutput.ReaderIsGone()
        } else if errno == EAGAIN {
            var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            poll(&request, 1, -1)
        } else if errno != EINTR {
            throw Failure(.inputOutput, "\(name): \(String(cString: strerror(errno)))")
        }
    }
}
