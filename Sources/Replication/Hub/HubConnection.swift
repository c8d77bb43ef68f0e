internal import ConversationStore

/// One peer of a hub: performs what its session says. Everything happens in its mailbox, one thing at a time.
///
/// `@unchecked Sendable`: `session`, `feed` and what stands beside them are touched by jobs of the mailbox only.
public final class HubConnection: @unchecked Sendable {
    let hub: Hub
    let number: UInt64
    let send: @Sendable ([UInt8]) -> Void
    private let close: @Sendable (Bye) -> Void
    private let takesMore: @Sendable () -> Bool
    let mailbox: Mailbox
    var session: HubSession
    var feed: Feed
    var scope = Scope.mine
    /// The conversations that `scope` names: as many as fit into a HELLO, and asked for with each event.
    var scopeNames: Set<ConversationID>?
    var replica = ReplicaID(high: 0, low: 0)
    /// What was read to find what the peer pushes under other origins.
    var twins = TwinMemory()
    /// PUSHes of which some events have still to be looked up before they are decided.
    var asked: Asked?
    /// Whether these have the allowance before what the peer asks, next time.
    var looksFirst = false
    /// Logs of which the peer was told the head and has not said yet from where on it wants them. Nothing is caught up before it asks for such a log
    /// through that seq; of 0 any question will do.
    var offered: [LogID: Seq] = [:]
    /// Logs that the peer named and of which it may see nothing: it must set itself right, and nothing is caught up before.
    var denied = Denied()
    /// The peer's cursor is gone, or covers only a part: its heads are awaited.
    var awaitsHeads = false
    /// Logs that the peer named among its heads meanwhile, with the seqs from which on they are to be sent; `nil`: not at all.
    var named: [LogID: Seq?] = [:]
    /// With a cursor that covers a part, the logs of which something is missing behind it, ascending by their last events.
    var awaited: [Awaited]?
    /// Whether the peer's cursor covers all, but for what it names: of that something could not be read, perhaps.
    var isAllBut = false
    /// Whether the peer wants to be told of what cannot be read, and to have all else.
    var takesUnreadable = false
    /// Whether the peer wants to know how far a session has come that has not sent everything.
    var tellsProgress = false
    /// What is told of that; `nil`: nothing.
    var coverage: Coverage?
    /// Bytes of events since it was told last.
    var untoldBytes = 0
    /// Frames that must stand behind WELCOME, and what a new device shows first.
    var held: [Frame] = []
    var screen: ArraySlice<FirstScreen.Page> = []
    /// What the user has left behind the cursor, of the newest conversations that are wanted or not.
    var left: Set<ConversationID> = []
    /// What came up in the place of such, be it sent by now or not: each goes once.
    var filled: Set<ConversationID> = []
    /// Logs that were sent whole in the place of a page.
    var wholes: Set<LogID> = []
    /// What came up in the place of the last ones is still to be looked up.
    var awaitsFilling = false
    var pushes: [(events: [PushedEvent], bytes: Int)] = []
    var isPushing = false
    /// Logs of which an event had no room on the disk, or something cannot be read: of these nothing more is decided in this session.
    var stuckLogs: Set<LogID> = []
    /// What of this session's PUSHes was refused.
    var refusedNames: Set<PushedName> = []
    /// Lanes of which a counter turned out to be another event's: the peer writes them anew from there.
    var conflicts: [PushedLane: UInt64] = [:]
    /// Those of ``stuckLogs`` that cannot be read, and of which the peer is told.
    var undecidedLogs: Set<LogID> = []
    /// Those of which it was told.
    var toldUndecidedLogs: Set<LogID> = []
    var stuckSince: Instant?
    /// Whether one of them cannot be read, and the peer would not know what that means.
    var isDamaged = false
    /// What the peer asked and has not been answered: in order, as far as its allowance lasts.
    var questions: [Question] = []
    var allowance: WorkAllowance
    /// It has asked for a turn at what takes long.
    private var awaitsTurn = false
    var hasTurn = false
    /// Turns since nothing was left to do.
    var turns = 0
    /// More is to be sent than goes at once: it goes in turns.
    var isBehind = false
    /// The transport holds enough for this peer: what could be sent waits until it has drained.
    private(set) var isClogged = false
    /// Whether runs that are read again wait for the allowance.
    var awaitsAllowance = false
    /// The position of the last CAUGHT_UP.
    var toldPosition: Position?
    private var hasEnded = false
    let inbox = Monitor(Inbox())

    struct Asked {
        var decisions: [(decision: PushDecision, bytes: Int)]
        var lookup: SubmissionLookup
    }

    /// What others leave here: which logs have events that the peer may lack.
    struct Inbox {
        var changed: [LogID: Seq] = [:]
        var joined: Set<LogID> = []
        var isWoken = false
        var bytes = 0
    }

    /// Bytes of messages that may wait to be handled: who sends more without waiting for credit is cut off.
    private static let backlogBytesMax = 32 << 20
    /// What a message costs beside its bytes, about.
    private static let messageOverhead = 256

    init(
        hub: Hub, number: UInt64, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        takesMore: @escaping @Sendable () -> Bool
    ) {
        self.hub = hub
        self.number = number
        self.send = send
        self.close = close
        self.takesMore = takesMore
        mailbox = Mailbox(hub.options.execution)
        let now = hub.options.execution.now()
        allowance = WorkAllowance(at: now)
        feed = Feed(firstGroup: hub.options.firstLot)
        session = HubSession(at: now, seed: hub.options.execution.random(), limits: hub.options.limits)
    }

    var now: Instant { hub.options.execution.now() }

    /// How many things are remembered of the peer and for it, for tests.
    package var footprint: Int {
        offered.count + denied.count + named.count + (awaited?.count ?? 0) + held.count + screen.count + feed.count + questions.count + pushes.count
            + mailbox.count + stuckLogs.count + 2 * undecidedLogs.count + refusedNames.count + conflicts.count + twins.footprint
            + (asked?.lookup.submissions.count ?? 0) + left.count + filled.count + wholes.count
            + inbox.withLock { $0.changed.count + $0.joined.count }
    }

    // From the transport.

    /// A whole message has come.
    ///
    /// - Parameter mayWait: the calling thread may wait for the disk: the message is handled on it, if nothing of this peer is under way.
    public func receive(_ message: [UInt8], mayWait: Bool = false) {
        hub.counters.received(message.count)
        let backlog = inbox.withLock { inbox -> Int in
            inbox.bytes += message.count + Self.messageOverhead
            return inbox.bytes
        }
        if backlog > Self.backlogBytesMax { return end(Bye(.overloaded, "more was sent than credit allows")) }
        mailbox.post(mayWait: mayWait) { [self] in
            inbox.withLock { $0.bytes -= message.count + Self.messageOverhead }
            perform(session.receive(message, at: now))
        }
    }

    /// Bytes of a message have come that is not whole yet; about once a second at most. It does not wait.
    public func progressed() { mailbox.post { [self] in session.progress(at: now) } }

    /// The peer is gone, or the transport is.
    public func disconnected() {
        mailbox.post { [self] in
            _ = session.end(nil)
            finish(nil)
        }
    }

    /// The transport takes more again, which it had denied.
    public func drained() { mailbox.post { [self] in goOn() } }

    /// About once a second.
    public func tick() {
        mailbox.post { [self] in
            perform(session.tick(at: now))
            endIfStuck()
            goOn()
        }
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

    /// Goes on with what takes long when others have had their turns.
    func takeTurn() {
        if awaitsTurn { return }
        awaitsTurn = true
        mailbox.whenIdle { [self, turns] in
            hub.turns.take(after: turns) { [self] in
                mailbox.run { [self] in
                    awaitsTurn = false
                    hasTurn = true
                    self.turns += 1
                    goOnReading()
                    pump()
                    hasTurn = false
                }
            }
        }
    }

    func deliver(_ typing: Typing) {
        mailbox.post { [self] in if session.isOpen { transmit(.typing(typing)) } }
    }

    // Performing.

    func perform(_ effects: [HubSession.Effect]) {
        for effect in effects {
            if hasEnded { return }
            switch effect {
            case .send(.pong(let id)) where !questions.isEmpty: ask(.pong(id))
            case .send(let frame): transmit(frame)
            case .authenticate(let token, let claimed):
                hub.options.authenticate(token, claimed) { [self] result in
                    mailbox.post { [self] in perform(session.authenticated(result, at: now)) }
                }
            case .begin(let identity, let hello): begin(identity, hello)
            case .push(let events, let bytes):
                pushes.append((events, bytes))
                decideNext()
            case .fetch(let wishes, let damaged):
                ask(.fetch(wishes))
                for run in damaged where !hasEnded { ask(.repair(run)) }
            case .compare(let heads): ask(.compare(heads))
            case .typing(let typing): pass(typing)
            case .pump: pump()
            case .close(let bye): finish(bye)
            }
        }
    }

    func transmit(_ frame: Frame, events: Int = 0) {
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
        (twins, asked) = (TwinMemory(), nil)
        questions = []
        screen = []
        (left, filled) = ([], [])
        awaited = nil
        coverage = nil
        close(bye ?? Bye(.normal))
    }

    /// An error of the store ends this session, with a code that tells the peer whether to come again.
    func guarded(_ body: () throws -> Void) {
        do {
            try body()
        } catch let error as EventLogError where error.code == .diskFull {
            hub.noteStore()
            perform(session.end(Bye(.storeFull, "the hub's disk is full", retryAfterMilliseconds: 60_000)))
        } catch let error as EventLogError where error.code == .damaged {
            hub.options.log("\(error)")
            perform(session.end(Self.damaged))
        } catch {
            // That nothing can be written any more is told once, not to each peer anew.
            if (error as? EventLogError)?.code == .unknownOutcome { hub.noteStore() } else { hub.options.log("\(error)") }
            perform(session.end(Bye(.internalError, "the hub has an internal error", retryAfterMilliseconds: 5000)))
        }
    }

    /// Whether events may be sent: the peer has given credit for them, and the transport takes them.
    func mayFeed() -> Bool {
        guard session.mayFeed else { return false }
        isClogged = !takesMore()
        return !isClogged
    }

    var seesEverything: Bool { scope == .everything }

    func visibleSeq(_ log: LogID) -> Seq {
        guard let identity = session.who, isInScope(log) else { return 0 }
        return hub.withIndex { $0.visibleSeq(of: log, for: identity, seesEverything: seesEverything) }
    }

    /// The same of what is sent from a seq on. It was wanted some time ago: who was taken in again since may not see what was said meanwhile, and is told.
    func visibleSeq(_ log: LogID, from first: Seq) -> Seq {
        guard case .conversation(let id) = log, !seesEverything, let identity = session.who, !PlantedBug.tellHistory.isPlanted else { return visibleSeq(log) }
        guard hub.withIndex({ $0.membership(of: identity.user, in: id).joinedSeq }) > first else { return visibleSeq(log) }
        // Where it cannot be read how the history begins, nothing is shown.
        return (try? hub.store.history(of: id)) == .whole ? visibleSeq(log) : 0
    }

    func isInScope(_ log: LogID) -> Bool { Scope.covers(log, scopeNames) || PlantedBug.ignoreScope.isPlanted }
}
