/// Looks up submissions before the writer is asked, who decides: then it has next to nothing to read of what is old while all others wait for it.
///
/// Two things are looked for, log by log: what was recorded under the origins that submissions name, where their lanes' marks say that these were handled
/// before; then what may stand under other origins (`TwinKey`). That goes in pieces, as much may have to be read. When anything was read, all is asked once
/// more for what came meanwhile, until that is little.
package struct SubmissionLookup: Sendable {
    package private(set) var submissions: [Submission]
    /// Where the submissions of a log are among them.
    private let places: [LogID: [Int]]
    /// Up to which seq a conversation has nothing of whoever submits: there nothing is looked for, or how long that takes would tell that it is there.
    private let seqWithout: @Sendable (ConversationID) -> Seq?
    private var round = 0
    /// Something was read in this round.
    private var hasRead = false
    /// Of this round, what was handled before.
    private var repeats: [RepeatSearch] = []
    /// Of this round, what may stand under other origins; `nil`: that is asked when the repeats are known.
    private var twins: [TwinSearch]?
    /// So many of them are through.
    private var twinsDone = 0
    private var unreadable: Set<LogID> = []

    package init(_ submissions: [Submission], seqWithout: @escaping @Sendable (ConversationID) -> Seq? = { _ in nil }) {
        self.submissions = submissions
        self.seqWithout = seqWithout
        places = Dictionary(grouping: submissions.indices) { submissions[$0].event.log }
    }

    /// The log of which something is to be read next; `nil`: all is known, and what came meanwhile is little.
    ///
    /// - Throws: `EventLogError`: `damaged`, `closed`, `io`.
    package mutating func next(_ index: OriginIndex, _ effort: inout Effort) throws -> LogID? {
        while true {
            if round > 0 {
                if let search = repeats.last { return search.log }
                if twins == nil { findTwins() }
                while twinsDone < twins!.count {
                    if try index.store.hasToRead(twins![twinsDone], submissions) { return twins![twinsDone].log }
                    twinsDone += 1
                }
                if !hasRead { return nil }
            }
            round += 1
            hasRead = false
            if round > 1 { effort.events += submissions.count / 16 }
            for log in places.keys { noteUnrecorded(in: log) }
            repeats = try index.store.repeats(among: &submissions, places, isAgain: round > 1).filter { !unreadable.contains($0.log) }
            (twins, twinsDone) = (nil, 0)
        }
    }

    /// Whether reading of that log may take long, whatever the limit: an origin's log that was never asked for is read whole.
    package func isLong(_ index: OriginIndex) throws -> Bool {
        guard let search = repeats.last else { return false }
        return try index.store.lastVisibleSeq(of: search.log) > 4096
    }

    /// Reads some of the log that `next` has told.
    ///
    /// - Parameters:
    ///   - memory: of whoever submits.
    ///   - limit: what that may take, about, in events; it is gone on from there next time.
    /// - Throws: `EventLogError`: `damaged`, `closed`, `io`.
    package mutating func read(_ index: OriginIndex, _ memory: inout TwinMemory, limit: Int) throws -> Effort {
        hasRead = true
        if let search = repeats.last {
            noteUnrecorded(in: search.log)
            let effort = try index.recall(&repeats[repeats.count - 1], &submissions, limit: max(1, limit))
            if repeats[repeats.count - 1].isDone { repeats.removeLast() }
            return effort
        }
        noteUnrecorded(in: twins![twinsDone].log)
        return try index.store.recallTwins(&twins![twinsDone], &submissions, &memory, limit: max(1, limit))
    }

    /// Leaves out the log that `next` has told, of which something cannot be read.
    package mutating func giveUp() {
        if let search = repeats.popLast() {
            unreadable.insert(search.log)
        } else {
            unreadable.insert(twins!.remove(at: twinsDone).log)
        }
    }

    private mutating func findTwins() {
        let groups = places.mapValues { $0.filter { submissions[$0].mayHaveTwin } }
        // In an order that is the same each time.
        twins = groups.filter { !$0.value.isEmpty && !unreadable.contains($0.key) }.sorted { $0.key < $1.key }
            .map { TwinSearch(log: $0.key, indices: $0.value, goal: round > 1 ? 0 : nil) }
    }

    private mutating func noteUnrecorded(in log: LogID) {
        guard case .conversation(let id) = log, let seq = seqWithout(id) else { return }
        for index in places[log]! { submissions[index].isUnrecorded(through: seq) }
    }
}
