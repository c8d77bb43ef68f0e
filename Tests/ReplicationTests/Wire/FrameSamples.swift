import EventLog
@testable import Replication

/// Frames of each kind, with fields empty, usual and as large as they may be.
enum FrameSamples {
    static let conversation = ConversationID("018f5c2e-7b1a-7c3d-8e4f-0123456789ab")!
    static let store = StoreID("c0ffee00-1234-4abc-8def-00112233aabb")!
    static let user = UserID("çağla")!
    static let nonce = [UInt8](0..<16)
    static let replica = Replicas.id(user: user, nonce: nonce)
    static let cursor = Cursor(store: store, incarnation: 0x0123_4567_89AB_CDEF, position: 5_000_000_000)
    static let progress = PartialCursor(cursor: cursor, wholeFrom: 4_000_000_000, partFrom: 70_000, partThrough: 300)!
    static let secret = [UInt8](repeating: 0x51, count: 32)
    static let root = Hash256(bytes: [UInt8](0..<32))!
    static let head = LogHead(size: 70, root: root)
    static let note = LogNote(log: .conversation(conversation), secret: secret, head: head)
    private static let longName = UserID(String(repeating: "u", count: 255))!

    static func hello(versions: ClosedRange<UInt32> = 1...1, scope: Scope = .mine) -> Hello {
        Hello(
            versions: versions, replica: replica, nonce: nonce, user: user, token: "", cursor: nil, scope: scope, credit: 8 << 20, pushed: [],
            checkpointSize: 0, wantsFirstScreen: false)
    }

    static let welcome = Welcome(
        version: 1, connection: 77, store: store, incarnation: cursor.incarnation, time: 1_785_000_000_000, credit: 8 << 20, isGone: false, checkpoint: "",
        consistency: [])

    /// As a replica makes it: without what the hub decides.
    static func event(_ text: String, counter: UInt64, seq: Seq = 0) -> RecordedEvent {
        let message = Event.Message(id: MessageID(high: 9, low: counter), role: .user, text: text)
        let event = Event(conversation: conversation, author: user, content: .messageSent(message))
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 1_785_000_000_000 + counter))
        let hlc = HLC(rawValue: seq == 0 ? 0 : origin.hlc.rawValue + 65536)
        return RecordedEvent(log: .conversation(conversation), seq: seq, position: 0, origin: origin, hlc: hlc, event: event, targetSeq: nil)
    }

    static func pushed(_ text: String, counter: UInt64, isFirst: Bool = true, nonce: [UInt8] = [], restsOn: UInt64 = 0, former: FormerOrigin? = nil)
        -> PushedEvent
    {
        let (envelope, body) = EventCodec.encode(event(text, counter: counter))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: isFirst, nonce: nonce, restsOn: restsOn, former: former)
    }

    static func maybe(_ counter: UInt64, _ position: Position) -> PushedEvent {
        var event = pushed("a", counter: counter)
        event.mayStandFrom = position
        return event
    }

    static func item(_ text: String, counter: UInt64, seq: Seq) -> EventsFrame.Item {
        let (envelope, body) = EventCodec.encode(event(text, counter: counter, seq: seq))
        return EventsFrame.Item(envelope: envelope, body: body, commitment: nil)
    }

    static let all: [(name: String, frame: Frame)] = {
        var full = hello(versions: 1...7, scope: .conversations([conversation, ConversationID(high: 1, low: 2)]))
        (full.token, full.cursor, full.pushed) = ("ey.Jh.bG", cursor, [pushed("hello", counter: 1), pushed("again", counter: 2, isFirst: false, nonce: nonce)])
        (full.checkpointSize, full.checkpointRoot) = (12, root)
        (full.wantsFirstScreen, full.credit, full.sendsAgain) = (true, WireLimits.creditMax, true)
        (full.takesProgress, full.progress, full.takesUnreadable, full.takesCheckpointKept) = (true, progress, true, true)
        full.messageBytes = 16 << 10
        var answer = welcome
        (answer.isGone, answer.checkpoint, answer.checkpointKey) = (true, "convstore\n12\nAAAA\n\n— convstore\n", "convstore+00000000+AQ")
        (answer.consistency, answer.connection, answer.time) = ([root, Hash256(bytes: secret)!], .max, .max)
        var kept = welcome
        kept.isCheckpointKept = true
        let base = BaseFrame(log: .conversation(conversation), base: [1, 2, 3], seq: 50, range: secret + secret + secret, secret: secret)
        let accepted = Accepted(
            log: .conversation(conversation), replica: replica, counter: 3, seq: 71, hlc: HLC(milliseconds: 1_785_000_000_000, counter: 9), isDuplicate: false)
        let duplicate = Accepted(log: .user(user), replica: replica, counter: .max, seq: WireLimits.seqMax, hlc: HLC(rawValue: .max), isDuplicate: true)
        let refused = Refused(log: .conversation(conversation), replica: replica, counter: 4, code: "chunk_gap", detail: "2")
        let long = Refused(
            log: .user(longName), replica: replica, counter: .max, code: String(repeating: "c", count: 64), detail: String(repeating: "d", count: 4096))
        return [
            ("HELLO with what it must have", .hello(hello())), ("HELLO with everything", .hello(full)),
            ("HELLO for everything", .hello(hello(scope: .everything))), ("HELLO for no conversation", .hello(hello(scope: .conversations([])))),
            ("HELLO for the newest", .hello(hello(scope: .newest(conversations: 20, messages: 50)))),
            ("HELLO for none of the newest", .hello(hello(scope: .newest(conversations: 0, messages: 50)))),
            ("WELCOME with what it must have", .welcome(welcome)), ("WELCOME to one that is gone, with a checkpoint", .welcome(answer)),
            ("WELCOME to one that has the checkpoint", .welcome(kept)),
            ("PUSH of nothing", .push([])), ("PUSH of two", .push([pushed("a", counter: 1), pushed("", counter: 2, isFirst: false, nonce: nonce)])),
            ("PUSH of two, the second on the first", .push([pushed("a", counter: 300), pushed("b", counter: 301, restsOn: 300)])),
            ("PUSH of what a hub lost", .push([pushed("a", counter: 300, former: FormerOrigin(replica: replica, counter: 70))])),
            ("PUSH of what may stand there", .push([maybe(301, 1), maybe(302, 123_456), maybe(303, .max)])),
            ("PUSH of an event without bytes", .push([PushedEvent(envelope: [], body: [], isFirstSending: false)])),
            ("ACCEPTED", .accepted([accepted, duplicate])), ("ACCEPTED of nothing", .accepted([])), ("REFUSED", .refused([refused])),
            ("REFUSED with all that it may say", .refused([long])), ("SEGMENT", .segment(SegmentFrame(run: [UInt8](0..<200), logs: [note]))),
            ("SEGMENT of nothing", .segment(SegmentFrame(run: [], logs: []))),
            (
                "EVENTS, one erased",
                .events(
                    EventsFrame(
                        items: [
                            item("hi", counter: 1, seq: 69),
                            EventsFrame.Item(envelope: item("", counter: 2, seq: 70).envelope, body: [], commitment: root),
                        ], logs: [note, LogNote(log: .user(user), secret: secret), LogNote(log: .user(longName), head: head)]))
            ),
            ("EVENTS of nothing", .events(EventsFrame(items: [], logs: []))),
            (
                "FETCH",
                .fetch([
                    Fetch(log: .conversation(conversation), from: 1, through: 0), Fetch(log: .user(user), from: 3, through: WireLimits.seqMax),
                    Fetch(log: .conversation(conversation), from: 0, through: 20),
                ])
            ), ("FETCH of nothing", .fetch([])),
            (
                "FETCH of damaged runs",
                .fetch(
                    [Fetch(log: .user(user), from: 3, through: 5)],
                    damaged: [
                        DamagedRun(log: .conversation(conversation), seq: 1, position: 32_769, byteCount: 5000, checks: [1, .max]),
                        DamagedRun(log: .user(longName), seq: WireLimits.seqMax, position: 1, byteCount: 0, checks: []),
                    ])
            ),
            (
                "FETCH of a damaged run that tells its events",
                .fetch(
                    [],
                    damaged: [
                        DamagedRun(
                            log: .conversation(conversation), seq: 1, position: 32_769, byteCount: 5000, checks: [1, .max],
                            spans: [
                                EventSpan(log: .conversation(conversation), firstSeq: 1, count: 300),
                                EventSpan(log: .user(longName), firstSeq: WireLimits.seqMax, count: SegmentCodec.eventsMax),
                                EventSpan(log: .conversation(conversation), firstSeq: 301, count: 1),
                            ])
                    ])
            ),
            ("CAUGHT_UP", .caughtUp(CaughtUp(cursor: cursor))),
            ("CAUGHT_UP at the beginning", .caughtUp(CaughtUp(cursor: Cursor(store: store, incarnation: .max, position: 0)))),
            ("CREDIT", .credit(1 << 20)), ("CREDIT of nothing", .credit(0)), ("CREDIT of the most that there is", .credit(.max)),
            ("TYPING", .typing(Typing(conversation: conversation, user: user, isTyping: true))),
            ("TYPING no more", .typing(Typing(conversation: conversation, user: longName, isTyping: false))), ("PING", .ping(1)), ("PING 0", .ping(0)),
            ("PONG", .pong(.max)), ("BYE", .bye(Bye(.normal))),
            ("BYE with all that it may say", .bye(Bye(.storeFull, String(repeating: "r", count: 1024), retryAfterMilliseconds: 86_400_000))),
            ("TOKEN", .token("ey.Jh.bG")), ("TOKEN of nothing", .token("")),
            (
                "HEADS, the last",
                .heads(
                    HeadsFrame(
                        heads: [
                            HeadsFrame.Item(log: .conversation(conversation), head: head),
                            HeadsFrame.Item(log: .user(user), head: LogHead(size: 0, root: root)),
                        ], isProbe: false, isLast: true))
            ), ("HEADS, a probe", .heads(HeadsFrame(heads: [HeadsFrame.Item(log: .user(user), head: head)], isProbe: true))),
            ("HEADS of nothing", .heads(HeadsFrame(heads: [], isProbe: false))), ("BASE", .base(base)),
            ("BASE of who came later", .base(BaseFrame(log: .conversation(conversation), base: [1], seq: 5, range: secret, secret: secret, isFirst: true))),
            (
                "REPAIR",
                .repair(
                    RepairFrame(position: 32_769, blocks: [RunBlock(number: 0, bytes: [UInt8](0..<100)), RunBlock(number: 1, bytes: secret)]))
            ), ("PROGRESS", .progress(Progress(progress))),
            ("PROGRESS beside which logs are whole", .progress(Progress(progress, whole: [.conversation(conversation), .user(user)]))),
            (
                "PROGRESS that says nothing",
                .progress(Progress(PartialCursor(cursor: cursor, wholeFrom: 5_000_000_001, partFrom: 5_000_000_001, partThrough: 0)!))
            ),
            (
                "PROGRESS of all",
                .progress(Progress(PartialCursor(cursor: Cursor(store: store, incarnation: 1, position: 0), wholeFrom: 1, partFrom: 0, partThrough: 0)!))
            ),
            ("UNREADABLE", .unreadable(Unreadable([.conversation(conversation), .user(user)]))),
            ("UNREADABLE, where something was pushed", .unreadable(Unreadable(undecided: [.conversation(conversation), .user(user)]))),
            ("UNREADABLE of nothing", .unreadable(Unreadable())),
            ("REPAIR of nothing", .repair(RepairFrame(position: 0, blocks: []))),
            ("BASE of nothing", .base(BaseFrame(log: .user(user), base: [], seq: 0, range: [], secret: []))),
        ]
    }()

    static func named(_ name: String) -> Frame { all.first { $0.name == name }!.frame }

    /// One of each kind.
    static let kinds: [Frame] = {
        var seen: Set<String> = []
        return all.map(\.frame).filter { frame in
            if case .push(let events) = frame, events.isEmpty { return false }
            return seen.insert(frame.name).inserted
        }
    }()
}
