import Foundation
import Testing

/// Liars, each from a seed. A long run: CONVSTORE_HOSTILE_SEEDS=20000 swift test --filter HostileTests
@Suite struct HostileTests {
    /// The seeds, in blocks that run beside each other.
    static let blocks: [ClosedRange<UInt64>] = {
        let count = ProcessInfo.processInfo.environment["CONVSTORE_HOSTILE_SEEDS"].flatMap { UInt64($0) } ?? 100
        return stride(from: 1, through: max(count, 1), by: 50).map { $0...min($0 + 49, max(count, 1)) }
    }()

    @Test("I7: a hub stands whatever a peer sends, and tells it nothing that is not its own", arguments: blocks)
    func peer(_ seeds: ClosedRange<UInt64>) {
        for seed in seeds { if let failure = HostilePeer(seed: seed).run() { Issue.record("seed \(seed): \(failure)") } }
    }

    @Test("I6, I7: a replica keeps what it holds and what it wrote, whatever a hub sends", arguments: blocks)
    func hub(_ seeds: ClosedRange<UInt64>) {
        for seed in seeds { if let failure = HostileHub(seed: seed).run() { Issue.record("seed \(seed): \(failure)") } }
    }
}
