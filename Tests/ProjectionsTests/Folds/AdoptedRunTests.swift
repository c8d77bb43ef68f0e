import ConversationStore
import StoreTesting
import Synchronization
import Testing

@testable import EventLog
@testable import Projections
@testable import TalkWriter

@Suite("I4: runs folded where they lie") struct AdoptedRunTests {
    /// What a hub holds in its archive: events of all kinds, some of them erased, and streams whose chunks follow each other.
    private struct Hub {
        var events: [RecordedEvent] = []
        var runs: [[UInt8]] = []
        var secrets: [LogID: [UInt8]] = [:]
        var digest: [UInt8] = []

        init(_ seed: UInt64) throws {
            let scratch = try Scratch()
            let store = try scratch.open()
            var random = SeededGenerator(seed: seed)
            try store.take(FoldTests.talk(seed, 900))
            try store.log.flush()
            // A receipt that says nothing new is a duplicate.
            _ = try store.log.appendBlocking(Self.fromDevices(Self.streams(seed), seed))
            try store.log.flush()
            for event in try store.events() where random.chance(0.05) {
                switch event.event.content {
                // What is still being streamed is not erased.
                case .messageSent, .chunkAppended, .messageEdited: try? store.log.erase(log: event.log, seq: event.seq)
                default: break
                }
            }
            try store.log.flush()
            events = try store.events()
            #expect(events.contains { $0.isErased } && events.count > 1500)
            digest = try store.digest()
            var position: Position = 1
            while let run = try store.log.storedRun(containing: position) {
                runs.append(run.bytes)
                position += Position(run.eventCount)
            }
            #expect(runs.count >= 2 && position == Position(events.count) + 1)
            for event in events where secrets[event.log] == nil { secrets[event.log] = try store.log.secret(of: event.log) }
            try store.close()
        }

        /// Half of the users write at devices, whose lanes stand beside the store's own.
        private static func fromDevices(_ events: [Event], _ seed: UInt64) -> [Submission] {
            var counters: [LogID: [UserID: UInt64]] = [:]
            return events.map { event in
                guard event.author.string.utf8.last! & 1 == 0 else { return Submission(event) }
                counters[event.log, default: [:]][event.author, default: 0] += 1
                let replica = ReplicaID(high: seed, low: UInt64(event.author.string.utf8.last!))
                return Submission(event, origin: Origin(replica: replica, counter: counters[event.log]![event.author]!, hlc: HLC(rawValue: 1 << 40)))
            }
        }

        /// Long answers that interleave, with texts of every length of UTF-8, and their ends.
        private static func streams(_ seed: UInt64) throws -> [Event] {
            var random = SeededGenerator(seed: seed &+ 99)
            let users = try (0..<3).map { try #require(UserID("reader-\($0)")) }
            let conversations = (0..<3).map { ConversationID(high: seed, low: UInt64($0) + 1) }
            var events = conversations.map { id in
                Event(conversation: id, author: users[0], content: .conversationCreated(kind: .assistant, title: nil, participants: users))
            }
            var next: UInt64 = 0
            // Two answers at once: a chunk of the one may follow one of the other.
            for id in conversations {
                let messages = [MessageID(high: ~seed, low: id.low * 2), MessageID(high: ~seed, low: id.low * 2 + 1)]
                for message in messages {
                    let sent = Event.Message(id: message, role: .assistant, text: "", isStreaming: true)
                    events.append(Event(conversation: id, author: users[1], content: .messageSent(sent)))
                }
                for index in 0..<UInt32(20) {
                    for (place, message) in messages.enumerated() {
                        let chunk = Event.Content.chunkAppended(message: message, index: index, text: place == 0 ? "first " : "segundo ñ")
                        events.append(Event(conversation: id, author: users[1], content: chunk))
                    }
                }
            }
            for _ in 0..<40 {
                let id = random.element(conversations)
                next += 1
                let message = MessageID(high: seed, low: next)
                func by(_ user: UserID, _ content: Event.Content) { events.append(Event(conversation: id, author: user, content: content)) }
                let sent = Event.Message(
                    id: message, role: random.chance(0.5) ? .assistant : .user, text: random.chance(0.3) ? "début ✓" : "", isStreaming: true)
                by(users[1], .messageSent(sent))
                let chunks = UInt32(random.below(60))
                for index in 0..<chunks {
                    by(users[1], .chunkAppended(message: message, index: index, text: random.element(["", "a", "né", "語", "🙂 and more", " words"])))
                    if random.chance(0.05) {
                        next += 1
                        let reply = random.chance(0.5) ? message : nil
                        by(users[2], .messageSent(Event.Message(id: MessageID(high: seed, low: next), role: .user, text: "meanwhile ünï", replyTo: reply)))
                    }
                    if random.chance(0.03) { by(users[2], .receiptRead(upTo: message)) }
                }
                if random.chance(0.5) {
                    by(users[1], .messageCompleted(message: message, finishReason: "stop", usage: nil))
                } else if random.chance(0.5) {
                    by(users[0], .messageInterrupted(message: message, reason: "enough"))
                } else if random.chance(0.5) {
                    by(users[1], .messageDeleted(message: message))
                }
            }
            return events
        }

        func prepared() throws -> [PreparedRun] {
            var position: Position = 1
            return try runs.map { bytes in
                let run = try PreparedRun(bytes) { PuncturedSeeds(secret: secrets[$0]!) }
                run.move(to: position)
                position += Position(run.eventCount)
                return run
            }
        }
    }

    @Test("Windows of any size give the state that event by event gives, and the events themselves", arguments: 1...4 as ClosedRange<UInt64>)
    func windows(_ seed: UInt64) throws {
        let hub = try Hub(seed)
        let plain = ProjectionState<Conversations>(source: nil)
        for event in hub.events { try plain.fold(event) }
        #expect(try plain.digest() == hub.digest)
        let runs = try hub.prepared()
        #expect(runs.flatMap { $0.events() } == hub.events)
        for size in [1, 2, 7, 64, 500, 1 << 20] {
            let state = ProjectionState<Conversations>(source: nil)
            // What readers who come in between two windows see is a fold of the first so many events.
            let prefix = ProjectionState<Conversations>(source: nil)
            var told: [RecordedEvent] = []
            for run in runs {
                run.forEachWindow(of: size) { window in
                    #expect(throws: Never.self) {
                        for part in window.parts { try state.fold(part) }
                        try window.forEachEvent {
                            told.append(copy $0)
                            try prefix.fold($0)
                        }
                        if size >= 64 { #expect(try state.digest() == prefix.digest()) }
                    }
                    #expect(window.lastPosition == told.last?.position)
                }
            }
            #expect(told == hub.events)
            #expect(try state.digest() == hub.digest, "windows of \(size)")
        }
    }

    @Test("A log's row is the same, however its events come", arguments: 1...4 as ClosedRange<UInt64>)
    func rows(_ seed: UInt64) throws {
        let hub = try Hub(seed)
        var rows: [LogID: LogRow] = [:]
        var expected: [LogID: LogRow] = [:]
        for run in try hub.prepared() {
            for slice in run.slices { try rows[slice.log, default: LogRow(id: slice.log, number: 0)].apply(run.run, slice.range) }
        }
        for event in hub.events { expected[event.log, default: LogRow(id: event.log, number: 0)].apply(Effect(event)) }
        #expect(rows.count == expected.count)
        for (log, row) in expected { #expect(String(describing: rows[log]!) == String(describing: row)) }
    }

    @Test("Whoever listens is told of each event once, in each log's order; whoever does not costs nothing", arguments: [false, true])
    func listens(_ isListening: Bool) throws {
        let hub = try Hub(7)
        let told = Mutex<[RecordedEvent]>([])
        let fold = ProjectionFold<Conversations>(folded: FoldListener(isListening: { isListening }, told: { event in told.withLock { $0.append(event) } }))
        let scratch = try Scratch()
        var options = StoreOptions()
        options.folds = [fold]
        let store = try EventStore.open(at: scratch.store, options: options)
        _ = try store.adoptRuns(try hub.prepared().map { ($0, hub.secrets) }) { _, _, _, _ in }
        #expect(try fold.digest(in: store).digest == hub.digest)
        #expect(try fold.digestAnew(of: store, through: store.lastPosition, progress: nil) == hub.digest)
        let seen = told.withLock { $0 }
        // The fold anew tells of its own, too.
        let expected = isListening ? hub.events : []
        #expect(Dictionary(grouping: seen.prefix(expected.count), by: \.log) == Dictionary(grouping: expected, by: \.log))
        try store.close()
    }

    @Test("An erased preference names no conversation: it is folded in commit order, should somebody have the one with the number 0", arguments: [false, true])
    func namesNone(_ isErased: Bool) throws {
        let scratch = try Scratch()
        let hub = try scratch.open()
        let users = try ["ann", "bob"].map { try #require(UserID($0)) }
        let none = ConversationID(high: 0, low: 0)
        try hub.take([
            Event(conversation: none, author: users[0], content: .conversationCreated(kind: .group, title: nil, participants: users)),
            Event(conversation: none, author: users[1], content: .preferenceSet(key: "pinned", value: "1")),
            Event(conversation: none, author: users[0], content: .participantLeft(users[1])),
        ])
        try hub.log.flush()
        if isErased { try hub.log.erase(log: .user(users[1]), seq: 1) }
        var secrets: [LogID: [UInt8]] = [:]
        for log in [LogID.conversation(none), .user(users[1])] { secrets[log] = try hub.log.secret(of: log) }
        let bytes = try #require(try hub.log.storedRun(containing: 1)).bytes
        try hub.close()

        let fold = ProjectionFold<Conversations>()
        let other = try Scratch()
        var options = StoreOptions()
        options.folds = [fold]
        let store = try EventStore.open(at: other.store, options: options)
        let run = try PreparedRun(bytes) { PuncturedSeeds(secret: secrets[$0]!) }
        run.forEachWindow(of: 100) { #expect($0.dependsOnOrder == isErased) }
        _ = try store.adoptRuns([(run, secrets)]) { _, _, _, _ in }
        #expect(try fold.digest(in: store).digest == fold.digestAnew(of: store, through: 3, progress: nil))
        try store.close()
    }
}
