import ConversationStore
import Foundation
@testable import Replication
import StoreTesting
import Testing

/// What becomes of a replica's own events.
@Suite struct OutboxTests {
    /// All that the rules of `HeldBack` speak of, in any states that they may have after restored hubs, failures and lives under other ids.
    private struct AnyOutbox {
        let identities = (1...3).map { ReplicaIdentity(user: ada, nonce: [UInt8](repeating: $0, count: 16)) }
        /// The last is the present.
        var present: ReplicaIdentity { identities[2] }
        let chats = (0..<2).map { _ in ConversationID.random() }
        var entries: [OutboxEntry] = []
        private var counters: [LogID: [Int: UInt64]] = [:]

        init(_ random: inout SeededGenerator) {
            let messages = (0..<6).map { _ in MessageID.random() }
            for id in 1...UInt64.random(in: 1...12, using: &random) {
                let message = messages.randomElement(using: &random)!
                let content: Event.Content =
                    switch Int.random(in: 0..<6, using: &random) {
                    case 0: .conversationCreated(kind: .group, title: "", participants: [ada])
                    case 1: .preferenceSet(key: "mute", value: "\(id)")
                    case 2: .reactionSet(message: message, emoji: "👍", isOn: true)
                    case 3: .chunkAppended(message: message, index: UInt32(id), text: "chunk")
                    default: .messageSent(Event.Message(id: message, role: .user, text: "text", isStreaming: Bool.random(using: &random)))
                    }
                add(id, content, of: Int.random(in: 0..<3, using: &random), &random)
            }
        }

        /// Counters of a lane ascend, but of the present one: there something failed and was tried again.
        private mutating func add(_ id: UInt64, _ content: Event.Content, of identity: Int, _ random: inout SeededGenerator) {
            let event = Event(conversation: chats.randomElement(using: &random)!, author: ada, content: content)
            let isSent = identity < 2 || Bool.random(using: &random)
            counters[event.log, default: [:]][identity, default: 0] += 1
            let counter = counters[event.log]![identity]!
            // One that is pending keeps the id under which it was made.
            let maker = isSent ? identity : Int.random(in: 0..<3, using: &random)
            let origin = Origin(replica: identities[maker].replica, counter: isSent ? counter : 0, hlc: HLC(rawValue: id << 16))
            var entry = OutboxEntry(id: id, event: event, origin: origin, nonce: identities[maker].nonce)
            (entry.state, entry.wasSent) = (isSent ? .sent : .pending, isSent || Bool.random(using: &random))
            entries.append(entry)
        }
    }

    /// Lines that break, refusals, retries, accepted events that come and do not.
    @Test("whatever an outbox holds, and whatever becomes of it, nothing overtakes what was made before it, and counters ascend") func anyOrder() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            for seed in UInt64(0)..<600 {
                var random = SeededGenerator(seed: seed)
                let any = AnyOutbox(&random)
                try side.write { transaction in
                    for log in Set(any.entries.map(\.event.log)) {
                        try transaction.put(SyncTables.lanes, log.key, withUnsafeBytes(of: UInt64(100).bigEndian) { Array($0) })
                    }
                }
                let outbox = Outbox(side, any.entries, identity: any.present)
                outbox.beginSession()
                var sent: Set<UInt64> = []
                var counters: [[AnyHashable]: UInt64] = [:]
                // By its clock each is known; ids change. What failed and is tried again may come later, as may what is in an outbox as if it had been.
                var late: Set<HLC> = []
                func exempt(_ entries: [OutboxEntry], behind isFirst: (OutboxEntry) -> Bool) {
                    for chat in Dictionary(grouping: entries, by: \.event.conversation).values {
                        late.formUnion(chat.drop { !isFirst($0) }.map(\.origin.hlc))
                    }
                }
                let lastOwn = any.entries.last { $0.state == .sent && $0.origin.replica == any.present.replica }?.id ?? 0
                exempt(any.entries) { $0.state == .pending && $0.id < lastOwn }
                for step in 0..<80 {
                    let isCalm = step >= 40
                    let flight = try outbox.take(bytesMax: 1 << 20, eventsMax: Int.random(in: 1...4, using: &random))
                    var last: [ConversationID: UInt64] = [:], clocks: [ConversationID: HLC] = [:]
                    for event in flight.events {
                        let entry = outbox.entries.first { $0.state == .sent && EventCodec.encode($0.recorded).envelope == event.envelope }!
                        try #require(sent.insert(entry.id).inserted, "seed \(seed): sent twice in a session")
                        let lane = [AnyHashable(entry.event.log), AnyHashable(entry.origin.replica)]
                        try #require(counters[lane] ?? 0 < entry.origin.counter, "seed \(seed): \(entry.id) is late in its lane")
                        counters[lane] = entry.origin.counter
                        try #require(last[entry.event.conversation] ?? 0 < entry.id, "seed \(seed): \(entry.id) is late")
                        last[entry.event.conversation] = entry.id
                        if case .conversation = entry.event.log {
                            clocks[entry.event.conversation] = max(clocks[entry.event.conversation] ?? entry.origin.hlc, entry.origin.hlc)
                        }
                        for id in entry.neededMessages {
                            let made = outbox.table[entry.event.conversation].last { other in
                                guard case .messageSent(let message) = other.event.content else { return false }
                                return message.id == id && other.origin.hlc < entry.origin.hlc && other.accepted == nil && !other.isFailed
                                    && !late.contains(other.origin.hlc)
                            }
                            let isFree = made.map { $0.state == .sent && $0.origin.replica == entry.origin.replica } ?? true
                            try #require(isFree, "seed \(seed): \(entry.id) is sent, and that on which it rests has no answer")
                        }
                    }
                    for entry in outbox.entries where entry.state == .pending && !entry.isWaiting || entry.isUnanswered && !sent.contains(entry.id) {
                        let overtaking = last[entry.event.conversation] ?? 0
                        try #require(overtaking < entry.id, "seed \(seed): \(overtaking) overtook \(entry.id)")
                        if let clock = clocks[entry.event.conversation], !late.contains(entry.origin.hlc) {
                            try #require(clock < entry.origin.hlc, "seed \(seed): what was made at \(clock) overtook \(entry.id)")
                        }
                    }
                    if flight.events.isEmpty {
                        let more = try outbox.take(bytesMax: 1 << 20, eventsMax: 4).events
                        try #require(more.isEmpty, "seed \(seed): something was left though it might go")
                    }
                    if isCalm, flight.events.isEmpty, outbox.table.unanswered.isEmpty { break }
                    for var entry in outbox.entries where entry.isUnanswered && sent.contains(entry.id) && (isCalm || Bool.random(using: &random)) {
                        if !isCalm, Int.random(in: 0..<4, using: &random) == 0 {
                            entry.state = .failed(code: "", detail: "")
                        } else {
                            entry.accepted = OutboxEntry.Record(seq: 1, isRepeat: false)
                        }
                        outbox.table.put(entry)
                        outbox.settleWaiting([entry.event.conversation])
                    }
                    for entry in outbox.entries where entry.accepted != nil && Int.random(in: 0..<4, using: &random) == 0 { outbox.table.remove(entry.id) }
                    if !isCalm, Int.random(in: 0..<3, using: &random) == 0 {
                        exempt(outbox.entries) { $0.isFailed || $0.isWaiting }
                        _ = try outbox.retry(nil)
                        sent.subtract(outbox.table.pendingIDs)
                    }
                    if !isCalm, Int.random(in: 0..<4, using: &random) == 0 {
                        outbox.beginSession()
                        (sent, counters) = ([], [:])
                    }
                }
                let open = outbox.entries.filter { $0.isUnanswered || $0.state == .pending && !$0.isWaiting }
                #expect(open.isEmpty, "seed \(seed): \(open.map(\.id)) wait for ever")
            }
        }
    }

    @Test("a conversation does not wait for another's, though preferences of both stand in one log") func otherConversations() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let chats = [ConversationID.random(), ConversationID.random()], one = MessageID.random()
            let contents: [(Int, Event.Content)] = [
                (0, .messageSent(Event.Message(id: one, role: .user, text: "text"))), (0, .messageEdited(message: one, text: "other")),
                (0, .preferenceSet(key: "mute", value: "1")), (1, .preferenceSet(key: "mute", value: "1")),
                (1, .messageSent(Event.Message(id: .random(), role: .user, text: "text"))),
            ]
            let outbox = try Outbox(side, identity: ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)))
            let made = try outbox.add(
                contents.enumerated().map { (Event(conversation: chats[$1.0], author: ada, content: $1.1), HLC(rawValue: UInt64($0) << 16)) })
            outbox.beginSession()
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.count == 3)
            #expect(made.map { outbox.table[$0.id]?.state == .sent } == [true, false, false, true, true])
            var entry = outbox.table[made[0].id]!
            entry.accepted = OutboxEntry.Record(seq: 1, isRepeat: false)
            outbox.table.put(entry)
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.count == 1)
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.count == 1)
            // The preference went behind the one that was sent before it.
            #expect(outbox.entries.map { Int($0.origin.hlc.rawValue >> 16) } == [0, 1, 3, 4, 2])
        }
    }

    /// An entry of one that was restored: R1 is its id before, R2 the present one.
    private static let (before, present) = (
        ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)), ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 2, count: 16))
    )

    private static func entry(_ id: UInt64, in chat: ConversationID, _ content: Event.Content, of identity: ReplicaIdentity, _ state: OutboxEntry.State)
        -> OutboxEntry
    {
        let origin = Origin(replica: identity.replica, counter: state == .pending ? 0 : id, hlc: HLC(rawValue: id << 16))
        var entry = OutboxEntry(id: id, event: Event(conversation: chat, author: ada, content: content), origin: origin, nonce: identity.nonce)
        (entry.state, entry.wasSent) = (state, true)
        return entry
    }

    private static func text(_ id: MessageID, replyTo: MessageID? = nil, isStreaming: Bool = false) -> Event.Content {
        .messageSent(Event.Message(id: id, role: .user, text: "text", isStreaming: isStreaming, replyTo: replyTo))
    }

    @Test("what was sent under an id before stays behind an offer that it rests on, also where that moves") func movesTogether() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, Self.text(one), of: Self.present, .pending),
                    Self.entry(2, in: chat, .messageEdited(message: one, text: "other"), of: Self.present, .pending),
                    Self.entry(3, in: chat, .preferenceSet(key: "mute", value: "1"), of: Self.present, .pending),
                    Self.entry(4, in: chat, Self.text(two), of: Self.present, .pending),
                    Self.entry(5, in: .random(), .preferenceSet(key: "mute", value: "1"), of: Self.present, .pending),
                    Self.entry(6, in: chat, .messageEdited(message: two, text: "other"), of: Self.before, .sent),
                ], identity: Self.present)
            outbox.beginSession()
            var gone: [UInt64] = []
            for _ in 0..<8 {
                var flight: [PushedEvent] = []
                repeat {
                    flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
                    gone += flight.map { event in
                        outbox.entries.first { EventCodec.encode($0.recorded).envelope == event.envelope }!.origin.hlc.rawValue >> 16
                    }
                } while !flight.isEmpty
                for var entry in outbox.entries where entry.isUnanswered && gone.contains(entry.origin.hlc.rawValue >> 16) {
                    entry.accepted = OutboxEntry.Record(seq: 1, isRepeat: false)
                    outbox.table.put(entry)
                }
            }
            #expect(gone == [1, 5, 2, 3, 4, 6])
        }
    }

    @Test("what is tried again does not take along what others sent behind it rest on; what rests on it alone fails, also where it is discarded")
    func basesStay() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let edit = { (id: MessageID) in Event.Content.messageEdited(message: id, text: "other") }
            func take(_ entries: [OutboxEntry]) throws -> [UInt64] {
                let outbox = Outbox(side, entries, identity: Self.present)
                outbox.beginSession()
                var gone: [UInt64] = []
                for _ in 0..<4 {
                    gone += try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.map { event in
                        outbox.entries.first { EventCodec.encode($0.recorded).envelope == event.envelope }!.origin.hlc.rawValue >> 16
                    }
                    for var entry in outbox.entries where entry.isUnanswered && gone.contains(entry.origin.hlc.rawValue >> 16) {
                        entry.accepted = OutboxEntry.Record(seq: 1, isRepeat: false)
                        outbox.table.put(entry)
                    }
                }
                return gone + outbox.entries.filter(\.isFailed).map { 100 + ($0.origin.hlc.rawValue >> 16) }
            }
            let (before, present) = (Self.before, Self.present)
            #expect(
                try take([
                    Self.entry(1, in: chat, Self.text(one), of: present, .pending), Self.entry(2, in: chat, Self.text(two), of: before, .sent),
                    Self.entry(3, in: chat, edit(two), of: present, .sent),
                ]) == [2, 3, 1])
            let alone = [Self.entry(1, in: chat, Self.text(one), of: present, .pending), Self.entry(2, in: chat, edit(one), of: present, .sent)]
            #expect(try take(alone) == [1, 102])
            let outbox = Outbox(side, [alone[0], Self.entry(2, in: chat, edit(one), of: before, .sent)], identity: present)
            #expect(try outbox.discard([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [true])
        }
    }

    @Test("what rests on what rests on a refused offer fails too") func orphans() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, Self.text(one), of: Self.present, .failed(code: "", detail: "")),
                    Self.entry(2, in: chat, Self.text(two, replyTo: one, isStreaming: true), of: Self.before, .sent),
                    Self.entry(3, in: chat, .chunkAppended(message: two, index: 0, text: "text"), of: Self.before, .sent),
                ], identity: Self.present)
            outbox.beginSession()
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.isEmpty)
            #expect(outbox.entries.allSatisfy { $0.isFailed })
        }
    }

    @Test("what is sent again as it was stays behind what went before it in its lane, and what was made behind it too") func behindItsLane() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let identity = ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)), chats = [ConversationID.random(), ConversationID.random()]
            func event(_ counter: UInt64, _ chat: Int) -> RecordedEvent {
                let event = Event(
                    conversation: chats[chat], author: ada, content: .messageSent(Event.Message(id: .random(), role: .user, text: "\(counter)")))
                return RecordedEvent(
                    log: event.log, seq: 0, position: 0, origin: Origin(replica: identity.replica, counter: counter, hlc: HLC(rawValue: counter << 16)),
                    hlc: HLC(rawValue: 0), event: event, targetSeq: nil)
            }
            func entry(_ id: UInt64, _ recorded: RecordedEvent) -> OutboxEntry {
                var entry = OutboxEntry(id: id, event: recorded.event, origin: recorded.origin, nonce: identity.nonce)
                (entry.state, entry.wasSent) = (.sent, true)
                return entry
            }
            let outbox = Outbox(side, [entry(1, event(3, 1)), entry(2, event(2, 0)), entry(3, event(9, 0))], identity: identity)
            try outbox.putFirst([event(1, 0), event(5, 0), event(4, 1), event(6, 0)], sentNonce: identity.nonce, wasSent: { _ in true })
            #expect(outbox.entries.map(\.origin.counter) == [1, 3, 4, 2, 5, 6, 9])
            #expect(outbox.entries.map(\.id) == Array(1...7))
        }
    }

    @Test("a hub that says that it recorded an event where another stands is not believed", arguments: [false, true])
    func aLieAboutARecord(_ isRepeat: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<5 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            let device = try world.device(bob)
            try await world.sync(device)
            let entry = try device.append(message("mine", in: chat, by: bob))
            let replica = Monitor<ReplicaConnection?>(nil)
            let hub = world.hub.connect(send: { message in replica.withLock { $0 }?.receive(message) }, close: { _ in })
            let failure = Monitor<(any Error)?>(nil), closing = Monitor<Bye.Code?>(nil)
            let connection = device.connect(
                token: "",
                send: { message in
                    guard case .hello(var hello)? = try? Frame(decoding: message) else { return hub.receive(message) }
                    // The hub never sees it, and yet it is said to stand at seq 3.
                    hello.pushed = []
                    hub.receive(Frame.hello(hello).encoded())
                },
                close: { bye in
                    closing.withLock { $0 = bye.code }
                    hub.disconnected()
                }
            ) { event in
                if case .failed(let error) = event { failure.withLock { $0 = error } }
                guard case .connected = event, let origin = device.outbox.first?.origin else { return }
                let lie = Accepted(
                    log: .conversation(chat), replica: origin.replica, counter: origin.counter, seq: 3, hlc: origin.hlc, isDuplicate: isRepeat)
                replica.withLock { $0 }?.receive(Frame.accepted([lie]).encoded())
            }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { failure.withLock { $0 } != nil }
            #expect((failure.withLock { $0 } as? ReplicaError)?.code == .badPeer)
            #expect(closing.withLock { $0 } == .protocolError)
            #expect(device.outbox.map(\.id) == [entry.id])
            // An honest hub gets it.
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 1)?.messages.map(\.text) == ["mine"])
        }
    }

    @Test("an edited entry is another event, of the time of its edit; with the text that it had it stays the same")
    func clockOfAnEdit() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada), path = device.store.log.path
            try await world.sync(device)
            try device.close()
            var options = ReplicaOptions()
            options.execution.now = { Instant(wallMilliseconds: 4_000_000_000_000, monotonicMilliseconds: 0) }
            let ahead = try Replica.open(at: path, user: ada, options: options)
            let old = try ahead.append(message("one", in: chat, by: ada))
            try ahead.close()
            // The clock was set right meanwhile.
            let offline = try world.open(path, ada)
            try offline.edit(old.id, text: "one")
            #expect(offline.outbox == [old])
            try offline.edit(old.id, text: "two")
            let new = try #require(offline.outbox.first)
            #expect(new.origin.hlc < old.origin.hlc && new.origin.replica == old.origin.replica)
            #expect(try offline.append(message("three", in: chat, by: ada)).origin.hlc < old.origin.hlc)
            try offline.close()
            let again = try world.open(path, ada)
            #expect(again.outbox.first == new)
            try await world.sync(again)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["two", "three"])
        }
    }

    @Test("a conversation's second making that failed holds back nothing that was written before it, and takes nothing of that with it")
    func failedSecondMaking() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), taken = MessageID.random()
            _ = try await world.hubStore.append(message("bob's", in: chat, by: bob, id: taken))
            let device = try world.device(ada)
            try device.append([
                message("mine", in: chat, by: ada, id: taken),
                Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: .random(), role: .user, text: "reply", replyTo: taken))),
                Event(conversation: chat, author: ada, content: .conversationCreated(kind: .group, title: "again", participants: [])),
            ])
            try await world.sync(device)
            #expect(device.outbox.map(\.isFailed) == [true, false, true])
            #expect(device.outbox.map(\.isWaiting) == [false, true, false])
            try device.discard([device.outbox[2].id])
            #expect(device.outbox.map(\.isFailed) == [true, false])
            try device.discard([device.outbox[0].id])
            #expect(device.outbox.map(\.isFailed) == [true])
        }
    }

    @Test("what failed in a conversation that a hub lost is shown in lobby and timeline all the same, until it is discarded or comes again")
    func failedWithItsConversation() async throws {
        try await withWorld { world in
            try world.backUpHub()
            let chat = try await world.hubStore.createConversation(.group, title: "bob's", author: bob, participants: [ada])
            try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try await world.heal(world.device(ada))
            let own = message("mine", in: chat, by: ada)
            try device.append([own, Event(conversation: chat, author: ada, content: .conversationUpdated(title: "ada's", attributes: []))])
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try world.restoreHub()
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true, true])
            func expectShown(_ store: ConversationStore) throws {
                let row = try #require(try store.lobby(of: ada).rows.first)
                #expect(row.conversation == chat && row.participants == [ada] && row.unconfirmed != nil && row.unconfirmed != .pending)
                let messages = try #require(try store.timeline(of: chat)?.messages)
                #expect(messages.map(\.text) == ["mine"] && messages.map(\.author) == [ada])
            }
            try expectShown(device.store)
            // As a reader beside it, or without it, shows it.
            let path = device.store.log.path, overlay = try #require(try ReplicaOverlay(of: path))
            try device.close()
            let reader = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
            try overlay.show(in: reader)
            try expectShown(reader)
            try reader.close()
            device = try world.open(path, ada)
            try expectShown(device.store)
            // Made once more it is shown as that, with what was written in it before.
            let making = Event.Content.conversationCreated(kind: .direct, title: "again", participants: [])
            let again = try device.append(Event(conversation: chat, author: ada, content: making))
            let row = try #require(try device.store.lobby(of: ada).rows.first)
            #expect(row.title == "again" && row.kind == .direct)
            #expect(try device.store.timeline(of: chat)?.messages.map(\.text) == ["mine"])
            try device.discard([again.id])
            try expectShown(device.store)
            try device.discard()
            #expect(try device.store.lobby(of: ada).rows.isEmpty && device.store.timeline(of: chat) == nil)
        }
    }

    @Test("what only speaks of something in a conversation that a hub lost makes no empty conversation of it") func failedReceipt() async throws {
        try await withWorld { world in
            try world.backUpHub()
            let chat = try await world.hubStore.createConversation(.group, title: "bob's", author: bob, participants: [ada])
            let hello = try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try await world.heal(world.device(ada))
            try device.append(Event(conversation: chat, author: ada, content: .receiptRead(upTo: hello)))
            device = try await world.heal(device)
            try world.restoreHub()
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true])
            #expect(try device.store.lobby(of: ada).rows.isEmpty && device.store.timeline(of: chat) == nil)
        }
    }

    @Test("repeats of what is held leave the outbox", arguments: [1, 2])
    func repeats(_ devices: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let sent = try await world.hubStore.send("read me", to: chat, from: ada)
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            for device in [first, second].prefix(devices) {
                try device.append(Event(conversation: chat, author: bob, content: .receiptRead(upTo: sent)))
                try device.append(message("once", in: chat, by: bob, id: id))
                try device.append(Event(conversation: chat, author: bob, content: .participantLeft(eve)))
                try device.append(Event(conversation: chat, author: bob, content: .messageDeleted(message: id)))
                try await world.sync(device)
            }
            for device in [first, second] {
                try await world.sync(device)
                #expect(device.outbox.isEmpty)
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            }
        }
    }

    @Test func whatDependsOnARefusedMessageWaitsWithIt() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            try first.append(message("first's", in: chat, by: bob, id: id))
            var reply = Event.Message(id: .random(), role: .user, text: "a reply")
            reply.replyTo = id
            try second.append([
                message("second's", in: chat, by: bob, id: id), Event(conversation: chat, author: bob, content: .messageEdited(message: id, text: "edited")),
                Event(conversation: chat, author: bob, content: .messageSent(reply)),
            ])
            for device in [first, second] { try await world.sync(device) }
            #expect(second.outbox.map(\.isFailed) == [true, false, false] && second.outbox.map(\.isWaiting) == [false, true, true])
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages.map(\.text) == ["first's"])
        }
    }

    @Test func whatDependsOnAMessageGoesWhenThatIsAcceptedAndNothingOvertakesIt() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let device = try world.device(bob)
            try await world.sync(device)
            let id = MessageID.random(), streamed = MessageID.random(), own = MessageID.random()
            func event(_ content: Event.Content) -> Event { Event(conversation: chat, author: bob, content: content) }
            func sent(_ text: String, id: MessageID = .random(), replyTo: MessageID? = nil, isStreaming: Bool = false) -> Event {
                event(.messageSent(Event.Message(id: id, role: .user, text: text, isStreaming: isStreaming, replyTo: replyTo)))
            }
            try device.append([
                sent("one", id: id), sent("", id: streamed, isStreaming: true), event(.chunkAppended(message: streamed, index: 0, text: "two")),
                event(.messageCompleted(message: streamed, finishReason: "", usage: nil)), event(.messageEdited(message: id, text: "one, edited")),
                sent("names itself", id: own, replyTo: own), sent("three", replyTo: id), sent("four"), event(.participantLeft(eve)), sent("without eve"),
            ])
            var flights: [[UInt64]] = []
            func take() throws {
                let before = device.outbox.filter { $0.state == .sent }.map(\.id)
                _ = try device.takePushed(bytesMax: 1 << 20)
                flights.append(device.outbox.filter { $0.state == .sent && !before.contains($0.id) }.map(\.id))
            }
            try take()
            try take()
            // A stream in one flight with its beginning.
            #expect(flights == [[1, 2, 3, 4], []])
            try await world.sync(device)
            // What names itself is the hub's to refuse.
            #expect(device.outbox.map(\.id) == [6] && device.outbox[0].isFailed)
            let events = try world.hubStore.log.events(in: .conversation(chat))
            let left = events.firstIndex { $0.event.content == .participantLeft(eve) }
            #expect(left == events.count - 2)
            #expect(events.firstIndex { if case .messageEdited = $0.event.content { true } else { false } } == 5)
            let messages = try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages
            #expect(messages.map(\.text) == ["one, edited", "two", "three", "four", "without eve"])
        }
    }

    @Test("thousands of offline messages go in order", arguments: [1, 200])
    func manyOffline(_ conversations: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<conversations { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            let device = try world.device(bob)
            try await world.sync(device)
            let count = Int(ProcessInfo.processInfo.environment["OFFLINE_MESSAGES"] ?? "") ?? 2000
            let clock = ContinuousClock()
            let made = try clock.measure {
                for start in stride(from: 0, to: count, by: 100) {
                    try device.append((start..<start + 100).map { message("\($0)", in: chats[$0 % chats.count], by: bob) })
                }
            }
            let before = clock.now
            try await world.sync(device)
            if count > 2000 { print("OFFLINE \(count) messages in \(conversations): made in \(made), synced in \(clock.now - before)") }
            #expect(device.outbox.isEmpty)
            for (index, chat) in chats.enumerated() {
                let texts = try world.hubStore.timeline(of: chat, .newest, limit: count)?.messages.compactMap { Int($0.text) } ?? []
                #expect(texts == Array(stride(from: index, to: count, by: chats.count)))
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            }
        }
    }

    @Test("of two devices of one user that stream under one id, what the hub has from the other fails visibly", arguments: ["", "opened otherwise"])
    func twoStreamsUnderOneID(_ opening: String) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: bob)
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            func stream(_ texts: [String], _ opening: String, on device: Replica) throws {
                let begin = Event.Message(id: id, role: .assistant, text: opening, isStreaming: true)
                let chunks = texts.enumerated().map { Event.Content.chunkAppended(message: id, index: UInt32($0.offset), text: $0.element) }
                try device.append(([.messageSent(begin)] + chunks).map { Event(conversation: chat, author: bob, content: $0) })
            }
            try stream(["a0 ", "same ", "a2 "], "", on: first)
            try stream(["b0 ", "same ", "b2 ", "b3 "], opening, on: second)
            for device in [first, second, first] { try await world.sync(device) }
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["a0 same a2 "])
            #expect(first.outbox.isEmpty)
            let failed = second.outbox.filter(\.isFailed)
            func text(_ entry: OutboxEntry) -> String? { if case .chunkAppended(_, _, let text) = entry.event.content { text } else { nil } }
            // What follows a chunk that was refused goes on with nothing, though the hub may have the same text there, or be just there.
            #expect(failed.compactMap(text) == ["b0 ", "same ", "b2 ", "b3 "])
            let codes = failed.suffix(4).map { entry -> String in if case .failed(let code, _) = entry.state { code } else { "" } }
            #expect(codes == ["message_conflict", "unknown_message", "message_conflict", "unknown_message"])
            #expect(second.outbox.count == (opening.isEmpty ? 4 : 5))
            // The answer is the same for ever, and its screens say so.
            try second.retry()
            try await world.sync(second)
            #expect(second.outbox.filter(\.isFailed).compactMap(text).contains("b0 "))
            #expect(try second.store.lobby(of: bob).rows[0].unconfirmed != nil)
            try second.discard()
            #expect(try second.store.timeline(of: chat)?.messages == world.hubStore.timeline(of: chat)?.messages)
        }
    }

    @Test("a chunk in whose place another text stands is refused again when it is asked for again, the same text is a repeat")
    func chunkAskedForAgain() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: bob)
            let id = MessageID.random()
            func event(_ content: Event.Content) -> Event { Event(conversation: chat, author: bob, content: content) }
            func chunk(_ text: String) -> Event { event(.chunkAppended(message: id, index: 0, text: text)) }
            _ = try await world.hubStore.append(event(.messageSent(Event.Message(id: id, role: .assistant, text: "", isStreaming: true))))
            _ = try await world.hubStore.append(chunk("ours"))
            func answers(_ counter: UInt64, _ text: String, isFirst: Bool) async throws -> (refused: [String], repeats: [Bool]) {
                let peer = try await RawPeer(world.hub, bob)
                var entry = OutboxEntry(
                    id: 1, event: chunk(text), origin: Origin(replica: peer.replica, counter: counter, hlc: HLC(milliseconds: 5)), nonce: [])
                entry.state = .sent
                peer.send(.push([entry.pushed(isFirstSending: isFirst, sessionReplica: peer.replica)]))
                try await eventually { peer.answers == 1 }
                peer.end()
                return (peer.refused.map(\.code), peer.accepted.map(\.isDuplicate))
            }
            #expect(try await answers(1, "another", isFirst: true) == ([RefusalCode.messageConflict.rawValue], []))
            #expect(try await answers(2, "ours", isFirst: true) == ([], [true]))
            try world.reopenHub(log: { Issue.record("\($0)") }, after: { _ in })
            #expect(try await answers(1, "another", isFirst: false) == ([RefusalCode.messageConflict.rawValue], []))
            #expect(try await answers(2, "ours", isFirst: false) == ([], [true]))
        }
    }
}
