import Testing

@testable import ConversationStore
@testable import Projections
@testable import TalkWriter
import StoreTesting

@Suite("Overlays") struct OverlayTests {
    @Test(
        "What is pending is shown as it will be when it is confirmed; the confirmed state does not change by it (I5)",
        arguments: 1...3 as ClosedRange<UInt64>)
    func pending(_ seed: UInt64) throws {
        let twins = try Twins()
        var talk = Talk(seed: seed, conversations: 8, bias: 0.5)
        try twins.hub.take((0..<1500).map { _ in talk.next() })
        try twins.adoptAll()
        for round in 0..<6 {
            let count = [1, 5, 40, 200][round % 4]
            let pending = (0..<count).map { _ in twins.pending(talk.next()) }
            let digest = try twins.replica.digest()
            for (id, events) in Dictionary(grouping: pending, by: \.event.conversation) { twins.replica.setPending(events, of: id) }
            try twins.accept(pending)
            let ids = try twins.conversations
            for id in ids {
                let (own, ownPage) = try twins.replica.wholeTimeline(id, page: 7)
                let (others, page) = try twins.hub.wholeTimeline(id, page: 50)
                // A stream that is begun offline is pending, whatever will become of it.
                let isOwn = Dictionary(uniqueKeysWithValues: own.map { ($0.id, $0.unconfirmed != nil) })
                let expected = others.map { message in
                    var message = message
                    if isOwn[message.id] ?? false, message.state != .deleted { message.state = .complete }
                    return message
                }
                #expect(own.map(\.settled) == expected, "seed \(seed) round \(round)")
                #expect(try twins.replica.wholeTimelineForwards(id, page: 9) == own)
                #expect(ownPage.receipts == page.receipts && ownPage.hole == nil)
                #expect(try twins.replica.participants(of: id) == twins.hub.participants(of: id))
                for message in own {
                    #expect(try twins.replica.message(in: id, at: message.seq) == message)
                    #expect(try twins.replica.message(in: id, id: message.id) == message)
                }
            }
            for user in Talk.users {
                let own = try twins.replica.wholeLobby(user, page: 3)
                let others = try twins.hub.wholeLobby(user, page: 50)
                #expect(own.map(\.settled) == others.map(\.settled), "seed \(seed) round \(round) \(user)")
                for row in own { #expect(try twins.replica.lobbyRow(of: row.conversation, for: user) == row) }
            }
            #expect(try twins.replica.digest() == digest)
            // Nobody sets anything: what is confirmed is pending no longer.
            try twins.adoptAll()
            #expect(twins.replica.overlaidConversations == [])
            for id in ids { #expect(try twins.replica.wholeTimeline(id, page: 50).messages == twins.hub.wholeTimeline(id, page: 50).messages) }
            #expect(try twins.replica.digest() == twins.hub.digest())
        }
        #expect(try twins.replica.isFold())
        try twins.close()
    }

    @Test("A base is the same whoever folds it: of the live state, of a log folded anew, of a store that holds so much and no more (I4)")
    func base() throws {
        let twins = try Twins()
        var talk = Talk(seed: 11, conversations: 6, bias: 0.6)
        try twins.hub.take((0..<3000).map { _ in talk.next() })
        for id in try twins.conversations {
            let (base, seq) = try #require(try twins.hub.encodedBase(of: id))
            #expect(try twins.hub.encodedBase(of: id, at: seq) == base)
            #expect(try twins.hub.encodedBase(of: id, at: seq + 1) == nil)
            for part in [1, 2, seq / 3, seq / 2, seq - 1] where part > 0 {
                try twins.adopt(.conversation(id), through: part)
                let held = try #require(try twins.replica.encodedBase(of: id))
                #expect(held.seq == part)
                #expect(try twins.hub.encodedBase(of: id, at: part) == held.base)
                _ = try Preview(base: held.base, baseSeq: part, events: [])
            }
        }
        #expect(try twins.hub.encodedBase(of: .random()) == nil)
        #expect(try twins.hub.encodedBase(of: .random(), at: 5) == nil)
        try twins.close()
    }

    @Test(
        "The newest part of a log shows what the hub shows; what lies below the hole is stale; once the log is whole there is no hole",
        arguments: 1...3 as ClosedRange<UInt64>)
    func preview(_ seed: UInt64) throws {
        let twins = try Twins()
        var talk = Talk(seed: seed &+ 100, conversations: 7, bias: 0.4)
        try twins.hub.take((0..<2000).map { _ in talk.next() })
        var random = SeededGenerator(seed: seed)
        for id in try twins.conversations {
            let last = try #require(try twins.hub.encodedBase(of: id)).seq
            guard last > 10 else { continue }
            let held = Seq(random.below(Int(last / 2)))
            let base = held + 1 + Seq(random.below(Int(last - held - 1)))
            try twins.adopt(.conversation(id), through: held)
            let digest = try twins.replica.digest()
            let events = try twins.hub.log.events(in: .conversation(id), range: base + 1...last)
            twins.replica.setPreview(try Preview(base: twins.hub.encodedBase(of: id, at: base), baseSeq: base, events: events), of: id)
            let (own, page) = try twins.replica.wholeTimeline(id, page: 5)
            let others = try twins.hub.wholeTimeline(id, page: 50).messages
            let what: Comment = "seed \(seed) \(id): \(held), \(base), \(last)"
            #expect(own.filter { !$0.isStale } == others.filter { $0.seq > base }, what)
            #expect(own.filter(\.isStale).map(\.seq) == others.map(\.seq).filter { $0 <= held }, what)
            #expect(try twins.replica.wholeTimelineForwards(id, page: 4) == own, what)
            #expect(page.receipts == (try twins.hub.receipts(of: id)), what)
            #expect(page.seq == last)
            #expect(try #require(try twins.replica.timeline(of: id, .around(base), limit: 2)).hole == held + 1...base, what)
            #expect(try twins.replica.message(in: id, at: base) == nil)
            for message in own {
                #expect(try twins.replica.message(in: id, at: message.seq) == message, what)
                #expect(try twins.replica.message(in: id, id: message.id) == message, what)
            }
            for user in Talk.users {
                var row = try twins.hub.lobbyRow(of: id, for: user)
                // In the user's own log, which is not here.
                row?.preferences = [:]
                #expect(try twins.replica.lobbyRow(of: id, for: user) == row, what)
            }
            let window = try #require(try twins.replica.contextWindow(of: id, budget: 100_000))
            #expect(window.messages.allSatisfy { !$0.isStale } && window.seq == last)
            #expect(try twins.replica.digest() == digest)
        }
        for user in Talk.users {
            let own = try twins.replica.wholeLobby(user, page: 2)
            #expect(own.map(\.conversation) == (try twins.hub.wholeLobby(user, page: 50)).map(\.conversation))
        }
        // Downloaded whole, in pieces: the hole shrinks, and is gone.
        for id in try twins.conversations {
            let last = try #require(try twins.hub.encodedBase(of: id)).seq
            try twins.adopt(.conversation(id), through: last - 1)
            try twins.adopt(.conversation(id))
            #expect(try twins.replica.timeline(of: id) == twins.hub.timeline(of: id))
            twins.replica.setPreview(nil, of: id)
            #expect(try twins.replica.timeline(of: id) == twins.hub.timeline(of: id))
        }
        #expect(twins.replica.overlaidConversations == [])
        try twins.close()
    }

    @Test("Wherever a base ends, unread messages are counted exactly from there on, by receipts and deletions of what came before it, too")
    func unread() throws {
        let twins = try Twins()
        var talk = Talk(seed: 21, conversations: 4, bias: 0.5)
        try twins.hub.take((0..<600).map { _ in talk.next() })
        var wasRead = 0
        for id in try twins.conversations {
            let all = try twins.hub.log.events(in: .conversation(id))
            for base in 1..<all.count {
                let events = Array(all[base..<min(base + 6, all.count)])
                twins.replica.setPreview(try Preview(base: twins.hub.encodedBase(of: id, at: Seq(base)), baseSeq: Seq(base), events: events), of: id)
                let recount = Recount(Array(all[..<(base + events.count)])).conversations[id]!
                for user in recount.people {
                    let row = try #require(try twins.replica.lobbyRow(of: id, for: user))
                    #expect(row.unread == recount.unread(user) && row.lastMessage?.seq == recount.messages.last?.seq, "\(base) of \(all.count)")
                    #expect(row.lastMessage?.snippet == (recount.messages.last?.text.unicodeScalars.prefix(120)).map { String(String.UnicodeScalarView($0)) })
                    #expect(row.lastMessage?.state == recount.messages.last?.state)
                }
                wasRead += events.count { $0.event.content.kind == .receiptRead && $0.targetSeq! < base }
            }
        }
        #expect(wasRead > 50)
        try twins.close()
    }

    @Test("A base that contradicts itself is refused: who is not there, more unread than there is, a mark that is not reached (I7)")
    func contradictions() throws {
        let twins = try Twins()
        var talk = Talk(seed: 5, conversations: 1, bias: 1)
        try twins.hub.take((0..<60).map { _ in talk.next() })
        let id = try #require(try twins.conversations.first)
        let row = try #require(try twins.hub.conversations.read(in: twins.hub.log) { try $0.rows.row(at: id) })
        let last = ConversationBase.cut(try #require(try row.open.message(at: row.last!.seq)))
        let seq = row.seq
        func isRefused(_ seqs: [Seq] = [], _ change: (inout ConversationRow, inout MessageRow?) -> Void) -> Bool {
            var (row, last) = (row.summary, Optional(last))
            change(&row, &last)
            let bytes = ConversationBase(row, seqs: seqs, last: last).encoded
            return (try? Preview(base: bytes, baseSeq: row.seq, events: [])) == nil
        }
        #expect(!isRefused { _, _ in })
        #expect(
            isRefused { row, last in
                row.last!.author = 99
                last!.author = 99
            })
        #expect(isRefused { row, _ in row.last!.author = 99 })
        #expect(isRefused { _, last in last = nil })
        #expect(isRefused { row, _ in row.last = nil })
        #expect(isRefused { row, _ in row.live = row.messages + 1 })
        #expect(isRefused { row, _ in row.messages = row.seq })
        #expect(isRefused { row, _ in row.live = 0 })
        #expect(isRefused { row, _ in row.editPerson(0) { $0.mark = seq + 1 } })
        #expect(isRefused { row, _ in row.editPerson(0) { $0.readTo = .max } })
        #expect(isRefused { row, _ in row.editPerson(0) { ($0.mark, $0.liveToMark) = (1, seq) } })
        #expect(isRefused { row, _ in row.systems = [.max] })
        #expect(isRefused { row, _ in row.seq = 1 << 60 })
        #expect(isRefused([last.seq]) { _, _ in })
        #expect(isRefused([3, 2]) { _, _ in })
        try twins.close()
    }

    @Test("A damaged base is an error or the base of another state, and folds on without a trap (I7)")
    func hostile() throws {
        let twins = try Twins()
        var talk = Talk(seed: 5, conversations: 3, bias: 0.6)
        try twins.hub.take((0..<800).map { _ in talk.next() })
        var random = SeededGenerator(seed: 9)
        var accepted = 0
        for id in try twins.conversations {
            let last = try #require(try twins.hub.encodedBase(of: id)).seq
            let seq = last / 2
            let base = try #require(try twins.hub.encodedBase(of: id, at: seq))
            let events = try twins.hub.log.events(in: .conversation(id), range: seq + 1...last)
            for _ in 0..<1500 {
                var bytes = base
                switch random.below(4) {
                case 0: bytes.removeLast(random.below(bytes.count) + 1)
                case 1: bytes.append(UInt8(random.below(256)))
                default:
                    for _ in 0...random.below(3) {
                        bytes[random.below(bytes.count)] = random.chance(0.5) ? UInt8(random.below(256)) : random.element([0, 1, 127, 255])
                    }
                }
                guard let preview = try? Preview(base: bytes, baseSeq: seq, events: events) else { continue }
                accepted += 1
                twins.replica.setPreview(preview, of: id)
                for user in Talk.users { _ = try twins.replica.lobbyRow(of: id, for: user) }
                for range in [TimelineRange.newest, .unread(Talk.users[0]), .before(seq), .after(seq), .around(1)] {
                    _ = try twins.replica.timeline(of: id, range)
                }
                _ = try twins.replica.contextWindow(of: id, budget: 1000)
            }
            #expect(throws: EventLogError.self) { try Preview(base: [], baseSeq: 0, events: events) }
            #expect(throws: EventLogError.self) { try Preview(base: base, baseSeq: seq - 1, events: events) }
            #expect(throws: EventLogError.self) { try Preview(base: base, baseSeq: seq, events: Array(events.dropFirst())) }
            #expect { try Preview(base: [2] + base.dropFirst(), baseSeq: seq, events: events) } throws: { ($0 as? EventLogError)?.code == .newerFormat }
        }
        #expect(accepted > 0)
        try twins.close()
    }
}
