internal import CZstd
import EventLog

/// Compresses pages, with the dictionary that comes with this version: single pages are too small to compress well by themselves.
///
/// Contexts are kept, one for each thread that asks at the same time.
enum PageCodec {
    /// Of level 3 the pages of `benchmarks/dataset.py` take 2.4 % less, and compressing them 1.3 times as long.
    private static let level: CInt = 2
    /// A page holds at most its messages' texts; beyond it the bytes are damaged.
    private static let sizeMax: UInt64 = 512 << 20
    /// The dictionary that new pages are compressed with. Old ones stay readable: a number never changes its meaning.
    static let dictionary: UInt8 = 1

    /// `nil` if it cannot be done.
    static func compress(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        compressors.lend { context in
            let bound = ZSTD_compressBound(bytes.count)
            let result = [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
                let written = ZSTD_compress2(context, buffer.baseAddress, bound, bytes.baseAddress, bytes.count)
                count = ZSTD_isError(written) == 0 ? written : 0
            }
            return result.isEmpty ? nil : result
        }
    }

    static func decompress<R>(
        _ bytes: UnsafeRawBufferPointer, size: UInt64, dictionary: UInt8, _ body: (UnsafeRawBufferPointer) throws -> R
    ) throws -> R {
        guard size <= sizeMax else { throw CodecError(.tooLarge) }
        guard dictionary == Self.dictionary else { throw CodecError(.badValue) }
        return try withUnsafeTemporaryAllocation(byteCount: max(Int(size), 1), alignment: 16) { target in
            let written = decompressors.lend { context in
                ZSTD_decompress_usingDDict(context, target.baseAddress, Int(size), bytes.baseAddress, bytes.count, decoding.pointer)
            }
            guard ZSTD_isError(written) == 0, written == Int(size) else { throw CodecError(.badValue) }
            return try body(UnsafeRawBufferPointer(rebasing: target[..<Int(size)]))
        }
    }

    /// `@unchecked Sendable`: zstd's digested dictionaries are read by any number of threads; this one lives as long as the process.
    private struct Digested: @unchecked Sendable { let pointer: OpaquePointer }

    private static let encoding: Digested = PageDictionary.bytes.withUnsafeBytes { Digested(pointer: ZSTD_createCDict($0.baseAddress, $0.count, level)) }
    private static let decoding: Digested = PageDictionary.bytes.withUnsafeBytes { Digested(pointer: ZSTD_createDDict($0.baseAddress, $0.count)) }

    private static let compressors = ContextPool {
        let context = ZSTD_createCCtx()!
        // Size, checksum and dictionary are told by the page itself.
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0)
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)
        ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0)
        ZSTD_CCtx_refCDict(context, encoding.pointer)
        return context
    }
    private static let decompressors = ContextPool { ZSTD_createDCtx() }

    /// `@unchecked Sendable`: a context is lent to one thread at a time; the pool lives as long as the process.
    private final class ContextPool: @unchecked Sendable {
        private let make: @Sendable () -> OpaquePointer
        private let idle = Monitor<[UInt]>([])

        init(make: @escaping @Sendable () -> OpaquePointer) { self.make = make }

        func lend<R>(_ body: (OpaquePointer) -> R) -> R {
            let context = idle.withLock { $0.popLast() }.flatMap { OpaquePointer(bitPattern: $0) } ?? make()
            defer { idle.withLock { $0.append(UInt(bitPattern: context)) } }
            return body(context)
        }
    }
}
