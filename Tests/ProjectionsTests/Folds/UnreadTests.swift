import Testing

@testable import ConversationStore
@testable import Projections
@testable import TalkWriter
import StoreTesting

@Suite("Unread") struct UnreadTests {
    @Test("Unread never drifts: after any operations it is what is counted again (CONVSTORE_UNREAD_OPERATIONS)", .timeLimit(.minutes(60)))
    func drift() throws {
        let operations = effort("CONVSTORE_UNREAD_OPERATIONS", share: 20_000)
        let scratch = try Scratch()
        var random = SeededGenerator(seed: UInt64(operations))
        var store = try scratch.open(journal: 512 << 10)
        // One conversation is long: its pages outgrow the fences, and every second one of those goes.
        var talk = Talk(seed: UInt64(operations), conversations: 8, bias: 0.75)
        var recount = Recount()
        var position: Position = 0
        var done = 0
        var checks = 0
        while done < operations {
            let events = (0..<min(random.below(200) + 1, operations - done)).map { _ in talk.next() }
            try store.take(events, batch: 200)
            done += events.count
            try store.log.replay(from: position + 1) { event in
                recount.take(event)
                position = event.position
                return true
            }
            if random.chance(0.01) {
                try store.close()
                store = try scratch.open(journal: 512 << 10)
            }
            for (id, conversation) in recount.conversations where random.chance(0.3) {
                for user in conversation.people {
                    let row = try #require(try store.lobbyRow(of: id, for: user))
                    #expect(row.unread == conversation.unread(user), "\(user) in \(id) after \(done) operations")
                    checks += 1
                    if row.unread != conversation.unread(user) { return }
                }
            }
        }
        #expect(checks > operations / 100)
        let longest = recount.conversations.values.map(\.messages.count).max() ?? 0
        #expect(longest > 5000 || operations < 20_000)
        try store.conversations.read(in: store.log) { projection in
            let stride = try recount.conversations.keys.map { try projection.rows.row(at: $0)?.stride ?? 1 }.max()!
            #expect(stride > 1 || operations < 20_000)
        }
        #expect(try store.isFold())
        try store.close()
    }
}
