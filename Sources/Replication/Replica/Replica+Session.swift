internal import ConversationStore

extension Replica {
    /// Begins a session over a transport.
    ///
    /// - Parameters:
    ///   - scope: what is asked for. A service account's replica (``ReplicaOptions/isService``) asks for everything, whatever is said here, and one that holds
    ///     newest parts for no fewer and no shorter ones than before.
    ///   - send: takes whole messages, in order, never two at once; must not wait.
    ///   - close: is called at most once, after the last `send`.
    ///   - observe: is told what happens, in order.
    public func connect(
        token: String, scope: Scope = .mine, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        observe: @escaping @Sendable (ReplicaEvent) -> Void
    ) -> ReplicaConnection {
        // Of a conversation that its account has no part in, nothing else would ever come back.
        ReplicaConnection(self, token: token, scope: isService ? .everything : keeping(scope), send: send, close: close, observe: observe)
    }

    /// A scope that gives up nothing of the newest parts that another one brought: what a device has shown does not vanish.
    private func keeping(_ scope: Scope) -> Scope {
        // What cannot be read fails, and says why, when HELLO is made.
        guard case .newest(let conversations, let messages) = scope, case .newest(let before, let messagesBefore)? = try? savedScope() else { return scope }
        return .newest(conversations: max(conversations, before), messages: max(messages, messagesBefore))
    }

    func hello(token: String, scope: Scope) throws -> Hello {
        guard token.utf8.count <= WireLimits.tokenBytesMax else {
            throw ReplicaError(.refused, "a token of \(token.utf8.count) bytes: no hub takes more than \(WireLimits.tokenBytesMax)")
        }
        // What it holds beside the user's own conversations would look like lost by the hub.
        guard try scope == .everything || savedScope() != .everything else {
            throw ReplicaError(
                .otherScope, "\(store.log.path) is a full copy, and stays one: `convstore follow` syncs it; make a user's replica in another directory")
        }
        // What the last session left unsaved must not be saved behind this: the hub proves that it goes on from the checkpoint that HELLO names.
        saveCursor()
        return try state.withLock { state in
            state.checkpoint = nil
            try state.outbox.beginSession()
            let identity = state.outbox.identity
            let isEmpty = store.log.lastPosition == 0
            var cursor = state.cursor
            let isSameScope = try savedScope() == scope
            var progress = isSameScope && state.previews.areVouched ? state.part?.progress : nil
            // What is held without a cursor, or for another scope, is compared: opening 0 never was. Where nothing but newest parts is held, all is asked for.
            if cursor == nil || !isSameScope {
                var isNew = isEmpty && progress == nil
                // Of newest parts a new replica is sent only those that are wanted now: what is held of others would never be compared.
                if case .newest = scope, try !isNothingBeside(state) { isNew = false }
                cursor = isNew ? nil : Cursor(store: store.log.id, incarnation: 0, position: 0)
            }
            // Newest parts are compared as a whole.
            if !state.previews.areVouched, cursor != nil { cursor = Cursor(store: store.log.id, incarnation: 0, position: 0) }
            // Without the cursor with which it goes it says nothing.
            if cursor != state.cursor { state.outbox.position = 0 }
            // The answers may come before WELCOME is looked at.
            state.isComparing = progress == nil && cursor?.incarnation ?? 0 == 0
            state.uncompared = [:]
            state.scopeNames = scope.names
            state.unvouched = [:]
            let newest = try newestBehindCursor(&state)
            // What came behind a cursor in a session that broke off is named, and does not come again.
            if let known = state.cursor, cursor == known, !state.unvouched.isEmpty, !scope.isOfParts {
                progress = PartialCursor(cursor: known, wholeFrom: 1, partFrom: 1, partThrough: 0)
            }
            let checkpoint = try savedCheckpoint()
            let breaks = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.breaks)?.count ?? 0 }
            let messageBytes = messageBytes(behindBreaks: breaks)
            // What is offered may stand in what is still to come, or came behind no cursor and was not looked through.
            let holdsBack =
                state.outbox.hasOffers && (state.cursor == nil || cursor == nil || state.damaged.hasAny(in: scope)) || state.outbox.hasSentAnew
            // HELLO has a deadline: on a slow line one large event would keep all else from coming, for ever.
            let bytesMax = min(WireLimits.helloPushBytesMax, messageBytes ?? .max)
            let (pushed, touched) =
                holdsBack ? ([], []) : try state.outbox.take(bytesMax: bytesMax, eventsMax: WireLimits.pushEventsMax, takesLarge: false)
            show(touched, state)
            state.greeting = Greeting(
                checkpoint: checkpoint, hasCursor: cursor != nil, namesPart: progress != nil, holdsBack: holdsBack, breaks: breaks,
                messageBytes: messageBytes ?? .max)
            return Hello(
                versions: WireLimits.versions, replica: identity.replica, nonce: identity.nonce, user: identity.user, token: token, cursor: cursor,
                scope: scope, credit: ReplicaSession.window, pushed: pushed, checkpointSize: checkpoint?.size ?? 0, checkpointRoot: checkpoint?.root,
                wantsFirstScreen: isEmpty && scope != .everything, newest: newest, sendsAgain: true,
                takesProgress: !scope.isOfParts, progress: progress, messageBytes: UInt64(messageBytes ?? 0),
                takesUnreadable: true, takesCheckpointKept: true)
        }
    }

    private func isNothingBeside(_ state: borrowing State) throws -> Bool {
        try state.previews.isEmpty && Lost.isEmpty(side, in: SyncTables.suspects) && Lost.isEmpty(side, in: SyncTables.ahead)
    }

    /// A hub that was set back to a moment between the cursor and this event knows the cursor, but not all that is held here.
    ///
    /// What came behind the cursor may have come from somebody else than the hub, who gave no head for it: it is noted as unvouched.
    private func newestBehindCursor(_ state: inout State) throws -> HeldEvent? {
        guard state.cursor != nil || state.part != nil else { return nil }
        var newest = state.previews.newest(in: state.scopeNames).map { HeldEvent($0) }
        for case let other? in [state.newest, state.covered] where Scope.covers(other.log, state.scopeNames) && newest.map({ other.hlc > $0.hlc }) ?? true {
            newest = other
        }
        // Its commits rise by its clock: if it has the newest, it has those before.
        let isCompared = state.isComparing
        // What the hub could not read before the cursor is asked for like what came behind it.
        if !isCompared {
            for (log, seq) in state.unread where Scope.covers(log, state.scopeNames) {
                state.unvouched[log] = min(seq, try max(store.log.lastSeq(of: log), state.previews.lastSeqVouchedFor(log)))
            }
        }
        if !isCompared, let part = state.part {
            state.unvouched = part.unvouched.filter { Scope.covers($0.key, state.scopeNames) }
            // What begins with a joining may be held further than the part says. No part is told while something of it is doubtful.
            for log in state.previews.firsts where Scope.covers(log, state.scopeNames) && state.unvouched[log] == nil {
                if try store.log.lastSeq(of: log) == 0 { state.unvouched[log] = state.previews.lastSeqVouchedFor(log) }
            }
        }
        try store.log.replay(from: state.place + 1) { event in
            // What damage took, and has come again as it was, came before the cursor; also where a process ended before it could write that down.
            if event.seq <= max(state.damaged.healed[event.log] ?? 0, state.damaged.waitsThrough(event.log)) { return true }
            if !isCompared, state.unvouched[event.log] == nil, Scope.covers(event.log, state.scopeNames) { state.unvouched[event.log] = event.seq - 1 }
            if newest.map({ event.hlc > $0.hlc }) ?? true { newest = HeldEvent(event) }
            return true
        }
        return newest
    }

    func savedScope() throws -> Scope? {
        guard let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.scope) }) else { return nil }
        return try bytes.withUnsafeBytes { try Scope(Fields($0)) }
    }

    func save(_ scope: Scope) throws {
        guard try savedScope() != scope else { return }
        var out = ByteBuffer(capacity: 64)
        scope.encode(into: &out)
        // The cursor vouches for what the old scope asked for: a session that ends early must not go on from it.
        try side.write { transaction in
            try transaction.put(SyncTables.state, ReplicaState.Key.scope, out.array())
            try ReplicaState.forgetCursor(&transaction)
        }
        state.withLock { $0.forgetCursor() }
    }

    // The session's course.

    /// - Parameters:
    ///   - place: this store's last position when the cursor came.
    ///   - unread: logs that the hub could not read, each with the last seq for which a head vouches: the cursor says nothing of them.
    ///   - isKept: whether the cursor is to be taken; else all is compared in the next session.
    /// - Returns: whether this replica must be opened anew, to offer again what the hub lost.
    func caughtUp(_ cursor: Cursor, place: Position, but unread: [LogID: Seq] = [:], isKept: Bool = true) throws -> Bool {
        store.log.endAdopting()
        var hadHealed = false
        // The disk's cursor counts on what is forgotten with it.
        defer { if hadHealed { saveCursor() } }
        return try state.withLock { state in
            let mustReopen = try endComparing(&state, but: unread)
            // With what is held and was not compared all is compared in the next session.
            guard isKept, !state.uncompared.values.contains(true) else { return mustReopen }
            if state.outbox.caughtUp(at: cursor.position) { state.isCursorSaved = false }
            // The cursor stays where only a hole was filled: it vouches for that too.
            guard state.cursor != cursor || state.place != place || !state.previews.areVouched || state.checkpoint != nil || state.unread != unread else {
                return mustReopen
            }
            state.cursor = cursor
            state.unread = unread
            state.part = nil
            state.place = place
            // What came behind that place is not covered by it.
            if place >= store.log.lastPosition {
                let previews = state.previews
                try state.coverNewest { event in
                    let held = try store.log.stamp(in: event.log, at: event.seq).map { HeldEvent($0, log: event.log, seq: event.seq) }
                    return (held ?? previews.event(in: event.log, at: event.seq).map { HeldEvent($0) }) == event
                }
                hadHealed = state.damaged.hasHealed
                state.damaged.forgetHealed()
            }
            state.previews.vouched()
            state.isCursorSaved = false
            return mustReopen
        }
    }

    func takePushed(bytesMax: Int) throws -> [PushedEvent] {
        try state.withLock { state in
            let (pushed, touched) = try state.outbox.take(bytesMax: bytesMax, eventsMax: WireLimits.pushEventsMax)
            // They have counters now, by which their confirmed form is known.
            show(touched, state)
            return pushed
        }
    }

    /// So many of the replica's own events became the hub's since this was asked last, whether an answer told it or the events themselves: each once.
    ///
    /// `failed`: those that failed otherwise than by an answer.
    func takeSettled() -> (accepted: Int, failed: Int) { state.withLock { $0.outbox.takeSettled() } }

    /// The hub ended the session before it looked at what came with HELLO.
    func takeBack() throws {
        try state.withLock { state in show(try state.outbox.takeBack(), state) }
    }

    /// The hub has decided nothing of what was sent and not answered.
    func sendAgain() { state.withLock { $0.outbox.sendAgain() } }

    /// - Returns: whether this replica has taken a new id, and how many events have failed.
    func answered(_ accepted: [Accepted], _ refused: [Refused]) throws -> (isReborn: Bool, failed: Int) {
        try state.withLock { state in
            let result = try state.outbox.answered(accepted, refused, newNonce: { try Identities.nextNonce(after: $0, side, options.execution) }) {
                try standing(of: $0, state)
            }
            show(result.touched, state)
            return (result.isReborn, result.failed)
        }
    }

    /// Events that were kept: what was on its way as one of them, or was accepted as something that is held by now, leaves the outbox.
    func confirmed(_ events: [RecordedEvent], _ state: inout State) throws {
        show(try state.outbox.confirmed(events) { try standing(of: $0, state) }, state)
        try settleLost(events, &state)
    }

    /// Whether nothing of the outbox is on its way: it is empty, or what is left failed or waits for that, or was accepted and does not come: it is not in
    /// this scope, or lies in a hole.
    package func isOutboxAnswered(in scope: Scope) -> Bool { awaited(in: scope) == .nothing }

    enum Awaited: Comparable {
        case nothing
        /// Of what was sent all is answered, and some of what the hub has recorded has not come from there.
        case acceptedEvents
        case answers
    }

    /// What the outbox waits for.
    ///
    /// - Parameters:
    ///   - unreadable: logs of which the hub sends nothing, as it cannot read them.
    ///   - undecided: those of which it answers nothing.
    func awaited(in scope: Scope, but unreadable: Set<LogID> = [], _ undecided: Set<LogID> = []) -> Awaited {
        let names = scope.names
        return state.withLock { state in
            var awaited = Awaited.nothing
            state.outbox.table.forEach { entry in
                if entry.isFailed || entry.isWaiting { return }
                guard let record = entry.accepted else { return awaited = undecided.isEmpty ? .answers : awaited }
                if unreadable.contains(entry.event.log) { return }
                if Scope.covers(entry.event.log, names), record.seq > state.previews.baseSeq(of: entry.event.log) { awaited = max(awaited, .acceptedEvents) }
            }
            if !undecided.isEmpty, state.outbox.awaitsAnswers(but: undecided) { awaited = .answers }
            return awaited
        }
    }

    func forEachHead(in scope: Scope, inBatchesOf count: Int, _ body: ([HeadsFrame.Item], _ isLast: Bool) throws -> Void) throws {
        var batch: [HeadsFrame.Item] = []
        let names = scope.names
        try store.log.forEachHead { head in
            // What the scope leaves out stays as it is: the hub says nothing about it.
            guard Scope.covers(head.log, names) else { return true }
            if batch.count == count {
                try body(batch, false)
                batch = []
            }
            batch.append(HeadsFrame.Item(log: head.log, head: LogHead(size: head.size, root: head.root)))
            return true
        }
        try body(batch, true)
    }

    /// Up to which seq a log is held in itself; of one that begins with this user's joining, in its part. A base alone is vouched for by nothing.
    func heldSeq(of log: LogID) throws -> Seq {
        let held = try store.log.lastSeq(of: log)
        return held > 0 ? held : state.withLock { $0.previews.lastSeqVouchedFor(log) }
    }

    func root(of log: LogID, at size: Seq) throws -> Hash256 {
        if size > 0, try store.log.lastSeq(of: log) == 0, let root = try state.withLock({ try $0.previews.root(of: log, at: size) }) { return root }
        guard let tree = size == 0 ? CompactRange() : try heads.tree(of: log, through: size) else {
            throw EventLogError(.damaged, "\(store.log.path): the tree of \(log) at seq \(size) cannot be made")
        }
        return tree.root()
    }

    /// The root of a log at a size that its newest part reaches, if nothing is to take the place of that.
    func settledRoot(of log: LogID, at size: Seq) throws -> Hash256? {
        try state.withLock { try $0.previews.settledSeq(of: log) >= size ? $0.previews.root(of: log, at: size) : nil }
    }

    /// Logs that may hold what no head vouched for, each with the last seq for which one did.
    var unvouched: [LogID: Seq] { state.withLock { $0.unvouched } }

    /// The logs that may hold what no head vouched for, with their heads as they are here.
    func unvouchedHeads() throws -> [HeadsFrame.Item] {
        try unvouched.keys.sorted().map { log in
            let size = try heldSeq(of: log)
            return HeadsFrame.Item(log: log, head: LogHead(size: size, root: try root(of: log, at: size)))
        }
    }

    /// The last seq of a log for which a head vouched, if what follows it is doubtful.
    func vouchedSeq(of log: LogID) -> Seq? { state.withLock { $0.unvouched[log] } }

    /// Whether the hub could not read a log when it gave the cursor.
    func hadUnread(_ log: LogID) -> Bool { state.withLock { $0.unread[log] != nil } }

    /// The hub cannot read some logs: if all is being compared, these are not. That nothing was said of one may be for the same reason.
    ///
    /// - Parameter logs: each with whether something of it is held in itself, and not set aside.
    func leaveUncompared(_ logs: [LogID: Bool]) throws {
        try state.withLock { state in
            guard state.isComparing, !logs.isEmpty else { return }
            let suspects = try Set(Lost.read(side, in: SyncTables.suspects).map(\.log))
            for (log, isHeld) in logs { state.uncompared[log] = isHeld || suspects.contains(log) || state.previews.isSuspect(log) }
        }
    }

    /// Whether all was to be compared, and something that is held was not.
    var hasUncompared: Bool { state.withLock { $0.uncompared.values.contains(true) } }

    /// Compares all in the next session.
    func dropCursor() throws {
        try side.write { try ReplicaState.forgetCursor(&$0) }
        state.withLock { $0.forgetCursor() }
    }

    /// The hub has said what it has of them.
    func endDoubt() { state.withLock { $0.unvouched = [:] } }

    /// Behind these seqs the hub has something else than what came without a head. The cursor stays: what it vouches for lies before.
    func planRetract(_ logs: [LogID: Seq]) throws {
        try state.withLock { state in
            try side.write { transaction in
                try transaction.put(SyncTables.state, ReplicaState.Key.retract, ReplicaState.encode(logs))
                // A part counts on what is cut off now: all of that came when no cursor stood.
                guard state.part != nil else { return }
                try ReplicaState.forgetCursor(&transaction)
                try transaction.delete(SyncTables.state, ReplicaState.Key.place)
            }
            if state.part != nil { state.forgetCursor() }
        }
    }

    func planRewind(_ logs: [LogID: Seq]) throws { try plan(ReplicaState.Key.rewind, logs) }

    /// These logs are to come anew from their first events on.
    func planAnew(_ logs: [LogID]) throws { try plan(ReplicaState.Key.anew, Dictionary(uniqueKeysWithValues: logs.map { ($0, 0) })) }

    private func plan(_ key: [UInt8], _ logs: [LogID: Seq]) throws {
        try side.write { transaction in
            try transaction.put(SyncTables.state, key, ReplicaState.encode(logs))
            try ReplicaState.forgetCursor(&transaction)
        }
        state.withLock { $0.forgetCursor() }
    }
}
