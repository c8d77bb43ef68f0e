/// From when something was due until it was done, of one monotonic clock, in nanoseconds.
struct Delay {
    let due: UInt64, done: UInt64

    var length: UInt64 { done - due }

    /// Whether a disk stalled meanwhile.
    func met(_ stalls: [DiskWitness.Stall]) -> Bool { stalls.contains { $0.begin <= done && due <= $0.end } }
}
