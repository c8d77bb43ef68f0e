import EventLog
import Glibc

/// Waits between events as long as they were apart when they were made.
struct Pace {
    /// As long as nobody waits: longer is more than a clock can tell.
    private static let secondsMax = 1e9
    let speed: Double
    private var start: (recorded: UInt64, clock: ContinuousClock.Instant)?
    private var last: UInt64 = 0

    init(speed: Double) { self.speed = speed }

    /// A clock that went back costs no time.
    mutating func wait(for event: RecordedEvent) throws {
        guard speed > 0 else { return }
        let recorded = max(event.origin.hlc.milliseconds, last)
        last = recorded
        guard let start else {
            start = (recorded, .now)
            return
        }
        let due = start.clock + .seconds(min(Double(recorded - start.recorded) / 1000 / speed, Self.secondsMax))
        if .now < due { try StandardOutput.shared.flush() }
        while case let left = (due - .now).seconds, left > 0 {
            let whole = min(left, 3600).rounded(.down)
            var rest = timespec(tv_sec: Int(whole), tv_nsec: whole == 3600 ? 0 : Int((left - whole) * 1e9))
            nanosleep(&rest, nil)
        }
    }
}
