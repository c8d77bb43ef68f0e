import ConversationStore
import Testing

/// A hub, and a replica with what is pending in it.
final class Outbox: Sendable {
    let hub: ConversationStore
    let replica: ConversationStore
    private let folders = [Scratch(), Scratch()]
    private let state = Monitor((counters: [LogID: UInt64](), clock: WallClock.milliseconds() + 3_600_000, taken: [LogID: Seq]()))
    static let own = ReplicaID(high: 7, low: 7)

    init() throws {
        hub = try folders[0].open()
        replica = try folders[1].open()
    }

    func close() throws {
        try hub.close()
        try replica.close()
    }

    func pending(_ content: Event.Content, in conversation: ConversationID = chat(1), by author: UserID = ann, failure: Refusal? = nil) -> PendingEvent {
        let event = Event(conversation: conversation, author: author, content: content)
        return state.withLock { state in
            state.counters[event.log, default: 0] += 1
            state.clock += 1
            let origin = Origin(replica: Self.own, counter: state.counters[event.log]!, hlc: HLC(milliseconds: state.clock))
            return PendingEvent(event, origin: origin, failure: failure)
        }
    }

    func text(_ text: String, id: MessageID = .random(), in conversation: ConversationID = chat(1), failure: Refusal? = nil) -> PendingEvent {
        pending(.messageSent(.init(id: id, role: .user, text: text)), in: conversation, failure: failure)
    }

    /// The hub accepts events; the replica does not know yet.
    func accept(_ events: [PendingEvent]) throws {
        for outcome in try hub.log.appendBlocking(events.map { Submission($0.event, origin: $0.origin) }) {
            guard case .accepted = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }

    func adopt() throws {
        try hub.log.forEachLog { log in
            let from = state.withLock { $0.taken[log.log] ?? 0 }
            let events = try hub.log.events(in: log.log, range: from + 1...Seq.max)
            if events.isEmpty { return true }
            _ = try replica.log.adoptBlocking(events, secrets: from == 0 ? [log.log: hub.log.secret(of: log.log)] : [:])
            state.withLock { $0.taken[log.log] = from + Seq(events.count) }
            return true
        }
    }

    /// A conversation of three with some messages in both stores.
    func begin(_ messages: Int = 3, in number: UInt64 = 1) async throws {
        try await hub.group(number)
        for place in 0..<messages {
            try await hub.send("\(place)", to: chat(number), from: place % 2 == 0 ? bob : ann, id: message(number * 1000 + UInt64(place)))
        }
        try adopt()
    }
}
