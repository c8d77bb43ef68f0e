package import EventLog

/// An event of a replica's outbox: its own, and not accepted by the hub yet.
package struct PendingEvent: Sendable {
    package var event: Event
    package var origin: Origin
    /// The time by which it is shown to count.
    package var hlc: HLC
    /// Why the hub refused it. Such a message stays to be seen; any other such event changes nothing.
    package var failure: Refusal?
    /// Whether it is held back because it depends on one that was refused.
    package var isWaiting: Bool

    /// - Parameter hlc: `nil`: that of its origin.
    package init(_ event: Event, origin: Origin, hlc: HLC? = nil, failure: Refusal? = nil, isWaiting: Bool = false) {
        self.event = event
        self.origin = origin
        self.hlc = hlc ?? origin.hlc
        self.failure = failure
        self.isWaiting = isWaiting
    }

    /// Whether the hub will give it a seq of the conversation, and not of its author's own log.
    var isInConversation: Bool { event.log == .conversation(event.conversation) }

    /// By what the hub's form of an event is known.
    enum Mark: Hashable {
        case origin(LogID, ReplicaID, UInt64)
        /// Under another origin, as after a restored backup.
        case message(MessageID, UserID)
    }

    var marks: [Mark] { Self.marks(event, origin) }

    static func marks(of confirmed: RecordedEvent) -> [Mark] { marks(confirmed.event, confirmed.origin) }

    private static func marks(_ event: Event, _ origin: Origin) -> [Mark] {
        var marks: [Mark] = origin.counter > 0 ? [.origin(event.log, origin.replica, origin.counter)] : []
        if case .messageSent(let message) = event.content { marks.append(.message(message.id, event.author)) }
        return marks
    }
}
