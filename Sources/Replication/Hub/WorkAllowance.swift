internal import EventLog

/// How many events one peer may have a hub read that it does not pay for with credit: for old heads and states, and for what it repeats.
///
/// Measured in events and not in time, so that the same peer is answered the same way on any machine. Who has used it up waits; nobody else does.
struct WorkAllowance: Sendable {
    /// What a peer may use at once, after a pause: some seconds of one core.
    static let eventsMax = 2 << 20
    /// What it gets back.
    static let eventsPerSecond = 1 << 18

    /// What one peer is read at once, if others wait: a tenth of a second or less.
    static let sliceMax = 1 << 14

    /// What is read without a turn.
    private static let shortSliceMax = 1 << 10

    /// What one answer may leave to be made good, however much it took: a peer gives up who hears nothing for longer.
    static let secondsMax = 20

    private(set) var left = Self.eventsMax
    private var since: Instant
    private(set) var sliceLeft = 0

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

    mutating func beginSlice(isShort: Bool = false) { sliceLeft = isShort ? Self.shortSliceMax : Self.sliceMax }

    var isSliceLeft: Bool { sliceLeft > 0 }

    mutating func spend(_ effort: Effort) {
        let events = min(effort.events, 1 << 40)
        left = max(left - events, -Self.eventsPerSecond * Self.secondsMax)
        sliceLeft -= events
    }
}
