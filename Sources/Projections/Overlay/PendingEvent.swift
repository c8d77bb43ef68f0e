package import EventLog

/// An event of a replica's outbox: its own, and not accepted by the hub yet.
package struct PendingEvent: Sendable {
    package var event: Event
    package var origin: Origin
    /// Why the hub refused it. Such a message stays to be seen; any other such event changes nothing.
    package var failure: Refusal?
    /// Whether it is held back because it depends on one that was refused.
    package var isWaiting: Bool

    package init(_ event: Event, origin: Origin, failure: Refusal? = nil, isWaiting: Bool = false) {
        self.event = event
        self.origin = origin
        self.failure = failure
        self.isWaiting = isWaiting
    }

    /// Whether the hub will give it a seq of the conversation, and not of its author's own log.
    var isInConversation: Bool { event.log == .conversation(event.conversation) }

    /// Whether the hub took it, or what has the same effect: the message under another origin, as after a restored backup.
    func isConfirmed(by confirmed: RecordedEvent) -> Bool {
        if origin.replica == confirmed.origin.replica, origin.counter == confirmed.origin.counter, event.log == confirmed.log { return true }
        guard case .messageSent(let own) = event.content, case .messageSent(let other) = confirmed.event.content else { return false }
        return own.id == other.id && event.author == confirmed.event.author
    }
}
