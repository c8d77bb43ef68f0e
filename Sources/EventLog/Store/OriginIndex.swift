/// Finds events by their origins: so that a peer that repeats what it sent long ago holds up nobody, however long the log is.
///
/// Of each log that was asked for it keeps, for each 1,024 events, the first counter of each lane among them; counters of a lane ascend with seq (I3), so
/// one of these stretches is all that is read. Looks in the store as any reader does, without the writer's lock.
///
/// Safe to use from any thread; logs do not wait for each other. Made anew by reading a log once; the logs that were not asked for longest are forgotten.
package final class OriginIndex: Sendable {
    /// Where a lane first appears in a stretch.
    private struct Sample {
        var counter: UInt64
        var seq: Seq
    }

    /// One log's. `@unchecked Sendable`: touched only with its monitor's lock held.
    private final class Entry: @unchecked Sendable {
        /// Whole stretches up to here are in `lanes`.
        var through: Seq = 0
        var lanes: [ReplicaID: [Sample]] = [:]
        var cost = 0
    }

    private struct Logs {
        var entries: [LogID: (entry: Monitor<Entry>, cost: Int, lastUse: UInt64)] = [:]
        var cost = 0
        var uses: UInt64 = 0
    }

    let store: EventStore
    private let costMax: Int
    private let logs = Monitor(Logs())

    private static let stretch: Seq = 1024
    /// Bytes, about, of a sample, and of a lane beside its samples.
    private static let sampleBytes = 16, laneBytes = 96

    /// - Parameter bytesMax: what all logs but the one that is asked for may take in memory, about.
    package init(store: EventStore, bytesMax: Int = 32 << 20) {
        self.store = store
        costMax = bytesMax
    }

    /// Where the event of an origin was recorded, among the events that are visible now; `nil`: it was not. `through` is the last seq that was looked at.
    package func find(_ replica: ReplicaID, _ counter: UInt64, in log: LogID, _ effort: inout Effort) throws -> (seq: Seq?, through: Seq) {
        let (entry, use) = entry(log)
        let (result, cost) = try entry.withLock { entry in
            let through = try extend(entry, log, &effort)
            return ((try seq(of: replica, counter, in: log, entry, through, &effort), through), entry.cost)
        }
        settle(log, cost, use)
        return result
    }

    private func entry(_ log: LogID) -> (Monitor<Entry>, use: UInt64) {
        logs.withLock { logs in
            logs.uses += 1
            if let known = logs.entries[log] {
                logs.entries[log]!.lastUse = logs.uses
                return (known.entry, logs.uses)
            }
            let entry = Monitor(Entry())
            logs.entries[log] = (entry, 0, logs.uses)
            return (entry, logs.uses)
        }
    }

    private func settle(_ log: LogID, _ cost: Int, _ use: UInt64) {
        logs.withLock { logs in
            guard let known = logs.entries[log] else { return }
            logs.cost += cost - known.cost
            logs.entries[log]!.cost = cost
            while logs.cost > costMax, let oldest = logs.entries.min(by: { $0.value.lastUse < $1.value.lastUse }), oldest.value.lastUse < use {
                logs.cost -= oldest.value.cost
                logs.entries[oldest.key] = nil
            }
        }
    }

    /// Takes in the whole stretches that came since. Returns the last visible seq.
    private func extend(_ entry: Entry, _ log: LogID, _ effort: inout Effort) throws -> Seq {
        let through = try store.lastVisibleSeq(of: log)
        let end = through / Self.stretch * Self.stretch
        guard end > entry.through else { return through }
        var seen: Set<ReplicaID> = []
        try store.forEachOrigin(of: log, from: entry.through + 1, through: end) { seq, replica, counter in
            effort.events += 1
            if seq % Self.stretch == 1 { seen.removeAll(keepingCapacity: true) }
            if seen.insert(replica).inserted {
                let isNew = entry.lanes[replica] == nil
                entry.lanes[replica, default: []].append(Sample(counter: counter, seq: seq))
                entry.cost += Self.sampleBytes + (isNew ? Self.laneBytes : 0)
            }
            // A stretch that could not be read to its end is read again.
            if seq % Self.stretch == 0 { entry.through = seq }
            return true
        }
        return through
    }

    private func seq(
        of replica: ReplicaID, _ counter: UInt64, in log: LogID, _ entry: Entry, _ last: Seq, _ effort: inout Effort
    ) throws -> Seq? {
        var found: Seq?
        func look(_ first: Seq, _ last: Seq) throws {
            try store.forEachOrigin(of: log, from: first, through: last) { seq, other, its in
                effort.events += 1
                guard other == replica, its >= counter else { return true }
                if its == counter { found = seq }
                return false
            }
        }
        let samples = entry.lanes[replica] ?? []
        var low = 0
        var high = samples.count
        while low < high {
            let middle = (low + high) / 2
            if samples[middle].counter <= counter { low = middle + 1 } else { high = middle }
        }
        if low > 0 {
            let seq = samples[low - 1].seq
            try look(seq, (seq - 1) / Self.stretch * Self.stretch + Self.stretch)
        }
        // The lane goes on behind the last whole stretch, or begins there.
        if found == nil, low == samples.count, last > entry.through { try look(entry.through + 1, last) }
        return found
    }
}
