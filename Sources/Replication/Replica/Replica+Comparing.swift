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
                try ReplicaState.forgetCursor(&transaction)
            }
            state.damaged = damaged
            state.forgetCursor()
            state.suspects = try Suspects(side, state.outbox.identity)
            show(state.suspects.conversations, state)
            guard case .newest(_, let messages) = scope else { return [] }
            // Of a conversation that is not among the newest the hub says nothing if it is not asked: what is suspect there would look lost.
            let doubtful = try Lost.read(side, in: SyncTables.suspects).map(\.log).filter { if case .conversation = $0 { true } else { false } }
            return Set(logs + doubtful).sorted().map { Fetch(log: $0, from: 0, through: max(messages, 1)) }
        }
    }

    /// Whether something may turn out to be lost when all that the hub has has come.
    func hasSuspects() throws -> Bool { try !Lost.isEmpty(side, in: SyncTables.suspects) }

    /// Logs of which something is set aside that lies in a hole below a newest part, unless the hub has told that it lost it: what fills that tells, and is
    /// held then, should the hub lose it once more.
    ///
    /// - Parameter unread: what the hub could not read.
    func doubtfulHoles(in scope: Scope, but unread: [LogID: Seq]) throws -> [LogID] {
        let doubtful = try Lost.read(side, in: SyncTables.suspects).filter { Scope.covers($0.log, scope.names) && unread[$0.log] == nil }
        if doubtful.isEmpty || PlantedBug.leaveDoubt.isPlanted { return [] }
        return try state.withLock { state in
            if state.isComparing {
                try settleParts(&state, but: unread)
                // What is gone from these is pending: it may take long until it is offered.
                show(state.suspects.conversations, state)
            }
            let inHoles = try doubtful.filter { event in
                switch try state.previews.fate(of: event, in: store.log) {
                case .unknown: true
                case .held: try isInHole(event, state)
                case .lost, .outOfSight: false
                }
            }
            return Set(inHoles.map(\.log)).sorted()
        }
    }

    /// Whether nothing holds an event's place, as it lies below a newest part.
    private func isInHole(_ event: RecordedEvent, _ state: borrowing State) throws -> Bool {
        try event.seq > store.log.lastSeq(of: event.log) && event.seq <= state.previews.baseSeq(of: event.log)
    }

    /// What the hub has of newest parts has come: that is shown, and nothing else.
    private func settleParts(_ state: inout State, but unread: [LogID: Seq]) throws {
        try confirmed(state.previews.settleSuspects(in: state.scopeNames, but: unread, of: store), &state)
    }

    /// All that the hub has, or what fills a hole, has come.
    ///
    /// - Parameter unread: what the hub could not read: of that it is not known what it has.
    /// - Returns: whether this replica made some of what the hub lost, and must be opened anew to offer it again.
    func endComparing(_ state: inout State, but unread: [LogID: Seq] = [:]) throws -> Bool {
        let isComparing = state.isComparing
        // What lay in a hole when all else was compared is told from what filled that.
        guard isComparing || state.mayTellSuspects else { return false }
        (state.isComparing, state.mayTellSuspects) = (false, false)
        if isComparing {
            try settleParts(&state, but: unread)
            show(try state.outbox.strikeAccepted { try standing(of: $0, state) }, state)
        }
        defer { state.previews.forgetTold() }
        var gone: [RecordedEvent] = []
        var settled: [RecordedEvent] = []
        var aside: [RecordedEvent] = []
        var left: [RecordedEvent] = []
        for event in try Lost.read(side, in: SyncTables.suspects) {
            guard Scope.covers(event.log, state.scopeNames), unread[event.log] == nil else {
                left.append(event)
                continue
            }
            let isUntold = try event.seq > store.log.lastSeq(of: event.log) && state.previews.lastSeqOfFirst(event.log) == 0
            if !isComparing, state.damaged.has(event.log) || isUntold { continue }
            let fate = try state.previews.fate(of: event, in: store.log)
            if case .unknown = fate {
                left.append(event)
                continue
            }
            // The hub has it now, and it is not held here any more: should the hub lose it before the hole is filled, nobody else might have it.
            if case .held = fate, try isInHole(event, state) { continue }
            settled.append(event)
            switch fate {
            case .lost: gone.append(event)
            case .outOfSight: aside.append(event)
            case .held, .unknown: break
            }
        }
        if settled.isEmpty { return false }
        let (own, others) = Identities.split(gone, try Identities.own(side, state.outbox.identity))
        let offered = try OfferedTimes.offered(own, others: { try others + aside + left + Lost.read(side) }, waiting: state.outbox.entries)
        try side.write { transaction in
            try Lost.delete(settled, in: SyncTables.suspects, &transaction)
            try Lost.put(others + aside, &transaction)
            try Lost.put(offered, in: SyncTables.offers, &transaction)
        }
        state.lost.add(others)
        let suspected = state.suspects.conversations
        state.suspects = try Suspects(side, state.outbox.identity)
        show(suspected.union(state.suspects.conversations), state)
        // It may stand elsewhere by now.
        try settleLost(after: state.place, &state)
        // What fills a hole may have begun to come in an earlier session.
        try settleLost(in: Set(others.map(\.log)), &state)
        try settleLost(state.previews.all.flatMap(\.events), &state)
        return !own.isEmpty
    }

    /// Whether something is offered that may stand in what is still to come.
    var hasOffers: Bool { state.withLock { $0.outbox.hasOffers } }

    /// All has come.
    ///
    /// - Parameter evenSent: whether nothing was sent in this session: what was is answered.
    func strikeStanding(evenSent: Bool) throws { try state.withLock { try strikeStanding(&$0, evenSent: evenSent) } }

    /// What is offered anew, and stands in its log, leaves the outbox; so does what has failed, and stands there.
    func strikeStanding(_ state: inout State, evenSent: Bool = true) throws {
        if PlantedBug.repeatOffers.isPlanted { return }
        let parts = state.previews.all
        let own = try Identities.own(side, state.outbox.identity)
        let touched = try state.outbox.strikeStanding(own: own, evenSent: evenSent) { log, body in
            try store.log.replay(log: log) { event in
                body(event)
                return true
            }
            for part in parts where part.log == log { part.events.forEach(body) }
        }
        show(touched, state)
    }
}
