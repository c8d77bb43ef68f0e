/// The hashing of Certificate Transparency's Merkle trees (RFC 6962, section 2.1; the same in RFC 9162), and of our leaves.
package enum Merkle {
    /// The root of a tree without leaves: the SHA-256 of nothing.
    package static let emptyRoot = SHA256Hasher().finalize()

    /// `SHA-256(0x00 || entry)`.
    package static func leafHash(_ entry: UnsafeRawBufferPointer) -> Hash256 {
        SHA256Hasher.digest(0, entry, UnsafeRawBufferPointer(start: nil, count: 0))
    }

    package static func leafHash(_ entry: [UInt8]) -> Hash256 {
        entry.withUnsafeBytes { leafHash($0) }
    }

    /// `SHA-256(0x01 || left || right)`.
    package static func nodeHash(_ left: Hash256, _ right: Hash256) -> Hash256 {
        SHA256Hasher.digest(1, left, right)
    }

    /// What an event's leaf holds in place of its body: `SHA-256(salt || body)`. Without the salt, not even a guess at the body can
    /// be checked against it; so forgetting the salt erases the body from a tree that stays whole.
    package static func bodyCommitment(salt: Hash256, body: UnsafeRawBufferPointer) -> Hash256 {
        salt.withUnsafeBytes { SHA256Hasher.digest(nil, $0, body) }
    }

    /// The leaf of an event in its log's tree: `SHA-256(0x00 || envelope || commitment)` (DESIGN, section 10).
    package static func eventLeaf(envelope: UnsafeRawBufferPointer, commitment: Hash256) -> Hash256 {
        commitment.withUnsafeBytes { SHA256Hasher.digest(0, envelope, $0) }
    }

    /// The largest power of two below `size`: where RFC 6962 splits a tree of `size` leaves. Traps below 2.
    package static func split(_ size: UInt64) -> UInt64 {
        precondition(size > 1, "a tree of fewer than two leaves has no halves")
        return 1 << UInt64(63 - (size - 1).leadingZeroBitCount)
    }
}
