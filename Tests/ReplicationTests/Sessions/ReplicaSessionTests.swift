import EventLog
@testable import Replication
import Testing

@Suite("The replica's session") struct ReplicaSessionTests {
    @Test("HELLO, then WELCOME opens") func course() {
        var session = ReplicaSession(at: 0, seed: 1)
        let hello = FrameSamples.hello()
        #expect(session.start(hello, at: 0) == [.send(.hello(hello))])
        #expect(session.receive(Frame.welcome(FrameSamples.welcome).encoded(), at: 1) == [.welcomed(FrameSamples.welcome), .mayPush])
        #expect(session.isOpen && session.mayPush && session.pushBytes == 8 << 20)
    }

    @Test("a hub that chooses a version that was not offered is left", arguments: [0, 2, UInt32.max])
    func version(_ version: UInt32) {
        var welcome = FrameSamples.welcome
        welcome.version = version
        var session = ReplicaSessionState.awaitingWelcome.make()
        #expect(session.receive(Frame.welcome(welcome).encoded(), at: 0).bye?.code == .unsupportedVersion)
    }

    @Test("a hub that says nothing in time is left, whatever else it says") func lateWelcome() {
        var session = ReplicaSessionState.awaitingWelcome.make(at: 100)
        #expect(session.receive(Frame.ping(3).encoded(), at: 10_099) == [.send(.pong(3))])
        #expect(session.tick(at: 10_099).isEmpty)
        #expect(session.tick(at: 10_100).bye?.code == .timeout)
        var idle = ReplicaSessionState.idle.make()
        #expect(idle.tick(at: 1_000_000).isEmpty)
    }

    @Test("a silent hub is asked, then left") func silence() {
        var session = ReplicaSessionState.open.make()
        #expect(session.tick(at: 20_000).sent == [.ping(8)])
        #expect(session.tick(at: 40_000).sent == [.ping(9)])
        #expect(session.receive(Frame.pong(9).encoded(), at: 45_000).isEmpty)
        #expect(session.tick(at: 94_999).sent == [.ping(10)])
        #expect(session.tick(at: 95_000).bye?.code == .timeout)
    }

    @Test("a hub of which a large message comes slowly is not left, and asked all the same") func slowMessage() {
        var session = ReplicaSessionState.open.make()
        func at(_ milliseconds: UInt64) -> Instant { Instant(wallMilliseconds: milliseconds, monotonicMilliseconds: milliseconds) }
        for second in 1...200 as ClosedRange<UInt64> {
            session.progress(at: at(second * 1000))
            #expect(session.tick(at: at(second * 1000)).sent == (second % 20 == 0 ? [.ping(7 + second / 20)] : []))
        }
        #expect(session.tick(at: 249_999).bye == nil)
        #expect(session.tick(at: 250_000).bye?.code == .timeout)
    }

    @Test("a wall clock that is set forward or back changes no deadline", arguments: [0, 1_000_000_000, .max] as [UInt64])
    func clockSet(_ wall: UInt64) {
        var session = ReplicaSessionState.open.make(at: 500_000_000)
        #expect(session.tick(at: Instant(wallMilliseconds: wall, monotonicMilliseconds: 500_019_999)).isEmpty)
        #expect(session.tick(at: Instant(wallMilliseconds: wall, monotonicMilliseconds: 500_050_000)).bye?.code == .timeout)
        var waiting = ReplicaSessionState.awaitingWelcome.make(at: 500_000_000)
        #expect(waiting.tick(at: Instant(wallMilliseconds: wall, monotonicMilliseconds: 500_009_999)).isEmpty)
        #expect(waiting.tick(at: Instant(wallMilliseconds: wall, monotonicMilliseconds: 500_010_000)).bye?.code == .timeout)
    }

    @Test("what was kept is given back, in pieces") func credit() {
        var session = ReplicaSessionState.open.make()
        let piece = Int(ReplicaSession.window) / 8
        #expect(session.kept(bytes: piece - 1).isEmpty)
        #expect(session.kept(bytes: 1) == [.send(.credit(UInt64(piece)))])
        #expect(session.kept(bytes: 3 * piece) == [.send(.credit(UInt64(3 * piece)))])
        #expect(session.kept(bytes: 0).isEmpty)
    }

    @Test("a hub that sends beyond the credit is left; one frame may go beyond it") func overrun() {
        let frame = Frame.segment(SegmentFrame(run: [UInt8](repeating: 1, count: 5 << 20), logs: []))
        let bytes = frame.encoded()
        var session = ReplicaSessionState.open.make()
        #expect(session.receive(bytes, at: 0) == [.keep(frame, bytes: bytes.count)])
        #expect(session.receive(bytes, at: 0) == [.keep(frame, bytes: bytes.count)])
        var greedy = session
        #expect(greedy.receive(bytes, at: 0).bye?.code == .protocolError)
        #expect(session.kept(bytes: bytes.count).count == 1)
        #expect(session.receive(bytes, at: 0).bye == nil)
    }

    @Test("a PUSH takes from the hub's credit, which comes back with the answers") func pushing() {
        var welcome = FrameSamples.welcome
        welcome.credit = 1000
        var session = ReplicaSessionState.open.make(welcome)
        let events = [PushedEvent(envelope: [], body: [UInt8](repeating: 1, count: 2000), isFirstSending: true)]
        let bytes = Frame.push(events).encoded().count
        #expect(session.push(events) == [.send(.push(events))] && !session.mayPush && session.pushBytes == 0)
        #expect(session.receive(Frame.credit(UInt64(bytes)).encoded(), at: 0) == [.mayPush] && session.pushBytes == 1000)
        #expect(session.push([]).isEmpty)
    }

    @Test("so many PUSHes wait for their answers and no more, as a hub asks") func pushes() {
        var hub = HubState.open.make()
        var session = ReplicaSessionState.open.make()
        let events = [PushedEvent(envelope: [], body: [], isFirstSending: true)]
        var count = 0
        while session.mayPush {
            for frame in session.push(events).sent { #expect(hub.receive(frame.encoded(), at: 0).bye == nil) }
            count += 1
        }
        #expect(count == WireLimits.pushesMax)
        for frame in hub.pushed([], refused: [], bytes: Frame.push(events).encoded().count, at: 0).sent { _ = session.receive(frame.encoded(), at: 0) }
        #expect(session.mayPush)
    }

    @Test("credit that cannot be counted ends the session") func creditLimits() {
        var welcome = FrameSamples.welcome
        welcome.credit = WireLimits.creditMax + 1
        var session = ReplicaSessionState.awaitingWelcome.make()
        #expect(session.receive(Frame.welcome(welcome).encoded(), at: 0).bye?.code == .protocolError)
        session = ReplicaSessionState.open.make()
        #expect(session.receive(Frame.credit(.max).encoded(), at: 0).bye?.code == .protocolError)
        session = ReplicaSessionState.open.make()
        #expect(session.receive(Frame.credit(WireLimits.creditMax).encoded(), at: 0) == [.mayPush])
        #expect(session.receive(Frame.credit(1).encoded(), at: 0).bye?.code == .protocolError)
    }

    @Test("long FETCHes and HEADS go in pieces that a hub takes; the last of them says so") func pieces() {
        var hub = HubState.open.make()
        var session = ReplicaSessionState.open.make()
        let wishes = (0..<10_000).map { Fetch(log: .conversation(ConversationID(high: 1, low: $0)), from: 1, through: 0) }
        let fetches = session.fetch(wishes).sent
        let sent = fetches.flatMap { frame -> [Fetch] in if case .fetch(let wishes, _) = frame { wishes } else { [] } }
        #expect(fetches.count == 3 && sent == wishes)
        let items = (0..<3000).map { HeadsFrame.Item(log: .conversation(ConversationID(high: 1, low: $0)), head: FrameSamples.head) }
        let heads = session.compare(HeadsFrame(heads: items, isProbe: false, isLast: true)).sent
        #expect(heads.map { if case .heads(let heads) = $0 { heads.isLast } else { true } } == [false, false, true])
        for frame in fetches + heads { #expect(hub.receive(frame.encoded(), at: 0).bye == nil) }
        let bases = session.fetch((0..<40).map { Fetch(log: .conversation(ConversationID(high: 1, low: $0)), from: 0, through: 20) }).sent
        #expect(bases.count == 3)
        for frame in bases { #expect(hub.receive(frame.encoded(), at: 0).bye == nil) }
        #expect(session.fetch([]).isEmpty)
        #expect(session.compare(HeadsFrame(heads: [], isProbe: false, isLast: true)).sent == [.heads(HeadsFrame(heads: [], isProbe: false, isLast: true))])
    }

    @Test("the end that a replica says is said once") func ending() {
        var session = ReplicaSessionState.open.make()
        #expect(session.end(Bye(.forked)).bye == Bye(.forked))
        #expect(session.end(Bye(.normal)).isEmpty)
        var idle = ReplicaSessionState.idle.make()
        #expect(idle.end(Bye(.normal)) == [.ended(Bye(.normal), byHub: false)])
    }
}
