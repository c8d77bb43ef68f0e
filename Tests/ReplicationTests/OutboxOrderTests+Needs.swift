import ConversationStore
@testable import Replication
import StoreTesting
import Testing

/// An author's writing under ids that change, with clocks that may be wrong, of which a hub lost some, and some stands in the outbox.
private struct AnyLife {
    struct Writing {
        var event: Event
        var origin: Origin
        var needs: Set<Int> = []
    }

    let identities = (1...3).map { ReplicaIdentity(user: ada, nonce: [UInt8](repeating: $0, count: 16)) }
    /// In the order written.
    var writings: [Writing] = []
    /// The numbers of those that a hub lost, and of those that stand in the outbox, in its order.
    var lost: [Int] = []
    var entries: [OutboxEntry] = []
    var numbers: [Int] = []

    enum Kind: CaseIterable {
        /// Clocks ascend, nothing is tried again, and the hub had all that stands in the outbox.
        case calm
        /// The same, but that the hub had only some of it.
        case unsent
        case wild
    }

    init(_ random: inout SeededGenerator, _ kind: Kind) {
        let chats = (0..<2).map { _ in ConversationID.random() }
        var creations: [ConversationID: Int] = [:]
        var begun: Set<ConversationID> = []
        var messages: [(ConversationID, MessageID, Int)] = []
        var pieces: [MessageID: (next: UInt32, last: Int)] = [:]
        var counters: [LogID: UInt64] = [:]
        var clock = UInt64(1000), age = 0
        for number in 0..<Int.random(in: 2...16, using: &random) {
            if Int.random(in: 0..<5, using: &random) == 0, age < 2 { (age, counters) = (age + 1, [:]) }
            clock += 1
            if kind == .wild, Int.random(in: 0..<4, using: &random) == 0 { clock = UInt64.random(in: 0...2000, using: &random) }
            let chat = chats.randomElement(using: &random)!, known = messages.filter { $0.0 == chat }.randomElement(using: &random)
            var needs: Set<Int> = []
            let content: Event.Content
            // Others have made the conversation, or its author does, before all else.
            switch (Int.random(in: 0..<7, using: &random), known) {
            case (_, _) where creations[chat] == nil && begun.insert(chat).inserted && Bool.random(using: &random):
                content = .conversationCreated(kind: .group, title: "", participants: [ada])
            case (0, _): content = .preferenceSet(key: "mute", value: "\(number)")
            case (1, let known?): (content, needs) = (.messageEdited(message: known.1, text: "\(number)"), [known.2])
            case (2, let known?): (content, needs) = (.reactionSet(message: known.1, emoji: "\(number)", isOn: true), [known.2])
            case (3, let known?):
                let piece = pieces[known.1] ?? (0, known.2)
                (content, needs) = (.chunkAppended(message: known.1, index: piece.next, text: "chunk"), [known.2, piece.last])
                pieces[known.1] = (piece.next + 1, number)
            case (4, let known?): (content, needs) = (OutboxOrderTests.text(.random(), replyTo: known.1), [known.2])
            default: content = OutboxOrderTests.text(.random(), isStreaming: true)
            }
            let event = Event(conversation: chat, author: ada, content: content)
            if case .conversation = event.log, let creation = creations[chat] { needs.insert(creation) }
            switch content {
            case .messageSent(let message): messages.append((chat, message.id, number))
            case .conversationCreated: creations[chat] = number
            default: break
            }
            counters[event.log, default: 0] += 1
            let origin = Origin(replica: identities[age].replica, counter: counters[event.log]!, hlc: HLC(rawValue: clock << 16))
            writings.append(Writing(event: event, origin: origin, needs: needs))
            if Int.random(in: 0..<2, using: &random) == 0 { lost.append(number) } else { numbers.append(number) }
        }
        if kind == .wild {
            // What failed and is tried again goes behind all.
            let again = numbers.filter { _ in Int.random(in: 0..<5, using: &random) == 0 }
            numbers = numbers.filter { !again.contains($0) } + again
            for number in again {
                let log = writings[number].event.log
                counters[log, default: 0] += 1
                entries.append(entry(number, Origin(replica: identities[age].replica, counter: counters[log]!, hlc: writings[number].origin.hlc)))
                if Bool.random(using: &random) {
                    entries[entries.count - 1].former = FormerOrigin(replica: writings[number].origin.replica, counter: writings[number].origin.counter)
                }
            }
            entries = numbers.dropLast(again.count).map { entry($0, writings[$0].origin) } + entries
            for index in entries.indices {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: (entries[index].state, entries[index].origin.counter) = (.pending, 0)
                case 1: entries[index].state = .failed(code: "", detail: "")
                case 2: entries[index].isElsewhere = true
                default: break
                }
            }
        } else {
            entries = numbers.map { entry($0, writings[$0].origin) }
            for index in entries.indices {
                if kind == .calm || Bool.random(using: &random) {
                    entries[index].isElsewhere = true
                } else if Bool.random(using: &random) {
                    (entries[index].state, entries[index].origin.counter) = (.pending, 0)
                }
            }
        }
        for index in entries.indices { entries[index] = entries[index].with(id: UInt64(index + 1)) }
    }

    private func entry(_ number: Int, _ origin: Origin) -> OutboxEntry {
        let maker = identities.first { $0.replica == origin.replica }!
        var entry = OutboxEntry(id: 0, event: writings[number].event, origin: origin, nonce: maker.nonce)
        (entry.state, entry.wasSent) = (.sent, true)
        return entry
    }

    /// Whether that is a creation which stands behind what was said there: it was there.
    func isMadeAnew(_ number: Int) -> Bool {
        guard case .conversationCreated = writings[number].event.content, let place = numbers.firstIndex(of: number) else { return false }
        return numbers[..<place].contains { writings[$0].event.log == writings[number].event.log }
    }

    func recorded(_ number: Int) -> RecordedEvent {
        let writing = writings[number]
        return RecordedEvent(
            log: writing.event.log, seq: 0, position: 0, origin: writing.origin, hlc: HLC(rawValue: 0), event: writing.event, targetSeq: nil)
    }

    /// Of what stands where it stands, all that is needed by one that does not, be it by another such.
    func standing(under number: Int, _ isFree: (Int) -> Bool) -> Set<Int> {
        writings[number].needs.reduce(into: []) { result, need in
            if isFree(need) { result.formUnion(standing(under: need, isFree)) } else { result.insert(need) }
        }
    }
}

extension OutboxOrderTests {
    @Test("whatever an outbox holds, what a hub lost goes before what needs it and behind what it needs, and counters ascend", arguments: AnyLife.Kind.allCases)
    fileprivate func anyLost(_ kind: AnyLife.Kind) async throws {
        try await withSide { (side: SideStore) throws in
            for seed in UInt64(0)..<4000 {
                var random = SeededGenerator(seed: seed)
                let life = AnyLife(&random, kind)
                let again = Set(life.lost.filter { life.writings[$0].origin.replica == life.writings.last!.origin.replica && Bool.random(using: &random) })
                let outbox = Outbox(side, life.entries, identity: ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 9, count: 16)))
                let events = life.lost.map { life.recorded($0) }
                let sent = Set(again.map { life.recorded($0) })
                guard let all = outbox.with(first: events, sentNonce: [UInt8](repeating: 3, count: 16), wasSent: { sent.contains($0) }) else {
                    try #require(life.lost.isEmpty, "seed \(seed)")
                    continue
                }
                let order = all.map { entry in life.writings.firstIndex { $0.event == entry.event }! }
                try #require(order.filter { life.numbers.contains($0) } == life.numbers, "seed \(seed): \(order)")
                try #require(order.sorted() == Array(life.writings.indices), "seed \(seed): \(order)")
                try #require(all.map(\.id) == (0..<all.count).map { UInt64(life.entries.count + 1 + $0) })
                if kind != .wild {
                    for case .conversation(let chat) in Set(life.writings.map(\.event.log)) {
                        let ofChat = order.filter { life.writings[$0].event.log == .conversation(chat) && (kind == .calm || life.lost.contains($0)) }
                        try #require(ofChat == ofChat.sorted(), "seed \(seed): \(order), lost \(life.lost)")
                    }
                }
                for entries in Dictionary(grouping: all.filter { $0.state == .sent }, by: { [AnyHashable($0.event.log), AnyHashable($0.origin.replica)] })
                    .values
                {
                    try #require(entries.map(\.origin.counter) == entries.map(\.origin.counter).sorted(), "seed \(seed): \(order)")
                }
                let places = Dictionary(uniqueKeysWithValues: order.enumerated().map { ($1, $0) })
                let isFree = { (number: Int) in life.lost.contains(number) && !again.contains(number) }
                for number in life.lost where isFree(number) {
                    for need in life.writings[number].needs where !life.isMadeAnew(need) {
                        try #require(places[need]! < places[number]!, "seed \(seed): \(number) before \(need): \(order), lost \(life.lost)")
                    }
                    // Where it needs what was tried again, it comes when that does.
                    let last = life.standing(under: number, isFree).map { places[$0]! }.max() ?? 0
                    for other in life.numbers where life.writings[other].needs.contains(number) && last < places[other]! {
                        try #require(places[number]! < places[other]!, "seed \(seed): \(number) behind \(other): \(order), lost \(life.lost)")
                    }
                }
            }
        }
    }
}

extension OutboxOrderTests {
    /// Entries by their clocks, and what a hub lost.
    private func clocks(_ entries: [OutboxEntry], and lost: [OutboxEntry], again: [OutboxEntry] = []) async throws -> [UInt64] {
        var result: [UInt64] = []
        try await withSide { (side: SideStore) throws in
            let outbox = Outbox(
                side, entries.enumerated().map { $1.with(id: UInt64($0 + 1)) }, identity: ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 7, count: 16)))
            let sent = again.map(\.recorded)
            try outbox.putFirst(lost.map(\.recorded), sentNonce: Self.before.nonce, wasSent: { sent.contains($0) })
            result = outbox.entries.map { $0.origin.hlc.rawValue >> 16 }
        }
        return result
    }

    @Test("what a hub lost goes before what needs it and behind what it needs, whatever clocks said and is tried again") func neededFirst() async throws {
        let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
        let edit = Event.Content.messageEdited(message: one, text: "other")
        func entry(_ counter: UInt64, _ content: Event.Content, hlc: UInt64, of identity: ReplicaIdentity, _ state: OutboxEntry.State = .sent) -> OutboxEntry {
            var entry = Self.entry(counter, in: chat, content, of: identity, state)
            (entry.origin.hlc, entry.isElsewhere) = (HLC(rawValue: hlc << 16), state == .sent)
            return entry
        }
        let (before, present) = (Self.before, Self.present)
        // A message by a clock that ran ahead, and under a later id what was written then.
        #expect(try await clocks([entry(2, edit, hlc: 1, of: present)], and: [entry(1, Self.text(one), hlc: 9, of: before)]) == [9, 1])
        let creation = entry(1, .conversationCreated(kind: .group, title: "", participants: [ada]), hlc: 9, of: before)
        #expect(try await clocks([entry(2, Self.text(two), hlc: 1, of: present)], and: [creation]) == [9, 1])
        // What was written meanwhile does not go behind that, either.
        let lost = [entry(1, Self.text(one), hlc: 9, of: before), entry(2, Self.text(two), hlc: 3, of: before)]
        #expect(try await clocks([entry(1, edit, hlc: 2, of: present), entry(2, Self.text(.random()), hlc: 4, of: present)], and: lost) == [9, 2, 3, 4])
        // An edit of what was tried again, and stands behind what was sent since.
        var unanswered = entry(3, Self.text(two), hlc: 6, of: before)
        unanswered.isElsewhere = false
        #expect(try await clocks([unanswered, entry(4, Self.text(one), hlc: 1, of: before)], and: [entry(1, edit, hlc: 5, of: present)]) == [6, 1, 5])
        // Of the same lane as what was edited later, which failed, and is pending or not.
        for state in [OutboxEntry.State.pending, .failed(code: "", detail: "")] {
            let entries = [entry(3, edit, hlc: 6, of: before, state), entry(4, Self.text(two), hlc: 1, of: before)]
            #expect(try await clocks(entries, and: [entry(2, Self.text(one), hlc: 5, of: before)]) == [5, 6, 1])
        }
        // What is behind an edit of what was not sent stays behind that, and a preference behind the creation.
        let after = [entry(2, edit, hlc: 2, of: before), entry(3, Self.text(two), hlc: 3, of: before)]
        #expect(try await clocks([entry(1, Self.text(one), hlc: 1, of: present, .pending)], and: after) == [1, 2, 3])
        var preference = entry(1, .preferenceSet(key: "mute", value: "1"), hlc: 2, of: before)
        preference.isElsewhere = false
        let begun = [entry(3, .preferenceSet(key: "mute", value: "2"), hlc: 5, of: before), entry(1, creation.event.content, hlc: 1, of: before, .pending)]
        #expect(try await clocks(begun, and: [preference]) == [5, 1, 2])
        let early = [entry(9, .preferenceSet(key: "mute", value: "3"), hlc: 2, of: present, .pending), entry(2, Self.text(two), hlc: 3, of: present)]
        #expect(try await clocks(early, and: [creation]) == [9, 2, 3])
        // Nor does what its lane sent before it keep it behind what needs it.
        let three = MessageID.random(), speaks = entry(1, .messageEdited(message: three, text: "other"), hlc: 5, of: present)
        let behind = [speaks, entry(1, Self.text(two), hlc: 2, of: before)]
        #expect(try await clocks(behind, and: [entry(2, Self.text(three), hlc: 4, of: before)]) == [4, 5, 2])
        // What the hub has as something else is there.
        let taken = entry(2, Self.text(one), hlc: 1, of: present, .failed(code: RefusalCode.messageConflict.rawValue, detail: ""))
        #expect(try await clocks([taken], and: [entry(1, edit, hlc: 2, of: before)]) == [2, 1])
        // The first that makes a message will do.
        let twice = [entry(1, Self.text(one), hlc: 1, of: before), entry(2, edit, hlc: 2, of: before)]
        #expect(try await clocks([entry(2, Self.text(one), hlc: 7, of: present, .pending)], and: twice) == [1, 2, 7])
        // Pieces of an answer.
        func piece(_ index: UInt32) -> Event.Content { .chunkAppended(message: one, index: index, text: "") }
        let ahead = [entry(1, piece(0), hlc: 8, of: before), entry(2, piece(1), hlc: 9, of: before)]
        #expect(try await clocks([entry(1, piece(2), hlc: 2, of: present)], and: ahead) == [8, 9, 2])
    }

    @Test("what is sent again as it was stays in its lane's order, whatever clocks said") func againInItsLane() async throws {
        let chat = ConversationID.random(), first = ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 9, count: 16))
        func entry(_ counter: UInt64, hlc: UInt64, of identity: ReplicaIdentity) -> OutboxEntry {
            var entry = Self.entry(counter, in: chat, counter == 2 ? .participantLeft(ada) : Self.text(.random()), of: identity, .sent)
            (entry.origin.hlc, entry.isElsewhere) = (HLC(rawValue: hlc << 16), true)
            return entry
        }
        let left = entry(2, hlc: 5, of: Self.before)
        #expect(try await clocks([entry(3, hlc: 6, of: Self.before)], and: [entry(1, hlc: 9, of: first), left], again: [left]) == [9, 5, 6])
    }
}
