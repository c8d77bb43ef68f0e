/// Which seeds of a run are done.
struct Progress {
    private static let tellInterval = Duration.seconds(60)

    let end: UInt64
    private var next: UInt64
    /// Given back undone.
    private var left: [Range<UInt64>] = []
    /// The next seed of each process.
    private var running: [UInt64] = []
    private let first: UInt64
    private let begin = ContinuousClock.now
    private var lastTold = ContinuousClock.now
    private var doneCount = 0
    var failures: [SeedProcess.Failure] = []

    init(_ seeds: Range<UInt64>) {
        first = seeds.lowerBound
        next = seeds.lowerBound
        end = seeds.upperBound
    }

    /// The seeds for a process; `nil` if none is left.
    mutating func take(_ count: UInt64) -> Range<UInt64>? {
        let seeds = left.popLast() ?? next..<min(next + count, end)
        if seeds.isEmpty { return nil }
        next = max(next, seeds.upperBound)
        running.append(seeds.lowerBound)
        return seeds
    }

    mutating func finish(_ seed: UInt64) {
        doneCount += 1
        if let place = running.firstIndex(of: seed) { running[place] = seed + 1 }
    }

    /// A process has ended, and left these undone.
    mutating func giveBack(_ seeds: Range<UInt64>) {
        if let place = running.firstIndex(of: seeds.lowerBound) { running.remove(at: place) }
        if !seeds.isEmpty { left.append(seeds) }
    }

    /// The first seed that was not run, of all that were to be; `nil` if there is none.
    var firstUndone: UInt64? {
        let least = (running + left.map(\.lowerBound) + [next]).min()!
        return least < end ? least : nil
    }

    /// How far it is, now and then.
    mutating func lineIfDue(operations: Int) -> String? {
        let now = ContinuousClock.now
        guard doneCount > 0, now - lastTold >= Self.tellInterval else { return nil }
        lastTold = now
        let seconds = (now - begin) / .seconds(1)
        let minutes = Int(seconds / Double(doneCount) * Double(Int(end - first) - doneCount) / 60)
        return "\(summary(operations: operations)); of \(end - first), some \(minutes / 60) h \(minutes % 60) min to go"
    }

    func summary(operations: Int) -> String {
        "\(doneCount) seeds of \(operations) operations, \(failures.count) failed, in \((ContinuousClock.now - begin).components.seconds) s"
    }
}
