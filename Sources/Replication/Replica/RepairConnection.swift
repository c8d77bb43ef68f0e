internal import ConversationStore

/// A session of a ``Repair`` with the hub. Everything happens in its mailbox, one thing at a time.
///
/// `@unchecked Sendable`: what is not constant is touched by jobs of the mailbox only.
public final class RepairConnection: @unchecked Sendable {
    private let repair: Repair
    private let send: @Sendable ([UInt8]) -> Void
    private let close: @Sendable (Bye) -> Void
    private let observe: @Sendable (RepairEvent) -> Void
    private let mailbox: Mailbox
    private let token: String
    private let scope: Scope
    private var session: ReplicaSession
    private var blocks: [Position: [RunBlock]] = [:]
    private var hasToldSpans = false
    private var hasEnded = false

    init(
        _ repair: Repair, token: String, scope: Scope, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        observe: @escaping @Sendable (RepairEvent) -> Void
    ) {
        self.repair = repair
        self.send = send
        self.close = close
        self.observe = observe
        self.token = token
        self.scope = scope
        let execution = repair.options.execution
        mailbox = Mailbox(execution)
        session = ReplicaSession(at: execution.now(), seed: execution.random(), limits: repair.options.limits)
    }

    private var now: Instant { repair.options.execution.now() }

    /// Says HELLO: once the transport stands.
    public func start() {
        mailbox.post { [self] in perform(session.start(repair.hello(token: token, scope: scope), at: now)) }
    }

    /// A whole message has come.
    ///
    /// - Parameter mayWait: the calling thread may wait for the disk: the message is handled on it, if none is under way.
    public func receive(_ message: [UInt8], mayWait: Bool = false) {
        mailbox.post(mayWait: mayWait) { [self] in perform(session.receive(message, at: now)) }
    }

    /// Bytes of a message have come that is not whole yet; about once a second at most. It does not wait.
    public func progressed() { mailbox.post { [self] in session.progress(at: now) } }

    /// The transport is gone.
    public func disconnected() {
        mailbox.post { [self] in
            _ = session.end(Bye(.normal))
            finish(.ended(Bye(.goingAway, "the connection was lost")), Bye(.normal))
        }
    }

    /// About once a second.
    public func tick() {
        mailbox.post { [self] in perform(session.tick(at: now)) }
    }

    private func perform(_ effects: [ReplicaSession.Effect]) {
        for effect in effects {
            if hasEnded { return }
            switch effect {
            case .send(let frame): send(frame.encoded())
            case .welcomed: ask(for: repair.damaged.map(Self.withoutSpans))
            case .repair(let frame): take(frame)
            case .answersPing: goOn()
            case .ended(let bye, _): finish(.ended(bye), bye)
            // Nothing of it was asked for.
            case .keep, .answered, .heads, .caughtUp, .progressed, .unreadable, .typing, .mayPush: break
            }
        }
    }

    private func ask(for damaged: [DamagedRun]) {
        perform(session.fetch(damaged: damaged))
        // A hub that knows nothing of damaged runs skips them: behind PONG it will not answer any more.
        perform(session.ping())
    }

    /// What a run holds is told where the hub has no such run: it takes more bytes than all else of a repair.
    private func goOn() {
        let rest = hasToldSpans ? [] : repair.damaged.filter { blocks[$0.position] == nil && !$0.spans.isEmpty }
        if rest.isEmpty { return end() }
        hasToldSpans = true
        ask(for: rest)
    }

    private static func withoutSpans(_ damaged: DamagedRun) -> DamagedRun {
        var damaged = damaged
        damaged.spans = []
        return damaged
    }

    private func take(_ frame: RepairFrame) {
        guard blocks[frame.position] == nil, repair.damaged.contains(where: { $0.position == frame.position }),
            frame.blocks.reduce(0, { $0 + $1.bytes.count }) <= WireLimits.repairBytesMax
        else { return }
        blocks[frame.position] = frame.blocks
    }

    /// All is said: the hub need not wait while the store is read.
    private func end() {
        for case .send(let frame) in session.end(Bye(.normal)) { send(frame.encoded()) }
        do {
            finish(try repair.finish(blocks), Bye(.normal))
        } catch {
            finish(.failed(error), Bye(.normal))
        }
    }

    private func finish(_ event: RepairEvent, _ bye: Bye) {
        if hasEnded { return }
        hasEnded = true
        observe(event)
        close(bye)
    }
}
