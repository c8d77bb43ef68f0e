extension SeedTree {
    /// Derives leaves and remembers the path to the last: about two hashes for the next leaf, `O(log)` for any other.
    ///
    /// It holds seeds of its own: after a leaf was forgotten, drop every cursor made before.
    package struct Cursor: Sendable {
        private let seeds: PuncturedSeeds
        /// The seed of the node (`level`, `number >> level`) at each level up to `top`.
        private var path: [Hash256] = []
        /// The number (index + 1) of the leaf that `path` leads to; 0 before the first.
        private var number: UInt64 = 0
        /// The level of the highest seed in `path`.
        private var top = 0
        /// A node of the spine at or above the last used, to walk on from.
        private var spine: PuncturedSeeds.Spine

        init(_ seeds: PuncturedSeeds) {
            self.seeds = seeds
            spine = seeds.spine
        }

        /// The leaf's secret; `nil` if it was forgotten. Traps above `SeedTree.indexMax`.
        package mutating func leaf(at index: UInt64) -> Hash256? {
            precondition(index <= SeedTree.indexMax, "no leaf has this index")
            let wanted = index + 1
            // The lowest level at which both leaves are below the same node.
            var level = 64 - (wanted ^ number).leadingZeroBitCount
            if number == 0 || level > top {
                guard let (seed, found) = start(wanted) else { return nil }
                while path.count <= found { path.append(Hash256()) }
                path[found] = seed
                top = found
                level = found
            }
            while level > 0 {
                level -= 1
                let side: Side = wanted >> UInt64(level) & 1 == 0 ? .left : .right
                path[level] = SeedTree.child(side, of: path[level + 1])
            }
            number = wanted
            return path[0]
        }

        /// The seed that covers a leaf, and its level.
        private mutating func start(_ wanted: UInt64) -> (Hash256, Int)? {
            let level = 63 - wanted.leadingZeroBitCount
            guard level >= seeds.spine.depth else { return seeds.covering(wanted).map { ($0.seed, $0.level) } }
            if spine.depth > level { spine = seeds.spine }
            spine.walk(to: level)
            return (SeedTree.child(.left, of: spine.seed), level)
        }
    }
}
