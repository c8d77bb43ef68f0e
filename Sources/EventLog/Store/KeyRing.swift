/// The logs' secrets: leaves of the store's master seed tree, or their own where they came from elsewhere or were punctured.
///
/// A value: whoever forgets something makes a new ring and writes it before the old one goes.
struct KeyRing: Sendable {
    var master: PuncturedSeeds { didSet { version = Version() } }
    var explicit: [UInt64: PuncturedSeeds] = [:] { didSet { version = Version() } }
    /// Some of the logs' own secrets may be lost, and cannot be told from those of logs that never had one: none is derived then.
    var isExplicitOnly = false
    /// Another one after each change: whoever keeps what it derived compares by identity.
    private(set) var version = Version()

    final class Version: Sendable {}

    init(master: PuncturedSeeds) { self.master = master }

    /// The seeds of a log; `nil` if its secret is lost.
    func seeds(ofLog number: UInt64) -> PuncturedSeeds? {
        if let own = explicit[number] { return own }
        if isExplicitOnly { return nil }
        return master.leaf(at: number).map { PuncturedSeeds(root: $0) }
    }

    /// Makes one event's salt underivable for ever; every other salt stays.
    mutating func forget(log number: UInt64, seq: Seq) -> Bool {
        guard var seeds = seeds(ofLog: number), seeds.forget(seq - 1) else { return false }
        explicit[number] = seeds
        _ = master.forget(number)
        return true
    }
}
