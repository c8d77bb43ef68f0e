/// A moment by a node's two clocks.
///
/// The wall clock may be wrong, and is set forward and back while a process runs: what lasts so and so long is measured by the other one.
public struct Instant: Hashable, Sendable {
    /// Milliseconds since 1970 by the wall clock: for what other machines or people read, and for tokens that name their end.
    public var wallMilliseconds: UInt64
    /// Milliseconds since some moment, the same for as long as the process lives; never runs back, and goes on while the machine sleeps: for deadlines.
    public var monotonicMilliseconds: UInt64

    public init(wallMilliseconds: UInt64, monotonicMilliseconds: UInt64) {
        self.wallMilliseconds = wallMilliseconds
        self.monotonicMilliseconds = monotonicMilliseconds
    }

    /// By this machine's clocks.
    public static var now: Instant {
        // The beginning first: it is made when it is first asked for, and is not to lie behind now.
        let start = start
        let (seconds, attoseconds) = max(start.duration(to: .now), .zero).components
        return Instant(wallMilliseconds: WallClock.milliseconds, monotonicMilliseconds: UInt64(seconds) * 1000 + UInt64(attoseconds / 1_000_000_000_000_000))
    }

    private static let start = ContinuousClock.now

    /// How long ago something was, whatever the wall clock did meanwhile; 0 for what is yet to come.
    func milliseconds(since earlier: Instant) -> UInt64 {
        monotonicMilliseconds > earlier.monotonicMilliseconds ? monotonicMilliseconds - earlier.monotonicMilliseconds : 0
    }
}
