internal import CZstd

/// A zstd failure: the bytes are damaged, or larger than they may be.
struct ZstdError: Error, CustomStringConvertible {
    let description: String
}

/// A compressor's context, reused; for one thread at a time.
struct ZstdCompressor: ~Copyable {
    private let context: OpaquePointer

    init(level: Int) {
        context = ZSTD_createCCtx()
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, CInt(level))
        // Our own checksum covers the frame, and the size stands beside it.
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0)
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)
        ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0)
    }

    deinit { ZSTD_freeCCtx(context) }

    /// Appends the compressed form of the bytes; returns its length.
    func compress(_ bytes: UnsafeRawBufferPointer, into out: inout ByteBuffer) throws -> Int {
        let bound = ZSTD_compressBound(bytes.count)
        let length = try out.write(atMost: bound) { target in
            let written = ZSTD_compress2(context, target, bound, bytes.baseAddress, bytes.count)
            if ZSTD_isError(written) != 0 { throw ZstdError(description: String(cString: ZSTD_getErrorName(written))) }
            return written
        }
        return length
    }
}

/// A decompressor's context, made for the first frame and reused; for one thread at a time.
final class ZstdDecompressor {
    /// It clears a hundred kilobytes, and many a store is opened of which no run is read.
    private var made: OpaquePointer?

    deinit { ZSTD_freeDCtx(made) }

    private var context: OpaquePointer {
        if let made { return made }
        let context = ZSTD_createDCtx()!
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, 27)
        made = context
        return context
    }

    /// Decompresses into exactly the room that is given; the size in the frame is never trusted.
    func decompress(_ bytes: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) throws {
        let written = ZSTD_decompressDCtx(context, target.baseAddress, target.count, bytes.baseAddress, bytes.count)
        if ZSTD_isError(written) != 0 { throw ZstdError(description: String(cString: ZSTD_getErrorName(written))) }
        guard written == target.count else { throw ZstdError(description: "\(written) bytes, expected \(target.count)") }
    }
}

extension ByteBuffer {
    /// Lends room for a C function that returns how much of it was used.
    mutating func write(atMost count: Int, _ body: (UnsafeMutableRawPointer) throws -> Int) rethrows -> Int {
        reserve(count)
        let written = try body(base + self.count)
        precondition(written <= count)
        advance(written)
        return written
    }
}
