import Crypto
public import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file, or what came from standard input, open for reading more than once. `.zst` files are read as what they hold.
///
/// A value owns its descriptor: it is closed when the value ends.
public struct InputFile: ~Copyable {
    /// What the caller called it: a path, or `-`.
    public let name: String
    /// Bytes in the file as it lies on disk: what ``LineReader/bytesRead`` runs up to.
    public let size: Int
    /// Whether it is read as what it holds: its name ends in `.zst`.
    public let isCompressed: Bool
    let descriptor: CInt

    private init(name: String, size: Int, isCompressed: Bool, descriptor: CInt) {
        self.name = name
        self.size = size
        self.isCompressed = isCompressed
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Opens a file. What cannot be read twice (a pipe, a device) is first copied to a temporary file without a name.
    ///
    /// Throws `noSuchFile` or `unreadable`.
    public static func open(_ path: String) throws(InputError) -> InputFile {
        let descriptor = openForReading(path)
        guard descriptor >= 0 else { throw systemError(errno, path) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            let error = systemError(errno, path)
            close(descriptor)
            throw error
        }
        let isCompressed = path.utf8.suffix(4).elementsEqual(".zst".utf8)
        switch status.st_mode & S_IFMT {
        case S_IFREG: return InputFile(name: path, size: Int(status.st_size), isCompressed: isCompressed, descriptor: descriptor)
        case S_IFDIR:
            close(descriptor)
            throw InputError(.noSuchFile, "\(path) is a directory; name a file")
        default:
            defer { close(descriptor) }
            return try spool(descriptor, name: path, isCompressed: isCompressed)
        }
    }

    /// Takes all of standard input: copied to a temporary file without a name, mode 0600, so that it can be read twice.
    ///
    /// Throws `unreadable`.
    public static func standardInput() throws(InputError) -> InputFile {
        try spool(STDIN_FILENO, name: "-", isCompressed: false)
    }

    /// The SHA-256 of the content: of what a `.zst` file holds, so that compressing a file does not change its identity.
    ///
    /// Throws `unreadable`, `damaged` or `truncated`.
    public borrowing func contentDigest() throws(InputError) -> ContentDigest {
        var hash = SHA256()
        try forEachBlock { block in hash.update(bufferPointer: block) }
        return ContentDigest(bytes: Array(hash.finalize()))
    }

    /// Lends the content from its beginning, block after block.
    public borrowing func forEachBlock<E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> Void) throws {
        var content = try Content(self)
        while let block = try content.next() { try body(block) }
    }

    /// As above, for a body that cannot fail. Throws `unreadable`, `damaged` or `truncated`.
    public borrowing func forEachBlock(_ body: (UnsafeRawBufferPointer) -> Void) throws(InputError) {
        var content = try Content(self)
        while let block = try content.next() { body(block) }
    }

    /// A file's content from its beginning.
    private struct Content: ~Copyable {
        private var blocks: InputBlocks
        private let descriptor: CInt
        private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)

        init(_ file: borrowing InputFile) throws(InputError) {
            blocks = try InputBlocks(isCompressed: file.isCompressed, name: file.name)
            descriptor = file.descriptor
        }

        deinit { buffer.deallocate() }

        /// Valid until the next; `nil` at the end.
        mutating func next() throws(InputError) -> UnsafeRawBufferPointer? {
            let count = try blocks.read(descriptor, into: buffer)
            return count == 0 ? nil : UnsafeRawBufferPointer(rebasing: buffer[..<count])
        }
    }

    /// Copies what a descriptor gives to a file that has no name, and so is gone with the process.
    private static func spool(_ source: CInt, name: String, isCompressed: Bool) throws(InputError) -> InputFile {
        let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array((directory + "/convstore-input-XXXXXX").utf8CString)
        let copy = mkstemp(&template)
        guard copy >= 0 else { throw systemError(errno, directory) }
        unlink(template)
        var isKept = false
        defer { if !isKept { close(copy) } }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)
        defer { buffer.deallocate() }
        var size = 0
        while true {
            let count = retrying { systemRead(source, buffer.baseAddress!, buffer.count) }
            guard count >= 0 else { throw systemError(errno, name) }
            if count == 0 { break }
            var written = 0
            while written < count {
                let step = retrying { write(copy, buffer.baseAddress! + written, count - written) }
                guard step > 0 else { throw systemError(errno, directory) }
                written += step
            }
            size += count
        }
        isKept = true
        return InputFile(name: name, size: size, isCompressed: isCompressed, descriptor: copy)
    }
}

/// The SHA-256 of an input's content.
public struct ContentDigest: Hashable, Sendable {
    /// Thirty-two bytes.
    public let bytes: [UInt8]

    /// The digest of bytes in memory.
    public init(of content: UnsafeRawBufferPointer) {
        var hash = SHA256()
        hash.update(bufferPointer: content)
        bytes = Array(hash.finalize())
    }

    init(bytes: [UInt8]) { self.bytes = bytes }

    /// The UUIDv8 made of it.
    public func identifier<Tag>(_ tag: Tag.Type = Tag.self) -> Identifier<Tag> { Identifier(digest: bytes) }
}

/// Reads a descriptor's content from offset 0 on, decompressed if need be.
struct InputBlocks: ~Copyable {
    /// Bytes of the file taken so far, compressed ones if it is compressed.
    private(set) var offset = 0
    private var zstd: ZstdDecompressor?
    private let name: String
    private let input: UnsafeMutableRawBufferPointer
    private var pending = 0..<0
    private var isAtEnd = false
    private var isAtFrameEnd = true

    init(isCompressed: Bool, name: String) throws(InputError) {
        self.name = name
        do throws(ZstdDecompressor.Failure) { zstd = isCompressed ? try ZstdDecompressor() : nil } catch {
            throw InputError(.unreadable, "\(name): no memory to decompress it")
        }
        input = .allocate(byteCount: isCompressed ? 1 << 17 : 0, alignment: 16)
    }

    deinit { input.deallocate() }

    /// Fills `output` with what comes next and answers how much; 0 at the end.
    mutating func read(_ descriptor: CInt, into output: UnsafeMutableRawBufferPointer) throws(InputError) -> Int {
        guard zstd != nil else {
            let start = offset
            let count = retrying { pread(descriptor, output.baseAddress!, output.count, off_t(start)) }
            guard count >= 0 else { throw systemError(errno, name) }
            offset += count
            return count
        }
        while true {
            if pending.isEmpty, !isAtEnd {
                let start = offset
                let count = retrying { pread(descriptor, input.baseAddress!, input.count, off_t(start)) }
                guard count >= 0 else { throw systemError(errno, name) }
                offset += count
                pending = 0..<count
                isAtEnd = count == 0
            }
            if isAtEnd, pending.isEmpty, isAtFrameEnd, offset > 0 { return 0 }
            let step: ZstdDecompressor.Step
            do throws(ZstdDecompressor.Failure) {
                step = try zstd!.decompress(UnsafeRawBufferPointer(rebasing: input[pending]), into: output)
            } catch .windowTooLarge {
                let limit = ZstdDecompressor.windowBytesMax >> 20
                throw InputError(.windowTooLarge, "\(name) needs a window larger than \(limit) MiB; decompress it with `zstd -d --long=31`")
            } catch {
                throw InputError(.damaged, "\(name) is no sound zstd file: its data is damaged before byte \(offset)")
            }
            pending = pending.lowerBound + step.taken..<pending.upperBound
            isAtFrameEnd = step.isAtFrameEnd
            if step.given > 0 { return step.given }
            if isAtEnd, step.taken == 0 {
                throw InputError(.truncated, "\(name) ends in the middle of its zstd data, after \(offset) bytes")
            }
        }
    }
}

// MARK: - The system

private func openForReading(_ path: String) -> CInt { open(path, O_RDONLY | O_CLOEXEC) }

private func systemRead(_ descriptor: CInt, _ buffer: UnsafeMutableRawPointer, _ count: Int) -> Int { read(descriptor, buffer, count) }

/// Repeats a call that a signal interrupted.
private func retrying(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}

private func systemError(_ number: CInt, _ name: String) -> InputError {
    let reason = String(cString: strerror(number))
    return InputError(number == ENOENT || number == ENOTDIR ? .noSuchFile : .unreadable, "\(name): \(reason)")
}
