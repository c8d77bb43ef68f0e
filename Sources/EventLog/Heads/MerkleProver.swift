/// Makes an inclusion or consistency proof in one pass over a log's leaf hashes, holding `O(log n)` of them.
///
/// ```swift
/// var prover = MerkleProver(inclusionOf: seq - 1, size: head.size)
/// while prover.count < head.size { prover.append(try leaf(at: prover.count)) }
/// guard prover.root == head.root else { … }  // The leaves read are not those of the head: never hand such a proof out.
/// let proof = prover.proof
/// ```
package struct MerkleProver: Sendable {
    /// The leaves whose subtree's root is a hash of the proof, in the proof's order.
    private let ranges: [Range<UInt64>]
    /// The places of `ranges` in the order of their leaves, which do not overlap.
    private let order: [Int]
    private var next = 0
    private var subtrees: [CompactRange]
    private var whole = CompactRange()
    private let size: UInt64

    /// Proves that the leaf at an index is in the tree of `size` leaves. Traps unless `index < size`.
    package init(inclusionOf index: UInt64, size: UInt64) {
        self.init(Self.inclusionRanges(index: index, size: size), size: size)
    }

    /// Proves that the tree of `size2` leaves begins with that of `size1`. Traps unless `size1 <= size2`.
    package init(consistencyFrom size1: UInt64, to size2: UInt64) {
        self.init(Self.consistencyRanges(from: size1, to: size2), size: size2)
    }

    private init(_ ranges: [Range<UInt64>], size: UInt64) {
        self.ranges = ranges
        self.size = size
        order = ranges.indices.sorted { ranges[$0].lowerBound < ranges[$1].lowerBound }
        subtrees = ranges.map { CompactRange(begin: $0.lowerBound) }
    }

    /// How many leaves were given: the index of the next.
    package var count: UInt64 { whole.end }

    /// Takes the next leaf hash. Traps after the last.
    package mutating func append(_ leaf: Hash256) {
        let index = count
        precondition(index < size, "the tree has no more leaves")
        whole.append(leaf)
        guard next < order.count, ranges[order[next]].contains(index) else { return }
        subtrees[order[next]].append(leaf)
        if index + 1 == ranges[order[next]].upperBound { next += 1 }
    }

    /// The root over all leaves given: compare it with the head's before handing out the proof.
    package var root: Hash256 { whole.root() }

    /// The proof, once all leaves were given. Traps before.
    package var proof: [Hash256] {
        precondition(count == size, "the proof needs all \(size) leaves")
        return subtrees.map(\.subtreeRoot)
    }

    /// RFC 6962, section 2.1.1: `PATH(index, leaves)`, as the ranges of leaves whose roots it lists.
    static func inclusionRanges(index: UInt64, size: UInt64) -> [Range<UInt64>] {
        precondition(index < size, "no leaf \(index) in a tree of \(size)")
        var result: [Range<UInt64>] = []
        var begin: UInt64 = 0
        var end = size
        while end - begin > 1 {
            let middle = begin + Merkle.split(end - begin)
            if index < middle {
                result.append(middle..<end)
                end = middle
            } else {
                result.append(begin..<middle)
                begin = middle
            }
        }
        return result.reversed()
    }

    /// RFC 6962, section 2.1.2: `PROOF(size1, leaves)`, as the ranges of leaves whose roots it lists.
    static func consistencyRanges(from size1: UInt64, to size2: UInt64) -> [Range<UInt64>] {
        precondition(size1 <= size2, "a tree of \(size2) leaves does not begin with one of \(size1)")
        guard size1 > 0 else { return [] }
        var result: [Range<UInt64>] = []
        var begin: UInt64 = 0
        var end = size2
        while size1 != end {
            let middle = begin + Merkle.split(end - begin)
            if size1 <= middle {
                result.append(middle..<end)
                end = middle
            } else {
                result.append(begin..<middle)
                begin = middle
            }
        }
        // `begin == 0`: what is left is the first tree itself, whose root the verifier has.
        if begin > 0 { result.append(begin..<end) }
        return result.reversed()
    }
}

extension CompactRange {
    /// The root of a subtree of RFC 6962's recursion, which starts at a multiple of a power of two no smaller than itself.
    var subtreeRoot: Hash256 {
        var hash = hashes[hashes.count - 1]
        for left in hashes.dropLast().reversed() { hash = Merkle.nodeHash(left, hash) }
        return hash
    }
}
