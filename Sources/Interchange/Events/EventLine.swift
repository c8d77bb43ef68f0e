public import EventLog

/// A line of the JSONL contract (docs/EVENTS.md), read.
public struct EventLine: Hashable, Sendable {
    public var event: Event
    /// The line's `at`: milliseconds since 1970, at most ``Timestamp/maximum``.
    public var at: UInt64
    /// The line's own `origin`, if it carries one.
    public var origin: Origin?

    public init(event: Event, at: UInt64, origin: Origin? = nil) {
        self.event = event
        self.at = at
        self.origin = origin
    }
}

/// A line of `export --exact`, read: the event with all that a true copy needs.
public struct ExactEventLine: Hashable, Sendable {
    /// The event as it was recorded, with its seq, position, clocks, origin and target.
    public var record: RecordedEvent
    /// The secret of the log, on its first line: 32 bytes, as they were given when it was written.
    public var secret: [UInt8]?

    public init(record: RecordedEvent, secret: [UInt8]? = nil) {
        self.record = record
        self.secret = secret
    }
}
