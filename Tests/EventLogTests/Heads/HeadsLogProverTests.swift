import Testing

@testable import EventLog

@Suite("Proofs of the log of heads") struct HeadsLogProverTests {
    let directory = TemporaryDirectory()

    @Test("I6: a proof is the one that reading the whole log gives, for any two checkpoints, while the log grows")
    func same() throws {
        let store = try EventStore.open(at: directory.store)
        let prover = HeadsLogProver(store: store)
        #expect(try prover.newest() == nil)
        var sizes: [UInt64] = []
        var signed: [Checkpoint] = []
        var logs: UInt64 = 0
        for more in [1, 2, 254, 300, 1, 700] as [UInt64] {
            _ = try store.appendBlocking((logs..<logs + more).map { created(1000 + $0) })
            logs += more
            let note = try store.makeCheckpoint()
            let newest = try #require(try prover.newest())
            #expect(newest.note == note)
            signed.append(newest.checkpoint)
            sizes.append(logs)
            #expect(try store.checkpointSize() == logs)
            for size in Set(sizes + [logs / 2, logs - logs / 3, 1, 255, 256, 257, 512, 513].filter { 1...logs ~= $0 }) {
                var whole = MerkleProver(consistencyFrom: size, to: logs)
                try store.forEachHeadsEntry(through: logs) { _, leaf in whole.append(leaf) }
                #expect(try prover.consistency(from: size, to: signed.last!) == (size < logs ? whole.proof : []), "\(size) to \(logs)")
                var part = CompactRange()
                try store.forEachHeadsEntry(through: size) { _, leaf in part.append(leaf) }
                #expect(try prover.root(at: size, in: signed.last!) == part.root(), "\(size) of \(logs)")
            }
        }
        #expect(try prover.consistency(from: logs + 1, to: signed.last!) == [])
        #expect(try prover.root(at: logs + 1, in: signed.last!) == nil)
        #expect(try HeadsLogProver(store: store).consistency(from: 300, to: signed.last!) == prover.consistency(from: 300, to: signed.last!))
        // Of an older checkpoint too: a newer one may be signed while a peer is told of it.
        var whole = MerkleProver(consistencyFrom: sizes[1], to: sizes[3])
        try store.forEachHeadsEntry(through: sizes[3]) { _, leaf in whole.append(leaf) }
        #expect(try prover.consistency(from: sizes[1], to: signed[3]) == whole.proof)
        #expect(try prover.root(at: sizes[3] + 1, in: signed[3]) == nil && prover.root(at: sizes[3], in: signed[3]) == signed[3].root)
        try store.close()
    }
}
