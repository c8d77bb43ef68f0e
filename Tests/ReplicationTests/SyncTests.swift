import ConversationStore
import Foundation
import Replication
import Testing

/// Hub and replicas of one process.
@Suite struct SyncTests {
    @Test func aReplicaGetsWhatItsUserMaySee() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, title: "Trip", author: ada, participants: [bob])
            let secret = try await world.hubStore.createConversation(.direct, author: bob, participants: [eve])
            for index in 0..<100 { try await world.hubStore.send("message \(index)", to: chat, from: index % 2 == 0 ? ada : bob) }
            try await world.hubStore.send("not for ada", to: secret, from: eve)
            let device = try world.device(ada)
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat, .newest, limit: 200) == world.hubStore.timeline(of: chat, .newest, limit: 200))
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            #expect(try device.store.log.head(of: .conversation(secret)) == nil)
            #expect(try device.store.lobby(of: ada) == world.hubStore.lobby(of: ada))
        }
    }

    /// A relaxed one showed its readers less than it held, and could not go on; after a crash its cursor spoke of what was lost.
    @Test func aReplicaIsDurableWhateverItIsAskedFor() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            var options = ReplicaOptions()
            options.store.durability = .relaxed(interval: .seconds(3600))
            let device = try Replica.open(at: world.directory + "/relaxed", user: ada, options: options)
            for round in 0..<4 {
                for index in 0..<20 { try await world.hubStore.send("message \(round) \(index)", to: chat, from: bob) }
                try await world.sync(device)
                #expect(try device.store.timeline(of: chat, .newest, limit: 200) == world.hubStore.timeline(of: chat, .newest, limit: 200))
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                var last: Position = 0
                try device.store.log.replay { event in
                    last = event.position
                    return true
                }
                #expect(last == UInt64(21 + round * 20))
            }
            try device.close()
        }
    }

    @Test func bothWroteMeanwhile() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(ada), second = try world.device(bob)
            try await world.sync(first)
            try await world.sync(second)
            for index in 0..<20 {
                try first.append(message("ada \(index)", in: chat, by: ada))
                try second.append(message("bob \(index)", in: chat, by: bob))
            }
            let new = ConversationID.random()
            try first.append(Event(conversation: new, author: ada, content: .conversationCreated(kind: .direct, title: nil, participants: [bob])))
            try first.append(message("hello", in: new, by: ada))
            try first.append(Event(conversation: chat, author: ada, content: .preferenceSet(key: "pinned", value: "1")))
            for device in [first, second, first] { try await world.sync(device) }
            #expect(first.outbox.isEmpty && second.outbox.isEmpty)
            for id in [chat, new] {
                let page = try world.hubStore.timeline(of: id, .newest, limit: 100)
                #expect(try first.store.timeline(of: id, .newest, limit: 100) == page)
                #expect(try second.store.timeline(of: id, .newest, limit: 100) == page)
                #expect(try first.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
                #expect(try second.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
            }
            #expect(try second.store.log.head(of: .user(ada)) == nil)
            #expect(try first.store.log.head(of: .user(ada)) == world.hubStore.log.head(of: .user(ada)))
        }
    }

    @Test func refusedEventsFail() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(bob)
            try await world.sync(device)
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantLeft(bob)))
            let sent = try device.append(message("too late", in: chat, by: bob))
            try await world.sync(device)
            #expect(device.outbox.count == 1)
            #expect(device.outbox.first?.state == .failed(code: "not_participant", detail: ""))
            _ = try device.discard([sent.id])
            #expect(device.outbox.isEmpty)
        }
    }

    @Test func liveEventsArrive() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(ada), second = try world.device(bob)
            let one = world.follow(first), two = world.follow(second)
            try await eventually { one.isSettled && two.isSettled }
            for index in 0..<50 {
                try first.append(message("ada \(index)", in: chat, by: ada))
                one.connection.outboxChanged()
                try second.append(message("bob \(index)", in: chat, by: bob))
                two.connection.outboxChanged()
            }
            try await eventually {
                let page = try world.hubStore.timeline(of: chat, .newest, limit: 200)
                return try page?.messages.count == 100 && first.store.timeline(of: chat, .newest, limit: 200) == page
                    && second.store.timeline(of: chat, .newest, limit: 200) == page && first.outbox.isEmpty && second.outbox.isEmpty
            }
            one.connection.end()
            two.connection.end()
        }
    }

    @Test("What a first sync shows is saved at its end, though the device stays connected and nothing more comes") func rowsAreSaved() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<200 { try await world.hubStore.send("message \(index)", to: chat, from: index % 2 == 0 ? ada : bob) }
            // Behind a flush they go as a segment, past the journal.
            try world.hubStore.log.flush()
            var options = ReplicaOptions()
            options.store.journalBytesMax = 256 << 10
            let device = try Replica.open(at: world.directory + "/saved", user: ada, options: options)
            let following = world.follow(device)
            try await eventually { following.isSettled }
            try await eventually {
                let log = device.store.log
                return try log.statistics().projections.values.allSatisfy { $0 == log.lastPosition }
            }
            #expect(try device.store.log.statistics().projections.isEmpty == false)
            following.connection.end()
            try device.close()
        }
    }
}
