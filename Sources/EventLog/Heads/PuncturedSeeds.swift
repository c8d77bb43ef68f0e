/// What is left of a `SeedTree` when some of its leaves are forgotten: the seeds of the largest subtrees that hold no forgotten leaf.
///
/// It starts as the root alone. Forgetting a leaf replaces the one seed above it by those beside its path; so every other leaf stays
/// derivable and equal, the forgotten one is derivable from nothing here, and no order of forgetting changes the result. (The
/// construction is the puncturable pseudorandom function of Goldreich, Goldwasser and Micali's tree.) Whoever keeps such a set
/// must destroy the bytes of the one it replaces: a store rewrites its keys and compacts.
package struct PuncturedSeeds: Hashable, Sendable {
    /// The node reached by going right `depth` times: it covers all leaves `n >= 1 << depth`.
    package struct Spine: Hashable, Sendable {
        var depth: Int
        var seed: Hash256

        mutating func walk(to target: Int) {
            while depth < target {
                seed = SeedTree.child(.right, of: seed)
                depth += 1
            }
        }
    }

    /// A node below the spine: it covers the leaves `number << level ..< (number + 1) << level`.
    struct Subtree: Hashable, Sendable {
        let level: Int
        let number: UInt64
        let seed: Hash256

        /// The number of its first leaf.
        var first: UInt64 { number << UInt64(level) }
        /// The number of its last leaf.
        var last: UInt64 { first | (1 << UInt64(level) - 1) }
    }

    /// There always is one: the end of an endless tree is never forgotten.
    private(set) var spine: Spine
    /// Disjoint, in the order of their leaves, all before the spine's.
    private(set) var subtrees: [Subtree]

    /// The whole tree.
    package init(root: Hash256) {
        self.init(spine: Spine(depth: 0, seed: root), subtrees: [])
    }

    init(spine: Spine, subtrees: [Subtree]) {
        self.spine = spine
        self.subtrees = subtrees
    }

    /// Whether no leaf was forgotten yet.
    package var isWhole: Bool { spine.depth == 0 }

    /// What is given to a copy: 32 bytes, or the set that is left after an erasure.
    var secret: [UInt8] { isWhole ? spine.seed.bytes : encoded }

    /// The number of seeds held.
    package var count: Int { subtrees.count + 1 }

    /// The leaf's secret; `nil` if it was forgotten. Traps above `SeedTree.indexMax`.
    package func leaf(at index: UInt64) -> Hash256? {
        precondition(index <= SeedTree.indexMax, "no leaf has this index")
        let number = index + 1
        let level = 63 - number.leadingZeroBitCount
        if level >= spine.depth {
            var node = spine
            node.walk(to: level)
            return SeedTree.descend(from: SeedTree.child(.left, of: node.seed), level: level, to: number)
        }
        return covering(number).map { SeedTree.descend(from: $0.seed, level: $0.level, to: number) }
    }

    /// A cursor for reading many leaves, cheapest in order.
    package func cursor() -> SeedTree.Cursor { SeedTree.Cursor(self) }

    /// Forgets one leaf; `false` if it was forgotten before. Traps above `SeedTree.indexMax`.
    @discardableResult
    package mutating func forget(_ index: UInt64) -> Bool {
        precondition(index <= SeedTree.indexMax, "no leaf has this index")
        let number = index + 1
        let depth = 63 - number.leadingZeroBitCount
        // Break the spine up, so that a subtree covers the leaf.
        while spine.depth <= depth {
            subtrees.append(Subtree(level: spine.depth, number: 1, seed: SeedTree.child(.left, of: spine.seed)))
            spine.walk(to: spine.depth + 1)
        }
        guard let at = position(covering: number) else { return false }
        var node = subtrees[at]
        var before: [Subtree] = []
        var after: [Subtree] = []
        while node.level > 0 {
            let level = node.level - 1
            let left = Subtree(level: level, number: node.number << 1, seed: SeedTree.child(.left, of: node.seed))
            let right = Subtree(level: level, number: node.number << 1 | 1, seed: SeedTree.child(.right, of: node.seed))
            if number >> UInt64(level) & 1 == 0 {
                after.append(right)
                node = left
            } else {
                before.append(left)
                node = right
            }
        }
        subtrees.replaceSubrange(at...at, with: before + after.reversed())
        return true
    }

    /// Forgets a leaf and all before it. Traps above `SeedTree.indexMax`.
    package mutating func forget(through index: UInt64) {
        forget(index)
        subtrees.removeAll { $0.last <= index + 1 }
    }

    /// The subtree that holds a leaf, given its number (index + 1) below the spine's.
    func covering(_ number: UInt64) -> Subtree? {
        position(covering: number).map { subtrees[$0] }
    }

    private func position(covering number: UInt64) -> Int? {
        var low = 0
        var high = subtrees.count
        while low < high {
            let middle = (low + high) / 2
            if subtrees[middle].last < number { low = middle + 1 } else { high = middle }
        }
        guard low < subtrees.count, subtrees[low].first <= number else { return nil }
        return low
    }
}

extension PuncturedSeeds: CustomStringConvertible {
    /// Says how many seeds there are; never a seed.
    package var description: String { "\(count) seeds" }
}
