import ConversationStore
import Testing

@testable import TalkWriter
import StoreTesting

@Suite("Pages of timelines and lobbies") struct PagesTests {
    /// What a page must hold, from the conversation's messages in order.
    private static func expected(_ all: [Recount.Message], _ range: TimelineRange, _ limit: Int, mark: Seq) -> Range<Int> {
        func end(before seq: Seq) -> Int { all.firstIndex { $0.seq >= seq } ?? all.count }
        func around(_ middle: Int, _ before: Int) -> Range<Int> {
            let start = max(0, middle - before)
            return start..<min(all.count, middle + limit - (middle - start))
        }
        switch range {
        case .newest: return max(0, all.count - limit)..<all.count
        case .before(let seq): return max(0, end(before: seq) - limit)..<end(before: seq)
        case .after(let seq):
            let start = seq == .max ? all.count : end(before: seq + 1)
            return start..<min(all.count, start + limit)
        case .around(let seq): return around(end(before: seq), limit / 2)
        case .unread:
            let start = end(before: mark + 1)
            return start == all.count ? max(0, all.count - limit)..<all.count : around(start, limit / 3)
        }
    }

    @Test("Every range of a timeline is what is counted again, in long conversations too", arguments: 1...2 as ClosedRange<UInt64>)
    func ranges(_ seed: UInt64) throws {
        let scratch = try Scratch()
        var store = try scratch.open(journal: 256 << 10)
        var talk = Talk(seed: seed, conversations: 4, bias: seed == 1 ? 0.9 : 0.4)
        let first = (0..<(seed == 1 ? 9000 : 2500)).map { _ in talk.next() }
        try store.take(first, batch: 500)
        let recount = Recount(try store.events())
        var random = SeededGenerator(seed: seed)
        for round in 0..<2 {
            for (id, conversation) in recount.conversations {
                let all = conversation.messages
                let ids = Dictionary(uniqueKeysWithValues: all.map { ($0.seq, $0.id) })
                for _ in 0..<150 {
                    let seq = random.element([0, 1, Seq.max, conversation.seq, conversation.seq + 1, Seq(random.below(Int(conversation.seq) + 3))])
                    let user = random.element(Talk.users)
                    let range: TimelineRange = random.element([.newest, .before(seq), .after(seq), .around(seq), .unread(user)])
                    let limit = random.element([0, 1, 2, 3, 10, 16, 17, 50, 200])
                    let mark = max(conversation.read[user] ?? 0, all.last { $0.author == user }?.seq ?? 0)
                    let page = try #require(try store.timeline(of: id, range, limit: limit))
                    let wanted = Self.expected(all, range, limit, mark: mark)
                    let what: Comment = "\(range) limit \(limit) of \(all.count) messages, last seq \(conversation.seq), round \(round)"
                    #expect(page.messages.map(\.seq) == all[wanted].map(\.seq), what)
                    #expect(zip(page.messages, all[wanted]).allSatisfy { $0.isLike($1) }, what)
                    #expect(page.seq == conversation.seq, what)
                    if !wanted.isEmpty {
                        #expect(page.hasBefore == (wanted.lowerBound > 0), what)
                        #expect(page.hasAfter == (wanted.upperBound < all.count), what)
                    } else if case .before(let seq) = range, limit > 0 {
                        #expect(!page.hasBefore && page.hasAfter == all.contains { $0.seq >= seq }, what)
                    } else if case .after(let seq) = range, limit > 0 {
                        #expect(!page.hasAfter && page.hasBefore == all.contains { $0.seq <= seq }, what)
                    } else if case .newest = range {
                        #expect(!page.hasAfter && page.hasBefore == (!all.isEmpty), what)
                    } else if case .around(let seq) = range, limit > 0 {
                        #expect(page.hasAfter == false && page.hasBefore == all.contains { $0.seq < seq }, what)
                    }
                    #expect(try store.message(in: id, at: seq)?.id == ids[seq], what)
                }
                // Walked from end to end, either way, every message comes once.
                var walked: [Seq] = []
                var range = TimelineRange.newest
                while true {
                    let page = try #require(try store.timeline(of: id, range, limit: 37))
                    walked.insert(contentsOf: page.messages.map(\.seq), at: 0)
                    guard page.hasBefore else { break }
                    range = .before(page.messages[0].seq)
                }
                #expect(walked == all.map(\.seq))
                walked = []
                range = .after(0)
                while true {
                    let page = try #require(try store.timeline(of: id, range, limit: 41))
                    walked += page.messages.map(\.seq)
                    guard page.hasAfter else { break }
                    range = .after(page.messages.last!.seq)
                }
                #expect(walked == all.map(\.seq))
                if let message = all.randomElement(using: &random) { #expect(try store.message(in: id, id: message.id)?.seq == message.seq) }
            }
            #expect(try store.timeline(of: ConversationID(high: 1, low: 1)) == nil)
            try store.close()
            store = try scratch.open()
        }
        try store.close()
    }

    @Test("What a page shows is the same value live and reopened")
    func sameValues() throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        var talk = Talk(seed: 21)
        try store.take((0..<3000).map { _ in talk.next() })
        let ids = talk.conversations.map(\.id)
        let live = try ids.map { try store.timeline(of: $0, limit: .max) }
        let lobbies = try Talk.users.map { try store.lobby(of: $0) }
        try store.close()
        store = try scratch.open()
        for (id, page) in zip(ids, live) {
            let again = try store.timeline(of: id, limit: .max)
            #expect(again?.messages.count == page?.messages.count)
            for (old, new) in zip(page?.messages ?? [], again?.messages ?? []) { #expect(old == new) }
            #expect(again == page)
        }
        #expect(try Talk.users.map { try store.lobby(of: $0) } == lobbies)
        try store.close()
    }

    @Test("A lobby's pages by cursor are the whole lobby, in order; a conversation that moves up meanwhile makes no other disappear")
    func lobbies() throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        var talk = Talk(seed: 22, conversations: 60, bias: 0)
        for round in 0..<12 {
            try store.take((0..<400).map { _ in talk.next() })
            let recount = Recount(try store.events())
            for user in Talk.users {
                let expected = recount.lobby(user)
                #expect(try store.lobby(of: user, limit: .max).rows.map(\.conversation) == expected)
                var walked: [ConversationID] = []
                var cursor: LobbyCursor?
                repeat {
                    let page = try store.lobby(of: user, after: cursor, limit: 7)
                    walked += page.rows.map(\.conversation)
                    cursor = page.next.flatMap { LobbyCursor($0.description) }
                } while cursor != nil
                #expect(walked == expected, "\(user), round \(round)")
                for row in try store.lobby(of: user, limit: 3).rows {
                    #expect(try store.lobbyRow(of: row.conversation, for: user) == row)
                    #expect(row.unread == recount.conversations[row.conversation]!.unread(user))
                }
            }
            if round % 4 == 3 {
                try store.close()
                store = try scratch.open()
            }
        }
        let user = Talk.users[0]
        let before = try store.lobby(of: user, limit: .max).rows.map(\.conversation)
        let page = try store.lobby(of: user, limit: 5)
        let author = try #require(try store.lobbyRow(of: before[9], for: user)).participants[0]
        try store.take([Event(conversation: before[9], author: author, content: .messageSent(Event.Message(id: .random(), role: .user, text: "up")))])
        let rest = try store.lobby(of: user, after: page.next, limit: .max).rows.map(\.conversation)
        #expect(Set(page.rows.map(\.conversation) + rest + [before[9]]) == Set(before))
        #expect(try store.lobby(of: user, limit: 1).rows.map(\.conversation) == [before[9]])
        #expect(try store.lobby(of: UserID("nobody")!).rows.isEmpty)
        try store.close()
    }
}
