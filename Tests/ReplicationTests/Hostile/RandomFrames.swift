import EventLog
import StoreTesting

@testable import Replication

/// Frames that are well formed and say anything at all: of logs, seqs and counters that are there and that are not, in any order.
struct RandomFrames {
    var random: SeededGenerator
    let user: UserID
    let replica: ReplicaID
    let nonce: [UInt8]
    /// Logs that are there, the user's and others'.
    let logs: [LogID]
    /// Where the hub stands, as far as the liar knows.
    var cursor: Cursor
    /// Bytes of the hub's runs.
    var runSizes: [Int] = []

    init(seed: UInt64, user: UserID, logs: [LogID], cursor: Cursor) {
        random = SeededGenerator(seed: seed)
        self.user = user
        self.logs = logs
        self.cursor = cursor
        nonce = (0..<16).map { UInt8(truncatingIfNeeded: seed >> UInt64($0 % 4 * 8)) }
        replica = Replicas.id(user: user, nonce: nonce)
    }

    // Parts.

    mutating func log() -> LogID {
        switch random.below(10) {
        case 0: .conversation(ConversationID(high: random.next(), low: random.next()))
        case 1: .user(UserID(random.chance(0.5) ? "nobody \(random.below(1000))" : "eve")!)
        default: random.element(logs)
        }
    }

    mutating func conversation() -> ConversationID {
        if case .conversation(let id) = log() { return id }
        return ConversationID(high: random.next(), low: 1)
    }

    mutating func seq() -> Seq {
        random.weighted([
            (6, random.within(0...60)), (1, random.within(0...5000)), (1, WireLimits.seqMax - random.within(0...2)), (1, random.next() >> 2), (1, 0),
        ])
    }

    mutating func bytes(_ most: Int) -> [UInt8] {
        (0..<random.below(most + 1)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    mutating func hash() -> Hash256 { Hash256(bytes: (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })! }

    mutating func head() -> LogHead { LogHead(size: seq(), root: random.chance(0.3) ? CompactRange().root() : hash()) }

    mutating func event(seq: Seq) -> (envelope: [UInt8], body: [UInt8]) {
        if random.chance(0.05) { return (bytes(80), bytes(20)) }
        let id = conversation()
        let author = random.chance(0.8) ? user : UserID("eve")!
        let message = MessageID(high: 1, low: random.within(0...30))
        let content: Event.Content =
            switch random.below(10) {
            case 0: .conversationCreated(kind: .group, title: "t", participants: [user, UserID("bob")!])
            case 1: .participantLeft(random.chance(0.9) ? UserID("eve")! : UserID("bob")!)
            case 2: .participantJoined(UserID("zoe")!)
            case 3: .chunkAppended(message: message, index: UInt32(random.below(4)), text: "x")
            case 4: .messageEdited(message: message, text: "edited")
            case 5: .receiptRead(upTo: message)
            case 6: .preferenceSet(key: "k", value: "v")
            case 7: .unknown(kind: 40 + UInt32(random.below(3)), body: [6 << 3, 1])
            default: .messageSent(Event.Message(id: message, role: .user, text: String(repeating: "a", count: random.below(200))))
            }
        let made = Event(conversation: id, author: author, content: content)
        let origin = Origin(
            replica: random.chance(0.9) ? replica : ReplicaID(high: random.next(), low: 2), counter: random.chance(0.9) ? random.within(0...40) : random.next(),
            hlc: HLC(rawValue: random.next() >> random.within(0...40)))
        let hlc = HLC(rawValue: seq == 0 && random.chance(0.95) ? 0 : random.next() >> 8)
        let target: Seq? = seq > 1 && random.chance(0.3) ? random.within(1...seq - 1) : nil
        let recorded = RecordedEvent(log: made.log, seq: seq, position: 0, origin: origin, hlc: hlc, event: made, targetSeq: target)
        var (envelope, body) = EventCodec.encode(recorded)
        if random.chance(0.03) { envelope += [14 << 3, 1] }
        if random.chance(0.03), !envelope.isEmpty { envelope[random.below(envelope.count)] ^= 1 }
        if random.chance(0.03) { body += bytes(4) }
        return (envelope, body)
    }

    mutating func heads() -> HeadsFrame {
        var items: [HeadsFrame.Item] = []
        for _ in 0..<random.below(6) { items.append(HeadsFrame.Item(log: log(), head: head())) }
        return HeadsFrame(heads: items, isProbe: random.chance(0.5), isLast: random.chance(0.3))
    }

    /// A run that begins where the hub's do or does not, of a size that one of them has or none.
    mutating func damaged() -> DamagedRun {
        let size = random.chance(0.8) && !runSizes.isEmpty ? random.element(runSizes) : random.below(20_000)
        let checks = (0..<(random.chance(0.9) ? (size + RunBlocks.blockBytes - 1) / RunBlocks.blockBytes : random.below(9))).map { _ in random.next() }
        return DamagedRun(
            log: log(), seq: random.chance(0.7) ? 1 : seq(), position: random.chance(0.7) ? 1 : seq(), byteCount: size, checks: checks,
            spans: random.chance(0.5) ? [] : (0..<random.weighted([(20, random.below(6)), (1, 2049)])).map { _ in span() })
    }

    /// Events that are there, or are not, or are others'.
    mutating func span() -> EventSpan {
        EventSpan(
            log: log(), firstSeq: random.chance(0.7) ? 1 : max(seq(), 1), count: random.chance(0.9) ? Int(random.within(1...9)) : SegmentCodec.eventsMax)
    }

    // Frames.

    mutating func hello() -> Hello {
        var hello = Hello(
            versions: 1...UInt32(random.within(1...3)), replica: replica, nonce: nonce, user: user, token: "", cursor: nil, scope: .mine,
            credit: random.weighted([(3, WireLimits.creditMin), (1, WireLimits.creditMax)]), pushed: [], checkpointSize: random.chance(0.9) ? 0 : seq(),
            wantsFirstScreen: random.chance(0.5))
        hello.sendsAgain = random.chance(0.5)
        if random.chance(0.5) { hello.checkpointRoot = hash() }
        if random.chance(0.5) {
            hello.cursor = cursor
            hello.cursor!.position = random.chance(0.8) ? random.within(0...cursor.position) : random.next()
            if random.chance(0.3) { hello.cursor!.incarnation = random.next() }
        }
        switch random.below(8) {
        case 0: hello.scope = .everything
        case 1: hello.scope = .conversations((0..<random.below(4)).map { _ in conversation() })
        case 2, 3:
            hello.scope = .newest(conversations: random.chance(0.9) ? random.within(0...4) : .max, messages: random.chance(0.9) ? random.within(0...30) : .max)
        default: break
        }
        (hello.takesProgress, hello.takesUnreadable, hello.takesCheckpointKept) = (random.chance(0.7), random.chance(0.7), random.chance(0.7))
        if random.chance(0.4) { hello.progress = progress() }
        if random.chance(0.3) { hello.messageBytes = random.chance(0.3) ? random.next() : random.within(0...2000) }
        if random.chance(0.5) { hello.pushed = pushed() }
        if random.chance(0.05) { hello.user = UserID("eve")! }
        if random.chance(0.1) {
            hello.newest = HeldEvent(log: log(), seq: seq(), hlc: HLC(rawValue: random.next()), replica: replica, counter: random.next())
        }
        return hello
    }

    /// What the hub may have told, or what it never did.
    mutating func progress() -> PartialCursor {
        var told = cursor
        if random.chance(0.2) { told.position = random.next() >> 2 }
        if random.chance(0.1) { told.incarnation = random.next() }
        let whole = random.chance(0.2) ? 1 : random.within(1...told.position + 1)
        return PartialCursor(
            cursor: told, wholeFrom: whole, partFrom: random.chance(0.2) ? 1 : random.within(0...whole),
            partThrough: random.within(0...told.position))!
    }

    mutating func pushed() -> [PushedEvent] {
        (0..<random.below(5)).map { _ in
            let (envelope, body) = event(seq: random.chance(0.97) ? 0 : seq())
            return PushedEvent(envelope: envelope, body: body, isFirstSending: random.chance(0.5), nonce: random.chance(0.9) ? [] : nonce)
        }
    }

    /// Of a replica that lies.
    mutating func fromReplica() -> Frame {
        switch random.below(24) {
        case 0..<6: .push(pushed())
        case 6..<9: .fetch((0..<random.below(4)).map { _ in Fetch(log: log(), from: seq(), through: seq()) })
        case 9: .fetch([], damaged: (0..<random.below(4)).map { _ in damaged() })
        case 10..<15: .heads(heads())
        case 15..<18: .credit(random.weighted([(8, random.within(0...1 << 20)), (1, WireLimits.creditMax), (1, random.next())]))
        case 18: .typing(Typing(conversation: conversation(), user: user, isTyping: random.chance(0.5)))
        case 19: .token("another")
        case 20: .ping(random.next())
        case 21: .pong(random.next())
        case 22 where random.chance(0.3): .hello(hello())
        case 23 where random.chance(0.3): fromHub()
        default: .push(pushed())
        }
    }

    mutating func note(_ log: LogID) -> LogNote {
        LogNote(log: log, secret: random.weighted([(3, []), (3, bytes(32)), (3, hash().bytes)]), head: random.chance(0.4) ? head() : nil)
    }

    mutating func items() -> [EventsFrame.Item] {
        var seq = seq()
        return (0..<1 + random.below(4)).map { _ in
            defer { if random.chance(0.9), seq < WireLimits.seqMax { seq += 1 } }
            let (envelope, body) = event(seq: seq)
            return EventsFrame.Item(envelope: envelope, body: body, commitment: random.chance(0.05) ? hash() : nil)
        }
    }

    /// Of a hub that lies.
    mutating func fromHub() -> Frame {
        switch random.below(24) {
        case 0..<6: return .events(EventsFrame(items: items(), logs: (0..<random.below(3)).map { _ in note(log()) }))
        case 6..<9:
            let events = items().compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body) }.filter { $0.seq > 0 }
            let run = (try? events.isEmpty ? nil : SegmentEncoder().encode(events)) ?? bytes(100)
            return .segment(SegmentFrame(run: run, logs: (0..<random.below(3)).map { _ in note(log()) }))
        case 9..<12:
            return .accepted([
                Accepted(
                    log: log(), replica: replica, counter: random.within(0...6), seq: seq(), hlc: HLC(rawValue: random.next()), isDuplicate: random.chance(0.3))
            ])
        case 12..<14:
            return .refused([
                Refused(log: log(), replica: replica, counter: random.within(0...6), code: random.chance(0.2) ? "origin_conflict" : "forbidden", detail: "")
            ])
        case 14..<17: return .heads(heads())
        case 17:
            var told = cursor
            told.position = random.next() >> 1
            return .caughtUp(CaughtUp(cursor: told))
        case 18:
            return random.chance(0.3)
                ? .credit(random.within(0...1 << 22))
                : .progress(Progress(progress(), whole: random.chance(0.5) ? [] : (0..<random.below(4)).map { _ in log() }))
        case 19: return .base(BaseFrame(log: log(), base: bytes(60), seq: seq(), range: bytes(64), secret: hash().bytes))
        case 20:
            return random.chance(0.5)
                ? .ping(random.next())
                : .unreadable(
                    Unreadable((0..<random.below(3)).map { _ in log() }, undecided: (0..<random.below(2)).map { _ in log() }))
        case 21: return .typing(Typing(conversation: conversation(), user: user, isTyping: true))
        case 23 where random.chance(0.5):
            let blocks = (0..<random.below(3)).map { _ in RunBlock(number: random.below(4), bytes: bytes(60)) }
            return .repair(RepairFrame(position: random.chance(0.5) ? 1 : seq(), blocks: blocks))
        case 22: return .welcome(welcome())
        default: return random.chance(0.3) ? fromReplica() : .pong(1)
        }
    }

    mutating func welcome() -> Welcome {
        var store = cursor.store
        if random.chance(0.1) { store = StoreID(high: random.next(), low: random.next()) }
        var welcome = Welcome(
            version: random.chance(0.95) ? 1 : 2, connection: random.next(), store: store, incarnation: random.next(), time: random.next() >> 20,
            credit: random.chance(0.9) ? 8 << 20 : random.next(), isGone: random.chance(0.3), checkpoint: random.chance(0.8) ? "" : "forged", consistency: [])
        welcome.isCheckpointKept = random.chance(0.1)
        return welcome
    }
}
