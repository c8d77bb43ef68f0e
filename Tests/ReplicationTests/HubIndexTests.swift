import ConversationStore
import StoreTesting
import Testing

@testable import Replication

/// What a hub finds that changed for a user.
@Suite("A hub's index") struct HubIndexTests {
    @Test(
        "what changed is found by looking at the last changes as by looking at all that is the user's; what was left before is passed over",
        arguments: [1 << 16, 64, 2])
    func changes(_ recentMax: Int) async throws {
        try await withWorld { world in
            var random = SeededGenerator(seed: 20)
            let users = [ada, bob, eve]
            var folded = HubIndex(recentMax: recentMax)
            var chats: [ConversationID] = []
            for _ in 0..<30 {
                let people = Bool.random(using: &random) ? [bob] : []
                chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: people))
            }
            var chat = chats[0]
            for _ in 0..<300 {
                if Bool.random(using: &random) { chat = chats.randomElement(using: &random)! }
                let user = [bob, eve].randomElement(using: &random)!
                let isIn = try world.hubStore.participants(of: chat).contains(user)
                let content: Event.Content =
                    Int.random(in: 0..<10, using: &random) < 3
                    ? isIn ? .participantLeft(user) : .participantJoined(user)
                    : .messageSent(Event.Message(id: .random(), role: .user, text: "text"))
                try await world.hubStore.append(Event(conversation: chat, author: ada, content: content))
                if Int.random(in: 0..<10, using: &random) == 0 {
                    try await world.hubStore.append(Event(conversation: chat, author: ada, content: .preferenceSet(key: "muted", value: "yes")))
                }
            }
            var leavings: [ConversationID: [UserID: Position]] = [:]
            try world.hubStore.log.replay { event in
                folded.fold(event)
                if case .participantLeft(let user) = event.event.content { leavings[event.event.conversation, default: [:]][user] = event.position }
                return true
            }
            // Folded from rows it knows no last changes, and looks at all.
            let scanned = try HubIndex(world.hubStore.log)
            var passed = 0, few = 0
            for position in Position(0)...scanned.position {
                for user in users {
                    for seesEverything in [false, true] {
                        let identity = Identity(user: user, isService: seesEverything)
                        let quick = Set(folded.changes(for: identity, seesEverything: seesEverything, after: position).map(\.log))
                        let all = Set(scanned.changes(for: identity, seesEverything: seesEverything, after: position).map(\.log))
                        #expect(quick.isSubset(of: all))
                        if quick.count < 5 { few += 1 }
                        for case .conversation(let id) in all.subtracting(quick) {
                            passed += 1
                            #expect(!folded.isMember(user, of: id) && leavings[id]?[user] ?? .max <= position)
                        }
                    }
                }
            }
            #expect(passed > 100 && few > 10)
        }
    }
}
