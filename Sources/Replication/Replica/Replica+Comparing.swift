internal import ConversationStore

/// What stands beside the logs (newest parts, events behind damage) when no cursor vouches for it: the hub may have lost it since. It is set aside as
/// suspect, what the hub has comes anew, and what is not there then was lost.
extension Replica {
    /// The session has begun without a cursor that holds. Answers what must be asked for so that all that is suspect can be told.
    func beginComparing(in scope: Scope) throws -> [Fetch] {
        try state.withLock { state in
            state.isComparing = true
            let (logs, events) = state.previews.suspect(in: scope.names)
            var damaged = state.damaged
            try side.write { transaction in
                damaged = state.damaged
                let ahead = try damaged.giveUp(in: scope.names, &transaction)
                try Lost.put(events + ahead, in: SyncTables.suspects, &transaction)
                // Until all is compared: what comes meanwhile may be newer than what the hub lost, and would vouch for it in the next session.
                try transaction.delete(SyncTables.state, ReplicaState.Key.cursor)
            }
            state.damaged = damaged
            state.cursor = nil
            state.isCursorSaved = true
            guard case .newest(_, let messages) = scope else { return [] }
            return logs.map { Fetch(log: $0, from: 0, through: max(messages, 1)) }
        }
    }

    /// All that the hub has has come.
    ///
    /// - Returns: whether this replica made some of what the hub lost, and must be opened anew to offer it again.
    func endComparing(_ state: inout State) throws -> Bool {
        guard state.isComparing else { return false }
        state.isComparing = false
        show(state.outbox, try state.outbox.strikeAccepted { try standing(of: $0, state) })
        var gone: [RecordedEvent] = []
        var settled: [RecordedEvent] = []
        try state.previews.dropSuspects(in: state.scopeNames, of: store)
        for event in try Lost.read(side, in: SyncTables.suspects) where Scope.covers(event.log, state.scopeNames) {
            guard let isHeld = try isHeld(event, state) else { continue }
            settled.append(event)
            if !isHeld { gone.append(event) }
        }
        if settled.isEmpty { return false }
        let (own, others) = Identities.split(gone, try Identities.own(side, state.outbox.identity))
        try side.write { transaction in
            try Lost.delete(settled, in: SyncTables.suspects, &transaction)
            try Lost.put(others, &transaction)
            try Lost.put(own, in: SyncTables.offers, &transaction)
        }
        return !own.isEmpty
    }

    /// Whether an event is among what the hub has; `nil`: it lies in a hole, and cannot be told.
    private func isHeld(_ event: RecordedEvent, _ state: borrowing State) throws -> Bool? {
        var held: RecordedEvent?
        if try event.seq <= store.log.lastSeq(of: event.log) {
            held = try store.log.event(in: event.log, at: event.seq)
        } else if event.seq <= state.previews.baseSeq(of: event.log) {
            return nil
        } else {
            held = state.previews.event(in: event.log, at: event.seq)
        }
        // An erased body says nothing else than the one that it was.
        return held.map { HeldEvent($0) } == HeldEvent(event)
    }
}
