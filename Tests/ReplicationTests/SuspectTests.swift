import Foundation
import Testing

@testable import ConversationStore
@testable import Replication

/// What a damaged replica holds that nothing vouches for, and what a full disk kept it from noting.
@Suite struct SuspectTests {
    @Test("what was saved of a conversation that is not among the newest is neither lost nor offered again")
    func outOfTheNewest() async throws {
        try await withWorld { world in
            let old = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.open(world.directory + "/device", bob, flushes: false)
            try await world.sync(device)
            try device.append(Event(conversation: old, author: bob, content: .custom(name: "note", payload: [1])))
            try await world.sync(device)
            let new = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.sync(device)
            let path = world.directory + "/copy"
            try FileManager.default.copyItem(atPath: device.store.log.path, toPath: path)
            // Of what stood in the archive nothing is left, not even which heads there were.
            truncate(path + "/archive", 0)
            let saved = try Replica.salvage(at: path, user: bob)
            #expect(saved.aside >= 3, "\(saved)")

            let head = try world.hubStore.log.head(of: .conversation(old))
            var healed = try await world.heal(world.open(path, bob), scope: .newest(conversations: 1, messages: 5))
            #expect(try world.hubStore.log.head(of: .conversation(old)) == head)
            #expect(try healed.lostEvents().isEmpty && healed.outbox.isEmpty)
            healed = try await world.heal(healed)
            for log in [LogID.conversation(old), .conversation(new)] {
                #expect(try healed.store.log.head(of: log) == world.hubStore.log.head(of: log))
            }
            #expect(try Lost.read(healed.side, in: SyncTables.suspects).isEmpty)
        }
    }

    @Test("a log that was taken, and went on before that could be noted, is no fork")
    func takenButNotNoted() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<4 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            var device = try await world.heal(world.device(bob))
            let head = try #require(try device.store.log.head(of: .conversation(chat)))
            for index in 4..<8 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            device = try await world.heal(device)
            let path = device.store.log.path
            try device.side.write { try DamagedLogs.put([.conversation(chat): LogHead(size: head.size, root: head.root)], ahead: [], &$0) }
            try device.close()
            device = try await world.heal(world.open(path, bob))
            #expect(device.isWhole && device.holes.isEmpty)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }
}
