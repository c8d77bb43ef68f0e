/// Opens signed checkpoints, and remembers the last ones: peers show the same again in each session, and of all that is done with one its signature takes
/// longest. What a key has signed it has signed, whoever asks.
///
/// Safe to use from any thread.
package final class CheckpointReader: Sendable {
    private struct Opened {
        var note: String
        var key: VerifierKey
        var checkpoint: Checkpoint
    }

    package static let shared = CheckpointReader()
    /// The one that is kept, and the one that a hub shows, for a few stores of this process.
    private static let openedMax = 8

    private let opened = Monitor<[Opened]>([])

    init() {}

    /// Reads a signed note as `Checkpoint.open` does.
    package func open(_ note: String, key: VerifierKey) throws(ProofError) -> Checkpoint {
        // By bytes, not by canonical equivalence.
        let known = opened.withLock { $0.first { $0.note.utf8.elementsEqual(note.utf8) && $0.key == key } }
        if let known { return known.checkpoint }
        let checkpoint = try Checkpoint.open(note, key: key)
        opened.withLock { opened in
            if opened.count == Self.openedMax { opened.removeFirst() }
            opened.append(Opened(note: note, key: key, checkpoint: checkpoint))
        }
        return checkpoint
    }
}
