import CZstd

/// Decompresses one stream of zstd frames, piece by piece, in bounded memory (windows of at most 128 MiB, as `zstd -d` has it).
struct ZstdDecompressor: ~Copyable {
    enum Failure: Error { case damaged, windowTooLarge, outOfMemory }

    /// The largest window that a frame may need: zstd's own limit, unless it is told otherwise.
    static let windowBytesMax = 1 << 27

    struct Step {
        /// Bytes taken from the input, and bytes given.
        var taken: Int
        var given: Int
        /// Whether the input so far ends where a frame ends.
        var isAtFrameEnd: Bool
    }

    private let stream: OpaquePointer

    init() throws(Failure) {
        guard let stream = ZSTD_createDStream() else { throw .outOfMemory }
        self.stream = stream
    }

    deinit { ZSTD_freeDStream(stream) }

    /// Takes from `input`, appends at most `output.count` bytes.
    mutating func decompress(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(Failure) -> Step {
        var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: 0)
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        let result = ZSTD_decompressStream(stream, &target, &source)
        guard ZSTD_isError(result) == 0 else {
            throw ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge ? .windowTooLarge : .damaged
        }
        return Step(taken: source.pos, given: target.pos, isAtFrameEnd: result == 0)
    }
}
