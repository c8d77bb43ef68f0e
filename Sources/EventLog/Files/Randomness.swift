/// Where identifiers and secrets come from: the system, or within a simulation its seed, so that a run can be had again.
package enum Randomness {
    @TaskLocal package static var seeded: (any SeededRandomness)?

    static func next() -> UInt64 {
        if let seeded { return seeded.next() }
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
}

/// A generator that a simulation puts in the system's place.
package protocol SeededRandomness: AnyObject, Sendable {
    func next() -> UInt64
}
