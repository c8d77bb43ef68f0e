import ConversationStore
import Foundation
import Testing

@testable import EventLog
@testable import Replication

/// Damage that touched many conversations costs commits by what comes together, not by the conversation.
@Suite struct ManyDamagedTests {
    /// So many conversations, each with events in each of three runs.
    private func talked(in world: World, _ count: Int) async throws -> (chats: [ConversationID], device: Replica) {
        let chats = (0..<count).map { _ in ConversationID.random() }
        _ = try await world.hubStore.append(chats.map { Submission(Talks.creation($0, [bob])) })
        let device = try world.device(bob)
        for round in 0..<3 {
            for place in 0..<3 { _ = try await world.hubStore.append(chats.map { Submission(message("round \(round), message \(place)", in: $0, by: ada)) }) }
            try await world.sync(device)
            try device.store.log.flush()
        }
        return (chats, device)
    }

    /// The same, of which the middle run was lost, and what is sound was written anew.
    private func damaged(in world: World, _ count: Int) async throws -> (chats: [ConversationID], path: String) {
        let (chats, device) = try await talked(in: world, count)
        let path = device.store.log.path
        try device.close()
        #expect(try EventStore.damageRun(at: path, number: 1) >= 3)
        _ = try Replica.salvage(at: path)
        return (chats, path)
    }

    private func commits(_ device: Replica) throws -> Int { try device.side.environment.information().lastTransaction }

    @Test("A run that is lost to 200 conversations is filled by few commits") func oneRun() async throws {
        try await withWorld { world in
            let (chats, path) = try await damaged(in: world, 200)
            let healed = try world.open(path, bob)
            #expect(try healed.state.withLock { try $0.damaged.rests() }.count == 200)
            let before = try commits(healed)
            try await world.sync(healed)
            #expect(try healed.isWhole && commits(healed) - before < 20)
            for chat in chats { #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat))) }
            #expect(try healed.store.isFold())
        }
    }

    @Test("What was taken before the process was killed, and not written down as such, is no more doubtful than it was") func killed() async throws {
        try await withWorld { world in
            let (chats, path) = try await damaged(in: world, 50)
            // The side store as it was before.
            let side = try Data(contentsOf: URL(fileURLWithPath: path + "/sync"))
            let first = try world.open(path, bob)
            try await world.sync(first)
            try first.close()
            try side.write(to: URL(fileURLWithPath: path + "/sync"))
            let healed = try world.open(path, bob)
            #expect(try healed.state.withLock { try $0.damaged.rests() }.count == 50 && healed.store.log.lastSeq(of: .conversation(chats[0])) == 10)
            let hello = try healed.hello(token: "", scope: .mine)
            #expect(hello.cursor?.incarnation == world.hub.incarnation && hello.progress == nil && healed.unvouched.isEmpty)
            try await world.sync(healed)
            #expect(healed.isWhole)
            for chat in chats { #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat))) }
        }
    }

    @Test("One conversation of which the hub has something else keeps none of those that come with it from being healed", arguments: [0, 30, 59])
    func oneForked(_ place: Int) async throws {
        try await withWorld { world in
            let (chats, path) = try await damaged(in: world, 60)
            let forked = LogID.conversation(chats.sorted()[place])
            // Of each log the middle run's first event.
            try world.rewriteHub { event in
                guard event.log == forked, event.seq == 6, case .messageSent(var message) = event.event.content else { return event }
                var event = event
                message.text = "rewritten"
                event.event.content = .messageSent(message)
                return event
            }
            let healed = try world.open(path, bob)
            let session = world.follow(healed)
            try await eventually { session.end != nil }
            let error: (any Error)? = if case .failed(let error) = session.end { error } else { nil }
            #expect((error as? ReplicaError)?.code == .forked)
            let heads = try chats.map { try healed.store.log.lastSeq(of: .conversation($0)) }
            #expect(heads.count { $0 == 10 } == 59)
            #expect(try healed.state.withLock { try $0.damaged.rests() }.map(\.log) == [forked])
        }
    }
}
