import Glibc

/// One engine's appends of one batch size, once.
public struct Trial: Sendable {
    public var events = 0
    public var seconds = 0.0
    /// Of all threads, background work included.
    public var processorSeconds = 0.0
    /// Microseconds of each commit, ascending.
    public var commits: [Double] = []
    /// Bytes to the disk, by this process, from the first append to the last acknowledgement.
    public var writtenBytes = 0
    /// The same for the whole device.
    public var deviceBytes: Int?
    /// The same until the store was closed and all was written: what was put off is counted too.
    public var closedDeviceBytes: Int?

    public var eventsPerSecond: Double { Double(events) / seconds }

    public func percentile(_ share: Double) -> Double {
        commits.isEmpty ? 0 : commits[min(commits.count - 1, Int(Double(commits.count) * share))]
    }

    /// Appends all of `items`, `batch` a commit, each commit timed.
    static func run(_ engine: any Engine, _ items: ArraySlice<Item>, batch: Int, directory: String) throws -> Trial {
        try run(items, batch: batch, directory: directory, append: engine.append)
    }

    static func run(
        _ items: ArraySlice<Item>, batch: Int, directory: String, append: (ArraySlice<Item>) throws -> Void
    ) throws -> Trial {
        var trial = Trial()
        trial.commits.reserveCapacity(items.count / batch + 1)
        let before = DeviceBytes.now(of: directory)
        let spent = processorSeconds()
        let start = nanoseconds()
        var at = items.startIndex
        var last = start
        while at < items.endIndex {
            let end = min(at + batch, items.endIndex)
            try append(items[at..<end])
            let now = nanoseconds()
            trial.commits.append(Double(now - last) / 1000)
            (at, last) = (end, now)
        }
        trial.seconds = Double(last - start) / 1e9
        trial.processorSeconds = processorSeconds() - spent
        trial.events = items.count
        let after = DeviceBytes.now(of: directory)
        trial.writtenBytes = after.process - before.process
        trial.deviceBytes = after.device(since: before)
        trial.commits.sort()
        return trial
    }

    /// What all of this process's threads have used so far.
    static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
