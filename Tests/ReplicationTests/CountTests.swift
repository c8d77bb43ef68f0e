import ConversationStore
import EventLog
import Replication
import Testing

/// What a session tells of what came and went.
@Suite("What is counted") struct CountTests {
    private func counts(_ session: World.Session) -> (received: Int, accepted: Int, refused: Int) {
        session.log.withLock { events in
            events.reduce(into: (0, 0, 0)) { counts, event in
                switch event {
                case .received(let events, _): counts.0 += events
                case .answered(let accepted, let refused): (counts.1, counts.2) = (counts.1 + accepted, counts.2 + refused)
                default: break
                }
            }
        }
    }

    private func run(_ world: World, _ device: Replica, _ scope: Scope) async throws -> (received: Int, accepted: Int, refused: Int) {
        let session = world.follow(device, scope: scope)
        try await eventually { session.isSettled || session.end != nil }
        session.connection.end()
        try await eventually { session.end != nil }
        return counts(session)
    }

    @Test("events of newest parts are received when they come, and not again when the log takes them over", arguments: [20, 3000])
    func parts(messages: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<3 {
                chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob]))
                let long = String(repeating: "words ", count: 20)
                _ = try await world.hubStore.log.append((0..<messages).map { Submission(message("\($0) \(long)", in: chats.last!, by: ada)) })
            }
            try world.hubStore.log.flush()
            let device = try world.device(bob)
            let first = try await run(world, device, .newest(conversations: 2, messages: 5))
            #expect(first.received == 10 && device.store.log.lastPosition == 0)
            #expect(try await run(world, device, .newest(conversations: 2, messages: 5)).received == 0)
            _ = try await world.hubStore.append(message("live", in: chats[2], by: ada))
            #expect(try await run(world, device, .newest(conversations: 2, messages: 5)).received == 1)
            #expect(try await run(world, device, .mine).received == 3 * (messages + 1) + 1 - 11)
            #expect(device.store.log.lastPosition == UInt64(3 * (messages + 1) + 1))
            // A new device's first screen comes once.
            #expect(try await run(world, try world.device(bob), .mine).received == 3 * (messages + 1) + 1)
        }
    }

    @Test("what a restored device sends again is accepted, and nothing of it was refused") func restored() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            for index in 0..<5 { try device.append(message("\(index)", in: chat, by: ada)) }
            let copy = try world.copy(device)
            let sent = try await run(world, device, .mine)
            #expect(sent.accepted == 5 && sent.refused == 0)
            try device.append(message("after the backup", in: chat, by: ada))
            #expect(try await run(world, device, .mine).accepted == 1)
            // One more, under a counter that was given out.
            var restored = try world.open(copy, ada)
            try restored.append(message("mine", in: chat, by: ada))
            var (accepted, refused) = (0, 0)
            for _ in 0..<3 {
                let counts = try await run(world, restored, .mine)
                (accepted, refused) = (accepted + counts.accepted, refused + counts.refused)
                let path = restored.store.log.path
                try restored.close()
                restored = try world.open(path, ada)
            }
            #expect(accepted == 6 && refused == 0 && restored.outbox.isEmpty)
            try restored.append(Event(conversation: .random(), author: ada, content: .conversationCreated(kind: .direct, title: nil, participants: [])))
            try await world.hubStore.append(Event(conversation: chat, author: bob, content: .participantLeft(ada)))
            try restored.append(message("too late", in: chat, by: ada))
            let last = try await run(world, restored, .mine)
            #expect(last.accepted == 1 && last.refused == 1)
        }
    }
}
