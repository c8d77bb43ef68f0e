/// Submissions of one log whose origins were handled before.
struct RepeatSearch {
    let log: LogID
    /// As they lie, the first one last: each run is decoded once.
    var rest: [Repeat]
    /// Those that were looked for before and not found, long before the end that the log has by now: what came is read once for all of them.
    var absent: [Repeat] = []
    /// They are not there through this seq, and the end.
    var absentThrough: Seq = 0
    let end: Seq

    var isDone: Bool { rest.isEmpty && absent.isEmpty }

    struct Repeat {
        var index: Int
        var replica: ReplicaID
        var counter: UInt64
        /// Whether this is the origin that the event had once.
        var isFormer = false
    }
}

/// Submissions of one log that may stand there under other origins.
struct TwinSearch {
    let log: LogID
    let indices: [Int]
    /// The log is read through this seq; `nil`: it was not looked at.
    var goal: Seq?
    /// What the submissions of a time are, of times that events have.
    var keys: [UInt64: [TwinKey: [Int]]] = [:]

    /// So many events may have come since: the writer reads that they are not these.
    static let few: Seq = 256

    /// Those that were not found.
    func open(_ submissions: [Submission]) -> [Int] { indices.filter { submissions[$0].twin?.found == nil } }
}

extension OriginIndex {
    /// Notes in submissions of one log what is found of them, as far as the limit lasts, and takes those out of the search.
    func recall(_ search: inout RepeatSearch, _ submissions: inout [Submission], limit: Int) throws -> Effort {
        var effort = Effort()
        if !search.absent.isEmpty { try recallAbsent(&search, &submissions, limit: limit, &effort) }
        var comparand: Comparand?
        while let known = search.rest.last, effort.events < limit {
            let (seq, through) = try find(known.replica, known.counter, in: search.log, &effort)
            // Who names one event again and again has it read once.
            if comparand?.recorded.seq != seq { comparand = try seq.flatMap { try store.event(in: search.log, at: $0) }.map { Comparand($0) } }
            note(known, comparand, through: through, &submissions, &effort)
            search.rest.removeLast()
        }
        return effort
    }

    /// Goes on with what was not found from there.
    private func recallAbsent(_ search: inout RepeatSearch, _ submissions: inout [Submission], limit: Int, _ effort: inout Effort) throws {
        let names = Dictionary(grouping: search.absent) { FormerOrigin(replica: $0.replica, counter: $0.counter) }
        let through = search.end - search.absentThrough > Seq(limit) ? search.absentThrough + Seq(limit) : search.end
        var found: [(seq: Seq, known: [RepeatSearch.Repeat])] = []
        try store.forEachOrigin(of: search.log, from: search.absentThrough + 1, through: through) { seq, replica, counter in
            effort.events += 1
            if let known = names[FormerOrigin(replica: replica, counter: counter)] { found.append((seq, known)) }
            return true
        }
        for (seq, known) in found {
            let comparand = try store.event(in: search.log, at: seq).map { Comparand($0) }
            for known in known { note(known, comparand, through: through, &submissions, &effort) }
        }
        search.absentThrough = through
        guard through == search.end else { return }
        for known in search.absent { note(known, nil, through: through, &submissions, &effort) }
        search.absent = []
    }

    private func note(
        _ known: RepeatSearch.Repeat, _ comparand: Comparand?, through: Seq, _ submissions: inout [Submission], _ effort: inout Effort
    ) {
        let path = known.isFormer ? \Submission.formerRecall : \Submission.recall
        if submissions[known.index][keyPath: path]?.found != nil { return }
        let found = comparand?.compared(with: submissions[known.index])
        effort.events += (comparand?.size ?? 0) / 64
        // What is a repeat is paid for when it is answered so.
        if let found, !found.isSame || !found.isOfSameTime { effort.events += TwinKey.costMin }
        submissions[known.index][keyPath: path] = Recall(through: through, found: found)
    }
}

extension EventStore {
    /// Whether something is left to read of a log, or has come to it since it was read that the writer should not have to read.
    func hasToRead(_ search: TwinSearch, _ submissions: [Submission]) throws -> Bool {
        guard let through = search.open(submissions).map({ submissions[$0].twin?.through ?? 0 }).min() else { return false }
        guard let goal = search.goal, through >= goal else { return true }
        return try lastVisibleSeq(of: search.log) > through + TwinSearch.few
    }

    /// Those of submissions that were handled before and whose answers are not kept beside the log. Of the others it is noted that no event has their origins:
    /// one before them may raise a mark, of this peer or of another, and the writer would look through the log.
    ///
    /// - Parameter isAgain: what was found to be absent long before the end that a log has by now is asked anew.
    func repeats(among submissions: inout [Submission], _ places: [LogID: [Int]], isAgain: Bool) throws -> [RepeatSearch] {
        // What may be read. Before the marks: those of what comes meanwhile are higher.
        let ends = isAgain ? try places.keys.reduce(into: [LogID: Seq]()) { $0[$1] = try lastVisibleSeq(of: $1) } : [:]
        try checkOpen()
        return try writer.withLock { writer in
            var result: [RepeatSearch] = []
            for (log, indices) in places {
                guard let row = try writer.state(of: log)?.row else { continue }
                let none = Recall(through: row.seq, found: nil)
                var search = RepeatSearch(log: log, rest: [], end: ends[log] ?? 0)
                func note(_ known: RepeatSearch.Repeat, _ recall: inout Recall?, _ mark: UInt64, isAnswered: Bool) {
                    if let recall, recall.found != nil || !isAgain || recall.through + TwinSearch.few >= search.end { return }
                    if known.counter > mark {
                        recall = none
                    } else if let recall {
                        search.absentThrough = search.absent.isEmpty ? recall.through : min(search.absentThrough, recall.through)
                        search.absent.append(known)
                    } else if !isAnswered {
                        search.rest.append(known)
                    }
                }
                for index in indices {
                    guard let origin = submissions[index].origin, origin.counter > 0 else { continue }
                    if let former = submissions[index].former, former.counter > 0 {
                        let known = RepeatSearch.Repeat(index: index, replica: former.replica, counter: former.counter, isFormer: true)
                        note(known, &submissions[index].formerRecall, row.mark(of: former.replica), isAnswered: false)
                    }
                    let lane = row.lane(origin.replica).map { row.lanes[$0] }
                    let isAnswered =
                        switch lane?.answer(to: origin.counter) {
                        case .refused: !submissions[index].isFirstSending
                        case .duplicate: !submissions[index].isFirstSending && Writer.mayComeAgain(submissions[index].event)
                        case nil: false
                        }
                    let known = RepeatSearch.Repeat(index: index, replica: origin.replica, counter: origin.counter)
                    note(known, &submissions[index].recall, lane?.mark ?? 0, isAnswered: isAnswered)
                }
                search.rest.sort { ($0.replica, $0.counter) > ($1.replica, $1.counter) }
                if !search.isDone { result.append(search) }
            }
            return result.sorted { $0.log > $1.log }
        }
    }
}
