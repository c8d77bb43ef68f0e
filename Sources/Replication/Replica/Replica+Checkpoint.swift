internal import ConversationStore
internal import EventLog

/// The hub's checkpoint.
extension Replica {
    func savedCheckpoint() throws -> (size: UInt64, root: Hash256)? {
        guard let note = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.checkpoint) }), let key = try savedKey() else { return nil }
        let checkpoint = try CheckpointReader.shared.open(String(decoding: note, as: UTF8.self), key: key)
        // One over nothing proves nothing, and HELLO cannot name it.
        return checkpoint.size == 0 ? nil : (checkpoint.size, checkpoint.root)
    }

    private func savedKey() throws -> VerifierKey? {
        guard let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.checkpointKey) }) else { return nil }
        return try VerifierKey(String(decoding: bytes, as: UTF8.self))
    }

    /// A hub's checkpoints are signed by one key, the first that it showed, and each one's log of heads begins with that of the one before.
    ///
    /// A checkpoint is kept with the cursor that comes behind it, not before: a hub that is then set back to a moment between an older cursor and the
    /// checkpoint knows the cursor and is honest, though its log of heads goes another way.
    ///
    /// - Returns: what tells that the hub was set back, if it was.
    func check(_ welcome: Welcome) throws -> String? {
        let greeting = state.withLock { $0.greeting }
        var old = greeting.checkpoint
        let hub = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.hub) }
        if hub != welcome.store.bytes {
            // No other hub knows its cursors.
            if hub != nil, greeting.hasCursor, !welcome.isGone { throw ReplicaError(.badPeer, "another hub takes this one's cursor for its own") }
            old = nil
            try side.write { transaction in
                try transaction.put(SyncTables.state, ReplicaState.Key.hub, welcome.store.bytes)
                // Another hub has a key and a history of its own; what it has is compared, as it does not know our cursor.
                try transaction.delete(SyncTables.state, ReplicaState.Key.checkpoint)
                try transaction.delete(SyncTables.state, ReplicaState.Key.checkpointKey)
            }
        }
        if welcome.isCheckpointKept {
            // It says of itself what it signed: of the key a note tells that grew.
            guard old != nil, !welcome.isGone, welcome.checkpoint.isEmpty else {
                throw ReplicaError(.badPeer, "the hub's checkpoint is one that was not named")
            }
            return nil
        }
        guard !welcome.checkpoint.isEmpty else {
            guard let old else { return nil }
            if !welcome.isGone { throw try forked("the hub shows no checkpoint any more, though it had signed one", welcome) }
            return try setBack("the hub was set back: it had signed a checkpoint of \(old.size) heads, root \(old.root), and shows none", welcome)
        }
        let key: VerifierKey
        do {
            key = try savedKey() ?? VerifierKey(welcome.checkpointKey)
        } catch is ProofError {
            throw ReplicaError(.badPeer, "the hub's checkpoint comes without a key")
        }
        let new: Checkpoint
        do {
            new = try CheckpointReader.shared.open(welcome.checkpoint, key: key)
        } catch {
            throw try forked("the hub's checkpoint is not signed by \(key): \(error)", welcome)
        }
        var setBackEvidence: String?
        if let old {
            let isConsistent =
                old.size == new.size
                ? old.root == new.root
                : old.size < new.size
                    && Merkle.verifyConsistency(size1: old.size, size2: new.size, proof: welcome.consistency, root1: old.root, root2: new.root)
            let evidence = "the checkpoint of \(new.size) heads, root \(new.root), does not go on from the one of \(old.size), root \(old.root)"
            if isConsistent {
                // It stays until a cursor comes behind the new one, whatever else the hub says that it does not know.
                if old.size == new.size { return nil }
            } else if welcome.isGone {
                setBackEvidence = try setBack("the hub was set back: \(evidence), which it had signed", welcome)
            } else {
                throw try forked("the hub's key signed both, but \(evidence)", welcome)
            }
        }
        if try savedKey() == nil {
            try side.write { try $0.put(SyncTables.state, ReplicaState.Key.checkpointKey, Array(key.description.utf8)) }
        }
        state.withLock { $0.checkpoint = welcome.checkpoint }
        return setBackEvidence
    }

    /// A hub that contradicts what it signed, and the proof of that for others.
    private func forked(_ text: String, _ welcome: Welcome) throws -> ReplicaError {
        let error = ReplicaError(.forked, text)
        keepEvidence(error.description + (try signedNotes(welcome)))
        return error
    }

    /// The checkpoint of a life that the hub has lost says nothing about the one that it leads.
    private func setBack(_ text: String, _ welcome: Welcome) throws -> String {
        keepEvidence(text + (try signedNotes(welcome)))
        try side.write { try $0.delete(SyncTables.state, ReplicaState.Key.checkpoint) }
        return text
    }

    /// The kept note and the new one as the hub signed them, and the key that it showed first.
    private func signedNotes(_ welcome: Welcome) throws -> String {
        let kept = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.checkpoint) }.map { String(decoding: $0, as: UTF8.self) }
        var text = "\nkey: \(try savedKey()?.description ?? "none")"
        for (name, note) in [("kept", kept ?? ""), ("new", welcome.checkpoint)] where !note.isEmpty {
            // One that is not signed may be of any length.
            text += "\n\(name):\n\(String(decoding: note.utf8.prefix(Self.noteBytesMax), as: UTF8.self))"
        }
        return text
    }

    package func keepEvidence(_ text: String) {
        // What was found before stays, up to a bound. The session ends anyway; what cannot be kept was told.
        let before = try? evidence
        if let before, before.utf8.count + text.utf8.count > Self.evidenceBytesMax || before.contains(text) { return }
        try? side.write { try $0.put(SyncTables.state, ReplicaState.Key.evidence, Array((before.map { $0 + "\n" } ?? "").utf8) + Array(text.utf8)) }
    }

    private static let evidenceBytesMax = 16 << 10, noteBytesMax = 4 << 10
}
