/// A tree of secrets without end: from one root, a secret for each index 0, 1, 2 …, any of which can later be forgotten alone.
///
/// A log's salts are the leaves over `seq - 1` with the log's secret as the root; the secrets of a store's logs are the leaves over
/// the logs' numbers with the store's master secret as the root. A child is `SHA-256(side || parent)`, `side` being one byte, 0 for
/// left and 1 for right: from a seed all below it follows, and nothing beside or above it.
///
/// The path to leaf `i`: let `n = i + 1` and `k = floor(log2 n)`; go right `k` times, left once, then follow the `k` low bits of `n`
/// from the highest (0 = left, 1 = right). This is Elias's gamma code (P. Elias, "Universal codeword sets and representations of
/// the integers", 1975), so a leaf costs `2k + 1` hashes, and there is no greatest index to choose beforehand.
///
/// Below the spine (the nodes reached by going right only) a node is named by its level, 0 for leaves, and its number
/// `n >> level`, which is the same for all leaves `n` below it.
package struct SeedTree: Sendable {
    package enum Side: UInt8, Sendable {
        case left = 0
        case right = 1
    }

    package let root: Hash256

    package init(root: Hash256) { self.root = root }

    /// The greatest index that a `UInt64` can name and `n` still hold.
    package static let indexMax: UInt64 = .max - 1

    package static func child(_ side: Side, of parent: Hash256) -> Hash256 {
        SHA256Hasher.digest(side.rawValue, parent)
    }

    /// The leaf's secret, derived from the root. Traps above `indexMax`.
    package func leaf(at index: UInt64) -> Hash256 {
        precondition(index <= Self.indexMax, "no leaf has this index")
        let number = index + 1
        let level = 63 - number.leadingZeroBitCount
        var seed = root
        for _ in 0..<level { seed = Self.child(.right, of: seed) }
        seed = Self.child(.left, of: seed)
        return Self.descend(from: seed, level: level, to: number)
    }

    /// A cursor for reading many leaves, cheapest in order.
    package func cursor() -> Cursor { PuncturedSeeds(root: root).cursor() }

    static func descend(from seed: Hash256, level: Int, to number: UInt64) -> Hash256 {
        var seed = seed
        for bit in stride(from: level - 1, through: 0, by: -1) {
            seed = child(number >> UInt64(bit) & 1 == 0 ? .left : .right, of: seed)
        }
        return seed
    }
}
