import ConversationStore
import Testing

@testable import Replication

/// Somebody who stands between a hub and a replica, and changes what the hub says.
private final class Between: Sendable {
    private let ends = Monitor<(hub: HubConnection?, replica: ReplicaConnection?)>((nil, nil))
    private let events = Monitor<[ReplicaEvent]>([])

    init(_ hub: Hub, _ replica: Replica, _ change: @escaping @Sendable (Frame) -> Frame?) {
        let upper = hub.connect(
            send: { [ends] bytes in
                guard let frame = try? Frame(decoding: bytes), let changed = change(frame) else { return }
                ends.withLock { $0.replica }?.receive(changed.encoded())
            },
            close: { [ends] _ in ends.withLock { $0.replica }?.disconnected() })
        let lower = replica.connect(
            token: "", scope: .mine, send: { [ends] in ends.withLock { $0.hub }?.receive($0) },
            close: { [ends] _ in ends.withLock { $0.hub }?.disconnected() }, observe: { [events] event in events.withLock { $0.append(event) } })
        ends.withLock { $0 = (upper, lower) }
        lower.start()
    }

    var failure: ReplicaError.Code? {
        events.withLock { events in
            for case .failed(let error as ReplicaError) in events { return error.code }
            return nil
        }
    }

    var isSettled: Bool { events.withLock { $0.contains { if case .settled = $0 { true } else { false } } } }
    func end() { ends.withLock { $0.replica }?.end() }
}

@Suite("What vouches for events") struct VouchingTests {
    @Test("events that no head vouches for end the session, whoever left it out", .timeLimit(.minutes(5))) func withoutHead() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            let liar = Between(world.hub, device) { frame in
                guard case .events(var events) = frame else { return frame }
                for place in events.logs.indices { events.logs[place].head = nil }
                return .events(events)
            }
            try await eventually { liar.failure != nil }
            #expect(liar.failure == .badPeer)
            // An honest hub is believed afterwards.
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat)?.messages.last?.text == "pay 10")
        }
    }

    @Test("an own event that a hub took and kept back is asked for when the next one says that it is old", .timeLimit(.minutes(5)))
    func keptBack() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try device.append(message("mine", in: chat, by: ada))
            let liar = Between(world.hub, device) { frame in
                // The answer is lost with it: else the outbox would ask for what it was promised.
                switch frame {
                case .events, .segment, .accepted: nil
                default: frame
                }
            }
            try await eventually { try world.hubStore.timeline(of: chat)?.messages.last?.text == "mine" }
            try await Task.sleep(for: .milliseconds(300))
            liar.end()
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat)?.messages.last?.state == .complete)
        }
    }
}
