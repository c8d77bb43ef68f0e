internal import ConversationStore
public import EventLog

/// What a session of a replica tells whoever runs it.
public enum ReplicaEvent: Sendable {
    /// The hub has answered; `isResumed` is false if it must be told first what is held here.
    case connected(isResumed: Bool)
    /// The hub does not go on from what it had signed before, and says so: it is one that was restored from an older backup, or claims to be. What it lost is
    /// kept aside (``Replica/lostEvents()``), and `evidence` with it.
    case setBack(evidence: String)
    /// Events that were not held before, in whatever part of their logs.
    case received(events: Int, bytes: Int)
    /// What the hub cannot read of its store: until it can, some of these logs is missing here, or what was written of them is not answered.
    case unreadable([LogID])
    /// Own events that the hub has recorded, now or long ago, and such as have failed.
    case answered(accepted: Int, refused: Int)
    /// All that concerns the user is held, but for what the hub cannot read, and the outbox is answered as far as it can be.
    case settled
    case typing(Typing)
    /// The session is over.
    case ended(Bye)
    /// The session is over, as this replica cannot go on: it was shown a forked history, or its own store fails.
    case failed(any Error)
    /// The session is over, as this replica must first set itself right: open it anew and connect again.
    case mustReopen
}

/// A session of a replica with its hub: performs what the session's state machine says. Everything happens in its mailbox, one thing at a time.
///
/// `@unchecked Sendable`: what is not constant is touched by jobs of the mailbox only.
public final class ReplicaConnection: @unchecked Sendable {
    let replica: Replica
    private let send: @Sendable ([UInt8]) -> Void
    private let close: @Sendable (Bye) -> Void
    let observe: @Sendable (ReplicaEvent) -> Void
    private let mailbox: Mailbox
    let preparations: Preparations
    /// Segments that came, and wait for the next, which is at hand, to be kept with them: a commit waits for the disk, however large it is.
    var held: [LargeSegment] = []
    private let token: String
    let scope: Scope
    var session: ReplicaSession
    private var welcome: Welcome?
    var comparison: HeadComparison?
    /// Logs that have grown to a head of the hub while the two are compared: what contradicts that, the hub has said itself.
    var fitted: Set<LogID> = []
    /// What was to be filled meanwhile.
    private var fills: [LogID] = []
    /// Holes that were asked for when the hub said that it had sent all.
    private var asked: Set<LogID> = []
    /// While the hub may not have read yet that some were asked for: how often it has said meanwhile that it has sent all.
    private var doubtfulEnds: Int?
    /// Nothing of the outbox is sent before the two agree on what came before it: what the hub lost and this replica made is offered first.
    var holdsBack = false
    /// Of what may have been offered to another life of the hub some may stand in what comes.
    private var comparesOffers = false
    var isCaughtUp = false
    /// What is missing before events that came, was asked for, and has not come: a cursor would vouch for it.
    var missing: [LogID: Kept.Hole] = [:]
    /// What the hub has said that it cannot read: of these logs nothing more comes in this session. Each with the last seq for which heads vouch.
    var unreadable: [LogID: Seq] = [:]
    /// Logs of which nothing more that is sent is answered.
    var undecided: Set<LogID> = []
    /// What was doubtful when the session began: what the hub cannot read stays so.
    var doubts: [LogID: Seq] = [:]
    /// Logs that grew, and no head has vouched for it yet, each with its last seq before that; and those of which a newest part did.
    var unvouched: [LogID: Seq] = [:]
    var unvouchedParts: Set<LogID> = []
    /// The hub was asked about what no head vouched for in an earlier session, and has not answered all.
    var isInDoubt = false
    /// Logs that this session's hub was told of: they may be held further than what it tells of a part says, in the lot under way or in one that is to begin.
    /// Until they are whole they are named in the next session too, or all that lies behind that part would come again. Each with its last seq then, for which
    /// the hub vouches by its answer.
    var ahead: [LogID: Seq] = [:]
    /// Logs of which the hub has something else, with the last seq that stays.
    var retracts: [LogID: Seq] = [:]
    /// What the hub said while it was asked.
    var laterCursor: (cursor: Cursor, place: Position)?
    var laterProgress: (progress: PartialCursor, unvouched: [LogID: Seq], place: Position)?
    var askedAt: Instant
    /// Since when nothing is awaited but what the hub has recorded of the outbox.
    private var withheldSince: Instant?
    /// Bytes of messages that wait to be handled.
    private let backlog = Monitor(0)
    /// What an honest hub may have on its way, and much more.
    private static let backlogBytesMax = 64 << 20
    /// What a message costs beside its bytes, about.
    private static let messageOverhead = 256
    /// Whether all came, and went, in this session; and bytes of messages that brought something.
    private var hasSettled = false
    /// Whether what is shown was saved when all was there.
    private var hasSaved = false
    var fruitBytes = 0
    /// Whether HELLO carried some of the outbox.
    private var hasPushed = false
    var hasEnded = false

    init(
        _ replica: Replica, token: String, scope: Scope, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        observe: @escaping @Sendable (ReplicaEvent) -> Void
    ) {
        self.replica = replica
        self.send = send
        self.close = close
        self.observe = observe
        let execution = replica.options.execution
        mailbox = Mailbox(execution)
        preparations = Preparations(replica.store.log, execution)
        askedAt = execution.now()
        session = ReplicaSession(at: askedAt, seed: execution.random(), limits: replica.options.limits)
        self.token = token
        self.scope = scope
    }

    /// Says HELLO: once the transport stands.
    public func start() {
        mailbox.post { [self] in begin() }
    }

    /// A job that is to find kept what came before it.
    private func post(_ job: @escaping @Sendable () -> Void) {
        mailbox.post { [self] in
            keepHeld()
            job()
        }
    }

    var now: Instant { replica.options.execution.now() }

    /// A whole message has come.
    ///
    /// - Parameter mayWait: the calling thread may wait for the disk: the message is handled on it, if it is small and none is under way.
    public func receive(_ message: [UInt8], mayWait: Bool = false) {
        let isTooMuch = backlog.withLock { backlog -> Bool? in
            if backlog > Self.backlogBytesMax { return nil }
            backlog += message.count + Self.messageOverhead
            return backlog > Self.backlogBytesMax
        }
        // Told once; what comes behind it is not looked at.
        guard let isTooMuch else { return }
        if isTooMuch {
            return mailbox.post { [self] in guarded { throw ReplicaError(.badPeer, "the hub sends more than it was given credit for") } }
        }
        preparations.note(message)
        // While a large one is kept those behind it are prepared: for that they must come.
        mailbox.post(mayWait: mayWait && message.count < Replica.wholeBytesMin) { [self] in
            backlog.withLock { $0 -= message.count + Self.messageOverhead }
            perform(session.receive(message, at: now))
        }
    }

    /// Bytes of a message have come that is not whole yet; about once a second at most. It does not wait.
    public func progressed() { post { [self] in session.progress(at: now) } }

    /// The transport is gone.
    public func disconnected() {
        post { [self] in
            guard !hasEnded else { return }
            _ = session.end(Bye(.normal))
            replica.saveCursor()
            noteBreak()
            let bye = Bye(.goingAway, "the connection was lost")
            finish(.ended(bye), bye)
        }
    }

    /// About once a second.
    public func tick() {
        post { [self] in
            perform(session.tick(at: now))
            // A hub that could not answer then may be able to now.
            if !missing.isEmpty, now.milliseconds(since: askedAt) >= Self.askAgainMilliseconds {
                askedAt = now
                perform(session.fetch(missing.values.map(\.wish).sorted { $0.log < $1.log }))
            }
            endIfWithheld()
            replica.saveCursor()
        }
    }

    /// A hub that says it has everything sent, and has not, is asked anew.
    private func endIfWithheld() {
        guard isCaughtUp, comparison == nil, replica.isWhole(in: scope, but: Set(unreadable.keys)),
            replica.awaited(in: scope, but: Set(unreadable.keys), undecided) == .acceptedEvents
        else {
            return withheldSince = nil
        }
        let since = withheldSince ?? now
        withheldSince = since
        guard now.milliseconds(since: since) >= Self.withheldMilliseconds else { return }
        // No fault of the line's.
        hasSettled = true
        perform(session.end(Bye(.timeout, "the hub does not send events of ours that it says it has recorded")))
    }

    private static let withheldMilliseconds: UInt64 = 30_000
    private static let askAgainMilliseconds: UInt64 = 10_000

    /// Something new is in the outbox.
    public func outboxChanged() {
        post { [self] in guarded { try push() } }
    }

    public func renew(token: String) {
        post { [self] in perform(session.renew(token: token)) }
    }

    public func tell(_ typing: Typing) {
        post { [self] in perform(session.typing(typing)) }
    }

    /// Asks for what is missing of a log below what is held of it.
    public func fill(_ log: LogID) {
        post { [self] in
            // What comes must not be put behind what the hub may have lost.
            if comparison != nil { fills.append(log) } else { guarded { try fillNow(log) } }
        }
    }

    private func fillNow(_ log: LogID) throws {
        perform(session.fetch([Fetch(log: log, from: try replica.store.log.lastSeq(of: log) + 1, through: 0)]))
    }

    public func end() {
        post { [self] in perform(session.end(Bye(.normal))) }
    }

    // Performing.

    private func begin() {
        guarded {
            let hello = try replica.hello(token: token, scope: scope)
            hasPushed = !hello.pushed.isEmpty
            perform(session.start(hello, at: now))
        }
    }

    func perform(_ effects: [ReplicaSession.Effect]) {
        for effect in effects {
            if hasEnded { return }
            if case .keep(.segment(let segment), let bytes) = effect, hold(segment, bytes) { continue }
            if case .progressed(let progress) = effect, !held.isEmpty {
                held[held.count - 1].progress = progress
                continue
            }
            keepHeld()
            if hasEnded { return }
            switch effect {
            case .send(let frame): send(frame.encoded())
            case .welcomed(let welcome): guarded { try begin(welcome) }
            case .keep(let frame, let bytes): guarded { try keep(frame, bytes) }
            case .answered(let accepted, let refused): guarded { try answered(accepted, refused) }
            case .heads(let heads): guarded { try compare(heads) }
            case .answersPing:
                comparison?.isAnswered = true
                guarded { try endAsking() }
                guarded { if isInDoubt { try endDoubt() } else { try rewindIfCompared() } }
                tellIfSettled()
            case .caughtUp(let cursor):
                // Said before the hub had read what was asked for: it says so again behind that.
                if doubtfulEnds != nil { doubtfulEnds! += 1 } else if missing.isEmpty { guarded { try caughtUp(cursor) } }
            case .progressed(let progress): guarded { try progressed(progress, place: replica.store.log.lastPosition) }
            case .unreadable(let told):
                guarded { try noteUnreadable(told) }
                tellIfSettled()
            // It asks for none: its store is open.
            case .repair: break
            case .typing(let typing): observe(.typing(typing))
            case .mayPush:
                guarded { try push() }
                tellIfSettled()
            case .ended(let bye, let byHub):
                replica.saveCursor()
                // What cannot be written down of that stays sent, and is sent again.
                if byHub, welcome == nil { try? replica.takeBack() }
                // A message that takes longer than the other end waits looks like that.
                if bye.code == .timeout { noteBreak() }
                finish(.ended(bye), bye)
            }
        }
    }

    /// The line broke. What cannot be written down of that is no matter.
    private func noteBreak() {
        if welcome != nil || hasPushed, !hasSettled { try? replica.noteBreak(after: fruitBytes) }
    }

    private func finish(_ event: ReplicaEvent, _ bye: Bye) {
        if hasEnded { return }
        hasEnded = true
        observe(event)
        close(bye)
    }

    func guarded(_ body: () throws -> Void) {
        if hasEnded { return }
        do {
            try body()
        } catch {
            fail(error)
        }
    }

    private func fail(_ error: any Error) {
        var bye = Bye(.internalError, "the replica cannot go on")
        if let error = error as? ReplicaError {
            if error.code == .forked {
                bye = Bye(.forked, "the history contradicts what was shown before")
                replica.keepEvidence(error.description)
            } else if error.code == .badPeer {
                bye = Bye(.protocolError, "the hub sent what cannot be")
            }
        }
        for case .send(let frame) in session.end(bye) { send(frame.encoded()) }
        replica.saveCursor()
        finish(.failed(error), bye)
    }

    /// Not all has come, but what has need not come again, nor be named, when this session breaks off.
    func progressed(_ progress: Progress, place: Position) throws {
        // What did not fit was not kept, and what is compared still is not known to be the hub's: this says nothing about it.
        try checkHub(progress.part.cursor)
        for log in progress.whole where unvouched[log] == nil && !unvouchedParts.contains(log) {
            // Names of what is not here are a liar's.
            let seq = try replica.heldSeq(of: log)
            if seq > 0 { ahead[log] = seq }
        }
        guard missing.isEmpty, unvouchedParts.isEmpty, !replica.hasUncompared, comparison.map({ !$0.isBusy && !$0.differs && $0.disputed.isEmpty }) ?? true
        else {
            return
        }
        if isInDoubt { return laterProgress = (progress.part, unvouched, place) }
        try replica.progressed(progress.part, unvouched: unvouched.merging(ahead) { now, _ in now }, place: place)
        if PlantedBug.takePartForAll.isPlanted { try caughtUp(progress.part.cursor, place: replica.store.log.lastPosition) }
    }

    /// A cursor of another hub would be held against the true one for ever.
    private func checkHub(_ cursor: Cursor) throws {
        guard let welcome, cursor.store == welcome.store, cursor.incarnation == welcome.incarnation else {
            throw ReplicaError(.badPeer, "the hub gave a cursor of another hub than it said that it is")
        }
    }

    private func caughtUp(_ cursor: Cursor) throws {
        try checkHub(cursor)
        if let log = unvouched.keys.first(where: { unreadable[$0] == nil }) ?? unvouchedParts.first(where: { unreadable[$0] == nil }) {
            throw ReplicaError(.badPeer, "the hub gave no head for what it sent of \(log)")
        }
        guard !isInDoubt else { return laterCursor = (cursor, replica.store.log.lastPosition) }
        try caughtUp(cursor, place: replica.store.log.lastPosition)
    }

    func caughtUp(_ cursor: Cursor, place: Position) throws {
        if let comparison {
            // It will go back and begin anew: nothing vouches for what is held before.
            if comparison.differs { return }
            if let error = comparison.contradiction { throw error }
        }
        // Nothing differs any more.
        comparison = nil
        fitted = []
        for log in fills { try fillNow(log) }
        fills = []
        // A hub that says that it has sent all, and has left something out, or of which an earlier one did, is asked for it once.
        let wanted = try scope.isOfParts ? replica.doubtfulHoles(in: scope, but: unreadable) : replica.holes(in: scope).map(\.log)
        let holes = wanted.filter { asked.insert($0).inserted }
        if !holes.isEmpty {
            for log in holes { try fillNow(log) }
            doubtfulEnds = 0
            perform(session.ping())
            // What the hub lost is offered before all else: so what tells of that comes first.
            if scope.isOfParts { return }
        }
        // Before the cursor is taken: a session that resumes does not look again.
        if comparesOffers { try replica.strikeStanding(evenSent: holdsBack) }
        comparesOffers = false
        // Of newest parts nobody could say in the next session what of them is missing.
        let isTold = unreadable.isEmpty || !scope.isOfParts && unvouchedParts.isEmpty
        let unread = PlantedBug.forgetUnread.isPlanted ? [:] : unreadable
        let mustReopen = try replica.caughtUp(cursor, place: place, but: unread, isKept: isTold)
        // What was offered, and stands there all the same.
        tellSettled()
        if mustReopen { return reopen() }
        // What was struck may have freed what waited for it.
        try holdsBack ? sendAgain() : push()
        isCaughtUp = holes.isEmpty
        tellIfSettled()
    }

    /// The hub has read that holes were asked for: when it says once more that it has sent all, that goes for them.
    private func endAsking() throws {
        guard let ends = doubtfulEnds else { return }
        doubtfulEnds = nil
        // It may have said so by now. It does behind all that it is asked.
        if ends > 0, let log = asked.min() { try fillNow(log) }
    }

    private func begin(_ welcome: Welcome) throws {
        self.welcome = welcome
        // It has decided nothing of what came with HELLO: where that went for the first time, it has not been sent.
        if welcome.isGone { try replica.takeBack() }
        holdsBack = welcome.isGone || replica.holdsBack
        comparesOffers = holdsBack
        let evidence = try replica.check(welcome)
        try replica.save(scope)
        observe(.connected(isResumed: !welcome.isGone))
        if let evidence { observe(.setBack(evidence: evidence)) }
        guard welcome.isGone || !replica.isHeld else {
            try beginDoubt()
            return perform(session.fetch(try replica.damageWishes()))
        }
        // All is compared.
        replica.endDoubt()
        // Before the heads: the hub says that nothing is missing only behind what it was asked for before those.
        perform(session.fetch(try replica.beginComparing(in: scope)))
        guard welcome.isGone else { return }
        comparison = HeadComparison()
        try replica.forEachHead(in: scope, inBatchesOf: 1024) { batch, isLast in
            // What differs ends the session, and nothing of this is kept.
            for item in batch { ahead[item.log] = item.head.size }
            perform(session.compare(HeadsFrame(heads: batch, isProbe: false, isLast: isLast)))
        }
        // Where the two agree nothing is said. What is answered behind all heads tells that they were read.
        perform(session.ping())
    }

    /// Of what left the outbox, or failed, without an answer.
    func tellSettled() {
        let (accepted, failed) = replica.takeSettled()
        if accepted > 0 || failed > 0 { observe(.answered(accepted: accepted, refused: failed)) }
    }

    private func answered(_ accepted: [Accepted], _ refused: [Refused]) throws {
        let (isReborn, failed) = try replica.answered(accepted, refused)
        let settled = replica.takeSettled()
        observe(.answered(accepted: settled.accepted, refused: failed + settled.failed))
        // The session's HELLO named a replica that this one is no longer.
        if isReborn { return reopen() }
        perform(session.fetch(notMissingYet(try replica.wishes(for: accepted))))
        try push()
        tellIfSettled()
    }

    /// The two agree: what came with HELLO was not decided.
    func sendAgain() throws {
        guard holdsBack else { return }
        holdsBack = false
        replica.sendAgain()
        try push()
    }

    private func push() throws {
        while session.mayPush, !holdsBack {
            let events = try replica.takePushed(bytesMax: min(session.pushBytes, 1 << 20, replica.messageBytes))
            if events.isEmpty { break }
            perform(session.push(events))
        }
        // Of what was found to rest on nothing.
        tellSettled()
    }

    private func tellIfSettled() {
        guard !hasEnded, isCaughtUp, session.isOpen, comparison?.isBusy != true, replica.awaited(in: scope, but: Set(unreadable.keys), undecided) == .nothing
        else {
            return
        }
        // The line has brought all that the hub has.
        hasSettled = true
        try? replica.forgetBreaks()
        guard replica.isWhole(in: scope, but: Set(unreadable.keys)) else { return }
        observe(.settled)
        if !hasSaved { replica.store.log.saveFoldsSoon() }
        hasSaved = true
    }

    func reopen() {
        for case .send(let frame) in session.end(Bye(.normal, "the replica sets itself right")) { send(frame.encoded()) }
        replica.saveCursor()
        finish(.mustReopen, Bye(.normal))
    }
}
