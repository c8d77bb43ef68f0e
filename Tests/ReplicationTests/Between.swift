import ConversationStore

@testable import Replication

/// Somebody who stands between a hub and a replica, and changes what the hub says.
final class Between: Sendable {
    private let ends = Monitor<(hub: HubConnection?, replica: ReplicaConnection?)>((nil, nil))
    private let events = Monitor<[ReplicaEvent]>([])

    /// - Parameters:
    ///   - asked: what the hub gets of what the replica says.
    ///   - before: what the replica gets before one of the hub's frames.
    init(
        _ hub: Hub, _ replica: Replica, _ scope: Scope = .mine, asked: @escaping @Sendable (Frame) -> Frame? = { $0 },
        before: @escaping @Sendable (Frame) -> Frame? = { _ in nil }, _ change: @escaping @Sendable (Frame) -> Frame?
    ) {
        let upper = hub.connect(
            send: { [ends] bytes in
                guard let frame = try? Frame(decoding: bytes) else { return }
                let replica = ends.withLock { $0.replica }
                if let other = before(frame) { replica?.receive(other.encoded()) }
                if let changed = change(frame) { replica?.receive(changed.encoded()) }
            },
            close: { [ends] _ in ends.withLock { $0.replica }?.disconnected() })
        let lower = replica.connect(
            token: "", scope: scope,
            send: { [ends] in if let frame = (try? Frame(decoding: $0)).flatMap(asked) { ends.withLock { $0.hub }?.receive(frame.encoded()) } },
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

    func fill(_ log: LogID) { ends.withLock { $0.replica }?.fill(log) }

    var isSettled: Bool { events.withLock { $0.contains { if case .settled = $0 { true } else { false } } } }
    var hasEnded: Bool {
        events.withLock {
            $0.contains {
                switch $0 {
                case .ended, .failed, .mustReopen: true
                default: false
                }
            }
        }
    }
    func tick() { ends.withLock { $0.replica }?.tick() }
    func end() { ends.withLock { $0.replica }?.end() }
    /// The connection is lost.
    func lose() { ends.withLock { $0.replica }?.disconnected() }
}

extension Frame {
    /// A SEGMENT as the EVENTS that it holds. Which of the two a hub sends is a matter of time: ten seconds later it has flushed them.
    var asEvents: Frame {
        guard case .segment(let segment) = self, let events = try? SegmentCodec.decode(segment.run) else { return self }
        let items = events.map { event in
            let (envelope, body) = EventCodec.encode(event)
            return EventsFrame.Item(envelope: envelope, body: event.isErased ? [] : body, commitment: event.commitment)
        }
        return .events(EventsFrame(items: items, logs: segment.logs))
    }
}
