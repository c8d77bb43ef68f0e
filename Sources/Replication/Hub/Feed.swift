internal import ConversationStore
package import EventLog

/// What one peer still lacks, and the frames that bring it: archived events run by run, so that each run is read once whoever wants it, then what is
/// newer. Where no run can go as it lies, the logs that were asked for last come first, some at a time. Holds no events: a slow peer costs a number a log.
package struct Feed {
    private struct Wish {
        var next: Seq
        /// `Seq.max`: to the end of what may be seen.
        var through: Seq
        /// Its head is told with each of its frames: what is held beside a log, behind a BASE with `first`, is compared as a whole if any of it is doubtful.
        var tellsHeads: Bool
    }

    /// A frame's worth of events.
    package struct Piece {
        package var frame: Frame
        package var events: Int
        /// So many were read for it that are read again for the next.
        package var readAgain = 0
    }

    /// What a feed reads from, as of now.
    package struct Source {
        package var store: EventStore
        package var heads: HeadCache
        package var encode: ([RecordedEvent]) throws -> [UInt8]
        /// The last seq of a log that the peer may see from one on; 0: that is hidden.
        package var visibleSeq: (LogID, _ first: Seq) -> Seq
    }

    private var wishes: [LogID: Wish] = [:]
    /// Logs whose runs have not been looked up, the newest wish last; each once.
    private var unplanned: [LogID] = []
    private var queued: Set<LogID> = []
    /// The others: of a log whose first run has not been read, no later one may be sent.
    private var planned: Set<LogID> = []
    /// Logs that are planned together next, if not all are.
    private var groupSize: Int
    private let firstGroup: Int
    /// Those of `unplanned` of which an earlier session has sent something up to one position: they go on as one lot.
    private var together = 0..<0
    /// Another one each time when `planned` loses a log that is not done, or takes new ones.
    package private(set) var lot = 0
    /// The archive's runs that hold something wanted, descending.
    private var runs: [Position] = []
    /// In which run each planned log's archived events end.
    private var lastRun: [LogID: Position] = [:]
    /// Logs of which what was wanted next is hidden by now, with the seqs of that: nothing more is sent of them.
    private var hidden: [LogID: Seq] = [:]
    /// Logs of which something cannot be read that would have to be sent: nothing more is, be it sound or not. What is behind could not be kept.
    private var unreadable: Set<LogID> = []
    /// Those that were found since this was asked last, with what is wrong.
    private var damage: [(log: LogID, error: EventLogError)] = []
    /// Logs that are wanted behind the archive, the newest wish last; each once.
    private var rest: [LogID] = []
    private var resting: Set<LogID> = []
    /// Logs of which all that may be seen was sent since this was asked last.
    private var whole: Set<LogID> = []
    /// Whether somebody asks for them.
    package var notesWhole = false { didSet { if !notesWhole { whole = [] } } }

    /// - Parameter firstGroup: how many logs the first lot has.
    package init(firstGroup: Int = 64) {
        self.firstGroup = firstGroup
        groupSize = firstGroup
    }

    /// So many bytes of events a frame brings at most, and one event more: what is larger would not get through.
    package var messageBytesMax = Int.max
    /// Whether a run may have to be read more than once.
    package var cutsRuns: Bool { messageBytesMax < .max }

    package var isEmpty: Bool { wishes.isEmpty }
    package var count: Int { wishes.count + unreadable.count }

    /// Whether something of a log has not been sent yet, or cannot be.
    package func wants(_ log: LogID) -> Bool { wishes[log] != nil || unreadable.contains(log) }

    /// Whether nothing more is sent of a log, as something of it cannot be read.
    package func isUnreadable(_ log: LogID) -> Bool { unreadable.contains(log) }

    package var hasUnreadable: Bool { !unreadable.isEmpty }

    package var unreadableCount: Int { unreadable.count }

    /// Whether a log is of the lot that is being sent: of these all that is wanted up to ``sentThrough`` was.
    package func isUnderWay(_ log: LogID) -> Bool { planned.contains(log) }

    /// `nil`: it cannot be told now.
    package var sentThrough: Position? { runs.last.map { $0 - 1 } }

    /// How many logs wait for their lot.
    package var waiting: Int { unplanned.count }

    /// Those of the waiting go as one lot.
    package mutating func keepTogether(_ waiting: Range<Int>) { together = waiting }

    /// Asks for a log's events from a seq on.
    package mutating func want(_ log: LogID, from seq: Seq, through last: Seq = .max, tellsHeads: Bool = false) {
        if unreadable.contains(log) { return }
        if let known = wishes[log] {
            // It goes on from where it is, unless more is asked for than before.
            guard seq < known.next || last > known.through else { return }
            wishes[log] = Wish(next: min(seq, known.next), through: max(last, known.through), tellsHeads: known.tellsHeads || tellsHeads)
            // What is planned is looked up as far as it was wanted.
            guard seq < known.next || planned.contains(log) else { return }
        } else {
            wishes[log] = Wish(next: seq, through: last, tellsHeads: tellsHeads)
        }
        if planned.remove(log) != nil { lot += 1 }
        if queued.insert(log).inserted { unplanned.append(log) }
    }

    /// What stands before a seq of a log is not for the peer any more.
    package mutating func skip(_ log: LogID, to seq: Seq) {
        guard let wish = wishes[log], wish.next < seq else { return }
        wishes[log]!.next = seq
    }

    /// The logs that were given up since this was asked last, as what was wanted of them is hidden; and where that began.
    package mutating func takeHidden() -> [(log: LogID, seq: Seq)] {
        if hidden.isEmpty { return [] }
        defer { hidden = [:] }
        return hidden.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Sends nothing more of a log.
    package mutating func giveUp(_ log: LogID, _ error: EventLogError) {
        guard unreadable.insert(log).inserted else { return }
        damage.append((log, error))
        wishes[log] = nil
        lastRun[log] = nil
        hidden[log] = nil
        whole.remove(log)
        if planned.remove(log) != nil { lot += 1 }
    }

    /// Gives a log up if what is done for it fails as bytes are damaged. Other errors are thrown.
    private mutating func giveUp<Result>(_ log: LogID, _ body: (inout Self) throws -> Result) throws -> Result? {
        do {
            return try body(&self)
        } catch let error as EventLogError where error.code == .damaged {
            giveUp(log, error)
            return nil
        }
    }

    /// The logs that were given up since this was asked last.
    package mutating func takeDamage() -> [(log: LogID, error: EventLogError)] {
        defer { damage = [] }
        return damage
    }

    /// The logs of which all that may be seen was sent since this was asked last.
    package mutating func takeWhole() -> Set<LogID> {
        defer { whole = [] }
        return whole
    }

    private mutating func end(_ log: LogID, _ wish: Wish, visible: Seq) {
        if notesWhole, visible > 0, wish.next > visible { whole.insert(log) }
        if visible == 0 { hidden[log] = wish.next }
        wishes[log] = nil
        lastRun[log] = nil
        planned.remove(log)
    }

    /// The next frame; `nil` if nothing can be sent now.
    package mutating func next(_ source: Source) throws -> Piece? {
        repeat {
            while let run = runs.popLast() {
                if let piece = try whole(run, source) ?? part(of: run, source) { return piece }
            }
            if let piece = try newest(source) { return piece }
        } while try plan(source)
        return nil
    }

    /// Each further group is so many times as large: a run is read a few times more than once, however many conversations it has.
    private static let groupFactor = 8

    /// Looks up the runs of the logs that come next. Answers whether there were any.
    private mutating func plan(_ source: Source) throws -> Bool {
        if unplanned.isEmpty { return false }
        var places: [LogID: [Position]] = [:]
        var oldest = Position.max
        for log in unplanned {
            // What was committed just now is in the journal: nothing to look up.
            guard let wish = wishes[log], places[log] == nil else { continue }
            places[log] = try giveUp(log) { _ in try source.store.runs(of: log, from: wish.next, through: wish.through) }
            oldest = min(oldest, places[log]?.first ?? .max)
        }
        // A large run that goes as it lies costs next to nothing, and can only be kept so if all before it is there: then the oldest comes first.
        var group = unplanned[...]
        var count = min(groupSize, unplanned.count - together.upperBound)
        if count <= 0 { count = unplanned.count - together.lowerBound }
        if unplanned.count > count, oldest < .max {
            let whole = try wanted(oldest, source, atLast: true)
            if whole?.bytes.count ?? 0 < Replica.wholeBytesMin { group = unplanned.suffix(count) }
        }
        groupSize = group.count < unplanned.count ? groupSize * Self.groupFactor : firstGroup
        unplanned.removeLast(group.count)
        if unplanned.count <= together.lowerBound { together = 0..<0 }
        lot += 1
        queued.subtract(group)
        var found = Set(runs)
        for log in group where wishes[log] != nil {
            planned.insert(log)
            lastRun[log] = places[log]?.last
            found.formUnion(places[log] ?? [])
            if resting.insert(log).inserted { rest.append(log) }
        }
        runs = found.sorted(by: >)
        return true
    }

    private var runBytesMax: Int { min(messageBytesMax, WireLimits.messageBytesMax - 1 << 20 - 1) }

    /// A run of which all is wanted next; or `atLast`, when all before it has been sent.
    private func wanted(_ position: Position, _ source: Source, atLast: Bool) throws -> StoredRun? {
        guard let stored = try storedRun(position, source), stored.bytes.count <= runBytesMax else { return nil }
        for slice in stored.slices {
            let end = slice.firstSeq + Seq(slice.count) - 1
            guard let wish = wishes[slice.log], wish.through >= end, source.visibleSeq(slice.log, slice.firstSeq) >= end,
                atLast ? wish.next <= slice.firstSeq : wish.next == slice.firstSeq && planned.contains(slice.log)
            else { return nil }
        }
        return stored
    }

    /// `nil` too if it is damaged: what of it can be read is encoded anew.
    private func storedRun(_ position: Position, _ source: Source) throws -> StoredRun? {
        do {
            return try source.store.storedRun(containing: position)
        } catch let error as EventLogError where error.code == .damaged {
            return nil
        }
    }

    /// A run as it lies, if all of it is wanted: nothing is decompressed but its directory.
    private mutating func whole(_ position: Position, _ source: Source) throws -> Piece? {
        guard let stored = try wanted(position, source, atLast: false) else { return nil }
        var notes: [LogNote] = []
        for slice in stored.slices {
            let end = slice.firstSeq + Seq(slice.count) - 1
            let isEnd = lastRun[slice.log] == position
            guard let note = try giveUp(slice.log, { try $0.note(slice.log, first: slice.firstSeq, last: end, isEnd: isEnd, source) }) else { return nil }
            if !note.isEmpty { notes.append(note) }
        }
        for slice in stored.slices { advance(slice.log, behind: slice.firstSeq + Seq(slice.count) - 1, source) }
        return Piece(frame: .segment(SegmentFrame(run: stored.bytes, logs: notes)), events: stored.eventCount)
    }

    /// What is wanted of a run, encoded anew.
    private mutating func part(of position: Position, _ source: Source) throws -> Piece? {
        var events: [RecordedEvent] = []
        var damaged: [(log: LogID, error: EventLogError)] = []
        let read: Int
        do {
            read = try source.store.forEachEvent(inRun: position) { log in
                guard planned.contains(log), let wish = wishes[log] else { return nil }
                let last = min(wish.through, source.visibleSeq(log, wish.next))
                return wish.next <= last ? wish.next...last : nil
            } _: {
                events.append($0)
            } onDamage: { log, error in
                damaged.append((log, error))
            }
        } catch let error as EventLogError where error.code == .damaged {
            // Of none of its logs.
            for log in try planned(in: position, source) { giveUp(log, error) }
            return nil
        }
        for (log, error) in damaged { giveUp(log, error) }
        if !damaged.isEmpty { events.removeAll { unreadable.contains($0.log) } }
        if events.isEmpty { return nil }
        let isCut = !cut(&events).isEmpty
        if isCut { runs.append(position) }
        let lastRun = lastRun
        var piece = try piece(events, source) { lastRun[$0] == position && !isCut }
        if isCut { piece?.readAgain = read }
        return piece
    }

    /// The logs that are planned and have something in a run that they want next.
    private mutating func planned(in position: Position, _ source: Source) throws -> [LogID] {
        try planned.filter { log in
            guard let wish = wishes[log] else { return false }
            return try giveUp(log) { _ in try source.store.runs(of: log, from: wish.next, through: wish.through) }?.first == position
        }
    }

    /// Leaves as many events of a run as a frame brings where messages are small. Answers the others.
    package func cut(_ events: inout [RecordedEvent]) -> [RecordedEvent] {
        cutsRuns ? Self.cut(&events, bytesMax: messageBytesMax, eventsMax: .max) : []
    }

    /// The same of events that are of no run.
    func cutPiece(_ events: inout [RecordedEvent]) -> [RecordedEvent] {
        Self.cut(&events, bytesMax: min(Self.pieceBytes, messageBytesMax), eventsMax: Self.pieceEvents)
    }

    private static func cut(_ events: inout [RecordedEvent], bytesMax: Int, eventsMax: Int) -> [RecordedEvent] {
        var bytes = 0
        let end = events.indices.first { index in
            defer { bytes += events[index].event.approximateBytes }
            return bytes >= bytesMax || index == eventsMax
        }
        guard let end else { return [] }
        defer { events.removeSubrange(end...) }
        return Array(events[end...])
    }

    /// What is wanted behind the archive.
    private mutating func newest(_ source: Source) throws -> Piece? {
        while true {
            let (events, cutLog) = try newestEvents(source)
            if events.isEmpty { return nil }
            if let piece = try piece(events, source, isEnd: { $0 != cutLog }) { return piece }
        }
    }

    /// - Returns: also of which log more follows.
    private mutating func newestEvents(_ source: Source) throws -> (events: [RecordedEvent], cutLog: LogID?) {
        var events: [RecordedEvent] = []
        var bytes = 0
        let bytesMax = min(Self.pieceBytes, messageBytesMax)
        /// More follows of it, and its head with that: a log of which all that is held is vouched for is not named by who comes back (PROTOCOL.md, 5).
        var cutLog: LogID?
        var stalled: [LogID] = []
        while let log = rest.popLast() {
            resting.remove(log)
            guard planned.contains(log), let wish = wishes[log] else { continue }
            let visible = source.visibleSeq(log, wish.next)
            let last = min(wish.through, visible)
            guard wish.next <= last else {
                end(log, wish, visible: visible)
                continue
            }
            var next = wish.next
            let place = events.count
            let read: Void? = try giveUp(log) { _ in
                try source.store.forEachEvent(in: log, range: wish.next...last) { event in
                    events.append(event)
                    next = event.seq + 1
                    bytes += event.event.approximateBytes
                    return bytes < bytesMax && events.count < Self.pieceEvents
                }
            }
            if read == nil {
                events.removeSubrange(place...)
                continue
            }
            // A relaxed store shows an event only once it is synced: the wish waits for that.
            resting.insert(log)
            if next == wish.next { stalled.append(log) } else { rest.append(log) }
            wishes[log]!.next = next
            if next <= last { cutLog = log }
            if bytes >= bytesMax || events.count >= Self.pieceEvents || events.count >= 1 && next <= last { break }
        }
        rest.append(contentsOf: stalled)
        return (events, cutLog)
    }

    /// A frame of events that somebody chose; of logs of which that is what comes next, or what has come since that was asked for, the feed goes on behind it.
    package mutating func piece(of events: [RecordedEvent], _ source: Source) throws -> Piece? {
        let events = unreadable.isEmpty ? events : events.filter { !unreadable.contains($0.log) }
        return events.isEmpty ? nil : try piece(events, source) { _ in true }
    }

    private static let pieceBytes = 1 << 20, pieceEvents = 8192
    /// From here on a run is smaller than the events themselves.
    private static let segmentEventsMin = 32

    /// - Returns: `nil` if nothing of it can be sent.
    private mutating func piece(_ events: [RecordedEvent], _ source: Source, isEnd: (LogID) -> Bool) throws -> Piece? {
        var spans: [LogID: (first: Seq, last: Seq)] = [:]
        var order: [LogID] = []
        for event in events {
            if spans[event.log] == nil {
                order.append(event.log)
                spans[event.log] = (event.seq, event.seq)
            }
            spans[event.log]!.last = event.seq
        }
        var notes: [LogNote] = []
        var events = events
        for log in order {
            let span = spans[log]!
            let isEnd = isEnd(log)
            // Without its secret a log cannot be kept, and without its head not be believed.
            guard let note = try giveUp(log, { try $0.note(log, first: span.first, last: span.last, isEnd: isEnd, source) }) else {
                events.removeAll { $0.log == log }
                continue
            }
            if !note.isEmpty { notes.append(note) }
            if let wish = wishes[log], wish.next >= span.first { advance(log, behind: span.last, source) }
        }
        if events.isEmpty { return nil }
        if events.count >= Self.segmentEventsMin {
            return Piece(frame: .segment(SegmentFrame(run: try source.encode(events), logs: notes)), events: events.count)
        }
        let items = events.map { event in
            let (envelope, body) = EventCodec.encode(event)
            return EventsFrame.Item(envelope: envelope, body: event.isErased ? [] : body, commitment: event.commitment)
        }
        return Piece(frame: .events(EventsFrame(items: items, logs: notes)), events: events.count)
    }

    /// - Parameter isEnd: whether the log's last run was sent; where all that is wanted was, the head is told too: nothing else vouches for it.
    private func note(_ log: LogID, first: Seq, last: Seq, isEnd: Bool, _ source: Source) throws -> LogNote {
        var note = LogNote(log: log)
        let isEnd = isEnd || wishes[log]?.tellsHeads ?? false || last >= min(wishes[log]?.through ?? .max, source.visibleSeq(log, first))
        if first == 1 { note.secret = try source.store.secret(of: log) }
        if isEnd, let tree = try source.heads.tree(of: log, through: last) { note.head = LogHead(size: tree.end, root: tree.root()) }
        return note
    }

    private mutating func advance(_ log: LogID, behind seq: Seq, _ source: Source) {
        guard var wish = wishes[log] else { return }
        wish.next = max(wish.next, seq + 1)
        let visible = source.visibleSeq(log, wish.next)
        wishes[log] = wish
        if wish.next > min(wish.through, visible) { end(log, wish, visible: visible) }
    }
}

extension Event {
    /// For cutting frames, not for counting credit.
    var approximateBytes: Int {
        switch content {
        case .messageSent(let message): 120 + message.text.utf8.count + (message.parts?.utf8.count ?? 0)
        case .chunkAppended(_, _, let text), .messageEdited(_, let text), .messageInterrupted(_, let text): 100 + text.utf8.count
        case .conversationCreated(_, _, let people): 100 + people.count * 16
        case .conversationUpdated(let title, let attributes): 100 + (title?.utf8.count ?? 0) + attributes.reduce(0) { $0 + ($1.value?.utf8.count ?? 0) + 16 }
        case .preferenceSet(_, let value): 100 + (value?.utf8.count ?? 0)
        case .custom(_, let payload): 100 + payload.count
        case .unknown(_, let body): 100 + body.count
        default: 100
        }
    }
}
