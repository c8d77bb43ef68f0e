internal import EventLog
internal import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Whether a flush holds up appends: one thread commits durably, another flushes whenever so much is in the journal, and commits that a flush ran
/// beside are told from the others.
public struct StallTrial: Sendable {
    public struct Plan: Sendable {
        /// Events a commit.
        public var batch: Int
        public var seconds: Double
        /// Events in the journal at which it is flushed: by default some 8 MiB of them, as a store does by itself.
        public var flushedAt: Int

        public init(batch: Int, seconds: Double, flushedAt: Int) { (self.batch, self.seconds, self.flushedAt) = (batch, seconds, flushedAt) }
    }

    public var plan: Plan
    public var events = 0
    public var flushes = 0
    public var flushSeconds = 0.0
    /// How long commits took, in seconds, ascending: those that no flush ran beside, and the others.
    public var without: [Double] = []
    public var during: [Double] = []

    public static func run(_ plan: Plan, _ items: [Item], directory: String) throws -> StallTrial {
        // So large that it is flushed only here, where it is timed.
        let store = try EventStore.open(at: directory + "/store", options: StoreOptions(journalBytesMax: 2 << 30))
        let state = Mutex((appended: 0, isDone: false))
        let flushes = Mutex<[Range<ContinuousClock.Instant>]>([])
        let flusher = WorkThread {
            var flushed = 0
            while true {
                let (appended, isDone) = state.withLock { $0 }
                if isDone { return }
                guard appended - flushed >= plan.flushedAt else {
                    usleep(1000)
                    continue
                }
                let start = ContinuousClock.now
                do { try store.flush() } catch { return }
                flushes.withLock { $0.append(start..<ContinuousClock.now) }
                flushed = appended
            }
        }
        var trial = StallTrial(plan: plan)
        var commits: [Range<ContinuousClock.Instant>] = []
        let end = ContinuousClock.now + .seconds(plan.seconds)
        while trial.events + plan.batch <= items.count {
            let submissions = items[trial.events..<trial.events + plan.batch].map { Submission($0.event) }
            let start = ContinuousClock.now
            if start > end { break }
            _ = try store.appendBlocking(submissions)
            commits.append(start..<ContinuousClock.now)
            trial.events += plan.batch
            state.withLock { $0.appended = trial.events }
        }
        state.withLock { $0.isDone = true }
        flusher.join()
        try store.close()
        var rest = flushes.withLock { $0 }[...]
        trial.flushes = rest.count
        trial.flushSeconds = rest.reduce(0) { $0 + seconds($1) }
        for commit in commits {
            while let first = rest.first, first.upperBound < commit.lowerBound { rest.removeFirst() }
            if rest.first?.overlaps(commit) ?? false { trial.during.append(seconds(commit)) } else { trial.without.append(seconds(commit)) }
        }
        trial.without.sort()
        trial.during.sort()
        return trial
    }

    static func seconds(_ range: Range<ContinuousClock.Instant>) -> Double {
        let spent = (range.upperBound - range.lowerBound).components
        return Double(spent.seconds) + Double(spent.attoseconds) / 1e18
    }

    /// A Markdown table of trials.
    public static func markdown(_ trials: [StallTrial]) -> String {
        var lines = [
            "| events a commit | events/s | flushes | ms each | commits without | p50 us | p99 us | commits during | p50 us | p99 us | max us | p99 ÷ without |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        func at(_ share: Double, _ values: [Double]) -> Double { values.isEmpty ? 0 : values[min(values.count - 1, Int(Double(values.count) * share))] }
        func microseconds(_ seconds: Double) -> String { grouped(seconds * 1e6) }
        for trial in trials {
            let (without, during) = (at(0.99, trial.without), at(0.99, trial.during))
            lines.append(
                "| "
                    + [
                        "\(trial.plan.batch)", grouped(Double(trial.events) / (trial.without + trial.during).reduce(0, +)), "\(trial.flushes)",
                        fixed(trial.flushSeconds / Double(max(1, trial.flushes)) * 1e3, 0), grouped(Double(trial.without.count)),
                        microseconds(at(0.5, trial.without)), microseconds(without), grouped(Double(trial.during.count)),
                        microseconds(at(0.5, trial.during)), microseconds(during), microseconds(trial.during.last ?? 0),
                        without > 0 ? fixed(during / without, 2) : "",
                    ].joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n")
    }
}
