import ConversationStore
import Testing

@testable import EventLog
@testable import Projections
@testable import TalkWriter
import StoreTesting

@Suite("I5: convergence") struct ConvergenceTests {
    private static func state() -> ProjectionState<Conversations> { ProjectionState<Conversations>(source: nil) }

    @Test("The same events in random batches, through flushes and reopenings, give one digest", arguments: 1...3 as ClosedRange<UInt64>)
    func batches(_ seed: UInt64) throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        try store.take(FoldTests.talk(seed, 1500))
        let events = try store.events()
        let digest = try store.digest()
        try store.close()
        let plain = Self.state()
        for event in events { try plain.fold(event) }
        #expect(try plain.digest() == digest)

        // Another store is told the same events, as they were recorded.
        let other = try Scratch()
        var random = SeededGenerator(seed: seed)
        store = try other.open(journal: 64 << 10)
        var start = 0
        while start < events.count {
            let end = min(start + random.below(200) + 1, events.count)
            _ = try store.log.adoptBlocking(Array(events[start..<end]), secrets: [:])
            start = end
            if random.chance(0.1) { try store.log.flush() }
            if random.chance(0.1) {
                try store.close()
                store = try other.open(journal: 64 << 10)
            }
            if random.chance(0.1) { try store.rebuild() }
        }
        #expect(try store.digest() == digest)
        try store.close()
    }

    /// What may come in any order among its like: registers and receipts.
    private static func isFree(_ event: RecordedEvent) -> Bool {
        switch event.event.content {
        case .conversationUpdated, .messageEdited, .reactionSet, .receiptDelivered, .receiptRead, .preferenceSet: true
        default: false
        }
    }

    @Test("Registers and receipts in random order give one digest", arguments: 1...12 as ClosedRange<UInt64>)
    func order(_ seed: UInt64) throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        // Nobody deletes, streams, joins or leaves: what is left besides messages is free.
        var talk = Talk(seed: seed, conversations: 3)
        var fixed: [Event] = []
        while fixed.count < 60 {
            let event = talk.next()
            switch event.content {
            case .conversationCreated: fixed.append(event)
            case .messageSent(var message):
                message.isStreaming = false
                message.replyTo = nil
                fixed.append(Event(conversation: event.conversation, author: event.author, content: .messageSent(message)))
            default: break
            }
        }
        _ = try store.log.appendBlocking(fixed.map { Submission($0) })
        var events = try store.events()
        try store.close()

        // Registers of every kind, with clocks that go back and forth, ties among them.
        var random = SeededGenerator(seed: seed)
        let sent = events.filter { if case .messageSent = $0.event.content { true } else { false } }
        let count = events.count
        for number in 0..<400 {
            let target = random.element(sent)
            let id = target.event.conversation
            guard case .messageSent(let message) = target.event.content else { continue }
            var author = random.element(Talk.users)
            let content: Event.Content
            switch random.below(6) {
            case 0:
                content = .conversationUpdated(
                    title: random.chance(0.5) ? "title \(number)" : nil,
                    attributes: ["é", "e\u{301}", "x"].filter { _ in random.chance(0.5) }.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
                        .map { Event.Attribute(name: $0, value: random.chance(0.3) ? nil : "\(number)") })
            case 1:
                author = target.event.author
                content = .messageEdited(message: message.id, text: "edit \(number)")
            case 2: content = .reactionSet(message: message.id, emoji: random.element(["👍", "❤️", "é", "e\u{301}"]), isOn: random.chance(0.6))
            case 3: content = .receiptDelivered(upTo: message.id)
            case 4: content = .receiptRead(upTo: message.id)
            default: content = .preferenceSet(key: random.element(["pinned", "é", "e\u{301}"]), value: random.chance(0.3) ? nil : "\(number)")
            }
            // Those who write take part, so that the order in which they are first heard of is settled.
            guard let first = events.first(where: { $0.event.conversation == id }), case .conversationCreated(_, _, let people) = first.event.content,
                people.contains(author)
            else { continue }
            let event = Event(conversation: id, author: author, content: content)
            let time = 1_700_000_000_000 + UInt64(random.below(20))
            events.append(
                RecordedEvent(
                    log: event.log, seq: Seq(number) + 1000, position: Position(events.count) + 1,
                    origin: Origin(replica: ReplicaID(high: 1, low: UInt64(random.below(3))), counter: UInt64(number), hlc: HLC(milliseconds: time)),
                    hlc: HLC(milliseconds: time - UInt64(random.below(5))), event: event, targetSeq: target.seq))
        }
        #expect(events.count > count + 100)
        #expect(events[count...].allSatisfy { Self.isFree($0) })
        var digests: Set<[UInt8]> = []
        var screens: Set<[TimelinePage]> = []
        for round in 0..<6 {
            if round > 0 { events[count...].shuffle(using: &random) }
            let state = Self.state()
            for event in events { try state.fold(event) }
            digests.insert(try state.digest())
            screens.insert(try talk.conversations.compactMap { try state.projection.timeline($0.id, .newest, limit: .max) })
        }
        #expect(digests.count == 1)
        #expect(screens.count == 1)
    }

    @Test("An event that comes for what is not there changes nothing (reducers are total)")
    func total() throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        try store.take(FoldTests.talk(9, 800))
        let events = try store.events()
        try store.close()
        var random = SeededGenerator(seed: 3)
        for _ in 0..<20 {
            let state = Self.state()
            for event in events where !random.chance(0.3) {
                var event = event
                if random.chance(0.1) { event.targetSeq = Seq(random.below(2000)) }
                if random.chance(0.02) { event.targetSeq = .max }
                if random.chance(0.02) { event.targetSeq = nil }
                event.isErased = random.chance(0.05)
                try state.fold(event)
            }
            _ = try state.digest()
            for conversation in Set(events.map(\.event.conversation)) {
                for user in Talk.users { _ = try state.projection.lobbyRow(conversation, user) }
                for range in [TimelineRange.newest, .unread(Talk.users[0]), .around(7), .before(9), .after(3)] {
                    _ = try state.projection.timeline(conversation, range, limit: 10)
                }
            }
        }
    }
}
