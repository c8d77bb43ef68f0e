internal import ConversationStore

/// What a replica keeps of a session that breaks off before all has come.
extension Replica {
    /// Whether something vouches for what is held, be it all or a part.
    var isHeld: Bool { state.withLock { $0.cursor != nil || $0.part != nil } }

    /// Whether this session's hub was told of a part.
    var namesPart: Bool { state.withLock { $0.greeting.namesPart } }

    /// Whether HELLO left out what it might have carried of the outbox.
    var holdsBack: Bool { state.withLock { $0.greeting.holdsBack } }

    /// Keeps, in the place of a cursor, what has come so far. All of it was kept durably, and what no head vouches for is among `unvouched`.
    ///
    /// - Parameter place: this store's last position when it was told.
    func progressed(_ progress: PartialCursor, unvouched: [LogID: Seq], place: Position) throws {
        // Until all has come nobody knows what became of what was held beside the logs: the next session has to ask again.
        if try isComparing && hasSuspects() { return }
        state.withLock { state in
            // Whoever holds all does not go back to a part.
            guard state.cursor == nil, !state.isComparing || !state.previews.hasSuspects else { return }
            state.part = ReplicaState.Part(progress, unvouched: unvouched)
            state.place = place
            state.previews.vouched()
            state.isCursorSaved = false
        }
    }
}
