internal import ConversationStore

/// One peer of a hub: performs what its session says. Everything happens in its mailbox, one thing at a time.
///
/// `@unchecked Sendable`: `session`, `feed` and what stands beside them are touched by jobs of the mailbox only.
public final class HubConnection: @unchecked Sendable {
    private let hub: Hub
    let number: UInt64
    private let send: @Sendable ([UInt8]) -> Void
    private let close: @Sendable (Bye) -> Void
    private let mailbox: Mailbox
    private var session: HubSession
    private var feed = Feed()
    private var scope = Scope.mine
    /// The conversations that `scope` names: as many as fit into a HELLO, and asked for with each event.
    private var scopeNames: Set<ConversationID>?
    private var replica = ReplicaID(high: 0, low: 0)
    /// Logs of which the peer was told the head and has not said yet from where on it wants them. Nothing is caught up before.
    private var offered: Set<LogID> = []
    /// The peer named logs of which it may see nothing: it must set itself right, and nothing is caught up before.
    private var hasDenied = false
    /// The peer's cursor is gone: its heads are awaited.
    private var awaitsHeads = false
    /// Logs that the peer named among its heads.
    private var named: Set<LogID> = []
    /// Frames that must stand behind WELCOME, and what a new device shows first.
    private var held: [Frame] = []
    private var screen: ArraySlice<FirstScreen.Page> = []
    private var pushes: [(events: [PushedEvent], bytes: Int)] = []
    private var isPushing = false
    /// The position of the last CAUGHT_UP.
    private var toldPosition: Position?
    private var hasEnded = false
    private let inbox = Monitor(Inbox())

    /// What others leave here: which logs have events that the peer may lack.
    private struct Inbox {
        var changed: [LogID: Seq] = [:]
        var joined: Set<LogID> = []
        var isWoken = false
        var bytes = 0
    }

    /// Bytes of messages that may wait to be handled: who sends more without waiting for credit is cut off.
    private static let backlogBytesMax = 32 << 20
    /// What a message costs beside its bytes, about.
    private static let messageOverhead = 256

    init(hub: Hub, number: UInt64, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void) {
        self.hub = hub
        self.number = number
        self.send = send
        self.close = close
        mailbox = Mailbox(hub.options.execution)
        session = HubSession(at: hub.options.execution.now(), seed: hub.options.execution.random(), limits: hub.options.limits)
    }

    private var now: UInt64 { hub.options.execution.now() }

    // From the transport.

    /// A whole message has come.
    public func receive(_ message: [UInt8]) {
        hub.counters.received(message.count)
        let backlog = inbox.withLock { inbox -> Int in
            inbox.bytes += message.count + Self.messageOverhead
            return inbox.bytes
        }
        if backlog > Self.backlogBytesMax { return end(Bye(.overloaded, "more was sent than credit allows")) }
        mailbox.post { [self] in
            inbox.withLock { $0.bytes -= message.count + Self.messageOverhead }
            perform(session.receive(message, at: now))
        }
    }

    /// The peer is gone, or the transport is.
    public func disconnected() {
        mailbox.post { [self] in
            _ = session.end(nil)
            finish(nil)
        }
    }

    /// About once a second.
    public func tick() {
        mailbox.post { [self] in perform(session.tick(at: now)) }
    }

    func end(_ bye: Bye) {
        mailbox.post { [self] in perform(session.end(bye)) }
    }

    // From the hub: under its lock, so nothing but notes.

    func changed(_ log: LogID, at seq: Seq, isNew: Bool) {
        inbox.withLock { inbox in
            if inbox.changed[log].map({ $0 > seq }) ?? true { inbox.changed[log] = seq }
            if isNew { inbox.joined.insert(log) }
        }
    }

    func wake() {
        let isFirst = inbox.withLock { inbox -> Bool in
            defer { inbox.isWoken = true }
            return !inbox.isWoken
        }
        if isFirst { mailbox.post { [self] in pump() } }
    }

    func deliver(_ typing: Typing) {
        mailbox.post { [self] in if session.isOpen { transmit(.typing(typing)) } }
    }

    // Performing.

    private func perform(_ effects: [HubSession.Effect]) {
        for effect in effects {
            if hasEnded { return }
            switch effect {
            case .send(let frame): transmit(frame)
            case .authenticate(let token, let claimed):
                hub.options.authenticate(token, claimed) { [self] result in
                    mailbox.post { [self] in perform(session.authenticated(result, at: now)) }
                }
            case .begin(let identity, let hello): begin(identity, hello)
            case .push(let events, let bytes):
                pushes.append((events, bytes))
                decideNext()
            case .fetch(let wishes): fetch(wishes)
            case .compare(let heads): guarded { try compare(heads) }
            case .typing(let typing): pass(typing)
            case .pump: pump()
            case .close(let bye): finish(bye)
            }
        }
    }

    private func transmit(_ frame: Frame, events: Int = 0) {
        let bytes = frame.encoded()
        hub.counters.sent(bytes.count, events: events)
        send(bytes)
    }

    private func finish(_ bye: Bye?) {
        if hasEnded { return }
        hasEnded = true
        hub.left(self, session.who)
        feed = Feed()
        pushes = []
        close(bye ?? Bye(.normal))
    }

    /// An error of the store ends this session, with a code that tells the peer whether to come again.
    private func guarded(_ body: () throws -> Void) {
        do {
            try body()
        } catch let error as EventLogError where error.code == .diskFull {
            perform(session.end(Bye(.storeFull, "the hub's disk is full", retryAfterMilliseconds: 60_000)))
        } catch {
            hub.options.log("\(error)")
            perform(session.end(Bye(.internalError, "the hub has an internal error", retryAfterMilliseconds: 5000)))
        }
    }

    private var seesEverything: Bool { scope == .everything }

    private func visibleSeq(_ log: LogID) -> Seq {
        guard let identity = session.who, isInScope(log) else { return 0 }
        return hub.withIndex { $0.visibleSeq(of: log, for: identity, seesEverything: seesEverything) }
    }

    private func isInScope(_ log: LogID) -> Bool { Scope.covers(log, scopeNames) }

    // Beginning.

    private func begin(_ identity: Identity, _ hello: Hello) {
        scope = hello.scope
        scopeNames = scope.names
        replica = hello.replica
        guarded {
            // Told of changes from here on; what happened before is looked up.
            hub.joined(self, identity, seesEverything: seesEverything)
            let isValid = try hello.cursor.map { cursor in
                try cursor.store == hub.id
                    && hub.openings.holds(cursor.position, in: cursor.incarnation, now: hub.store.log.lastPosition) && holds(hello.newest)
                    && hello.checkpointSize <= hub.store.log.checkpointSize()
            }
            var welcome = Welcome(
                version: min(hello.versions.upperBound, WireLimits.versions.upperBound), connection: hub.options.execution.random(),
                store: hub.id, incarnation: hub.incarnation, time: now, credit: 0, isGone: !(isValid ?? true), checkpoint: "", consistency: [])
            try addCheckpoint(to: &welcome, since: hello.checkpointSize)
            awaitsHeads = welcome.isGone
            let effects = session.welcome(welcome, at: now)
            if isValid ?? true { try want(after: hello.cursor?.position ?? 0, identity, hello) }
            perform(effects)
        }
    }

    /// Whether an event that the peer has is this hub's own.
    private func holds(_ event: HeldEvent?) throws -> Bool {
        guard let event, !PlantedBug.believeCursors.isPlanted else { return true }
        guard event.seq > 0, event.seq <= visibleSeq(event.log) else { return false }
        return try hub.store.log.event(in: event.log, at: event.seq).map { HeldEvent($0) } == event
    }

    private func addCheckpoint(to welcome: inout Welcome, since size: UInt64) throws {
        guard let checkpoint = try hub.store.log.checkpoint() else { return }
        welcome.checkpoint = checkpoint
        welcome.checkpointKey = try hub.store.log.verifierKey()
        if size > 0 { welcome.consistency = try hub.store.log.headsConsistency(from: size) }
    }

    /// Finds what a replica at a position lacks: the user's logs that changed since, each from its first event behind that position.
    private func want(after position: Position, _ identity: Identity, _ hello: Hello) throws {
        var changes = hub.withIndex { $0.changes(for: identity, seesEverything: seesEverything, after: position) }.filter { isInScope($0.log) }
        changes.sort { ($0.lastPosition, $0.log.sortKey) < ($1.lastPosition, $1.log.sortKey) }
        if case .newest(let conversations, _) = scope {
            let newest = changes.filter { if case .conversation = $0.log { true } else { false } }.suffix(Int(clamping: conversations))
            changes = changes.filter { if case .conversation = $0.log { false } else { true } } + newest
        }
        if position == 0, hello.wantsFirstScreen { screen = try FirstScreen(hub, identity, scope).pages()[...] }
        var offers: [HeadsFrame.Item] = []
        for change in changes {
            if position == 0 {
                // Of a part that was asked for, the newest messages are on their way already.
                if case .newest = scope, case .conversation = change.log { continue }
                feed.want(change.log, from: 1)
                continue
            }
            guard let first = try hub.store.log.firstSeq(of: change.log, after: position) else { continue }
            if change.joinedSeq >= first || change.leftSeq >= first {
                // Whoever came in behind the cursor for the first time has nothing; who was here before, or came and left again, may have some.
                if change.leftSeq == 0 { feed.want(change.log, from: 1) } else if let offer = try offer(change.log) { offers.append(offer) }
            } else {
                feed.want(change.log, from: first)
            }
        }
        for start in stride(from: 0, to: offers.count, by: Self.offersMax) {
            held.append(.heads(HeadsFrame(heads: Array(offers[start..<min(start + Self.offersMax, offers.count)]), isProbe: false)))
        }
    }

    private func offer(_ log: LogID) throws -> HeadsFrame.Item? {
        let seq = visibleSeq(log)
        guard seq > 0, let tree = try hub.heads.tree(of: log, through: seq) else { return nil }
        offered.insert(log)
        return HeadsFrame.Item(log: log, head: LogHead(size: seq, root: tree.root()))
    }

    // Sending.

    private func pump() {
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
            // What the peer holds of them is not known yet: new events behind other old ones would look like a rewritten history.
            // Nor is it of a log that it was told is not here: it comes again, set right, in another session.
            if awaitsHeads || hasDenied {
                for (log, seq) in changed { self.changed(log, at: seq, isNew: joined.contains(log)) }
                return try feedSome()
            }
            var offers: [HeadsFrame.Item] = []
            for (log, seq) in changed.sorted(by: { $0.key.sortKey < $1.key.sortKey }) where isInScope(log) && !offered.contains(log) {
                guard joined.contains(log) else {
                    feed.want(log, from: seq)
                    continue
                }
                if let offer = try offer(log) { offers.append(offer) }
            }
            transmit(offers: offers)
            try feedSome()
        }
    }

    /// Pieces sent before others get their turn.
    private static let piecesAtOnce = 8

    private var source: Feed.Source { Feed.Source(store: hub.store.log, heads: hub.heads, encode: hub.encoders.encode, visibleSeq: visibleSeq) }

    private func sendScreen(_ identity: Identity) throws {
        let part = try FirstScreen(hub, identity, scope).part(&screen)
        for base in part.bases {
            let bytes = Frame.base(base).encoded()
            session.fed(bytes: bytes.count)
            hub.counters.sent(bytes.count, events: 0)
            send(bytes)
        }
        if let piece = try feed.piece(of: part.events, whole: part.whole, source) { transmit(piece) }
    }

    private static let offersMax = 1024

    private func transmit(offers: [HeadsFrame.Item]) {
        for start in stride(from: 0, to: offers.count, by: Self.offersMax) {
            transmit(.heads(HeadsFrame(heads: Array(offers[start..<min(start + Self.offersMax, offers.count)]), isProbe: false)))
        }
    }

    private func transmit(_ piece: Feed.Piece) {
        let bytes = piece.frame.encoded()
        session.fed(bytes: bytes.count)
        hub.counters.sent(bytes.count, events: piece.events)
        send(bytes)
    }

    private func feedSome() throws {
        if PlantedBug.advanceCursorEarly.isPlanted { tellPosition() }
        let source = source
        for _ in 0..<Self.piecesAtOnce {
            guard session.mayFeed, let identity = session.who else { return }
            if !screen.isEmpty {
                try sendScreen(identity)
                continue
            }
            guard let piece = try feed.next(source) else { return tellPosition() }
            transmit(piece)
        }
        wake()
    }

    /// Says up to where the peer has everything, if nothing is left to send.
    private func tellPosition() {
        guard feed.isEmpty && screen.isEmpty && offered.isEmpty && !hasDenied && !awaitsHeads || PlantedBug.advanceCursorEarly.isPlanted else { return }
        let position = hub.withIndex { index in inbox.withLock { $0.changed.isEmpty ? index.position : nil } }
        guard let position, position != toldPosition else { return }
        toldPosition = position
        transmit(.caughtUp(CaughtUp(cursor: Cursor(store: hub.id, incarnation: hub.incarnation, position: position))))
    }

    private func fetch(_ wishes: [Fetch]) {
        for wish in wishes {
            offered.remove(wish.log)
            if wish.from == 0, case .conversation(let id) = wish.log {
                guard visibleSeq(wish.log) > 0 else { continue }
                let page = FirstScreen.Page(
                    conversation: id, messages: Int(clamping: min(wish.through, 1000)), bytesMax: FirstScreen.partBytesMax)
                // Once, however often it is asked for: what waits for credit is bounded by what the peer may see.
                if let index = screen.firstIndex(where: { $0.conversation == id }) {
                    if screen[index].messages < page.messages { screen[index] = page }
                } else {
                    screen.append(page)
                }
                continue
            }
            // The same silence for what is not there and what is not allowed.
            guard wish.from > 0, visibleSeq(wish.log) >= wish.from else { continue }
            feed.want(wish.log, from: wish.from, through: wish.through == 0 ? .max : wish.through)
        }
        toldPosition = nil
        pump()
    }

    /// A replica whose cursor is gone says what it has: what it lacks is sent; where it has something else, it is told what is here instead.
    private func compare(_ heads: HeadsFrame) throws {
        var answers: [HeadsFrame.Item] = []
        // A log that the scope leaves out is there all the same: to deny it would make the replica throw it away.
        for item in heads.heads where isInScope(item.log) {
            let seq = visibleSeq(item.log)
            let size = min(seq, item.head.size)
            let root = size == 0 ? CompactRange().root() : try hub.root(of: item.log, at: size)
            if size == item.head.size, root == item.head.root, !heads.isProbe {
                if seq > size { feed.want(item.log, from: size + 1) }
                named.insert(item.log)
            } else {
                answers.append(HeadsFrame.Item(log: item.log, head: LogHead(size: size, root: root)))
                // Of names that the peer makes up nothing is remembered.
                guard seq > 0 else {
                    hasDenied = true
                    continue
                }
                offered.insert(item.log)
                if !heads.isProbe { named.insert(item.log) }
            }
        }
        if !answers.isEmpty { transmit(.heads(HeadsFrame(heads: answers, isProbe: true))) }
        if heads.isLast, let identity = session.who {
            // What the replica did not name it does not have.
            for change in hub.withIndex({ $0.changes(for: identity, seesEverything: seesEverything, after: 0) })
            where !named.contains(change.log) && isInScope(change.log) {
                // Of newest parts only those are sent that the screen has.
                if case .newest = scope, case .conversation = change.log { continue }
                feed.want(change.log, from: 1)
            }
            if case .newest = scope { screen += try FirstScreen(hub, identity, scope).pages().filter { !named.contains(.conversation($0.conversation)) } }
            named = []
            awaitsHeads = false
            toldPosition = nil
        }
        pump()
    }

    // Deciding.

    /// PUSHes that came while the last was decided share one commit: else a peer that pushes one event at a time waits for a sync of the disk for each.
    private func decideNext() {
        guard !isPushing, !pushes.isEmpty, let identity = session.who else { return }
        isPushing = true
        var decisions: [(decision: PushDecision, bytes: Int)] = []
        var submissions: [Submission] = []
        for push in pushes {
            guard decisions.isEmpty || submissions.count + push.events.count <= WireLimits.pushEventsMax else { break }
            let decision = PushDecision(push.events, from: identity, replica: replica)
            submissions += decision.submissions
            decisions.append((decision, push.bytes))
        }
        pushes.removeFirst(decisions.count)
        guard !submissions.isEmpty else { return decided(decisions, []) }
        hub.options.execution.append(hub.store.log, submissions) { [self, decisions] result in
            mailbox.post { [self] in
                switch result {
                case .success(let outcomes): decided(decisions, outcomes[...])
                case .failure(let error):
                    // Not answered: the replica will ask again, which is safe (I3).
                    guarded { throw error }
                }
            }
        }
    }

    private func decided(_ decisions: [(decision: PushDecision, bytes: Int)], _ outcomes: ArraySlice<AppendOutcome>) {
        isPushing = false
        var outcomes = outcomes
        for (decision, bytes) in decisions {
            let count = decision.submissions.count
            var answers = decision.answers(Array(outcomes.prefix(count)))
            outcomes = outcomes.dropFirst(count)
            for index in answers.accepted.indices where answers.accepted[index].isDuplicate {
                // A repeat of what happened after its author had left never comes to the peer, which must not wait for it.
                answers.accepted[index].seq = min(answers.accepted[index].seq, visibleSeq(answers.accepted[index].log))
            }
            hub.counters.decided(accepted: answers.accepted.count, refused: answers.refused.count)
            perform(session.pushed(answers.accepted, refused: answers.refused, bytes: bytes, at: now))
        }
        decideNext()
    }

    private func pass(_ typing: Typing) {
        guard let identity = session.who, hub.withIndex({ $0.isMember(typing.user, of: typing.conversation) }),
            identity.isService || identity.user == typing.user
        else { return }
        for connection in hub.connections(in: typing.conversation, but: self) { connection.deliver(typing) }
    }
}
