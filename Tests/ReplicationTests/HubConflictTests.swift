import ConversationStore
import StoreTesting
import Testing

@testable import Replication

/// What a hub refuses behind a counter that turned out to be another event's, wherever what follows comes.
@Suite("A hub's conflicts") struct HubConflictTests {
    private func pushed(_ event: Event, _ counter: UInt64, by replica: ReplicaID) -> PushedEvent {
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 5))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: true)
    }

    @Test("a PUSH that is decided in parts, as the disk is full", .timeLimit(.minutes(20))) func inParts() async throws {
        try await withWorld { world in
            let disk = FullDisk(world.directory + "/hub")
            defer { disk.remove() }
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try await RawPeer(world.hub, ada)
            first.send(.push([pushed(message("of a lost life", in: chat, by: ada), 2, by: first.replica)]))
            try await eventually { first.accepted.count == 1 }
            first.end()
            let peer = try await RawPeer(world.hub, ada)
            disk.set(isFull: true)
            let large = message(String(repeating: "x", count: 1 << 20), in: other, by: ada)
            peer.send(
                .push([
                    pushed(message("a", in: chat, by: ada), 2, by: peer.replica), pushed(large, 2, by: peer.replica),
                    pushed(message("b", in: chat, by: ada), 3, by: peer.replica),
                ]))
            try await eventually { peer.answers > 0 }
            #expect(peer.accepted.isEmpty && peer.refused.map(\.counter) == [2, 3] && peer.refused.allSatisfy { $0.code == "origin_conflict" })
            #expect(world.hubStore.log.writeFailures > 0 && peer.bye == nil)
            disk.set(isFull: false)
            peer.end()
        }
    }

    @Test("a peer that has more of them than are remembered is answered, and begins anew") func tooMany() async throws {
        try await withWorld { world in
            let chats = (0..<1100).map { _ in ConversationID.random() }
            func messages(_ text: String, by peer: RawPeer) -> [PushedEvent] { chats.map { pushed(message(text, in: $0, by: ada), 2, by: peer.replica) } }
            let first = try await RawPeer(world.hub, ada)
            first.send(
                .push(
                    chats.map {
                        let creation = Event(conversation: $0, author: ada, content: .conversationCreated(kind: .group, title: nil, participants: [bob]))
                        return pushed(creation, 1, by: first.replica)
                    }))
            first.send(.push(messages("one", by: first)))
            try await eventually { first.answers == 2 * chats.count }
            #expect(first.refused.isEmpty)
            first.end()
            let second = try await RawPeer(world.hub, ada)
            second.send(.push(messages("two", by: second)))
            try await eventually { second.bye != nil }
            #expect(second.bye?.code == .overloaded)
            // The answers come before: the peer takes another id by them.
            #expect(second.refused.count == chats.count && second.refused.allSatisfy { $0.code == "origin_conflict" })
        }
    }
}
