import EventLog
import Synchronization

/// What a benchmark measured.
struct Measurement: Sendable {
    var events: Int
    var refused = 0
    var seconds: Double
    /// Seconds of each commit as its caller saw it.
    var times: [Double]

    /// Events appended so far, for the progress bar.
    private final class Counter: Sendable {
        let events = Atomic(0)
    }

    /// Appends each share from a thread of its own.
    static func run(_ shares: [[Submission]], batch: Int, _ store: EventStore) -> Result<Measurement, any Error> {
        let results = Monitor<(left: Int, times: [Double], refused: Int, failure: (any Error)?)>((shares.count, [], 0, nil))
        let counter = Counter()
        let total = shares.reduce(0) { $0 + $1.count }
        var progress = ProgressBar("Appending")
        let start = ContinuousClock.now
        for share in shares {
            WorkerThread.start {
                var times: [Double] = []
                times.reserveCapacity(share.count / batch + 1)
                var refused = 0
                var failure: (any Error)?
                do {
                    var next = 0
                    while next < share.count {
                        let end = min(next + batch, share.count)
                        let slice = Array(share[next..<end])
                        let start = ContinuousClock.now
                        let outcomes = try store.appendBlocking(slice)
                        times.append((ContinuousClock.now - start).seconds)
                        for case .refused in outcomes { refused += 1 }
                        counter.events.add(end - next, ordering: .relaxed)
                        next = end
                    }
                } catch {
                    failure = error
                }
                results.withLock { state in
                    state.left -= 1
                    state.times += times
                    state.refused += refused
                    state.failure = state.failure ?? failure
                    results.wakeAll()
                }
            }
        }
        while true {
            let result = results.withLock(waitingWhile: { $0.left > 0 }, atMostMilliseconds: 200) { state -> Result<Measurement, any Error>? in
                guard state.left == 0 else { return nil }
                let seconds = (ContinuousClock.now - start).seconds
                if let failure = state.failure { return .failure(failure) }
                return .success(Measurement(events: total, refused: state.refused, seconds: seconds, times: state.times))
            }
            if let result {
                progress.clear()
                return result
            }
            let done = counter.events.load(ordering: .relaxed)
            progress.update(done: Double(done), total: Double(total), count: done, "events")
        }
    }

    func print(bytesWritten: Int, asJSON: Bool) throws {
        let sorted = times.sorted()
        func microseconds(_ share: Double) -> Double {
            sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int((Double(sorted.count) * share).rounded(.up)) - 1)] * 1e6
        }
        let rate = seconds > 0 ? Double(events) / seconds : 0
        if asJSON {
            var line = JSONLine()
            line.add("events", events)
            line.add("commits", times.count)
            line.add("refused", refused)
            line.add("seconds", seconds, decimals: 6)
            line.add("events_per_second", rate, decimals: 1)
            line.add("p50_us", microseconds(0.5), decimals: 1)
            line.add("p99_us", microseconds(0.99), decimals: 1)
            line.add("max_us", microseconds(1), decimals: 1)
            line.add("bytes_written", bytesWritten)
            line.add("peak_bytes", ProcessUsage.peakBytes)
            return try line.print()
        }
        var table = Table([("", .left), ("", .right), ("", .left)])
        table.add("events", Quantity.count(events), "in \(Quantity.fixed(seconds, 3)) s" + (refused > 0 ? ", \(refused) refused" : ""))
        table.add("rate", Quantity.count(Int(rate)), "events a second")
        table.add("median", Quantity.fixed(microseconds(0.5), 1), "µs")
        table.add("99 %", Quantity.fixed(microseconds(0.99), 1), "µs")
        table.add("longest", Quantity.fixed(microseconds(1), 1), "µs")
        table.add("written", Quantity.bytes(bytesWritten), "")
        table.add("peak memory", Quantity.bytes(ProcessUsage.peakBytes), "")
        try table.print()
    }
}
