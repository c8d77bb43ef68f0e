import ConversationStore
import Testing

@testable import Replication

/// A hub's conversations, which grow side by side, in runs of its archive, so that a first sync is under way in many of them at once.
struct Talks {
    var ids: [ConversationID] = []

    /// - Parameter others: as many conversations of others stand between, so that no run can go to bob as it lies.
    init(_ world: World, count: Int, rounds: Int, others: Bool = true) async throws {
        for _ in 0..<count {
            let (own, other) = (ConversationID.random(), ConversationID.random())
            ids.append(own)
            var made = [Self.creation(own, [bob])]
            if others { made += [Self.creation(other, [eve]), message("not for bob", in: other, by: ada)] }
            _ = try await world.hubStore.append(made.map { Submission($0) })
        }
        try world.hubStore.log.flush()
        for round in 0..<rounds {
            // The first ones are silent from the first round on, so that some end early.
            try await write(world, "round \(round)", to: ids.suffix(from: round * ids.count / (2 * rounds)))
            try world.hubStore.log.flush()
        }
    }

    static func creation(_ id: ConversationID, _ people: [UserID]) -> Event {
        Event(conversation: id, author: ada, content: .conversationCreated(kind: .group, title: "t", participants: people))
    }

    func write(_ world: World, _ text: String, to ids: some Collection<ConversationID>) async throws {
        _ = try await world.hubStore.append(ids.map { Submission(message("\(text) " + String(repeating: "wörd ", count: 8), in: $0, by: ada)) })
    }
}

/// Whether a device holds just what its user may see, and shows it as the hub does.
func expectSame(_ device: Replica, _ world: World, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let (mine, theirs) = try (heads(device.store), heads(world.hubStore, of: device.user))
    #expect(mine == theirs, sourceLocation: sourceLocation)
    #expect(
        try device.store.lobby(of: device.user, limit: 5000).rows == world.hubStore.lobby(of: device.user, limit: 5000).rows, sourceLocation: sourceLocation)
    #expect(try device.store.isFold(), sourceLocation: sourceLocation)
    #expect(device.holes.isEmpty && device.cursor != nil, sourceLocation: sourceLocation)
    #expect(try device.evidence == nil && device.lostEvents().isEmpty, sourceLocation: sourceLocation)
}

private func heads(_ store: ConversationStore, of user: UserID? = nil) throws -> [LogID: Hash256] {
    var heads: [LogID: Hash256] = [:]
    try store.log.forEachHead { head in
        if let user, case .conversation(let id) = head.log, try !store.participants(of: id).contains(user) { return true }
        if let user, case .user(let other) = head.log, other != user { return true }
        heads[head.log] = head.root
        return true
    }
    return heads
}
