import Testing

@testable import EventLog

@Suite("Proofs of the log of heads") struct HeadsLogProverTests {
    let directory = TemporaryDirectory()

    @Test("I6: a proof is the one that reading the whole log gives, for any two checkpoints, while the log grows")
    func same() throws {
        let store = try EventStore.open(at: directory.store)
        let prover = HeadsLogProver(store: store)
        #expect(try prover.consistency(from: 1) == [])
        var sizes: [UInt64] = []
        var logs: UInt64 = 0
        for more in [1, 2, 254, 300, 1, 700] as [UInt64] {
            _ = try store.appendBlocking((logs..<logs + more).map { created(1000 + $0) })
            logs += more
            _ = try store.makeCheckpoint()
            sizes.append(logs)
            #expect(try store.checkpointSize() == logs)
            for size in Set(sizes + [logs / 2, logs - logs / 3, 1, 255, 256, 257, 512, 513].filter { 1...logs ~= $0 }) {
                var whole = MerkleProver(consistencyFrom: size, to: logs)
                try store.forEachHeadsEntry(through: logs) { _, leaf in whole.append(leaf) }
                #expect(try prover.consistency(from: size) == (size < logs ? whole.proof : []), "\(size) to \(logs)")
                var part = CompactRange()
                try store.forEachHeadsEntry(through: size) { _, leaf in part.append(leaf) }
                #expect(try prover.root(at: size) == part.root(), "\(size) of \(logs)")
            }
        }
        #expect(try prover.consistency(from: logs + 1) == [])
        #expect(try prover.root(at: logs + 1) == nil)
        #expect(try HeadsLogProver(store: store).consistency(from: 300) == prover.consistency(from: 300))
        try store.close()
    }
}
