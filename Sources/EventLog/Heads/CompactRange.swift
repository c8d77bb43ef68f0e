/// The few hashes that stand for the leaves `begin..<end` of a Merkle tree: the roots of its largest perfect subtrees, left to right.
///
/// From 0, a range of `size` leaves is `size.nonzeroBitCount` hashes, largest subtree first; it takes further leaves at one node
/// hash each on average and gives the tree's root at any time. Ranges that touch can be joined. (The name and the idea are those of
/// transparency-dev/merkle, package compact.)
public struct CompactRange: Hashable, Sendable {
    public let begin: UInt64
    public private(set) var end: UInt64
    public private(set) var hashes: [Hash256]

    /// An empty range, at the start of the tree unless told.
    public init(begin: UInt64 = 0) {
        self.begin = begin
        end = begin
        hashes = []
    }

    /// The number of leaves.
    public var size: UInt64 { end - begin }

    /// Adds the leaf `end`, given its leaf hash.
    public mutating func append(_ leaf: Hash256) {
        append(leaf, level: 0)
    }

    /// Adds a whole perfect subtree of `1 << level` leaves. Traps if the tree has no such subtree at `end`.
    package mutating func append(_ subtree: Hash256, level: Int) {
        precondition(end.trailingZeroBitCount >= level, "no subtree of level \(level) starts at leaf \(end)")
        var hash = subtree
        var level = UInt64(level)
        var start = end
        end += 1 << level
        // The left sibling, if this node is a right child, joins it, as long as it lies within the range.
        while start >> level & 1 == 1, start - begin >= 1 << level {
            hash = Merkle.nodeHash(hashes.removeLast(), hash)
            start -= 1 << level
            level += 1
        }
        hashes.append(hash)
    }

    /// Adds the range that starts where this one ends. Traps if it starts elsewhere.
    package mutating func append(_ next: CompactRange) {
        precondition(next.begin == end, "a range of leaves can only be joined to one that starts where it ends")
        for (hash, level) in zip(next.hashes, Self.levels(begin: next.begin, end: next.end)) { append(hash, level: level) }
    }

    /// The root of the tree of `end` leaves. Traps unless the range starts at 0.
    public func root() -> Hash256 {
        precondition(begin == 0, "only a range from leaf 0 determines the root")
        guard var hash = hashes.last else { return Merkle.emptyRoot }
        for left in hashes.dropLast().reversed() { hash = Merkle.nodeHash(left, hash) }
        return hash
    }
}

extension CompactRange {
    /// The hashes one after the other. `begin` and `end` are kept elsewhere.
    public var encoded: [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(hashes.count * Hash256.byteCount)
        for hash in hashes { hash.withUnsafeBytes { result.append(contentsOf: $0) } }
        return result
    }

    /// Reads what `encoded` gave; `nil` if the count of bytes is not that of a range with these ends.
    public init?(begin: UInt64 = 0, end: UInt64, encoded: UnsafeRawBufferPointer) {
        guard begin <= end else { return nil }
        let count = Self.levels(begin: begin, end: end).count
        guard encoded.count == count * Hash256.byteCount else { return nil }
        self.begin = begin
        self.end = end
        hashes = []
        hashes.reserveCapacity(count)
        for start in stride(from: 0, to: encoded.count, by: Hash256.byteCount) {
            guard let hash = Hash256(UnsafeRawBufferPointer(rebasing: encoded[start..<start + Hash256.byteCount])) else { return nil }
            hashes.append(hash)
        }
    }

    public init?(begin: UInt64 = 0, end: UInt64, encoded: [UInt8]) {
        let range = encoded.withUnsafeBytes { Self(begin: begin, end: end, encoded: $0) }
        guard let range else { return nil }
        self = range
    }

    /// The levels of the largest perfect subtrees that make up `begin..<end`, left to right; level 0 is a leaf.
    static func levels(begin: UInt64, end: UInt64) -> [Int] {
        var result: [Int] = []
        var start = begin
        while start < end {
            let fitting = 63 - (end - start).leadingZeroBitCount
            let level = start == 0 ? fitting : min(start.trailingZeroBitCount, fitting)
            result.append(level)
            start += 1 << UInt64(level)
        }
        return result
    }
}
