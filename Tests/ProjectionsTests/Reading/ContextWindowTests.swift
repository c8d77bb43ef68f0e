import ConversationStore
import Testing

@testable import TalkWriter
import StoreTesting

/// Counts what it is asked.
private struct Bytes: TokenCounter {
    func tokens(in message: Message) -> Int { message.text.utf8.count + 1 }
}

/// The default by another name.
private struct Estimate: TokenCounter {
    func tokens(in message: Message) -> Int { FourCharacterEstimate().tokens(in: message) }
}

@Suite("Context window") struct ContextWindowTests {
    private static func isForModel(_ message: Recount.Message) -> Bool {
        message.state == .complete || message.state == .interrupted || (message.state == .streaming && !message.text.isEmpty)
    }

    private static func cost(_ message: Recount.Message) -> Int { message.text.utf8.count + 1 }

    /// Chosen from the messages in order: the newest system message, then the newest others that fit.
    static func expected(_ all: [Recount.Message], room: Int) -> (seqs: [Seq], tokens: Int) {
        let system = all.last { $0.role == .system && isForModel($0) }
        var tokens = system.map(cost) ?? 0
        var chosen = system.map { [$0.seq] } ?? []
        for message in all.reversed() where isForModel(message) && message.seq != system?.seq {
            if tokens + cost(message) > room { break }
            tokens += cost(message)
            chosen.append(message.seq)
        }
        return (chosen.sorted(), tokens)
    }

    @Test("The newest whole messages within the budget, and always the newest system message", arguments: 1...3 as ClosedRange<UInt64>)
    func model(_ seed: UInt64) throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        var talk = Talk(seed: seed, conversations: 4, bias: 0.6)
        try store.take((0..<2500).map { _ in talk.next() })
        let recount = Recount(try store.events())
        var random = SeededGenerator(seed: seed)
        for (id, conversation) in recount.conversations {
            for _ in 0..<60 {
                let reserve = random.element([0, 0, 30])
                let budget = random.element([0, 1, 20, 300, 3000, 1 << 40]) + random.below(50)
                let window = try #require(try store.contextWindow(of: id, budget: budget, reserve: reserve, counter: Bytes()))
                let expected = Self.expected(conversation.messages, room: max(0, budget - reserve))
                #expect(window.messages.map(\.seq) == expected.seqs, "budget \(budget) reserve \(reserve)")
                #expect(window.tokens == expected.tokens)
                #expect(window.isOverBudget == (expected.tokens > max(0, budget - reserve)))
                let others = window.messages.filter { $0.seq != window.system }
                #expect(window.range == others.first.map { $0.seq...others.last!.seq })
                #expect(window.seq == conversation.seq)
                #expect(window.messages.allSatisfy { shown in conversation.messages.contains { shown.isLike($0) } })
            }
        }
        #expect(try store.contextWindow(of: ConversationID(high: 1, low: 1), budget: 100) == nil)
        try store.close()
    }

    @Test("The estimate chooses the same in one reading as any counter that says the same in several", arguments: 1...3 as ClosedRange<UInt64>)
    func estimate(_ seed: UInt64) throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        var talk = Talk(seed: seed, conversations: 4, bias: 0.6)
        try store.take((0..<2500).map { _ in talk.next() })
        var random = SeededGenerator(seed: seed)
        for id in Recount(try store.events()).conversations.keys {
            for _ in 0..<60 {
                let reserve = random.element([0, 0, 30])
                let budget = random.element([0, 1, 20, 300, 3000, 32_000, 40_000]) + random.below(50)
                let window = try #require(try store.contextWindow(of: id, budget: budget, reserve: reserve))
                #expect(try window == store.contextWindow(of: id, budget: budget, reserve: reserve, counter: Estimate()))
            }
        }
        #expect(try store.contextWindow(of: ConversationID(high: 1, low: 1), budget: 100) == nil)
        try store.close()
    }

    @Test("The system message stays in when many newer ones were deleted, and when the newest was erased")
    func systems() async throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        let chat = try await store.createConversation(.assistant, author: Talk.users[0])
        var systems: [MessageID] = []
        for number in 0..<20 {
            systems.append(try await store.send("be kind \(number)", to: chat, from: Talk.users[0], role: .system))
            try await store.send("hello \(number)", to: chat, from: Talk.users[0])
        }
        func system() throws -> String? {
            let window = try store.contextWindow(of: chat, budget: 40, counter: Bytes())
            return window?.messages.first { $0.seq == window?.system }?.text
        }
        for number in (1..<20).reversed() {
            #expect(try system() == "be kind \(number)")
            try await store.append(Event(conversation: chat, author: Talk.users[0], content: .messageDeleted(message: systems[number])))
        }
        #expect(try system() == "be kind 0")
        let newest = try await store.send("be brief", to: chat, from: Talk.users[0], role: .system)
        #expect(try system() == "be brief")
        let seq = try #require(try store.message(in: chat, id: newest)?.seq)
        try store.log.erase(log: .conversation(chat), seq: seq)
        #expect(try system() == "be kind 0")
        // Those that say nothing yet are more than a row names, and fill pages.
        for number in 0..<50 as Range<UInt64> {
            let silent = Event.Message(id: MessageID(high: 0x7000, low: 0x8000_0000_0000_0000 | number), role: .system, text: "", isStreaming: true)
            try await store.append(Event(conversation: chat, author: Talk.users[0], content: .messageSent(silent)))
        }
        #expect(try system() == "be kind 0")
        let estimated = try #require(try store.contextWindow(of: chat, budget: 20))
        #expect(estimated.system == 2 && estimated.messages.first?.text == "be kind 0")
        try await store.append(Event(conversation: chat, author: Talk.users[0], content: .messageDeleted(message: systems[0])))
        #expect(try system() == nil)
        try store.close()
    }
}
