internal import EventLog

/// Random numbers that a seed gives again: xoshiro256**, seeded by SplitMix64.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    package init(seed: UInt64) {
        var seed = seed
        func split() -> UInt64 {
            seed &+= 0x9E37_79B9_7F4A_7C15
            var mixed = seed
            mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
            return mixed ^ mixed >> 31
        }
        state = (split(), split(), split(), split())
    }

    package mutating func next() -> UInt64 {
        func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
        let result = rotated(state.1 &* 5, 7) &* 9
        let shifted = state.1 << 17
        state.2 ^= state.0
        state.3 ^= state.1
        state.1 ^= state.2
        state.0 ^= state.3
        state.2 ^= shifted
        state.3 = rotated(state.3, 45)
        return result
    }

    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    package mutating func within(_ range: ClosedRange<UInt64>) -> UInt64 {
        range.lowerBound + next() % (range.upperBound - range.lowerBound + 1)
    }

    package mutating func chance(_ probability: Double) -> Bool { Double(next() >> 11) < probability * Double(1 << 53) }

    package mutating func element<Elements: RandomAccessCollection>(_ elements: Elements) -> Elements.Element {
        elements[elements.index(elements.startIndex, offsetBy: below(elements.count))]
    }

    /// One of several things, each as likely as its weight says.
    package mutating func weighted<Thing>(_ things: [(weight: Int, thing: Thing)]) -> Thing {
        var left = below(things.reduce(0) { $0 + $1.weight })
        for (weight, thing) in things {
            if left < weight { return thing }
            left -= weight
        }
        return things[things.count - 1].thing
    }

    /// A generator of its own: what is drawn from one does not move the other.
    package mutating func fork() -> SeededGenerator { SeededGenerator(seed: next()) }
}

/// What stores draw their identifiers and secrets from in a simulation.
package final class SeededSource: SeededRandomness {
    private let generator: Monitor<SeededGenerator>

    package init(_ generator: SeededGenerator) { self.generator = Monitor(generator) }

    package func next() -> UInt64 { generator.withLock { $0.next() } }
}
