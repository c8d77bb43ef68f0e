internal import ConversationStore

/// What a peer lacks when it comes.
extension HubConnection {
    func begin(_ identity: Identity, _ hello: Hello) {
        scope = hello.scope
        scopeNames = scope.names
        replica = hello.replica
        if hello.messageBytes > 0 { feed.messageBytesMax = max(Int(clamping: hello.messageBytes), hub.options.messageBytesMin) }
        guarded {
            // Told of changes from here on; what happened before is looked up.
            hub.joined(self, identity, seesEverything: seesEverything)
            let signed = try hub.headsLog.newest()
            let isGone = try !isValid(hello.progress?.cursor ?? hello.cursor, hello) || !holds(hello, signed?.checkpoint)
            var welcome = Welcome(
                version: min(hello.versions.upperBound, WireLimits.versions.upperBound), connection: hub.options.execution.random(),
                store: hub.id, incarnation: hub.incarnation, time: now.wallMilliseconds, credit: 0, isGone: isGone, checkpoint: "", consistency: [])
            if let checkpoint = signed?.checkpoint, !isGone, hello.takesCheckpointKept, hello.checkpointRoot == checkpoint.root,
                hello.checkpointSize == checkpoint.size
            {
                welcome.isCheckpointKept = true
            } else if let (note, checkpoint) = signed {
                (welcome.checkpoint, welcome.checkpointKey) = (note, try hub.store.log.verifierKey())
                if hello.checkpointSize > 0 { welcome.consistency = try hub.headsLog.consistency(from: hello.checkpointSize, to: checkpoint) }
            }
            // Where the cursor covers a part, what the peer holds beside that is not sent again.
            awaitsHeads = isGone || hello.progress != nil
            let effects = session.welcome(welcome, at: now)
            takesUnreadable = hello.takesUnreadable
            isAllBut = !isGone && hello.cursor != nil && hello.cursor == hello.progress?.cursor
            // Of what is named beside a cursor that covers all, no part tells.
            tellsProgress = hello.takesProgress && !scope.isOfParts && !isAllBut
            if !isGone {
                if let progress = hello.progress {
                    try expect(what: progress, identity)
                } else {
                    try want(after: hello.cursor?.position ?? 0, identity, hello)
                }
            }
            perform(effects)
        }
    }

    private func isValid(_ cursor: Cursor?, _ hello: Hello) throws -> Bool {
        guard let cursor else { return true }
        return try cursor.store == hub.id && hub.openings.holds(cursor.position, in: cursor.incarnation, now: hub.store.log.lastPosition)
            && holds(hello.newest)
    }

    /// Whether an event that the peer has is this hub's own. Where that cannot be read, all that the peer has is compared.
    private func holds(_ event: HeldEvent?) throws -> Bool {
        guard let event, !PlantedBug.believeCursors.isPlanted else { return true }
        guard event.seq > 0, event.seq <= visibleSeq(event.log) else { return false }
        do {
            return try hub.store.log.stamp(in: event.log, at: event.seq).map { HeldEvent($0, log: event.log, seq: event.seq) } == event
        } catch let error as EventLogError where error.code == .damaged {
            hub.options.log("log \(event.log): whether a peer's cursor holds cannot be told: \(error)")
            return false
        }
    }

    /// Whether the log of heads that this hub has signed begins with the part that the peer has seen signed: not so if it was set back, and has signed
    /// another one since.
    private func holds(_ hello: Hello, _ signed: Checkpoint?) throws -> Bool {
        guard hello.checkpointSize > 0, !PlantedBug.believeCheckpoints.isPlanted else { return true }
        guard let signed, let root = try hub.headsLog.root(at: hello.checkpointSize, in: signed) else { return false }
        return hello.checkpointRoot.map { $0 == root } ?? true
    }

    /// The user's logs in the scope that changed behind a position, by their last events, and where the hub stands.
    func changes(after position: Position, _ identity: Identity) -> (changes: [HubIndex.Change], position: Position) {
        let (now, all) = hub.withIndex { ($0.position, $0.changes(for: identity, seesEverything: seesEverything, after: position)) }
        return (all.filter { isInScope($0.log) }.sorted { ($0.lastPosition, $0.log) < ($1.lastPosition, $1.log) }, now)
    }

    /// Tells from here on what of these logs was sent, if the peer wants to know.
    func cover(_ changes: [HubIndex.Change], at position: Position, told: PartialCursor?) {
        guard tellsProgress else { return }
        coverage = Coverage(position: position, logs: changes.map { ($0.log, $0.lastPosition) }, told: told)
        feed.notesWhole = true
        untoldBytes = hub.options.progressBytes
    }

    /// Finds what a replica at a position lacks: the user's logs that changed since, each from its first event behind that position.
    private func want(after position: Position, _ identity: Identity, _ hello: Hello) throws {
        let (all, now) = changes(after: position, identity)
        var changes = all
        // Of a cursor that covers all every PROGRESS would say less.
        if position == 0 { cover(changes, at: now, told: nil) }
        if PlantedBug.forgetMissed.isPlanted { changes = changes.suffix(1) }
        let isNewest = if case .newest = scope { true } else { false }
        if position == 0, hello.wantsFirstScreen || isNewest {
            do {
                screen = try FirstScreen(hub, identity, scope).pages()[...]
            } catch let error as EventLogError where error.code == .damaged && !isNewest {
                // All comes without it, only later.
                hub.options.log("no first screen can be made: \(error)")
            }
        }
        var offers: [HeadsFrame.Item] = []
        var hasLeft = false
        for change in changes {
            if position == 0 {
                // Of a part that was asked for, the newest messages are on their way already.
                if isNewest, case .conversation = change.log { continue }
                try want(change.log, from: 1)
                continue
            }
            let known = try unlessDamaged(change.log) { _ in try hub.store.log.firstSeq(of: change.log, after: position) }
            guard let first = known ?? nil else { continue }
            if change.hasComeOrGone(since: first) {
                // Whoever came in behind the cursor for the first time has nothing; who was here before, or came and left again, may have some.
                if change.leftSeq == 0 { try want(change.log, from: 1) } else if let offer = try offer(change.log) { offers.append(offer) }
                if isNewest, change.joinedSeq == 0, case .conversation(let id) = change.log { hasLeft = left.insert(id).inserted || hasLeft }
            } else if isLongBeside(change.log, from: first), let offer = try offer(change.log) {
                offers.append(offer)
            } else {
                try want(change.log, from: first)
            }
        }
        held += frames(of: offers)
        if hasLeft { try fill(identity, but: Set(changes.map(\.log))) }
    }

    /// Whether of a conversation more is missing than a page of it brings, where the peer may hold none of it: only it knows of which it holds a part.
    private func isLongBeside(_ log: LogID, from first: Seq) -> Bool {
        guard case .newest(_, let messages) = scope, case .conversation = log, case let last = visibleSeq(log), last >= first else { return false }
        return last - first >= max(UInt64(hub.options.offeredEvents), messages)
    }

    /// What stands among the newest conversations in the place of those that were left since the cursor is sent: one that is told of now may have made room
    /// long ago.
    ///
    /// - Parameter coming: what is sent of these anyway.
    func fill(_ identity: Identity, but coming: Set<LogID>) throws {
        var effort = Effort()
        let pages = try FirstScreen(hub, identity, scope).pages(behindLeaving: left, &effort)
        allowance.spend(effort)
        let known = Set(screen.map(\.conversation))
        for page in pages where !known.contains(page.conversation) && !coming.contains(.conversation(page.conversation)) {
            if filled.insert(page.conversation).inserted { screen.append(page) }
        }
    }

    /// Finds the same for a replica that an earlier session has sent only a part. It says itself what it holds beside that, and is sent nothing before.
    private func expect(what progress: PartialCursor, _ identity: Identity) throws {
        let position = progress.cursor.position
        let (all, now) = changes(after: 0, identity)
        var lacking: [HubIndex.Change] = []
        var awaited: [Awaited] = []
        var offers: [HeadsFrame.Item] = []
        for change in all where !isAllBut || change.lastPosition > position {
            // A part tells of a log by where it ends.
            guard change.isEndKnown || isAllBut else {
                awaited.append(Awaited(log: change.log, reach: 0, isPart: false))
                lacking.append(change)
                continue
            }
            guard let (end, first, last) = try unlessDamaged(change.log, { _ in try places(of: change, around: position) }) else {
                lacking.append(change)
                continue
            }
            if let first, change.hasComeOrGone(since: first), change.leftSeq > 0 {
                if let offer = try offer(change.log) { offers.append(offer) }
            } else if let first, change.hasComeOrGone(since: first) || first == 1 {
                awaited.append(Awaited(log: change.log, reach: 0, isPart: false))
            } else {
                let reach = progress.reach(last)
                if end <= reach { continue }
                awaited.append(Awaited(log: change.log, reach: reach, isPart: first == nil && last >= progress.partFrom))
            }
            lacking.append(change)
        }
        held += frames(of: offers)
        self.awaited = awaited
        cover(lacking, at: now, told: progress)
    }

    /// Where a log ends that the user may see, its first seq behind a position, and where it stood at that position.
    private func places(of change: HubIndex.Change, around position: Position) throws -> (end: Position, first: Seq?, last: Position) {
        let end = try end(of: change)
        guard end > position, let first = try hub.store.log.firstSeq(of: change.log, after: position) else { return (end, nil, end) }
        // From its first event on nothing stood there.
        return (end, first, first > 1 ? try hub.store.log.stamp(in: change.log, at: first - 1)?.position ?? 0 : 0)
    }

    /// The position of the last event of a log that the user may see: for who left not the log's, which goes on.
    private func end(of change: HubIndex.Change) throws -> Position {
        guard change.joinedSeq == 0, change.leftSeq > 0 else { return change.lastPosition }
        return try hub.store.log.stamp(in: change.log, at: change.leftSeq)?.position ?? change.lastPosition
    }

    func offer(_ log: LogID) throws -> HeadsFrame.Item? {
        let seq = visibleSeq(log)
        guard seq > 0, let tree = try unlessDamaged(log, { try hub.heads.tree(of: log, through: seq, &$0) }) ?? nil else { return nil }
        offered[log] = seq
        return HeadsFrame.Item(log: log, head: LogHead(size: seq, root: tree.root()))
    }
}

extension HubConnection {
    /// A log that an earlier session has sent up to a position, which may be none of it.
    struct Awaited {
        var log: LogID
        var reach: Position
        /// It was of the lot that was under way then.
        var isPart: Bool
    }
}

extension HubIndex.Change {
    /// Whether its user came or left at a seq or behind it.
    fileprivate func hasComeOrGone(since seq: Seq) -> Bool { joinedSeq >= seq || leftSeq >= seq }
}
