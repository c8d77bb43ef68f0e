#if canImport(CNettle)
    internal import CNettle
#else
    internal import Crypto
#endif

/// SHA-256 of bytes that come in pieces.
///
/// A log's trees take five digests an event, of 33 to a few hundred bytes each, and the cost of a call is then most of the cost. On
/// Linux swift-crypto allocates, wipes and frees a context for each, 80 to 90 ns (docs/archive-shape.md); Nettle's lies on the stack.
/// Elsewhere it is CryptoKit's. What is hashed once, or is not only hashed, goes by swift-crypto. Nettle's is not wiped either: salts and seeds stand
/// in this process's memory as values anyway.
package struct SHA256Hasher: ~Copyable {
    #if canImport(CNettle)
        private var context = sha256_ctx()

        package init() { nettle_sha256_init(&context) }

        package mutating func update(_ bytes: UnsafeRawBufferPointer) {
            guard let base = bytes.baseAddress else { return }
            nettle_sha256_update(&context, bytes.count, base.assumingMemoryBound(to: UInt8.self))
        }

        package consuming func finalize() -> Hash256 {
            var context = context
            return Hash256 { convstore_sha256_digest(&context, $0.baseAddress!.assumingMemoryBound(to: UInt8.self)) }
        }
    #else
        private var context = SHA256()

        package init() {}

        package mutating func update(_ bytes: UnsafeRawBufferPointer) { context.update(bufferPointer: bytes) }

        package consuming func finalize() -> Hash256 {
            let digest = context.finalize()
            return digest.withUnsafeBytes { bytes in Hash256 { $0.copyMemory(from: bytes) } }
        }
    #endif

    mutating func update(_ byte: UInt8) { Swift.withUnsafeBytes(of: byte) { update($0) } }

    mutating func update(_ hash: Hash256) { hash.withUnsafeBytes { update($0) } }
}

/// What trees hash: small, and in one call.
extension SHA256Hasher {
    /// The digest of a byte and a hash.
    @inline(__always) static func digest(_ prefix: UInt8, _ hash: Hash256) -> Hash256 {
        #if canImport(CNettle)
            hash.withUnsafeBytes { hash in Hash256 { convstore_sha256_33(prefix, hash.bytePointer, $0.bytePointer) } }
        #else
            var hasher = SHA256Hasher()
            hasher.update(prefix)
            hasher.update(hash)
            return hasher.finalize()
        #endif
    }

    /// The digest of a byte and two hashes.
    @inline(__always) static func digest(_ prefix: UInt8, _ left: Hash256, _ right: Hash256) -> Hash256 {
        #if canImport(CNettle)
            left.withUnsafeBytes { left in
                right.withUnsafeBytes { right in
                    Hash256 { convstore_sha256_65(prefix, left.bytePointer, right.bytePointer, $0.bytePointer) }
                }
            }
        #else
            var hasher = SHA256Hasher()
            hasher.update(prefix)
            hasher.update(left)
            hasher.update(right)
            return hasher.finalize()
        #endif
    }

    /// The digest of a byte, if there is one, and what lies in two places.
    @inline(__always) static func digest(_ prefix: UInt8?, _ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) -> Hash256 {
        #if canImport(CNettle)
            Hash256 {
                convstore_sha256_of(
                    prefix.map { CInt($0) } ?? -1, first.baseAddress?.assumingMemoryBound(to: UInt8.self), first.count,
                    second.baseAddress?.assumingMemoryBound(to: UInt8.self), second.count, $0.bytePointer)
            }
        #else
            var hasher = SHA256Hasher()
            if let prefix { hasher.update(prefix) }
            hasher.update(first)
            hasher.update(second)
            return hasher.finalize()
        #endif
    }
}

extension UnsafeRawBufferPointer {
    fileprivate var bytePointer: UnsafePointer<UInt8> { baseAddress!.assumingMemoryBound(to: UInt8.self) }
}

extension UnsafeMutableRawBufferPointer {
    fileprivate var bytePointer: UnsafeMutablePointer<UInt8> { baseAddress!.assumingMemoryBound(to: UInt8.self) }
}
