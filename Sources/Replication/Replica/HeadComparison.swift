internal import EventLog

/// Finds, log by log, up to where a replica and a hub have the same events: by halving, a head at a time.
final class HeadComparison {
    enum Step {
        /// Ask for the hub's head at this size.
        case probe(Seq)
        /// The events up to here are the same, those behind it the hub does not have.
        case rewind(Seq)
        case nothing
    }

    /// The greatest size known to be the same, and the least known to differ.
    private var searches: [LogID: (same: Seq, different: Seq)] = [:]
    private(set) var rewinds: [LogID: Seq] = [:]

    /// Logs of which events came that do not go with what is held.
    var disputed: [LogID: ReplicaError] = [:]
    /// What is told of a hub that sent such events of a log, and says that the two have the same of it.
    var contradiction: ReplicaError? {
        disputed.filter { rewinds[$0.key] == nil }.min { $0.key < $1.key }?.value
    }

    /// The hub has read all heads, and what it has to say to them was said.
    var isAnswered = false
    var isBusy: Bool { !isAnswered || !searches.isEmpty }
    /// Whether the two differ in a log.
    var differs: Bool { !searches.isEmpty || !rewinds.isEmpty }

    /// What the hub cannot read is compared another time.
    func giveUp(_ log: LogID) { (searches[log], disputed[log]) = (nil, nil) }

    /// The hub's answer: its head at a size, which is what was asked for, or all that it has.
    func take(_ log: LogID, heldSeq: Seq, size: Seq, isEqual: Bool) -> Step {
        guard heldSeq > 0 else { return .nothing }
        var search = searches[log] ?? (same: 0, different: heldSeq + 1)
        if isEqual { search.same = max(search.same, size) } else { search.different = min(search.different, size) }
        // The hub has no more than this: what follows here is not there.
        if isEqual, searches[log] == nil { search.different = search.same + 1 }
        guard search.same + 1 < search.different else {
            searches[log] = nil
            guard search.same < heldSeq else { return .nothing }
            rewinds[log] = search.same
            return .rewind(search.same)
        }
        searches[log] = search
        return .probe(search.same + (search.different - search.same) / 2)
    }
}
