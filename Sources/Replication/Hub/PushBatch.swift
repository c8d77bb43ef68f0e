internal import EventLog

/// PUSHes that are decided in one commit; where the disk has no room for all, as much of them as it has room for.
///
/// Of one log nothing is decided behind an event that had no room: a lane is handled in order (docs/PROTOCOL.md, 7).
struct PushBatch {
    private let decisions: [(decision: PushDecision, bytes: Int)]
    let submissions: [Submission]
    private var outcomes: [AppendOutcome?]
    /// What was not decided yet, in pieces that go to the store one after the other; the next is the last.
    private var parts: [[Int]]
    /// An event of so many bytes had no room.
    private var least = Int.max

    init(_ decisions: [(decision: PushDecision, bytes: Int)], _ submissions: [Submission]) {
        self.decisions = decisions
        self.submissions = submissions
        outcomes = Array(repeating: nil, count: submissions.count)
        parts = submissions.isEmpty ? [] : [Array(submissions.indices)]
    }

    /// The submissions to ask the store about next; `nil`: all is told.
    ///
    /// - Parameter stuckLogs: those of which nothing more is decided; what is given up here is added.
    mutating func next(_ stuckLogs: inout Set<LogID>) -> [Int]? {
        while let part = parts.popLast() {
            let tried = part.filter { index in
                let event = submissions[index].event
                if stuckLogs.contains(event.log) { return false }
                guard least < .max, Self.bytes(event) >= least else { return true }
                stuckLogs.insert(event.log)
                return false
            }
            if !tried.isEmpty { return tried }
        }
        return nil
    }

    mutating func take(_ new: [AppendOutcome], of part: [Int]) {
        for (index, outcome) in zip(part, new) { outcomes[index] = outcome }
    }

    /// Nothing of a part was written: it is halved until what has no room stands alone.
    ///
    /// Returns the place of an event that stood alone.
    mutating func hadNoRoom(for part: [Int], _ stuckLogs: inout Set<LogID>) -> Int? {
        guard part.count > 1 else {
            let event = submissions[part[0]].event
            least = min(least, Self.bytes(event))
            stuckLogs.insert(event.log)
            return part[0]
        }
        parts.append(Array(part[(part.count / 2)...]))
        parts.append(Array(part[..<(part.count / 2)]))
        return nil
    }

    private static func bytes(_ event: Event) -> Int {
        var body = ByteBuffer()
        event.encodeBody(into: &body)
        return body.count
    }

    /// Each PUSH with what became of its events.
    var decided: [(decision: PushDecision, bytes: Int, outcomes: ArraySlice<AppendOutcome?>)] {
        var rest = outcomes[...]
        return decisions.map { decision, bytes in
            defer { rest = rest.dropFirst(decision.submissions.count) }
            return (decision, bytes, rest.prefix(decision.submissions.count))
        }
    }
}
