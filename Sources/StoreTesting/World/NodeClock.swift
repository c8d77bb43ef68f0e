internal import EventLog
package import Replication

/// A node's wall clock: wrong by up to a year, and set anew now and then. Lives over the node's restarts.
package final class NodeClock: Sendable {
    /// 2026-01-01, in milliseconds since 1970: when the world begins.
    package static let start: UInt64 = 1_767_225_600_000
    package static let skewMax: Int64 = 365 * 86_400_000

    private let state: Monitor<(now: UInt64, skew: Int64)>

    package init(skew: Int64) { state = Monitor((0, skew)) }

    /// The world's time passes for this clock too.
    package func advance(to now: UInt64) { state.withLock { $0.now = now } }

    package func set(skew: Int64) { state.withLock { $0.skew = skew } }

    package var skew: Int64 { state.withLock { $0.skew } }

    package var wallMilliseconds: UInt64 { state.withLock { UInt64(Int64(Self.start + $0.now) + $0.skew) } }

    package var instant: Instant {
        state.withLock { Instant(wallMilliseconds: UInt64(Int64(Self.start + $0.now) + $0.skew), monotonicMilliseconds: $0.now) }
    }

    package var uptime: Duration { state.withLock { .milliseconds($0.now) } }
}
