package import EventLog

/// The hub's end of a session as a value: frames, answers and the time go in, what is to be done comes out. No socket, disk, clock or thread.
///
/// docs/PROTOCOL.md has the table of its states and frames.
package struct HubSession: Sendable {
    package enum Effect: Hashable, Sendable {
        case send(Frame)
        /// Check a token; answer with ``authenticated(_:at:)``.
        case authenticate(token: String, claimed: UserID)
        /// The peer is whom it says: find what it lacks and answer with ``welcome(_:at:)``.
        case begin(Identity, Hello)
        /// Decide these events, in order; answer with ``pushed(_:refused:bytes:at:)``.
        case push([PushedEvent], bytes: Int)
        case fetch([Fetch], damaged: [DamagedRun])
        case compare(HeadsFrame)
        case typing(Typing)
        /// More may be sent: at least this call found credit where there was none.
        case pump
        case close(Bye)
    }

    private enum State: Sendable {
        case awaitingHello
        case authenticating(Hello)
        case beginning(Hello)
        case open
        case closed
    }

    private var state = State.awaitingHello
    private var identity: Identity?
    private var seesEverything = false
    private var isRefreshing = false
    /// Came while another was being checked.
    private var nextToken: String?
    /// When the peer came, when something was last heard of it, and when it was last asked.
    private let came: Instant
    private var heard: Instant
    /// When bytes of a message last came that was not whole.
    private var progressed: Instant
    private var asked: Instant
    private var pingID: UInt64
    private var pongs = Allowance()
    private var typings = Allowance()
    /// Bytes of events that may be sent; below zero after a single event larger than what was left.
    private var credit: Int64 = 0
    /// In all, of what the peer has kept.
    package private(set) var creditGivenBack: UInt64 = 0
    private var isStarved = false
    /// Bytes of PUSH that the peer may still send.
    private var pushCredit = Int64(Self.pushCreditBytes)
    /// PUSHes that are not answered.
    private var unanswered = 0
    private let limits: Limits

    package struct Limits: Sendable {
        package var helloMilliseconds: UInt64 = 10_000
        package var pingAfterMilliseconds: UInt64 = 20_000
        package var silenceMilliseconds: UInt64 = 50_000
        package init() {}
    }

    package static let pushCreditBytes: UInt64 = 8 << 20
    /// However much a peer gives: what is sent and not taken waits in this process.
    static let creditMax: UInt64 = 16 << 20

    /// - Parameter seed: for what must differ from session to session; all randomness there is.
    package init(at now: Instant, seed: UInt64, limits: Limits = Limits()) {
        came = now
        heard = now
        progressed = now
        asked = now
        pingID = seed
        self.limits = limits
    }

    package var isOpen: Bool { if case .open = state { true } else { false } }
    package var isClosed: Bool { if case .closed = state { true } else { false } }
    package var who: Identity? { identity }
    /// Whether events may be sent now.
    package var mayFeed: Bool { isOpen && credit > 0 }
    /// The most that the next frame of events should have.
    package var feedBytes: Int { Int(clamping: max(credit, 0)) }

    // In.

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
        case (.awaitingHello, .hello(let hello)): return take(hello)
        case (_, .bye): return end(nil)
        case (.authenticating, .ping(let id)), (.beginning, .ping(let id)), (.open, .ping(let id)):
            return pongs.take(at: now) ? [.send(.pong(id))] : []
        case (.authenticating, .pong), (.beginning, .pong), (.open, .pong): return []
        case (.authenticating, .credit(let more)), (.beginning, .credit(let more)), (.open, .credit(let more)): return take(credit: more)
        case (.open, .push(let events)): return take(events, bytes.count)
        case (.open, .fetch(let wishes, let damaged)):
            let bases = wishes.count { $0.from == 0 }
            guard wishes.count <= WireLimits.fetchesMax, bases <= WireLimits.basesMax else {
                return end(Bye(.protocolError, "a FETCH of \(wishes.count) logs, \(bases) of them from 0"))
            }
            guard damaged.count <= WireLimits.damagedMax else { return end(Bye(.protocolError, "a FETCH of \(damaged.count) damaged runs")) }
            if let run = damaged.first(where: { $0.spans.count > WireLimits.spansMax }) {
                return end(Bye(.protocolError, "a FETCH of a damaged run of \(run.spans.count) spans"))
            }
            return [.fetch(wishes, damaged: damaged)]
        case (.open, .heads(let heads)):
            guard heads.heads.count <= WireLimits.headsMax else { return end(Bye(.protocolError, "HEADS of \(heads.heads.count) logs")) }
            // Each of its heads may cost the hashing of its log.
            guard Set(heads.heads.map(\.log)).count == heads.heads.count else { return end(Bye(.protocolError, "HEADS name a log twice")) }
            return [.compare(heads)]
        case (.open, .typing(let typing)): return take(typing, at: now)
        case (.open, .token(let token)): return take(token: token)
        default: return end(Bye(.protocolError, "\(frame.name) is not expected now"))
        }
    }

    package mutating func authenticated(_ result: Result<Identity, AuthenticationFailure>, at now: Instant) -> [Effect] {
        if isRefreshing { return refreshed(result) }
        guard case .authenticating(let hello) = state else { return [] }
        switch result {
        case .success(let identity):
            guard identity.user == hello.user else { return end(Bye(.forbidden, "the token is not of the user whom HELLO names")) }
            seesEverything = hello.scope == .everything
            guard identity.isService || !seesEverything else { return end(Self.notService) }
            guard Replicas.id(user: identity.user, nonce: hello.nonce) == hello.replica else {
                return end(Bye(.forbidden, "the replica's id is not made of its user and nonce"))
            }
            self.identity = identity
            state = .beginning(hello)
            return [.begin(identity, hello)]
        case .failure(let failure): return end(Self.bye(failure))
        }
    }

    private mutating func refreshed(_ result: Result<Identity, AuthenticationFailure>) -> [Effect] {
        isRefreshing = false
        guard isOpen, let old = identity else { return [] }
        switch result {
        case .success(let new):
            guard new.user == old.user else { return end(Bye(.forbidden, "the new token is another user's")) }
            // What the old token allowed ends with it.
            guard new.isService || !seesEverything else { return end(Self.notService) }
            identity = new
            guard let token = nextToken else { return [] }
            nextToken = nil
            return take(token: token)
        case .failure(let failure): return end(Self.bye(failure))
        }
    }

    private static let notService = Bye(.forbidden, "only a service account may follow everything")

    /// The answer to `begin`: from here on events may be sent.
    package mutating func welcome(_ welcome: Welcome, at now: Instant) -> [Effect] {
        guard case .beginning(let hello) = state else { return [] }
        state = .open
        var welcome = welcome
        welcome.credit = Self.pushCreditBytes
        var effects: [Effect] = [.send(.welcome(welcome))]
        // What it offers of a past that this hub lost must come before what rests on that.
        if !hello.pushed.isEmpty, !welcome.isGone || !hello.sendsAgain { effects.append(.push(hello.pushed, bytes: 0)) }
        effects.append(.pump)
        return effects
    }

    /// The answer to `push`: its events are decided, and what was accepted is durable.
    package mutating func pushed(_ accepted: [Accepted], refused: [Refused], bytes: Int, at now: Instant) -> [Effect] {
        guard isOpen else { return [] }
        var effects: [Effect] = []
        if !accepted.isEmpty, !PlantedBug.dropAcknowledgement.isPlanted { effects.append(.send(.accepted(accepted))) }
        if !refused.isEmpty { effects.append(.send(.refused(refused))) }
        if bytes > 0 {
            unanswered -= 1
            pushCredit += Int64(bytes)
            effects.append(.send(.credit(UInt64(bytes))))
        }
        return effects
    }

    /// A frame of events is about to be sent.
    package mutating func fed(bytes: Int) {
        credit -= Int64(bytes)
        if credit <= 0 { isStarved = true }
    }

    package mutating func tick(at now: Instant) -> [Effect] {
        switch state {
        case .closed: return []
        case .awaitingHello, .authenticating, .beginning:
            return now.milliseconds(since: came) >= limits.helloMilliseconds ? end(Bye(.timeout, "the session did not begin in time")) : []
        case .open:
            if let expiry = identity?.expiresAt, now.wallMilliseconds >= expiry { return end(Bye(.tokenExpired, "the token has expired")) }
            let silence = now.milliseconds(since: heard)
            if silence >= limits.silenceMilliseconds, now.milliseconds(since: progressed) >= limits.silenceMilliseconds {
                return end(Bye(.timeout, "nothing was heard for too long"))
            }
            let pause = now.milliseconds(since: asked)
            guard silence >= limits.pingAfterMilliseconds, pause >= limits.pingAfterMilliseconds else { return [] }
            asked = now
            pingID &+= 1
            return [.send(.ping(pingID))]
        }
    }

    /// Ends the session from the hub's side.
    package mutating func end(_ bye: Bye?) -> [Effect] {
        if isClosed { return [] }
        state = .closed
        guard let bye else { return [.close(Bye(.normal))] }
        return [.send(.bye(bye)), .close(bye)]
    }

    // Frames.

    private mutating func take(_ hello: Hello) -> [Effect] {
        guard hello.versions.overlaps(WireLimits.versions) else {
            return end(Bye(.unsupportedVersion, "this hub speaks versions \(WireLimits.versions.lowerBound) to \(WireLimits.versions.upperBound)"))
        }
        guard WireLimits.creditMin...WireLimits.creditMax ~= hello.credit else {
            return end(Bye(.protocolError, "credit must be \(WireLimits.creditMin) to \(WireLimits.creditMax) bytes"))
        }
        let bytes = hello.pushed.reduce(0) { $0 + $1.envelope.count + $1.body.count }
        // A single event may be larger: it would have to wait else.
        guard hello.pushed.count <= 1 || bytes <= WireLimits.helloPushBytesMax && hello.pushed.count <= WireLimits.pushEventsMax else {
            return end(Bye(.protocolError, "HELLO carries too many events"))
        }
        credit = Int64(min(hello.credit, Self.creditMax))
        state = .authenticating(hello)
        return [.authenticate(token: hello.token, claimed: hello.user)]
    }

    private mutating func take(_ events: [PushedEvent], _ bytes: Int) -> [Effect] {
        guard 1...WireLimits.pushEventsMax ~= events.count else { return end(Bye(.protocolError, "a PUSH of \(events.count) events")) }
        guard pushCredit > 0, unanswered < WireLimits.pushesMax else { return end(Bye(.protocolError, "a PUSH beyond the credit")) }
        pushCredit -= Int64(bytes)
        unanswered += 1
        return [.push(events, bytes: bytes)]
    }

    private mutating func take(credit more: UInt64) -> [Effect] {
        guard more <= WireLimits.creditMax else { return end(Bye(.protocolError, "no such credit")) }
        credit = min(credit + Int64(more), Int64(Self.creditMax))
        creditGivenBack &+= more
        guard isStarved, credit > 0 else { return [] }
        isStarved = false
        return isOpen ? [.pump] : []
    }

    private mutating func take(_ typing: Typing, at now: Instant) -> [Effect] {
        guard let identity else { return [] }
        // A service types for many.
        if identity.isService { return [.typing(typing)] }
        guard typings.take(at: now) else { return [] }
        var typing = typing
        // Nobody types for another.
        typing.user = identity.user
        return [.typing(typing)]
    }

    private mutating func take(token: String) -> [Effect] {
        guard let identity else { return [] }
        guard token.utf8.count <= WireLimits.tokenBytesMax else { return end(Bye(.protocolError, "a TOKEN of \(token.utf8.count) bytes")) }
        // Who sends one cannot know whether the last was checked: the newest counts.
        guard !isRefreshing else {
            nextToken = token
            return []
        }
        isRefreshing = true
        return [.authenticate(token: token, claimed: identity.user)]
    }

    private static func bye(_ failure: AuthenticationFailure) -> Bye {
        failure.isExpired ? Bye(.tokenExpired, "the token has expired") : Bye(.unauthenticated, failure.reason)
    }
}

extension Frame {
    /// Its name in docs/PROTOCOL.md.
    package var name: String {
        switch self {
        case .hello: "HELLO"
        case .welcome: "WELCOME"
        case .push: "PUSH"
        case .accepted: "ACCEPTED"
        case .refused: "REFUSED"
        case .segment: "SEGMENT"
        case .events: "EVENTS"
        case .fetch: "FETCH"
        case .caughtUp: "CAUGHT_UP"
        case .credit: "CREDIT"
        case .typing: "TYPING"
        case .ping: "PING"
        case .pong: "PONG"
        case .bye: "BYE"
        case .token: "TOKEN"
        case .heads: "HEADS"
        case .base: "BASE"
        case .repair: "REPAIR"
        case .progress: "PROGRESS"
        case .unreadable: "UNREADABLE"
        }
    }
}
