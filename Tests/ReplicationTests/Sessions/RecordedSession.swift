import EventLog
@testable import Replication

/// A whole session between the two state machines, with the engines' parts said by heart: what goes over the wire is written down.
struct RecordedSession {
    private var hub = HubSession(at: 0, seed: 100)
    private var replica = ReplicaSession(at: 0, seed: 200)
    private var now: Instant = 0
    private(set) var messages: [FrameVectors.Session.Message] = []
    private var events: [EventsFrame.Item] = []
    private let cursor = FrameSamples.cursor

    static func run() throws -> FrameVectors.Session {
        var session = Self()
        session.play()
        return FrameVectors.Session(name: "a resume, a push, a live event, a silence, a new token, a fetch, an end", messages: session.messages)
    }

    private mutating func play() {
        var hello = FrameSamples.hello()
        (hello.token, hello.cursor) = ("ey.Jh.bG", cursor)
        (hello.checkpointSize, hello.checkpointRoot) = (12, FrameSamples.root)
        hello.pushed = [FrameSamples.pushed("written offline", counter: 1)]
        perform(replica.start(hello, at: now))
        now += 40
        // What the replica writes now, with the session open.
        perform(replica.push([FrameSamples.pushed("written online", counter: 2), FrameSamples.pushed("to nobody", counter: 3)]))
        now += 1000
        perform(replica.typing(Typing(conversation: FrameSamples.conversation, user: FrameSamples.user, isTyping: true)))
        // Another device's event, as it commits.
        feed(FrameSamples.item("from afar", counter: 9, seq: 72), through: cursor.position + 3)
        for _ in 0..<25 {
            now += 1000
            perform(hub.tick(at: now))
            perform(replica.tick(at: now))
        }
        perform(replica.renew(token: "ey.Kl.bG"))
        perform(replica.fetch([Fetch(log: .conversation(FrameSamples.conversation), from: 69, through: 69)]))
        now += 5
        perform(hub.end(Bye(.goingAway, "the hub is going away", retryAfterMilliseconds: 1000)))
    }

    private mutating func record(_ frame: Frame, from side: String) -> [UInt8] {
        let bytes = frame.encoded()
        messages.append(FrameVectors.Session.Message(from: side, kind: frame.kind, bytes: hex(bytes)))
        return bytes
    }

    /// The hub has events for the peer.
    private mutating func feed(_ item: EventsFrame.Item, through position: Position) {
        guard hub.mayFeed else { return }
        let frame = Frame.events(EventsFrame(items: [item], logs: [LogNote(log: .conversation(FrameSamples.conversation), head: FrameSamples.head)]))
        hub.fed(bytes: frame.encoded().count)
        perform([.send(frame)] as [HubSession.Effect])
        var cursor = cursor
        cursor.position = position
        perform([.send(.caughtUp(CaughtUp(cursor: cursor)))] as [HubSession.Effect])
    }

    private mutating func perform(_ effects: [HubSession.Effect]) {
        for effect in effects {
            switch effect {
            case .send(let frame): perform(replica.receive(record(frame, from: "hub"), at: now))
            case .authenticate(_, let claimed): perform(hub.authenticated(.success(Identity(user: claimed)), at: now))
            case .begin(_, let hello):
                var welcome = FrameSamples.welcome
                welcome.version = min(hello.versions.upperBound, WireLimits.versions.upperBound)
                perform(hub.welcome(welcome, at: now))
            case .push(let events, let bytes):
                var accepted: [Accepted] = []
                var refused: [Refused] = []
                for event in events {
                    let recorded = try! EventCodec.decode(envelope: event.envelope, body: event.body)
                    let counter = recorded.origin.counter
                    if counter == 3 {
                        refused.append(Refused(log: recorded.log, replica: recorded.origin.replica, counter: counter, code: "not_participant", detail: ""))
                    } else {
                        accepted.append(
                            Accepted(
                                log: recorded.log, replica: recorded.origin.replica, counter: counter, seq: 69 + counter, hlc: recorded.origin.hlc,
                                isDuplicate: false))
                    }
                }
                perform(hub.pushed(accepted, refused: refused, bytes: bytes, at: now))
                for answer in accepted {
                    let text = answer.counter == 1 ? "written offline" : "written online"
                    feed(FrameSamples.item(text, counter: answer.counter, seq: answer.seq), through: cursor.position + answer.counter)
                }
            case .fetch: feed(FrameSamples.item("hi", counter: 8, seq: 69), through: cursor.position + 3)
            case .compare, .typing, .pump, .close: break
            }
        }
    }

    private mutating func perform(_ effects: [ReplicaSession.Effect]) {
        for effect in effects {
            switch effect {
            case .send(let frame): perform(hub.receive(record(frame, from: "replica"), at: now))
            case .keep(_, let bytes): perform(replica.kept(bytes: bytes))
            case .welcomed, .answered, .heads, .repair, .answersPing, .caughtUp, .progressed, .unreadable, .typing, .mayPush, .ended: break
            }
        }
    }
}
