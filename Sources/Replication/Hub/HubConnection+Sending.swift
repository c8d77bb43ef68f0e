internal import ConversationStore

/// What goes to a peer: as long as there is credit, some at a time.
extension HubConnection {
    func pump() {
        let (changed, joined) = inbox.withLock { inbox -> ([LogID: Seq], Set<LogID>) in
            inbox.isWoken = false
            defer {
                inbox.changed = [:]
                inbox.joined = []
            }
            return (inbox.changed, inbox.joined)
        }
        guard session.isOpen else {
            // Told of too early: left for the time behind WELCOME.
            if !session.isClosed { for (log, seq) in changed { self.changed(log, at: seq, isNew: joined.contains(log)) } }
            return
        }
        guarded {
            for frame in held { transmit(frame) }
            held = []
            var offers: [HeadsFrame.Item] = []
            for (log, seq) in changed.sorted(by: { $0.key < $1.key }) {
                // What the peer holds of them is not known yet: new events behind other old ones would look like a rewritten history.
                // Nor is it of a log that it was told is not here: it comes again, set right, in another session.
                if awaitsHeads || denied.contains(log) {
                    self.changed(log, at: seq, isNew: joined.contains(log))
                    continue
                }
                coverage?.note(log)
                guard isInScope(log) else { continue }
                if scope.isOfParts, case .conversation(let id) = log {
                    if joined.contains(log) { left.remove(id) }
                    if isLeft(id) { (awaitsFilling, _) = (true, left.insert(id)) }
                }
                guard offered[log] == nil else { continue }
                guard joined.contains(log) else {
                    try want(log, from: seq)
                    continue
                }
                if let offer = try offer(log) { offers.append(offer) }
            }
            for frame in frames(of: offers) { transmit(frame) }
            // It may be all of a lobby that is read for it: goes on with the clock.
            if awaitsFilling, allowance.isLeft(at: now), let identity = session.who {
                try fill(identity, but: Set(changed.keys))
                awaitsFilling = false
            }
            try feedSome()
        }
    }

    /// Whether the user takes no part any more in a conversation that has changed.
    private func isLeft(_ id: ConversationID) -> Bool {
        guard let identity = session.who, !seesEverything else { return false }
        return hub.withIndex { $0.membership(of: identity.user, in: id).joinedSeq == 0 }
    }

    private var source: Feed.Source {
        Feed.Source(store: hub.store.log, heads: hub.heads, encode: { [hub] in try hub.encoders.encode($0) }, visibleSeq: visibleSeq(_:from:))
    }

    private func sendScreen(_ identity: Identity) throws {
        if feed.hasUnreadable { screen.removeAll { feed.isUnreadable(.conversation($0.conversation)) } }
        let part = try FirstScreen(hub, identity, scope).part(&screen, bytesMax: feed.messageBytesMax)
        allowance.spend(part.effort)
        // Where the log itself is on its way, that goes as far as it can be read.
        for (log, error) in part.damage where !feed.wants(log) { feed.giveUp(log, error) }
        for base in part.bases {
            let bytes = Frame.base(base).encoded()
            session.fed(bytes: bytes.count)
            hub.counters.sent(bytes.count, events: 0)
            send(bytes)
        }
        var events = part.events
        while !events.isEmpty {
            let rest = feed.cutPiece(&events)
            if let piece = try feed.piece(of: events, source) { transmit(piece) }
            events = rest
        }
        // Once: who waits for a page asks again while that is on its way.
        for log in part.wholes where wholes.insert(log).inserted { feed.want(log, from: 1, tellsHeads: true) }
        for (log, seq) in part.beginnings {
            feed.skip(log, to: seq)
            feed.want(log, from: seq, tellsHeads: true)
        }
    }

    /// Sends a log's events from a seq on. Where what the peer may see begins later, the state before that comes first.
    func want(_ log: LogID, from seq: Seq, through last: Seq = .max) throws {
        guard let identity = session.who, case .conversation(let id) = log else { return feed.want(log, from: seq, through: last) }
        guard let first = try unlessDamaged(log, { try hub.firstSeq(of: log, for: identity, seesEverything: seesEverything, &$0) }) else { return }
        // A newest part for which no head vouches is compared with all others: of those a message that is not the last one has a head, too.
        if seq >= first { return feed.want(log, from: seq, through: last, tellsHeads: first > 1 || scope.isOfParts) }
        // The state of no message: what follows it is wanted when it goes.
        if let place = screen.firstIndex(where: { $0.conversation == id }) {
            screen[place].from = seq
        } else {
            screen.append(FirstScreen.Page(conversation: id, messages: 0, bytesMax: 0, from: seq))
        }
    }

    /// Offers of logs, in frames of a size.
    func frames(of offers: [HeadsFrame.Item]) -> [Frame] {
        let most = WireLimits.logs(inMessagesOf: feed.messageBytesMax)
        return stride(from: 0, to: offers.count, by: most).map { start in
            .heads(HeadsFrame(heads: Array(offers[start..<min(start + most, offers.count)]), isProbe: false))
        }
    }

    private func transmit(_ piece: Feed.Piece) {
        let bytes = piece.frame.encoded()
        session.fed(bytes: bytes.count)
        untoldBytes += bytes.count
        hub.counters.sent(bytes.count, events: piece.events)
        send(bytes)
    }

    /// A line that so much has come over holds: messages may be of any size again.
    private static let soundBytes: UInt64 = 4 << 20

    /// What is sent at once, before others have their turns. Most peers need less than that, and wait for nobody.
    private static let piecesAtOnce = 8, millisecondsAtOnce: UInt64 = 5

    private func feedSome() throws {
        if PlantedBug.advanceCursorEarly.isPlanted { tellPosition() }
        // States may have to be made of long logs.
        guard hasTurn || !isBehind && screen.isEmpty else { return mayFeed() ? takeTurn() : () }
        hasTurn = false
        let (source, since) = (source, now)
        var pieces = 0
        repeat {
            pieces += 1
            guard mayFeed(), let identity = session.who else { return }
            isBehind = true
            if !screen.isEmpty {
                // Goes on with the clock.
                guard allowance.isLeft(at: now) else { return }
                try sendScreen(identity)
                continue
            }
            tellProgress()
            // What was asked behind it waits for the screen.
            if !questions.isEmpty, allowance.isLeft(at: now) { takeTurn() }
            // Who asks for small messages has the same runs read for each of them. Goes on with the clock.
            if session.creditGivenBack >= Self.soundBytes { feed.messageBytesMax = .max }
            if feed.cutsRuns {
                awaitsAllowance = !allowance.isLeft(at: now)
                if awaitsAllowance { return }
            }
            let next = try feed.next(source)
            tellUnreadable()
            try wantWhatIsLeft()
            guard let piece = next else {
                if !screen.isEmpty { continue }
                isBehind = false
                if questions.isEmpty, asked == nil { turns = 0 }
                return tellPosition()
            }
            allowance.spend(Effort(events: piece.readAgain))
            transmit(piece)
        } while pieces < Self.piecesAtOnce && now.milliseconds(since: since) < Self.millisecondsAtOnce
        takeTurn()
    }

    /// The history of a conversation was closed while something of before its user's joining was wanted: what they may see is sent over the state before it.
    private func wantWhatIsLeft() throws {
        let hidden = feed.takeHidden()
        if hidden.isEmpty { return }
        let joined = inbox.withLock { $0.joined }
        // Whoever came back meanwhile is told, and says what is wanted.
        for (log, seq) in hidden where offered[log] == nil && !joined.contains(log) && !denied.contains(log) {
            guard case .conversation(let id) = log, let identity = session.who else { continue }
            guard let first = try unlessDamaged(log, { try hub.firstSeq(of: log, for: identity, seesEverything: seesEverything, &$0) }) else { continue }
            // Else nobody can say what is hidden: nothing is sent of it.
            if first > seq { screen.append(FirstScreen.Page(conversation: id, messages: 0, bytesMax: 0, from: seq)) }
        }
    }

    /// Gives a log up if something of it cannot be read: of others all is sent.
    func unlessDamaged<Result>(_ log: LogID, _ body: (inout Effort) throws -> Result) throws -> Result? {
        if feed.isUnreadable(log) { return nil }
        var effort = Effort()
        defer { allowance.spend(effort) }
        do {
            return try body(&effort)
        } catch let error as EventLogError where error.code == .damaged {
            feed.giveUp(log, error)
            return nil
        }
    }

    /// Tells of what turned out to be unreadable.
    func tellUnreadable() {
        let damage = feed.takeDamage()
        if damage.isEmpty { return }
        for (error, logs) in Dictionary(grouping: damage, by: \.error.description).sorted(by: { $0.key < $1.key }) {
            let others = logs.count > 1 ? " and \(logs.count - 1) more" : ""
            hub.options.log("log \(logs[0].log)\(others) cannot be sent: \(error)")
        }
        guard takesUnreadable else { return }
        // All that can be read is sent before the session ends.
        if tellsTooManyUnreadable { return }
        let most = WireLimits.logs(inMessagesOf: feed.messageBytesMax)
        let logs = damage.map(\.log).sorted()
        for start in stride(from: 0, to: logs.count, by: most) { transmit(.unreadable(Unreadable(Array(logs[start..<min(start + most, logs.count)])))) }
    }

    /// Whether more logs cannot be read than a replica lets itself be told of.
    var tellsTooManyUnreadable: Bool { feed.unreadableCount + undecidedLogs.count > hub.options.unreadableMax }

    /// Whether what was sent does not tell yet what the peer holds, or something goes before all else.
    private var isUnsettled: Bool { !screen.isEmpty || !questions.isEmpty || !offered.isEmpty || !denied.isEmpty || awaitsHeads || awaitsFilling }

    /// Says what the peer has before it has everything.
    private func tellProgress() {
        guard untoldBytes >= hub.options.progressBytes, coverage != nil, !isUnsettled else { return }
        untoldBytes = 0
        let now = hub.withIndex { index in inbox.withLock { $0.changed.isEmpty ? index.position : nil } }
        let progress = coverage!.progress(feed, whole: feed.takeWhole(), namesMax: WireLimits.logs(inMessagesOf: feed.messageBytesMax), now: now) {
            Cursor(store: hub.id, incarnation: hub.incarnation, position: $0)
        }
        if let progress { transmit(.progress(progress)) }
    }

    /// Says up to where the peer has everything, if nothing is left to send.
    private func tellPosition() {
        tellUnreadable()
        let isUnfinished = !feed.isEmpty || isUnsettled
        guard !isUnfinished || PlantedBug.advanceCursorEarly.isPlanted else { return }
        let position = hub.withIndex { index in inbox.withLock { $0.changed.isEmpty ? index.position : nil } }
        guard let position, position != toldPosition else { return }
        // Who does not know of such would take what is missing for the hub's.
        if feed.hasUnreadable, !takesUnreadable || tellsTooManyUnreadable { return perform(session.end(Self.damaged)) }
        toldPosition = position
        coverage = nil
        feed.notesWhole = false
        transmit(.caughtUp(CaughtUp(cursor: Cursor(store: hub.id, incarnation: hub.incarnation, position: position))))
    }
}
