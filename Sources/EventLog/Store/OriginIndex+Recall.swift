/// What is known of an event before the writer is asked: whether it was recorded among a log's first events, under its origin or another.
///
/// A class, as next to no submission has one, and each has room for three.
final class Recall: Sendable {
    /// All events up to here were looked at.
    let through: Seq
    /// The event; `nil`: none up to there is.
    let event: RecordedEvent?

    init(through: Seq, event: RecordedEvent?) { (self.through, self.event) = (through, event) }
}

extension OriginIndex {
    /// Looks up submissions whose origins their lanes' marks say were handled before, and notes in them what is found: then the writer, who decides, has
    /// nothing to read of what is old while all others wait for it.
    ///
    /// - Throws: `EventLogError` with code `damaged` or `closed`.
    package func recall(_ submissions: inout [Submission]) throws -> Effort {
        var effort = Effort()
        try store.noteFresh(&submissions)
        for (log, repeats) in try store.repeats(among: submissions) {
            // As they lie: each run is decoded once.
            for known in repeats.sorted(by: { ($0.replica, $0.counter) < ($1.replica, $1.counter) }) {
                let (seq, through) = try find(known.replica, known.counter, in: log, &effort)
                let recall = Recall(through: through, event: try seq.flatMap { try store.event(in: log, at: $0) })
                if known.isFormer { submissions[known.index].formerRecall = recall } else { submissions[known.index].recall = recall }
            }
        }
        return effort
    }

    /// The submissions that were looked up so and have still to be looked for under other origins, by their logs, in an order that is the same each time.
    package func searches(among submissions: [Submission]) -> [TwinSearch] {
        Dictionary(grouping: submissions.indices.filter { submissions[$0].mayHaveTwin }) { submissions[$0].event.log }
            .sorted { $0.key < $1.key }.map { TwinSearch(log: $0.key, indices: $0.value) }
    }

    /// Looks those of one log up: much may have to be read for that.
    ///
    /// - Parameter memory: of whoever submits them.
    package func recallTwins(_ search: TwinSearch, _ submissions: inout [Submission], _ memory: inout TwinMemory) throws -> Effort {
        try store.recallTwins(search, &submissions, &memory)
    }

    /// Whether so much has come to a log since it was looked through that the writer should not have to read it.
    package func isStale(_ search: TwinSearch, _ submissions: [Submission]) throws -> Bool {
        guard let through = search.indices.lazy.compactMap({ submissions[$0].twin?.through }).min() else { return true }
        return try store.lastVisibleSeq(of: search.log) > through + 256
    }
}

/// Submissions of one log that may stand there under other origins.
package struct TwinSearch: Sendable {
    package let log: LogID
    let indices: [Int]
}

extension EventStore {
    fileprivate struct Repeat {
        var index: Int
        var replica: ReplicaID
        var counter: UInt64
        /// Whether this is the origin that the event had once.
        var isFormer = false
    }

    /// Notes in submissions of one log that no event which is seen by now has their origins, where their lanes' marks say so: one before them may raise a mark,
    /// and the writer would look through the log.
    fileprivate func noteFresh(_ submissions: inout [Submission]) throws {
        let logs = Dictionary(grouping: submissions.indices) { submissions[$0].event.log }.filter { $0.value.count > 1 }
        if logs.isEmpty { return }
        // Before the marks: those of what comes meanwhile are higher.
        let ends = try logs.keys.reduce(into: [LogID: Seq]()) { $0[$1] = try lastVisibleSeq(of: $1) }
        try checkOpen()
        try writer.withLock { writer in
            for (log, indices) in logs {
                guard let row = try writer.state(of: log)?.row, let end = ends[log], end > 0 else { continue }
                for index in indices where submissions[index].recall == nil {
                    let none = Recall(through: end, event: nil)
                    if let origin = submissions[index].origin, origin.counter > row.mark(of: origin.replica) { submissions[index].recall = none }
                    if let former = submissions[index].former, former.counter > row.mark(of: former.replica) { submissions[index].formerRecall = none }
                }
            }
        }
    }

    /// Those of submissions that were handled before and whose answers are not kept beside the log, and those that may stand there under another origin.
    fileprivate func repeats(among submissions: [Submission]) throws -> [LogID: [Repeat]] {
        try checkOpen()
        return try writer.withLock { writer in
            var result: [LogID: [Repeat]] = [:]
            for (index, submission) in submissions.enumerated() {
                guard let origin = submission.origin, submission.recall == nil || submission.formerRecall == nil,
                    let row = try writer.state(of: submission.event.log)?.row
                else { continue }
                if let former = submission.former, submission.formerRecall == nil, former.counter > 0, row.mark(of: former.replica) >= former.counter {
                    result[submission.event.log, default: []].append(
                        Repeat(index: index, replica: former.replica, counter: former.counter, isFormer: true))
                }
                guard submission.recall == nil, let lane = row.lane(origin.replica),
                    origin.counter <= row.lanes[lane].mark, submission.isFirstSending || row.lanes[lane].answer(to: origin.counter) == nil
                else { continue }
                result[submission.event.log, default: []].append(Repeat(index: index, replica: origin.replica, counter: origin.counter))
            }
            return result
        }
    }
}
