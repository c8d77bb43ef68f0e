import ConversationStore
import Foundation
@testable import Replication
import StoreTesting
import Testing

/// In which order a replica's own events go, whatever an outbox holds.
@Suite struct OutboxOrderTests {
    func withSide(_ body: (SideStore) throws -> Void) async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            try body(side)
        }
    }

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
        try await withSide { (side: SideStore) throws in
            for seed in UInt64(0)..<600 {
                var random = SeededGenerator(seed: seed)
                let any = AnyOutbox(&random)
                try side.write { transaction in
                    for log in Set(any.entries.map(\.event.log)) {
                        try transaction.put(SyncTables.lanes, log.key, withUnsafeBytes(of: UInt64(100).bigEndian) { Array($0) })
                    }
                }
                let outbox = Outbox(side, any.entries, identity: any.present)
                try outbox.beginSession()
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
                        try outbox.beginSession()
                        (sent, counters) = ([], [:])
                    }
                }
                let open = outbox.entries.filter { $0.isUnanswered || $0.state == .pending && !$0.isWaiting }
                #expect(open.isEmpty, "seed \(seed): \(open.map(\.id)) wait for ever")
            }
        }
    }

    @Test("a conversation does not wait for another's, though preferences of both stand in one log") func otherConversations() async throws {
        try await withSide { (side: SideStore) throws in
            let chats = [ConversationID.random(), ConversationID.random()], one = MessageID.random()
            let contents: [(Int, Event.Content)] = [
                (0, .messageSent(Event.Message(id: one, role: .user, text: "text"))), (0, .messageEdited(message: one, text: "other")),
                (0, .preferenceSet(key: "mute", value: "1")), (1, .preferenceSet(key: "mute", value: "1")),
                (1, .messageSent(Event.Message(id: .random(), role: .user, text: "text"))),
            ]
            let outbox = try Outbox(side, identity: ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)))
            let made = try outbox.add(
                contents.enumerated().map { (Event(conversation: chats[$1.0], author: ada, content: $1.1), HLC(rawValue: UInt64($0) << 16)) })
            try outbox.beginSession()
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
    static let (before, present) = (
        ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)), ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 2, count: 16))
    )

    static func entry(_ id: UInt64, in chat: ConversationID, _ content: Event.Content, of identity: ReplicaIdentity, _ state: OutboxEntry.State)
        -> OutboxEntry
    {
        let origin = Origin(replica: identity.replica, counter: state == .pending ? 0 : id, hlc: HLC(rawValue: id << 16))
        var entry = OutboxEntry(id: id, event: Event(conversation: chat, author: ada, content: content), origin: origin, nonce: identity.nonce)
        (entry.state, entry.wasSent) = (state, true)
        return entry
    }

    /// The numbers that `entry` gave to what goes; ids change.
    static func numbers(_ flight: [PushedEvent], _ outbox: Outbox) -> [UInt64] {
        flight.map { event in outbox.entries.first { EventCodec.encode($0.recorded).envelope == event.envelope }!.origin.hlc.rawValue >> 16 }
    }

    static func accept(_ numbers: [UInt64], _ outbox: Outbox) {
        for var entry in outbox.entries where entry.isUnanswered && numbers.contains(entry.origin.hlc.rawValue >> 16) {
            entry.accepted = OutboxEntry.Record(seq: 1, isRepeat: false)
            outbox.table.put(entry)
        }
    }

    static func text(_ id: MessageID, replyTo: MessageID? = nil, isStreaming: Bool = false) -> Event.Content {
        .messageSent(Event.Message(id: id, role: .user, text: "text", isStreaming: isStreaming, replyTo: replyTo))
    }

    @Test("what was sent under an id before stays behind an offer that it rests on, also where that moves") func movesTogether() async throws {
        try await withSide { (side: SideStore) throws in
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
            try outbox.beginSession()
            var gone: [UInt64] = []
            for _ in 0..<8 {
                var flight: [PushedEvent] = []
                repeat {
                    flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
                    gone += Self.numbers(flight, outbox)
                } while !flight.isEmpty
                Self.accept(gone, outbox)
            }
            #expect(gone == [1, 5, 2, 3, 4, 6])
        }
    }

    @Test("what is tried again does not take along what others sent behind it rest on; what rests on it alone fails, also where it is discarded")
    func basesStay() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let edit = { (id: MessageID) in Event.Content.messageEdited(message: id, text: "other") }
            func take(_ entries: [OutboxEntry]) throws -> [UInt64] {
                let outbox = Outbox(side, entries, identity: Self.present)
                try outbox.beginSession()
                var gone: [UInt64] = []
                for _ in 0..<4 {
                    gone += Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox)
                    Self.accept(gone, outbox)
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
            // The hub had accepted it when the edit was sent, and says what becomes of that now.
            #expect(try take(alone) == [2, 1])
            #expect(
                try take([
                    Self.entry(1, in: chat, Self.text(one), of: present, .pending), Self.entry(2, in: chat, Self.text(two, replyTo: one), of: before, .sent),
                    Self.entry(3, in: chat, edit(two), of: before, .sent), Self.entry(4, in: chat, Self.text(.random()), of: present, .sent),
                ]) == [4, 1, 102, 103])
            let outbox = Outbox(side, [alone[0], Self.entry(2, in: chat, edit(one), of: before, .sent)], identity: present)
            #expect(try outbox.discard([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [true])
        }
    }

    @Test("what is sent again as it was stays behind what went before it in its lane, and what was made behind it too") func behindItsLane() async throws {
        try await withSide { (side: SideStore) throws in
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
            #expect(outbox.entries.map(\.id) == Array(4...10))
        }
    }

    @Test("what a hub lost stays behind what its lane sent before it and is there still, also where it is offered anew")
    func lostBehindUnanswered() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random()
            let entries = [
                Self.entry(3, in: chat, Self.text(.random()), of: Self.before, .sent), Self.entry(5, in: chat, Self.text(.random()), of: Self.before, .sent),
            ]
            let lost = (1...7).filter { $0 % 2 == 0 }.map { Self.entry(UInt64($0), in: chat, Self.text(.random()), of: Self.before, .sent).recorded }
            let outbox = Outbox(side, entries, identity: Self.present)
            try outbox.putFirst(lost)
            #expect(outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [2, 3, 4, 5, 6])
            #expect(outbox.entries.map(\.state) == [.pending, .sent, .pending, .sent, .pending])
        }
    }

    @Test("what a hub lost stays behind what its lane sent before it, also where that is offered under another id") func lostBehindOffer() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random()
            func lost(_ number: UInt64) -> RecordedEvent { Self.entry(number, in: chat, Self.text(.random()), of: Self.before, .sent).recorded }
            for state in [OutboxEntry.State.pending, .sent] {
                var offer = Self.entry(2, in: chat, Self.text(.random()), of: Self.present, state)
                offer.former = FormerOrigin(replica: Self.before.replica, counter: 2)
                let outbox = Outbox(side, [offer], identity: Self.present)
                try outbox.putFirst([lost(1), lost(3)])
                #expect(outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [1, 2, 3])
                #expect(outbox.entries.map(\.former) == (1...3).map { FormerOrigin(replica: Self.before.replica, counter: $0) })
                // On the disk, too.
                let again = try Outbox(side, identity: Self.present)
                #expect(again.entries.map(\.former) == outbox.entries.map(\.former))
                for entry in again.entries { try side.write { try $0.delete(SyncTables.outbox, Outbox.key(entry.id)) } }
            }
        }
    }

    @Test("what a hub lost stays behind what a hub had that was made before it, under whatever ids", arguments: [false, true])
    func lostBehindAccepted(_ isOffer: Bool) async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), other = ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 9, count: 16))
            let entries = [UInt64(2), 3].map { number in
                var entry = Self.entry(number, in: chat, Self.text(.random()), of: Self.present, .sent)
                if isOffer { entry.former = FormerOrigin(replica: Self.before.replica, counter: number) } else { entry.isElsewhere = true }
                return entry
            }
            let elsewhere = Self.entry(7, in: .random(), Self.text(.random()), of: other, .sent)
            let lost = [1, 4, 5].map { Self.entry($0, in: chat, Self.text(.random()), of: other, .sent) }
            let new = Self.entry(6, in: chat, Self.text(.random()), of: Self.present, .pending)
            let outbox = Outbox(side, entries + [new], identity: Self.present)
            try outbox.putFirst(([elsewhere] + lost).map(\.recorded))
            #expect(outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [7, 1, 2, 3, 4, 5, 6])
        }
    }

    @Test("but not behind what was sent after it: what was tried again, or made by a wrong clock, stands there", arguments: [false, true])
    func lostBeforeWhatFollowed(_ isSentAgain: Bool) async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), first = ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 9, count: 16))
            func entry(_ counter: UInt64, hlc: UInt64, _ state: OutboxEntry.State = .sent) -> OutboxEntry {
                var entry = Self.entry(counter, in: chat, Self.text(.random()), of: Self.before, state)
                entry.origin.hlc = HLC(rawValue: hlc << 16)
                return entry
            }
            func clocks(of entries: [OutboxEntry], and lost: OutboxEntry) throws -> [UInt64] {
                let outbox = Outbox(side, entries, identity: Self.present)
                try outbox.putFirst([lost.recorded], sentNonce: Self.before.nonce, wasSent: { _ in isSentAgain })
                return outbox.entries.map { $0.origin.hlc.rawValue >> 16 }
            }
            var again = entry(4, hlc: 1, .pending)
            again.former = FormerOrigin(replica: first.replica, counter: 1)
            #expect(try clocks(of: [entry(3, hlc: 6), again], and: entry(2, hlc: 5)) == [5, 6, 1])
            // The same where what followed was sent under another id.
            var other = entry(3, hlc: 6)
            other.origin.replica = first.replica
            #expect(try clocks(of: [other, again], and: entry(2, hlc: 5)) == [5, 6, 1])
            var edit = entry(2, hlc: 1)
            edit.isElsewhere = true
            #expect(try clocks(of: [edit], and: entry(1, hlc: 9)) == [9, 1])
        }
    }

    @Test("what was made behind one that is in the outbox already goes behind it") func lostBehindTwin() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), message = MessageID.random()
            let entries = (1...4).map { Self.entry($0, in: chat, Self.text($0 == 3 ? message : .random()), of: Self.present, .pending) }
            let edit = Self.entry(9, in: chat, .messageEdited(message: message, text: "other"), of: Self.before, .sent)
            let elsewhere = Self.entry(8, in: .random(), Self.text(.random()), of: Self.before, .sent)
            let outbox = Outbox(side, entries, identity: Self.present)
            try outbox.putFirst([entries[2], elsewhere, edit].map(\.recorded))
            #expect(outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [8, 1, 2, 3, 9, 4])
        }
    }

    @Test("a preference that must go behind others does not keep what another conversation lost from its place") func lostPreferences() async throws {
        try await withSide { (side: SideStore) throws in
            let (one, other) = (ConversationID.random(), ConversationID.random()), message = MessageID.random()
            func preference(_ id: UInt64, of chat: ConversationID) -> OutboxEntry {
                Self.entry(id, in: chat, .preferenceSet(key: "mute", value: "\(id)"), of: Self.before, .sent)
            }
            func text(_ id: UInt64, in chat: ConversationID, _ message: MessageID = .random()) -> OutboxEntry {
                Self.entry(id, in: chat, Self.text(message), of: Self.before, .sent)
            }
            let edit = Self.entry(4, in: one, .messageEdited(message: message, text: "other"), of: Self.before, .sent)
            let outbox = Outbox(side, [edit, text(6, in: other)], identity: Self.present)
            try outbox.putFirst([text(7, in: other), preference(2, of: other), preference(3, of: one), text(1, in: one, message)].map(\.recorded))
            #expect(outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [1, 4, 6, 7, 2, 3])
        }
    }
}
