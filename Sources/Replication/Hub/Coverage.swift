internal import EventLog

/// What was sent of the logs that a peer lacked when its session began: what PROGRESS tells. Only logs that are done, or of the lot that is under way,
/// count; it looks at the feed for that and believes nothing else, so that a log which is asked for again meanwhile does not count.
struct Coverage {
    /// Where the hub stood when they were looked up, or later, when nothing of what happened since was missing.
    private var position: Position
    /// Logs that have changed since then: those of which something is missing, and the others.
    private var changed: Set<LogID> = []
    private var changedWhole: Set<LogID> = []
    /// Those of which something may be missing, the one with the newest last event last.
    private var logs: [(log: LogID, last: Position)]
    /// Where the last events of all of them lie.
    private let ends: [LogID: Position]
    /// Logs of which all was sent, and that was not told yet.
    private var whole: Set<LogID> = []
    /// What the peer knows: it is told nothing that says less.
    private var told: PartialCursor?
    /// Where the lot that is under way begins.
    private var lot: (number: Int, from: Position)?

    init(position: Position, logs: [(log: LogID, last: Position)], told: PartialCursor?) {
        (self.position, self.logs, self.told) = (position, logs, told)
        ends = Dictionary(uniqueKeysWithValues: logs.map { ($0.log, $0.last) })
    }

    /// Something happened in a log, and is asked for, or will be when the peer has answered an offer of it.
    mutating func note(_ log: LogID) { changed.insert(log) }

    /// What can be told now; `nil` if it is nothing new.
    ///
    /// - Parameters:
    ///   - sent: logs of which all was sent since this was called last.
    ///   - namesMax: so many of them are named at once: the others are in the next.
    ///   - now: where the hub stands, if all that happened up to there was noted.
    mutating func progress(_ feed: Feed, whole sent: Set<LogID> = [], namesMax: Int = 1024, now: Position?, _ cursor: (Position) -> Cursor) -> Progress? {
        whole.formUnion(sent)
        let done = changed.filter { !feed.wants($0) }
        changed.subtract(done)
        changedWhole.formUnion(done)
        let isUpToDate = now != nil && changed.isEmpty
        // The logs that are left have not changed: where their last events lie stays true.
        if let now, isUpToDate { position = now }
        // A replica counts on each for all that came before it: names alone, behind the same part, would have it forget what is held beyond that otherwise.
        guard let part = part(feed, cursor), part != told, part.isAtLeast(told) else { return nil }
        if isUpToDate { changedWhole = [] }
        told = part
        return Progress(part, whole: takeWhole(beside: part, feed, namesMax))
    }

    /// How far all was sent of the logs that were looked up.
    private mutating func part(_ feed: Feed, _ cursor: (Position) -> Cursor) -> PartialCursor? {
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
        return PartialCursor(cursor: cursor(position), wholeFrom: wholeFrom, partFrom: partFrom, partThrough: through)
    }

    /// The logs of which a part does not say that all of them was sent, though it was.
    private mutating func takeWhole(beside part: PartialCursor, _ feed: Feed, _ namesMax: Int) -> [LogID] {
        // Those that have no place here began later, and if they have not changed since, the part goes as far as that.
        whole = whole.filter { log in !feed.wants(log) && (changedWhole.contains(log) || ends[log].map { part.reach($0) < $0 } ?? false) }
        let names = whole.sorted().prefix(namesMax)
        whole.subtract(names)
        return Array(names)
    }
}
