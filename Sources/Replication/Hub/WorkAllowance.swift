internal import EventLog

/// How many events one peer may have a hub read that it does not pay for with credit: for old heads and states, and for what it repeats.
///
/// Measured in events and not in time, so that the same peer is answered the same way on any machine. Who has used it up waits; nobody else does.
struct WorkAllowance: Sendable {
    /// What a peer may use at once, after a pause: some seconds of one core.
    static let eventsMax = 2 << 20
    /// What it gets back.
    static let eventsPerSecond = 1 << 18

    /// What one answer may leave to be made good, however much it took: a peer gives up who hears nothing for longer.
    static let secondsMax = 20

    private(set) var left = Self.eventsMax
    private var since: Instant

    init(at now: Instant) { since = now }

    /// Whether anything may be read for the peer now. What is begun is finished, and may leave a debt.
    mutating func isLeft(at now: Instant) -> Bool {
        let passed = now.milliseconds(since: since)
        if passed > 0 {
            since = now
            left = min(Self.eventsMax, left + Int(clamping: min(passed, 1_000_000)) * Self.eventsPerSecond / 1000)
        }
        return left > 0
    }

    mutating func spend(_ effort: Effort) { left = max(left - min(effort.events, 1 << 40), -Self.eventsPerSecond * Self.secondsMax) }
}
