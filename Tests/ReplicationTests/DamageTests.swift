import ConversationStore
import Foundation
import Replication
import Testing

/// A replica whose bytes are damaged asks its hub for just what is missing.
@Suite struct DamageTests {
    @Test func whatIsDamagedComesAgainFromTheHub() async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<5 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            let device = try world.device(ada)
            // Several runs: damage of one leaves what stands before it and behind it.
            for round in 0..<3 {
                for index in 0..<60 { try await world.hubStore.send("round \(round), message \(index)", to: chats[index % 5], from: bob) }
                try await world.sync(device)
                try device.store.log.flush()
            }
            let pending = try device.append(message("made before the damage was found", in: chats[0], by: ada))
            let path = device.store.log.path
            try device.close()
            let runs = try EventStore.damageRun(at: path, number: 1)
            #expect(runs >= 3)
            #expect(try !EventStore.verify(at: path).problems.isEmpty)

            let (saved, lost) = try Replica.salvage(at: path)
            #expect(saved > 0 && !lost.isEmpty)
            let held = try #require(try HeldParts(of: path))
            let log = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
            let parts = try held.beside(log)
            #expect(!parts.isEmpty)
            for part in parts {
                let last = try log.lastSeq(of: .conversation(part.conversation))
                let hole = try #require(part.hole)
                #expect(hole.lowerBound == last + 1 && part.firstSeq.map { $0 == hole.upperBound + 1 } ?? (part.events == 0), "\(part)")
                #expect(try last + UInt64(hole.count + part.events) == world.hubStore.log.lastSeq(of: .conversation(part.conversation)), "\(part)")
            }
            try log.close()
            let healed = try world.open(path, ada)
            #expect(healed.outbox.map(\.event) == [pending.event])
            #expect(!healed.isWhole)
            let session = world.follow(healed)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            let received = session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            #expect(received < 100)
            for chat in chats {
                #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try healed.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
            }
            #expect(healed.outbox.isEmpty && healed.isWhole)
            #expect(try healed.store.isFold())
        }
    }

    @Test("of a log whose row or secret is damaged, its first and its last event come again; no other log's", arguments: EventStore.LogRecord.allCases, [1, 3])
    func logRecords(_ kind: EventStore.LogRecord, _ count: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<5 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            let device = try world.device(ada)
            for round in 0..<3 {
                for index in 0..<60 { try await world.hubStore.send("round \(round), message \(index)", to: chats[index % 5], from: bob) }
                try await world.sync(device)
                try device.store.log.flush()
            }
            let pending = try device.append(message("made before the damage was found", in: chats[0], by: ada))
            let path = device.store.log.path
            try device.close()
            for number in 0..<count { #expect(try EventStore.damageRecord(at: path, kind, number: number) == 5) }
            #expect(try !EventStore.verify(at: path).problems.isEmpty)

            let (saved, _) = try Replica.salvage(at: path)
            #expect(saved == (5 - count) * 37)
            let healed = try world.open(path, ada)
            #expect(healed.outbox.map(\.event) == [pending.event])
            #expect(!healed.isWhole)
            // The hub goes on meanwhile, in all of them.
            for chat in chats { try await world.hubStore.send("later", to: chat, from: bob) }
            let session = world.follow(healed)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            let received = session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            #expect(received == count + 6)
            for chat in chats {
                #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try healed.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
            }
            #expect(healed.outbox.isEmpty && healed.isWhole)
            #expect(try healed.store.isFold())
            try healed.close()
            #expect(try EventStore.verify(at: path).problems.isEmpty)
        }
    }
}
