import EventLog
@testable import Replication
import Testing

/// Each state with each frame, as docs/PROTOCOL.md, "States", has them.
@Suite("States and frames") struct StateTableTests {
    private static let early: Set<String> = ["PING", "PONG", "BYE", "CREDIT"]
    private static let hubTakes: [HubState: Set<String>] = [
        .awaitingHello: ["HELLO", "BYE"], .authenticating: early, .beginning: early,
        .open: early.union(["PUSH", "FETCH", "HEADS", "TYPING", "TOKEN"]), .refreshing: early.union(["PUSH", "FETCH", "HEADS", "TYPING", "TOKEN"]),
    ]
    private static let replicaTakes: [ReplicaSessionState: Set<String>] = [
        .idle: ["BYE"], .awaitingWelcome: ["WELCOME", "PING", "PONG", "BYE"],
        .open: [
            "ACCEPTED", "REFUSED", "SEGMENT", "EVENTS", "BASE", "HEADS", "CAUGHT_UP", "CREDIT", "TYPING", "PING", "PONG", "BYE", "REPAIR", "PROGRESS",
            "UNREADABLE",
        ],
    ]

    /// Credit that may be given, and no more; the rest as it comes.
    private static let frames = FrameSamples.kinds

    @Test("there is a frame of each kind") func kinds() { #expect(Self.frames.count == 20) }

    @Test("a hub takes what its state allows; anything else ends the session", arguments: HubState.allCases)
    func hub(_ state: HubState) {
        for frame in Self.frames {
            var session = state.make()
            let effects = session.receive(frame.encoded(), at: 1)
            if state == .closed {
                #expect(effects.isEmpty, "\(frame.name)")
            } else if Self.hubTakes[state]!.contains(frame.name) {
                #expect(effects.bye == nil, "\(frame.name)")
                #expect(session.isClosed == (frame.name == "BYE"), "\(frame.name)")
            } else {
                #expect(effects.bye == Bye(.protocolError, "\(frame.name) is not expected now"), "\(frame.name)")
                #expect(session.isClosed, "\(frame.name)")
            }
        }
    }

    @Test("a replica takes what its state allows; anything else ends the session", arguments: ReplicaSessionState.allCases)
    func replica(_ state: ReplicaSessionState) {
        for frame in Self.frames {
            var session = state.make()
            let effects = session.receive(frame.encoded(), at: 1)
            let wrong = Bye(.protocolError, "\(frame.name) is not expected now")
            if state == .closed {
                #expect(effects.isEmpty, "\(frame.name)")
            } else if Self.replicaTakes[state]!.contains(frame.name) {
                #expect(effects.bye == nil, "\(frame.name)")
                #expect(session.isClosed == (frame.name == "BYE"), "\(frame.name)")
            } else if state == .idle {
                // Nothing was said yet: nothing is said.
                #expect(effects == [.ended(wrong, byHub: false)], "\(frame.name)")
            } else {
                #expect(effects.bye == wrong && session.isClosed, "\(frame.name)")
            }
        }
    }

    @Test("what is no frame ends a session in any state", arguments: [[], [0xFF], [0x52, 0x01], [UInt8](repeating: 0x80, count: 40)] as [[UInt8]])
    func garbage(_ bytes: [UInt8]) {
        for state in HubState.allCases where state != .closed {
            var session = state.make()
            #expect(session.receive(bytes, at: 1).bye?.code == .protocolError)
        }
        for state in ReplicaSessionState.allCases where state != .closed {
            var session = state.make()
            guard case .ended(let bye, byHub: false)? = session.receive(bytes, at: 1).last else {
                Issue.record("\(state) goes on")
                continue
            }
            #expect(bye.code == .protocolError)
        }
    }

    @Test("a BYE is answered with nothing") func bye() {
        for state in HubState.allCases where state != .closed {
            var session = state.make()
            #expect(session.receive(Frame.bye(Bye(.normal)).encoded(), at: 1) == [.close(Bye(.normal))])
        }
        for state in ReplicaSessionState.allCases where state != .closed {
            var session = state.make()
            let bye = Bye(.overloaded, "later", retryAfterMilliseconds: 5)
            #expect(session.receive(Frame.bye(bye).encoded(), at: 1) == [.ended(bye, byHub: true)])
        }
    }

    @Test("nothing is sent behind the end of a session") func afterEnd() {
        var hub = HubState.closed.make()
        #expect(hub.tick(at: 1_000_000).isEmpty && hub.end(Bye(.goingAway)).isEmpty && hub.end(nil).isEmpty)
        #expect(hub.authenticated(.success(Identity(user: FrameSamples.user)), at: 1).isEmpty && hub.welcome(FrameSamples.welcome, at: 1).isEmpty)
        #expect(hub.pushed([], refused: [], bytes: 10, at: 1).isEmpty && !hub.mayFeed && hub.isClosed)
        hub.fed(bytes: 1)
        var replica = ReplicaSessionState.closed.make()
        #expect(replica.tick(at: 1_000_000).isEmpty && replica.end(Bye(.normal)).isEmpty && replica.start(FrameSamples.hello(), at: 1).isEmpty)
        #expect(replica.push([FrameSamples.pushed("a", counter: 1)]).isEmpty && replica.kept(bytes: 8 << 20).isEmpty && replica.renew(token: "t").isEmpty)
        #expect(replica.fetch([Fetch(log: .user(FrameSamples.user), from: 1, through: 0)]).isEmpty && !replica.mayPush)
        #expect(replica.compare(HeadsFrame(heads: [], isProbe: false, isLast: true)).isEmpty)
        #expect(replica.typing(Typing(conversation: FrameSamples.conversation, user: FrameSamples.user, isTyping: true)).isEmpty)
    }

    @Test("a replica that has not begun, or not been answered, sends nothing else") func beforeWelcome() {
        for state in [ReplicaSessionState.idle, .awaitingWelcome] {
            var session = state.make()
            #expect(session.push([FrameSamples.pushed("a", counter: 1)]).isEmpty && session.kept(bytes: 8 << 20).isEmpty)
            #expect(session.renew(token: "t").isEmpty && session.compare(HeadsFrame(heads: [], isProbe: false)).isEmpty && !session.mayPush)
        }
        var session = ReplicaSessionState.awaitingWelcome.make()
        #expect(session.start(FrameSamples.hello(), at: 0).isEmpty)
    }

    @Test("answers of engines that come in the wrong state do nothing") func lateAnswers() {
        for state in HubState.allCases where state != .beginning {
            var session = state.make()
            #expect(session.welcome(FrameSamples.welcome, at: 1).isEmpty)
        }
        for state in HubState.allCases where ![.authenticating, .refreshing].contains(state) {
            var session = state.make()
            #expect(session.authenticated(.failure(AuthenticationFailure()), at: 1).isEmpty, "\(state)")
        }
    }
}
