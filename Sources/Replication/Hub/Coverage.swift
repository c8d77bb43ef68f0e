internal import EventLog

/// What was sent of the logs that a peer lacked when its session began: what PROGRESS tells. Only logs that are done, or of the lot that is under way,
/// count; it looks at the feed for that and believes nothing else, so that a log which is asked for again meanwhile does not count.
struct Coverage {
    /// Where the hub stood when they were looked up, or later, when nothing of what happened since was missing.
    private var position: Position
    /// Logs that have changed since then.
    private var changed: Set<LogID> = []
    /// Those of which something may be missing, the one with the newest last event last.
    private var logs: [(log: LogID, last: Position)]
    /// What the peer knows: it is told nothing that says less.
    private var told: PartialCursor?
    /// Where the lot that is under way begins.
    private var lot: (number: Int, from: Position)?

    init(position: Position, logs: [(log: LogID, last: Position)], told: PartialCursor?) {
        (self.position, self.logs, self.told) = (position, logs, told)
    }

    /// Something happened in a log, and is asked for, or will be when the peer has answered an offer of it.
    mutating func note(_ log: LogID) { changed.insert(log) }

    /// What can be told now; `nil` if it is nothing new.
    ///
    /// - Parameter now: where the hub stands, if all that happened up to there was noted.
    mutating func progress(_ feed: Feed, now: Position?, _ cursor: (Position) -> Cursor) -> PartialCursor? {
        changed = changed.filter { feed.wants($0) }
        // The logs that are left have not changed: where their last events lie stays true.
        if let now, changed.isEmpty { position = now }
        while let last = logs.last, !feed.wants(last.log) || PlantedBug.tellProgressEarly.isPlanted && feed.isUnderWay(last.log) { logs.removeLast() }
        let wholeFrom = logs.last.map { $0.last + 1 } ?? 1
        var partFrom = wholeFrom
        var through: Position = 0
        if let sent = feed.sentThrough {
            if lot?.number != feed.lot {
                let next = logs.last { feed.wants($0.log) && !feed.isUnderWay($0.log) }
                lot = (feed.lot, next.map { $0.last + 1 } ?? 1)
            }
            if lot!.from < wholeFrom { (partFrom, through) = (lot!.from, min(sent, position)) }
        }
        guard let new = PartialCursor(cursor: cursor(position), wholeFrom: wholeFrom, partFrom: partFrom, partThrough: through), new != told,
            new.isAtLeast(told)
        else { return nil }
        told = new
        return new
    }
}
