internal import CZstd
import EventLog

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Compresses pages. Contexts are kept, one for each thread that asks at the same time.
enum PageCodec {
    private static let level: CInt = 3
    /// A page holds at most its messages' texts; beyond it the bytes are damaged.
    private static let sizeMax: UInt64 = 512 << 20

    /// `nil` if it cannot be made smaller.
    static func compress(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        compressors.lend { context in
            let bound = ZSTD_compressBound(bytes.count)
            let result = [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
                let written = ZSTD_compressCCtx(context, buffer.baseAddress, bound, bytes.baseAddress, bytes.count, level)
                count = ZSTD_isError(written) == 0 ? written : 0
            }
            return result.isEmpty ? nil : result
        }
    }

    static func decompress<R>(_ bytes: UnsafeRawBufferPointer, size: UInt64, _ body: (UnsafeRawBufferPointer) throws -> R) throws -> R {
        guard size <= sizeMax else { throw CodecError(.tooLarge) }
        return try withUnsafeTemporaryAllocation(byteCount: max(Int(size), 1), alignment: 16) { target in
            let written = decompressors.lend { ZSTD_decompressDCtx($0, target.baseAddress, Int(size), bytes.baseAddress, bytes.count) }
            guard ZSTD_isError(written) == 0, written == Int(size) else { throw CodecError(.badValue) }
            return try body(UnsafeRawBufferPointer(rebasing: target[..<Int(size)]))
        }
    }

    private static let compressors = ContextPool(make: { ZSTD_createCCtx() })
    private static let decompressors = ContextPool(make: { ZSTD_createDCtx() })

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
