import EventLog
@testable import Replication
import Testing

@Suite("The hub's session") struct HubSessionTests {
    private static let user = FrameSamples.user

    private func begin(_ change: (inout Hello) -> Void) -> (session: HubSession, effects: [HubSession.Effect]) {
        var hello = FrameSamples.hello()
        change(&hello)
        var session = HubSession(at: 0, seed: 1)
        let effects = session.receive(Frame.hello(hello).encoded(), at: 0)
        return (session, effects)
    }

    @Test("HELLO, token, WELCOME, then the events that HELLO carried") func course() {
        var hello = FrameSamples.hello()
        hello.pushed = [FrameSamples.pushed("a", counter: 1)]
        var session = HubSession(at: 0, seed: 1)
        #expect(session.receive(Frame.hello(hello).encoded(), at: 0) == [.authenticate(token: "", claimed: Self.user)])
        let identity = Identity(user: Self.user)
        #expect(session.authenticated(.success(identity), at: 0) == [.begin(identity, hello)])
        #expect(!session.isOpen && !session.mayFeed)
        var welcome = FrameSamples.welcome
        welcome.credit = HubSession.pushCreditBytes
        #expect(session.welcome(FrameSamples.welcome, at: 0) == [.send(.welcome(welcome)), .push(hello.pushed, bytes: 0), .pump])
        #expect(session.isOpen && session.mayFeed && session.feedBytes == 8 << 20)
    }

    @Test("what comes with HELLO is left undecided where the cursor is gone, if the peer sends it again", arguments: [false, true])
    func sendsAgain(_ sendsAgain: Bool) {
        var gone = FrameSamples.welcome
        gone.isGone = true
        var session = begin {
            $0.pushed = [FrameSamples.pushed("hello", counter: 1)]
            $0.sendsAgain = sendsAgain
        }.session
        _ = session.authenticated(.success(Identity(user: Self.user)), at: 0)
        let effects = session.welcome(gone, at: 0)
        #expect(effects.contains { if case .push = $0 { true } else { false } } == !sendsAgain && effects.last == .pump)
    }

    // Beginning.

    @Test("versions meet in what both speak, or nowhere", arguments: [1...1, 1...9] as [ClosedRange<UInt32>])
    func versions(_ versions: ClosedRange<UInt32>) {
        #expect(begin { $0.versions = versions }.effects.bye == nil)
    }

    @Test("a peer of versions that this hub does not speak is told so", arguments: [2...2, 2...UInt32.max])
    func newer(_ versions: ClosedRange<UInt32>) {
        #expect(begin { $0.versions = versions }.effects.bye == Bye(.unsupportedVersion, "this hub speaks versions 1 to 1"))
    }

    @Test("a peer of other versions is told so though it asks for what only these know") func newerScope() throws {
        for (versions, code) in [(2...3, Bye.Code.unsupportedVersion), (1...3, .protocolError)] as [(ClosedRange<UInt32>, Bye.Code)] {
            var bytes = Frame.hello(FrameSamples.hello(versions: versions, scope: .everything)).encoded()
            let scope = try #require((0..<bytes.count - 3).first { Array(bytes[$0..<$0 + 4]) == [0x42, 2, 8, 1] })
            bytes[scope + 3] = 9
            var session = HubState.awaitingHello.make()
            #expect(session.receive(bytes, at: 0).bye?.code == code)
        }
    }

    @Test("HELLO gives credit for one largest event at least, and for what can be counted at most")
    func credit() {
        for bad in [0, WireLimits.creditMin - 1, WireLimits.creditMax + 1, .max] { #expect(begin { $0.credit = bad }.effects.bye?.code == .protocolError) }
        for good in [WireLimits.creditMin, WireLimits.creditMax] { #expect(begin { $0.credit = good }.effects.bye == nil) }
    }

    @Test("HELLO carries so many events and no more, or one of any size") func helloEvents() {
        func event(_ bytes: Int) -> PushedEvent { PushedEvent(envelope: [], body: [UInt8](repeating: 1, count: bytes), isFirstSending: true) }
        let most = WireLimits.helloPushBytesMax
        #expect(begin { $0.pushed = [event(most / 2), event(most / 2)] }.effects.bye == nil)
        #expect(begin { $0.pushed = [event(most / 2), event(most / 2 + 1)] }.effects.bye?.code == .protocolError)
        #expect(begin { $0.pushed = [event(4 << 20)] }.effects.bye == nil)
        #expect(begin { $0.pushed = Array(repeating: event(0), count: WireLimits.pushEventsMax) }.effects.bye == nil)
        #expect(begin { $0.pushed = Array(repeating: event(0), count: WireLimits.pushEventsMax + 1) }.effects.bye?.code == .protocolError)
    }

    @Test("a replica's id is its user's and nonce's, and its token's") func replicaID() {
        func answer(_ identity: Identity, _ change: (inout Hello) -> Void) -> Bye? {
            var session = begin(change).session
            return session.authenticated(.success(identity), at: 0).bye
        }
        let mine = Identity(user: Self.user), other = Identity(user: UserID("eve")!)
        #expect(answer(mine) { _ in } == nil)
        #expect(answer(mine) { $0.nonce[0] ^= 1 }?.code == .forbidden)
        #expect(answer(mine) { $0.replica = ReplicaID(high: 1, low: 2) }?.code == .forbidden)
        // Another's replica, with one's own token; one's own replica, with another's.
        #expect(answer(other) { _ in }?.code == .forbidden)
        #expect(answer(other) { $0.user = other.user }?.code == .forbidden)
        #expect(answer(mine) { $0.scope = .everything }?.code == .forbidden)
        #expect(answer(Identity(user: Self.user, isService: true)) { $0.scope = .everything } == nil)
    }

    @Test("a token that is not taken ends the session, and says whether a new one would do") func badToken() {
        var session = HubState.authenticating.make()
        #expect(session.authenticated(.failure(AuthenticationFailure()), at: 0).bye == Bye(.unauthenticated, "the token is not valid"))
        session = HubState.authenticating.make()
        #expect(session.authenticated(.failure(AuthenticationFailure(isExpired: true)), at: 0).bye?.code == .tokenExpired)
    }

    // Deadlines.

    @Test("a session that does not begin in time ends, whatever else the peer says", arguments: [HubState.awaitingHello, .authenticating, .beginning])
    func lateHello(_ state: HubState) {
        var session = state.make(at: 5000)
        #expect(session.tick(at: 14_999).isEmpty)
        // A stranger that only pings does not stay.
        if state != .awaitingHello { #expect(session.receive(Frame.ping(1).encoded(), at: 14_999) == [.send(.pong(1))]) }
        #expect(session.tick(at: 15_000).bye?.code == .timeout)
        #expect(session.isClosed)
    }

    @Test("a silent peer is asked, then given up; one that answers stays") func silence() {
        var session = HubState.open.make()
        #expect(session.tick(at: 19_999).isEmpty)
        #expect(session.tick(at: 20_000).sent == [.ping(8)])
        #expect(session.tick(at: 21_000).isEmpty)
        #expect(session.tick(at: 40_000).sent == [.ping(9)])
        #expect(session.tick(at: 49_999).isEmpty)
        var quiet = session
        #expect(quiet.tick(at: 50_000).bye?.code == .timeout)
        #expect(session.receive(Frame.pong(9).encoded(), at: 49_999).isEmpty)
        #expect(session.tick(at: 50_000).isEmpty)
        #expect(session.tick(at: 69_999).sent == [.ping(10)])
    }

    @Test("a peer of which a large message comes slowly stays, and is asked all the same") func slowMessage() {
        var session = HubState.open.make()
        func at(_ milliseconds: UInt64) -> Instant { Instant(wallMilliseconds: milliseconds, monotonicMilliseconds: milliseconds) }
        for second in 1...200 as ClosedRange<UInt64> {
            session.progress(at: at(second * 1000))
            #expect(session.tick(at: at(second * 1000)).sent == (second % 20 == 0 ? [.ping(7 + second / 20)] : []))
        }
        #expect(session.tick(at: 249_999).bye == nil)
        #expect(session.tick(at: 250_000).bye?.code == .timeout)
        // Not before it has said who it is.
        var stranger = HubState.awaitingHello.make()
        stranger.progress(at: at(9999))
        #expect(stranger.tick(at: 10_000).bye?.code == .timeout)
    }

    @Test("a wall clock that is set forward or back changes no deadline", arguments: [0, 1_000_000_000, .max] as [UInt64])
    func clockSet(_ wall: UInt64) {
        func later(_ milliseconds: UInt64) -> Instant { Instant(wallMilliseconds: wall, monotonicMilliseconds: milliseconds) }
        var session = HubState.open.make(at: 500_000_000)
        #expect(session.tick(at: later(500_019_999)).isEmpty)
        #expect(session.tick(at: later(500_020_000)).sent == [.ping(8)])
        #expect(session.tick(at: later(500_049_000)).sent == [.ping(9)])
        #expect(session.tick(at: later(500_050_000)).bye?.code == .timeout)
        var early = HubState.awaitingHello.make(at: 500_000_000)
        #expect(early.tick(at: later(500_009_999)).isEmpty)
        #expect(early.tick(at: later(500_010_000)).bye?.code == .timeout)
        // A token ends by the wall clock: it was made by another machine.
        var expiring = HubState.open.make(at: 500_000_000, expiresAt: 600_000_000)
        #expect((expiring.tick(at: later(500_000_001)).bye?.code == .tokenExpired) == (wall >= 600_000_000))
    }

    @Test("PINGs are answered, but not more than ten a second") func pings() {
        var session = HubState.open.make()
        var pongs = 0
        for id in 0..<1000 as Range<UInt64> { pongs += session.receive(Frame.ping(id).encoded(), at: 500).count }
        #expect(pongs == 10 && !session.isClosed)
        #expect(session.receive(Frame.ping(5).encoded(), at: 1000) == [.send(.pong(5))])
    }

    // Tokens.

    @Test("a token that runs out ends the session; one that was renewed does not") func expiry() {
        var session = HubState.open.make(expiresAt: 5000)
        #expect(session.tick(at: 4999).isEmpty)
        var late = session
        #expect(late.tick(at: 5000).bye?.code == .tokenExpired)
        #expect(session.receive(Frame.token("new").encoded(), at: 4000) == [.authenticate(token: "new", claimed: Self.user)])
        #expect(session.authenticated(.success(Identity(user: Self.user, expiresAt: 9000)), at: 4001).isEmpty)
        #expect(session.tick(at: 5000).isEmpty)
        #expect(session.tick(at: 9000).bye?.code == .tokenExpired)
    }

    @Test("of tokens that come while one is checked, the newest counts") func tokens() {
        var session = HubState.open.make()
        #expect(session.receive(Frame.token("one").encoded(), at: 0).count == 1)
        #expect(session.receive(Frame.token("two").encoded(), at: 0).isEmpty && session.receive(Frame.token("three").encoded(), at: 0).isEmpty)
        let identity = Identity(user: Self.user)
        #expect(session.authenticated(.success(identity), at: 0) == [.authenticate(token: "three", claimed: Self.user)])
        #expect(session.authenticated(.success(identity), at: 0).isEmpty)
        #expect(session.receive(Frame.token(String(repeating: "t", count: 16_385)).encoded(), at: 0).bye?.code == .protocolError)
    }

    @Test("a new token is the same user's, and allows what it allows") func otherToken() {
        var session = HubState.refreshing.make()
        #expect(session.authenticated(.success(Identity(user: UserID("eve")!)), at: 0).bye?.code == .forbidden)
        session = HubState.refreshing.make()
        #expect(session.authenticated(.failure(AuthenticationFailure(isExpired: true)), at: 0).bye?.code == .tokenExpired)
        session = HubState.refreshing.make(FrameSamples.hello(scope: .everything), isService: true)
        var demoted = session
        #expect(demoted.authenticated(.success(Identity(user: Self.user)), at: 0).bye?.code == .forbidden)
        #expect(session.authenticated(.success(Identity(user: Self.user, isService: true)), at: 0).isEmpty)
    }

    // Credit.

    @Test("events are sent as long as there is credit: one frame may go beyond it") func feeding() {
        var hello = FrameSamples.hello()
        hello.credit = WireLimits.creditMin
        var session = HubState.open.make(hello)
        session.fed(bytes: Int(WireLimits.creditMin) - 1)
        #expect(session.mayFeed && session.feedBytes == 1)
        session.fed(bytes: 4 << 20)
        #expect(!session.mayFeed && session.feedBytes == 0)
        // Still below: nothing is pumped.
        #expect(session.receive(Frame.credit(3 << 20).encoded(), at: 0).isEmpty && !session.mayFeed)
        #expect(session.receive(Frame.credit(2 << 20).encoded(), at: 0) == [.pump] && session.mayFeed)
        #expect(session.receive(Frame.credit(1).encoded(), at: 0).isEmpty)
    }

    @Test("credit that cannot be counted ends the session; what comes before WELCOME counts") func creditLimits() {
        var session = HubState.open.make()
        #expect(session.receive(Frame.credit(WireLimits.creditMax + 1).encoded(), at: 0).bye?.code == .protocolError)
        session = HubState.open.make()
        #expect(session.receive(Frame.credit(WireLimits.creditMax).encoded(), at: 0).isEmpty)
        #expect(session.receive(Frame.credit(WireLimits.creditMax).encoded(), at: 0).isEmpty)
        // However much it is: what is not taken waits here.
        #expect(session.feedBytes == Int(HubSession.creditMax))
        session = HubState.authenticating.make()
        #expect(session.receive(Frame.credit(5).encoded(), at: 0).isEmpty)
        _ = session.authenticated(.success(Identity(user: Self.user)), at: 0)
        _ = session.welcome(FrameSamples.welcome, at: 0)
        #expect(session.feedBytes == 8 << 20 + 5)
    }

    @Test("a PUSH beyond the credit ends the session; what is answered comes back") func pushCredit() {
        var session = HubState.open.make()
        let large = Frame.push([PushedEvent(envelope: [], body: [UInt8](repeating: 1, count: 4 << 20), isFirstSending: true)])
        let bytes = large.encoded().count
        guard case .push(_, let counted)? = session.receive(large.encoded(), at: 0).first else {
            Issue.record("not taken")
            return
        }
        #expect(counted == bytes)
        // One message may go beyond what is left.
        #expect(session.receive(large.encoded(), at: 0).bye == nil)
        var greedy = session
        #expect(greedy.receive(large.encoded(), at: 0).bye?.code == .protocolError)
        #expect(session.pushed([], refused: [], bytes: bytes, at: 0) == [.send(.credit(UInt64(bytes)))])
        #expect(session.receive(large.encoded(), at: 0).bye == nil)
    }

    @Test("PUSHes without an end, or of nothing, or of too much, end the session") func pushLimits() {
        var session = HubState.open.make()
        let small = Frame.push([PushedEvent(envelope: [], body: [], isFirstSending: false)]).encoded()
        for _ in 0..<WireLimits.pushesMax { #expect(session.receive(small, at: 0).bye == nil) }
        #expect(session.pushed([], refused: [], bytes: small.count, at: 0).sent == [.credit(UInt64(small.count))])
        #expect(session.receive(small, at: 0).bye == nil)
        #expect(session.receive(small, at: 0).bye?.code == .protocolError)
        session = HubState.open.make()
        #expect(session.receive(Frame.push([]).encoded(), at: 0).bye?.code == .protocolError)
        session = HubState.open.make()
        let event = PushedEvent(envelope: [], body: [], isFirstSending: false)
        #expect(session.receive(Frame.push(Array(repeating: event, count: 4097)).encoded(), at: 0).bye?.code == .protocolError)
    }

    @Test("answers go out in order, then the credit; those of HELLO's events bring none") func answers() {
        var session = HubState.open.make()
        guard case .accepted(let accepted) = FrameSamples.named("ACCEPTED"), case .refused(let refused) = FrameSamples.named("REFUSED") else {
            Issue.record("samples")
            return
        }
        #expect(session.pushed(accepted, refused: refused, bytes: 0, at: 0).sent == [.accepted(accepted), .refused(refused)])
        _ = session.receive(Frame.push([FrameSamples.pushed("a", counter: 1)]).encoded(), at: 0)
        #expect(session.pushed([], refused: refused, bytes: 9, at: 0).sent == [.refused(refused), .credit(9)])
    }

    // The rest.

    @Test("FETCH and HEADS name so many logs and no more") func logs() {
        func fetch(_ count: Int, from seq: Seq) -> Bye? {
            var session = HubState.open.make()
            return session.receive(Frame.fetch(Array(repeating: Fetch(log: .user(Self.user), from: seq, through: 0), count: count)).encoded(), at: 0).bye
        }
        #expect(fetch(4096, from: 1) == nil && fetch(4097, from: 1)?.code == .protocolError)
        #expect(fetch(16, from: 0) == nil && fetch(17, from: 0)?.code == .protocolError)
        func damaged(_ count: Int, spans: Int = 0) -> Bye? {
            var session = HubState.open.make()
            let span = EventSpan(log: .user(Self.user), firstSeq: 1, count: 1)
            let run = DamagedRun(log: span.log, seq: 1, position: 1, byteCount: 0, checks: [], spans: Array(repeating: span, count: spans))
            return session.receive(Frame.fetch([], damaged: Array(repeating: run, count: count)).encoded(), at: 0).bye
        }
        #expect(damaged(16) == nil && damaged(17)?.code == .protocolError)
        #expect(damaged(16, spans: 2048) == nil && damaged(1, spans: 2049)?.code == .protocolError)
        func heads(_ count: UInt64, of different: UInt64 = .max) -> Bye? {
            var session = HubState.open.make()
            let items = (0..<count).map { number in
                HeadsFrame.Item(log: .conversation(ConversationID(high: 1, low: number % different)), head: FrameSamples.head)
            }
            return session.receive(Frame.heads(HeadsFrame(heads: items, isProbe: false)).encoded(), at: 0).bye
        }
        #expect(heads(1024) == nil && heads(1025)?.code == .protocolError)
        #expect(heads(2) == nil && heads(2, of: 1)?.code == .protocolError)
    }

    @Test("nobody types for another, nor too fast; a service may") func typing() {
        let eve = UserID("eve")!
        let frame = Frame.typing(Typing(conversation: FrameSamples.conversation, user: eve, isTyping: true))
        var session = HubState.open.make()
        #expect(session.receive(frame.encoded(), at: 0) == [.typing(Typing(conversation: FrameSamples.conversation, user: Self.user, isTyping: true))])
        var passed = 0
        for _ in 0..<100 { passed += session.receive(frame.encoded(), at: 1000).count }
        #expect(passed == 10 && session.isOpen)
        var service = HubState.open.make(isService: true)
        for _ in 0..<100 { #expect(service.receive(frame.encoded(), at: 0).count == 1) }
        #expect(service.receive(frame.encoded(), at: 0) == [.typing(Typing(conversation: FrameSamples.conversation, user: eve, isTyping: true))])
    }
}
