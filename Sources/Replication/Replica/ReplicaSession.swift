package import EventLog

/// The replica's end of a session as a value: frames and the time go in, what is to be done comes out. No socket, disk, clock or thread.
package struct ReplicaSession: Sendable {
    package enum Effect: Hashable, Sendable {
        case send(Frame)
        case welcomed(Welcome)
        /// SEGMENT, EVENTS or BASE: check it, keep it durably, then say ``kept(bytes:)``.
        case keep(Frame, bytes: Int)
        case answered(accepted: [Accepted], refused: [Refused])
        case heads(HeadsFrame)
        case repair(RepairFrame)
        /// All that concerns the user up to here was sent before.
        case caughtUp(Cursor)
        /// So much of it was.
        case progressed(Progress)
        case unreadable(Unreadable)
        /// The hub has read all that was sent before ``ping()``, and its answers have come.
        case answersPing
        case typing(Typing)
        /// There is credit for more of the outbox.
        case mayPush
        /// The session is over: told by the hub, or found out here.
        case ended(Bye, byHub: Bool)
    }

    private enum State: Sendable { case idle, awaitingWelcome, open, closed }

    private var state = State.idle
    private var offered = WireLimits.versions
    private var takesProgress = false, takesUnreadable = false
    private var began: Instant
    private var heard: Instant
    /// When bytes of a message last came that was not whole.
    private var progressed: Instant
    private var asked: Instant
    private var pingID: UInt64
    private var awaitedPong: UInt64?
    private var pongs = Allowance()
    /// Bytes of PUSH that may be sent, and PUSHes that are not answered.
    private var pushCredit: Int64 = 0
    private var unanswered = 0
    /// Bytes of events that the hub may still send.
    private var given: Int64 = 0
    /// Bytes that were kept and not yet given back as credit.
    private var owed: UInt64 = 0
    /// Logs of one HEADS.
    private var headsMax = WireLimits.headsMax
    private let limits: HubSession.Limits

    package static let window: UInt64 = 8 << 20

    package init(at now: Instant, seed: UInt64, limits: HubSession.Limits = HubSession.Limits()) {
        began = now
        heard = now
        progressed = now
        asked = now
        pingID = seed
        self.limits = limits
    }

    package var isOpen: Bool { state == .open }
    package var isClosed: Bool { state == .closed }
    package var mayPush: Bool { isOpen && pushCredit > 0 && unanswered < WireLimits.pushesMax }
    package var pushBytes: Int { Int(clamping: max(pushCredit, 0)) }

    package mutating func start(_ hello: Hello, at now: Instant) -> [Effect] {
        guard state == .idle else { return [] }
        state = .awaitingWelcome
        began = now
        offered = hello.versions
        (takesProgress, takesUnreadable) = (hello.takesProgress, hello.takesUnreadable)
        given = Int64(clamping: hello.credit)
        if hello.messageBytes > 0 { headsMax = WireLimits.logs(inMessagesOf: Int(clamping: hello.messageBytes)) }
        return [.send(.hello(hello))]
    }

    /// Bytes of a message have come that is not whole yet: on a slow line a large one may take longer than silence may last.
    package mutating func progress(at now: Instant) { progressed = now }

    package mutating func receive(_ bytes: [UInt8], at now: Instant) -> [Effect] {
        if isClosed { return [] }
        heard = now
        let frame: Frame
        do {
            frame = try Frame(decoding: bytes)
        } catch {
            return end(Bye(.protocolError, error.description))
        }
        switch (state, frame) {
        case (_, .bye(let bye)):
            state = .closed
            return [.ended(bye, byHub: true)]
        case (.awaitingWelcome, .ping(let id)), (.open, .ping(let id)): return pongs.take(at: now) ? [.send(.pong(id))] : []
        case (.open, .pong(let id)) where id == awaitedPong:
            awaitedPong = nil
            return [.answersPing]
        case (.awaitingWelcome, .pong), (.open, .pong): return []
        case (.awaitingWelcome, .welcome(let welcome)):
            guard offered.contains(welcome.version) else { return end(Bye(.unsupportedVersion, "the hub chose version \(welcome.version)")) }
            guard welcome.credit <= WireLimits.creditMax else { return end(Bye(.protocolError, "no such credit")) }
            state = .open
            heard = now
            pushCredit = Int64(welcome.credit)
            return [.welcomed(welcome), .mayPush]
        case (.open, .segment), (.open, .events), (.open, .base):
            guard given > 0 else { return end(Bye(.protocolError, "\(frame.name) beyond the credit")) }
            given -= Int64(bytes.count)
            return [.keep(frame, bytes: bytes.count)]
        case (.open, .accepted(let answers)): return [.answered(accepted: answers, refused: [])]
        case (.open, .refused(let answers)): return [.answered(accepted: [], refused: answers)]
        case (.open, .caughtUp(let caughtUp)): return [.caughtUp(caughtUp.cursor)]
        case (.open, .progress(let progress)) where takesProgress: return [.progressed(progress)]
        case (.open, .unreadable(let unreadable)) where takesUnreadable: return [.unreadable(unreadable)]
        case (.open, .heads(let heads)): return [.heads(heads)]
        case (.open, .repair(let repair)): return [.repair(repair)]
        case (.open, .typing(let typing)): return [.typing(typing)]
        case (.open, .credit(let more)):
            guard more <= WireLimits.creditMax, pushCredit <= Int64(WireLimits.creditMax) else { return end(Bye(.protocolError, "no such credit")) }
            pushCredit += Int64(more)
            unanswered = max(unanswered - 1, 0)
            return [.mayPush]
        default: return end(Bye(.protocolError, "\(frame.name) is not expected now"))
        }
    }

    /// Events were kept: the hub may send as many bytes more.
    package mutating func kept(bytes: Int) -> [Effect] {
        guard isOpen else { return [] }
        owed += UInt64(bytes)
        guard owed >= Self.window / 8 else { return [] }
        given += Int64(owed)
        defer { owed = 0 }
        return [.send(.credit(owed))]
    }

    package mutating func push(_ events: [PushedEvent]) -> [Effect] {
        guard isOpen, !events.isEmpty else { return [] }
        let frame = Frame.push(events)
        pushCredit -= Int64(frame.encoded().count)
        unanswered += 1
        return [.send(frame)]
    }

    package mutating func fetch(_ wishes: [Fetch]) -> [Effect] {
        guard isOpen else { return [] }
        let bases = Self.pieces(wishes.filter { $0.from == 0 }, WireLimits.basesMax)
        return (bases + Self.pieces(wishes.filter { $0.from > 0 }, WireLimits.fetchesMax)).map { .send(.fetch($0)) }
    }

    /// Asks what the bytes of damaged runs should be.
    package mutating func fetch(damaged: [DamagedRun]) -> [Effect] {
        guard isOpen else { return [] }
        return Self.pieces(damaged, WireLimits.damagedMax).map { .send(.fetch([], damaged: $0)) }
    }

    package mutating func compare(_ heads: HeadsFrame) -> [Effect] {
        guard isOpen else { return [] }
        var pieces = Self.pieces(heads.heads, headsMax)
        if pieces.isEmpty { pieces = [[]] }
        return pieces.enumerated().map { index, piece in
            .send(.heads(HeadsFrame(heads: piece, isProbe: heads.isProbe, isLast: heads.isLast && index == pieces.count - 1)))
        }
    }

    private static func pieces<Element>(_ all: [Element], _ most: Int) -> [[Element]] {
        stride(from: 0, to: all.count, by: most).map { Array(all[$0..<min($0 + most, all.count)]) }
    }

    /// Asks for a sign that all that was sent so far was read.
    package mutating func ping() -> [Effect] {
        guard isOpen else { return [] }
        pingID &+= 1
        awaitedPong = pingID
        return [.send(.ping(pingID))]
    }

    package mutating func renew(token: String) -> [Effect] { isOpen ? [.send(.token(token))] : [] }

    package mutating func typing(_ typing: Typing) -> [Effect] { isOpen ? [.send(.typing(typing))] : [] }

    package mutating func tick(at now: Instant) -> [Effect] {
        switch state {
        case .idle, .closed: return []
        case .awaitingWelcome:
            return
                now.milliseconds(since: began) >= limits.helloMilliseconds ? end(Bye(.timeout, "the hub did not answer HELLO in time")) : []
        case .open:
            let silence = now.milliseconds(since: heard)
            if silence >= limits.silenceMilliseconds, now.milliseconds(since: progressed) >= limits.silenceMilliseconds {
                return end(Bye(.timeout, "nothing was heard of the hub for too long"))
            }
            let pause = now.milliseconds(since: asked)
            guard silence >= limits.pingAfterMilliseconds, pause >= limits.pingAfterMilliseconds else { return [] }
            asked = now
            pingID &+= 1
            return [.send(.ping(pingID))]
        }
    }

    /// Ends the session from here.
    package mutating func end(_ bye: Bye) -> [Effect] {
        if isClosed { return [] }
        let wasStarted = state != .idle
        state = .closed
        return (wasStarted ? [.send(.bye(bye))] : []) + [.ended(bye, byHub: false)]
    }
}
