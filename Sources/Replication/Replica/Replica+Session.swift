internal import ConversationStore

extension Replica {
    /// Begins a session over a transport.
    ///
    /// - Parameters:
    ///   - send: takes whole messages, in order, never two at once; must not wait.
    ///   - close: is called at most once, after the last `send`.
    ///   - observe: is told what happens, in order.
    public func connect(
        token: String, scope: Scope = .mine, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        observe: @escaping @Sendable (ReplicaEvent) -> Void
    ) -> ReplicaConnection {
        ReplicaConnection(self, token: token, scope: scope, send: send, close: close, observe: observe)
    }

    func hello(token: String, scope: Scope) throws -> Hello {
        try state.withLock { state in
            state.outbox.beginSession()
            let pushed = try state.outbox.take(bytesMax: WireLimits.helloPushBytesMax, eventsMax: WireLimits.pushEventsMax)
            show(state.outbox, Set(state.outbox.entries.filter { $0.state == .sent }.map(\.event.conversation)))
            let identity = state.outbox.identity
            let isEmpty = store.log.lastPosition == 0
            var cursor = state.cursor
            // What is held without a cursor, or for another scope, is compared: opening 0 never was. Where nothing but newest parts is held, all is asked for.
            if try cursor == nil || savedScope() != scope {
                cursor = isEmpty ? nil : Cursor(store: store.log.id, incarnation: 0, position: 0)
            }
            return Hello(
                versions: WireLimits.versions, replica: identity.replica, nonce: identity.nonce, user: identity.user, token: token, cursor: cursor,
                scope: scope, credit: ReplicaSession.window, pushed: pushed, checkpointSize: try savedCheckpoint()?.size ?? 0,
                wantsFirstScreen: isEmpty && scope != .everything, newest: try newestBehindCursor(state))
        }
    }

    /// A hub that was set back to a moment between the cursor and this event knows the cursor, but not all that is held here.
    private func newestBehindCursor(_ state: borrowing State) throws -> HeldEvent? {
        guard state.cursor != nil else { return nil }
        var newest: HeldEvent?
        // Its commits rise by its clock: if it has the newest, it has those before.
        try store.log.replay(from: state.place + 1) { event in
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
            try transaction.delete(SyncTables.state, ReplicaState.Key.cursor)
        }
        state.withLock { state in
            state.cursor = nil
            state.isCursorSaved = true
        }
    }

    // The hub's checkpoint.

    private func savedCheckpoint() throws -> (size: UInt64, root: Hash256)? {
        guard let note = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.checkpoint) }), let key = try savedKey() else { return nil }
        let checkpoint = try Checkpoint.open(String(decoding: note, as: UTF8.self), key: key)
        return (checkpoint.size, checkpoint.root)
    }

    private func savedKey() throws -> VerifierKey? {
        guard let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.checkpointKey) }) else { return nil }
        return try VerifierKey(String(decoding: bytes, as: UTF8.self))
    }

    /// A hub's checkpoints are signed by one key, the first that it showed, and each one's log of heads begins with that of the one before.
    func check(_ welcome: Welcome) throws {
        let hub = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.hub) }
        if hub != welcome.store.bytes {
            try side.write { transaction in
                try transaction.put(SyncTables.state, ReplicaState.Key.hub, welcome.store.bytes)
                // Another hub has a key and a history of its own; what it has is compared, as it does not know our cursor.
                try transaction.delete(SyncTables.state, ReplicaState.Key.checkpoint)
                try transaction.delete(SyncTables.state, ReplicaState.Key.checkpointKey)
            }
        }
        guard !welcome.checkpoint.isEmpty else {
            if hub == welcome.store.bytes, !welcome.isGone, try savedCheckpoint() != nil {
                throw ReplicaError(.forked, "the hub shows no checkpoint any more, though it had signed one")
            }
            return
        }
        let key: VerifierKey
        do {
            key = try savedKey() ?? VerifierKey(welcome.checkpointKey)
        } catch is ProofError {
            throw ReplicaError(.badPeer, "the hub's checkpoint comes without a key")
        }
        let new: Checkpoint
        do {
            new = try Checkpoint.open(welcome.checkpoint, key: key)
        } catch {
            throw ReplicaError(.forked, "the hub's checkpoint is not signed by \(key): \(error)")
        }
        if welcome.isGone, let old = try savedCheckpoint(), new.size < old.size {
            keepEvidence("the hub was set back: it had signed a checkpoint of \(old.size) heads, root \(old.root), and shows one of \(new.size)")
        }
        if !welcome.isGone, let old = try savedCheckpoint() {
            let isConsistent =
                old.size == new.size
                ? old.root == new.root
                : old.size < new.size
                    && Merkle.verifyConsistency(size1: old.size, size2: new.size, proof: welcome.consistency, root1: old.root, root2: new.root)
            guard isConsistent else {
                throw ReplicaError(
                    .forked, "the hub's checkpoint of \(new.size) heads, root \(new.root), does not go on from the one of \(old.size), root \(old.root)")
            }
            if old.size == new.size { return }
        }
        try side.write { transaction in
            try transaction.put(SyncTables.state, ReplicaState.Key.checkpoint, Array(welcome.checkpoint.utf8))
            try transaction.put(SyncTables.state, ReplicaState.Key.checkpointKey, Array(key.description.utf8))
        }
    }

    func keepEvidence(_ text: String) {
        // The session ends anyway; what cannot be kept was told.
        try? side.write { try $0.put(SyncTables.state, ReplicaState.Key.evidence, Array(text.utf8)) }
    }

    // The session's course.

    func caughtUp(_ cursor: Cursor) {
        state.withLock { state in
            guard state.cursor != cursor else { return }
            state.cursor = cursor
            state.place = store.log.lastPosition
            state.isCursorSaved = false
        }
    }

    func takePushed(bytesMax: Int) throws -> [PushedEvent] {
        try state.withLock { state in
            let pushed = try state.outbox.take(bytesMax: bytesMax, eventsMax: WireLimits.pushEventsMax)
            // They have counters now, by which their confirmed form is known.
            if !pushed.isEmpty { show(state.outbox, Set(state.outbox.entries.filter { $0.state == .sent }.map(\.event.conversation))) }
            return pushed
        }
    }

    /// - Returns: whether this replica has taken a new id.
    func answered(_ accepted: [Accepted], _ refused: [Refused], isComparing: Bool) throws -> Bool {
        try state.withLock { state in
            var isReborn = false
            let before = Set(state.outbox.entries.map(\.event.conversation))
            for answer in accepted {
                // While the two histories are being compared, what is held at that seq may be another's.
                _ = try state.outbox.accepted(answer, heldSeq: isComparing ? 0 : shownSeq(of: answer.log, state))
            }
            for answer in refused {
                if try state.outbox.refused(answer, newNonce: { Self.nonce(options.execution) }) { isReborn = true }
            }
            show(state.outbox, before)
            return isReborn
        }
    }

    /// The histories are the same: what was accepted as something that is held leaves the outbox.
    func strikeAccepted() throws {
        try state.withLock { state in
            if state.outbox.entries.isEmpty { return }
            let before = Set(state.outbox.entries.map(\.event.conversation))
            try state.outbox.strikeAccepted { try shownSeq(of: $0, state) }
            show(state.outbox, before)
        }
    }

    /// The last seq that is held of a log, be it only of its newest part.
    private func shownSeq(of log: LogID, _ state: borrowing State) throws -> Seq { max(try store.log.lastSeq(of: log), state.previews.lastSeq(of: log)) }

    /// Whether nothing of the outbox is on its way: it is empty, or what is left failed or waits for that, or was accepted and does not come in this scope.
    func isOutboxAnswered(in scope: Scope) -> Bool {
        let names = scope.names
        return state.withLock { state in
            state.outbox.entries.allSatisfy { entry in
                entry.isFailed || entry.isWaiting || entry.acceptedSeq != nil && !Scope.covers(entry.event.log, names)
            }
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

    func root(of log: LogID, at size: Seq) throws -> Hash256 {
        guard let tree = size == 0 ? CompactRange() : try heads.tree(of: log, through: size) else {
            throw EventLogError(.damaged, "\(store.log.path): the tree of \(log) at seq \(size) cannot be made")
        }
        return tree.root()
    }

    /// From here on all that is held is compared with what the hub has, until it says that nothing is missing.
    func forgetCursor() throws {
        guard cursor != nil else { return }
        try side.write { try $0.delete(SyncTables.state, ReplicaState.Key.cursor) }
        state.withLock { state in
            state.cursor = nil
            state.isCursorSaved = true
        }
    }

    func planRewind(_ logs: [LogID: Seq]) throws {
        try side.write { transaction in
            try transaction.put(SyncTables.state, ReplicaState.Key.rewind, ReplicaState.encode(logs))
            try transaction.delete(SyncTables.state, ReplicaState.Key.cursor)
        }
        state.withLock { state in
            state.cursor = nil
            state.isCursorSaved = true
        }
    }
}
