import ConversationStore
import EventLog
import Testing

@testable import Replication

/// Who writes for whom.
@Suite("Service accounts") struct ServiceTests {
    private static func pushed(_ event: Event, _ replica: ReplicaID, _ counter: UInt64) -> PushedEvent {
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 5))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: true)
    }

    @Test("A service writes for those who take part, nobody else for another", arguments: [Scope.mine, .everything])
    func writing(_ scope: Scope) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let service = try await RawPeer(hub, eve) { $0.scope = scope }
            let events = [ada, bob, eve].map { message("for \($0.string)", in: chat, by: $0) }
            service.send(.push(events.enumerated().map { Self.pushed($1, service.replica, UInt64($0) + 1) }))
            try await eventually { service.answers == 3 }
            #expect(service.accepted.map(\.counter) == [1, 2] && service.refused.map(\.code) == [RefusalCode.notParticipant.rawValue])
            let other = try await RawPeer(hub, bob)
            other.send(.push([Self.pushed(message("forged", in: chat, by: ada), other.replica, 1)]))
            try await eventually { other.answers == 1 }
            #expect(other.refused.map(\.code) == [RefusalCode.forbidden.rawValue])
            for peer in [service, other] { peer.end() }
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["for ada", "for bob"])
        }
    }
}
