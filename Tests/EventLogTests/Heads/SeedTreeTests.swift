import Testing

@testable import EventLog

@Suite("Seed tree") struct SeedTreeTests {
    static let root = Hash256(bytes: Array(0..<32))!
    static let tree = SeedTree(root: root)

    /// The path as the doc comment words it, bit by bit, with the byte strings hashed plainly.
    static func reference(_ index: UInt64) -> Hash256 {
        let number = index + 1
        let bits = String(number, radix: 2)
        let path = String(repeating: "1", count: bits.count - 1) + "0" + bits.dropFirst()
        var seed = root
        for bit in path { seed = Array([bit == "1" ? 1 : 0] + seed.bytes).withUnsafeBytes { Hash256.of($0) } }
        return seed
    }

    @Test("a leaf's path is the gamma code of its number", arguments: [0, 1, 2, 3, 6, 7, 8, 1000, 1 << 40, .max - 1] as [UInt64])
    func path(_ index: UInt64) {
        #expect(Self.tree.leaf(at: index) == Self.reference(index))
        var cursor = Self.tree.cursor()
        #expect(cursor.leaf(at: index) == Self.reference(index))
    }

    @Test("all leaves differ, and differ from those of another root")
    func distinct() {
        let other = SeedTree(root: Hash256())
        var seen: Set<Hash256> = []
        for index in 0..<2000 as Range<UInt64> {
            seen.insert(Self.tree.leaf(at: index))
            seen.insert(other.leaf(at: index))
        }
        #expect(seen.count == 4000)
    }

    @Test("a cursor gives the same leaves, in order, backwards and at random")
    func cursor() {
        var random = Seeded(seed: 1)
        let order =
            Array(0..<3000) + Array(0..<3000).reversed() + (0..<3000).map { _ in UInt64.random(in: 0...SeedTree.indexMax, using: &random) }
        var cursor = Self.tree.cursor()
        for index in order { #expect(cursor.leaf(at: index) == Self.tree.leaf(at: index)) }
    }

    @Test("an index beyond the last traps")
    func indexBeyond() async {
        await #expect(processExitsWith: .failure) { _ = SeedTreeTests.tree.leaf(at: .max) }
    }
}

@Suite("Punctured seeds") struct PuncturedSeedsTests {
    let tree = SeedTreeTests.tree
    let whole = PuncturedSeeds(root: SeedTreeTests.root)

    @Test("forgotten leaves are gone, all others stay equal, in any order", arguments: 1...6 as ClosedRange<UInt64>)
    func model(_ seed: UInt64) throws {
        var random = Seeded(seed: seed)
        // Dense, so that whole subtrees go, or sparse and far apart.
        let bound: UInt64 = seed % 2 == 0 ? 600 : 1 << 50
        var seeds = whole
        var forgotten: Set<UInt64> = []
        for step in 0..<1000 {
            let index = UInt64.random(in: 0..<bound, using: &random)
            #expect(seeds.forget(index) == forgotten.insert(index).inserted)
            if step % 250 == 0 { try check(seeds, forgotten) }
        }
        try check(seeds, forgotten)
        var cursor = seeds.cursor()
        let near = forgotten.flatMap { [$0 &- 1, $0, $0 + 1] }.filter { $0 != .max }
        let far = (0..<1000).map { _ in UInt64.random(in: 0...SeedTree.indexMax, using: &random) }
        for index in near + Array(0..<700) + far {
            let expected = forgotten.contains(index) ? nil : tree.leaf(at: index)
            #expect(seeds.leaf(at: index) == expected)
            #expect(cursor.leaf(at: index) == expected)
        }
        var shuffled = whole
        for index in forgotten.shuffled(using: &random) { shuffled.forget(index) }
        #expect(shuffled == seeds)
    }

    /// The structure: what is held covers just the leaves that are not forgotten, so no held seed is on a forgotten path.
    private func check(_ seeds: PuncturedSeeds, _ forgotten: Set<UInt64>) throws {
        #expect(seeds.isCanonical)
        var covered = forgotten.map { ($0 + 1)...($0 + 1) } + seeds.subtrees.map { $0.first...$0.last }
        covered.sort { $0.lowerBound < $1.lowerBound }
        var next: UInt64 = 1
        for range in covered {
            #expect(range.lowerBound == next)
            next = range.upperBound + 1
        }
        #expect(seeds.isWhole ? next == 1 : next == 1 << UInt64(seeds.spine.depth))
        // And by value, for a tenth of them: nothing held is a seed on a forgotten path.
        let held = Set(seeds.subtrees.map(\.seed) + [seeds.spine.seed])
        for index in forgotten.sorted().enumerated().filter({ $0.offset % 10 == 0 }).map(\.element) {
            let number = index + 1
            let level = 63 - number.leadingZeroBitCount
            var seed = tree.root
            var onPath = [seed]
            for _ in 0..<level {
                seed = SeedTree.child(.right, of: seed)
                onPath.append(seed)
            }
            seed = SeedTree.child(.left, of: seed)
            onPath.append(seed)
            for bit in (0..<level).reversed() {
                seed = SeedTree.child(number >> UInt64(bit) & 1 == 0 ? .left : .right, of: seed)
                onPath.append(seed)
            }
            #expect(seed == tree.leaf(at: index))
            #expect(held.isDisjoint(with: onPath))
        }
    }

    @Test("forgetting twice changes nothing the second time")
    func twice() {
        var seeds = whole
        let first = seeds.forget(41)
        let once = seeds
        let second = seeds.forget(41)
        #expect(first && !second)
        #expect(seeds == once)
    }

    @Test("the last index can be forgotten, and its neighbour stays")
    func last() {
        var seeds = whole
        seeds.forget(SeedTree.indexMax)
        #expect(seeds.leaf(at: SeedTree.indexMax) == nil)
        #expect(seeds.leaf(at: SeedTree.indexMax - 1) == tree.leaf(at: SeedTree.indexMax - 1))
        #expect(PuncturedSeeds(encoded: seeds.encoded) == seeds)
    }

    @Test("the encoding comes back equal")
    func encoding() {
        #expect(whole.encoded == [0] + SeedTreeTests.root.bytes)
        var random = Seeded(seed: 9)
        var seeds = whole
        for _ in 0..<300 {
            #expect(PuncturedSeeds(encoded: seeds.encoded) == seeds)
            seeds.forget(UInt64.random(in: 0..<1 << UInt64.random(in: 1..<63, using: &random), using: &random))
        }
    }

    @Test("bytes of the wrong length, order or structure are refused")
    func wrongBytes() {
        var seeds = whole
        seeds.forget(1000)
        seeds.forget(3)
        let good = seeds.encoded
        for count in 0..<good.count where (count - 33) % 41 != 0 || count < 33 {
            #expect(PuncturedSeeds(encoded: Array(good.prefix(count))) == nil)
        }
        let record = Array(good[33..<74])
        var bad = good
        bad.replaceSubrange(33..<74, with: good[74..<115])
        bad.replaceSubrange(74..<115, with: record)
        #expect(PuncturedSeeds(encoded: bad) == nil)
        #expect(PuncturedSeeds(encoded: good + record) == nil)
        #expect(PuncturedSeeds(encoded: [0] + good.dropFirst()) == nil)
        #expect(PuncturedSeeds(encoded: [65] + whole.encoded.dropFirst()) == nil)
        // Two halves of a whole: a spine of depth 1 with its left sibling, and two sibling leaves.
        let seed = SeedTreeTests.root.bytes
        #expect(PuncturedSeeds(encoded: [1] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 1] + seed) == nil)
        #expect(PuncturedSeeds(encoded: [3] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 4] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 5] + seed) == nil)
        #expect(PuncturedSeeds(encoded: [3] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 4] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 6] + seed) != nil)
        #expect(PuncturedSeeds(encoded: [3] + seed + [0, 0, 0, 0, 0, 0, 0, 0, 0] + seed) == nil)
        #expect(PuncturedSeeds(encoded: [3] + seed + [2, 0, 0, 0, 0, 0, 0, 0, 2] + seed) == nil)
        #expect(PuncturedSeeds(encoded: [3] + seed + [61, 0x80, 0, 0, 0, 0, 0, 0, 0] + seed) == nil)
    }

    @Test("a description shows no seed")
    func quiet() {
        #expect("\(whole)" == "1 seeds")
    }
}

/// SplitMix64: the same numbers from the same seed.
struct Seeded: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
