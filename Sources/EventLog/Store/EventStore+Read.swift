internal import Synchronization

extension EventStore {
    /// The last position that readers see.
    public var lastPosition: Position { tail.snapshot.visible }

    /// The store's clock: the greatest HLC that it gave or adopted. A replica's own events come after it.
    package var clock: HLC { writer.withLock { $0.hlc } }

    /// Runs that a replay reads to their end before a second thread decodes ahead: who takes a few hundred events at a time never gets there, and finds
    /// its run again in the reader's cache.
    private static let runsReadAlone = 2

    /// Gives events in commit order, from one position through another, of the whole store or of one log, until the closure says false.
    ///
    /// Streams: memory does not grow with the store. Sees what was durable when it was called.
    public func replay(
        from first: Position = 1, through last: Position = .max, log: LogID? = nil, _ body: (RecordedEvent) throws -> Bool
    ) throws {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places, and taken once.
        let snapshot = tail.snapshot
        let (first, last) = (max(first, 1), min(last, snapshot.visible))
        if let log { try replay(log, from: first, through: last, snapshot, body) } else { try replay(from: first, through: last, snapshot, body) }
    }

    /// Gives all events that were folded, up to a position: what is not synced yet is shown in the log a moment later, or when its time has come, but it is
    /// folded already.
    func replayFolded(through last: Position, _ body: (RecordedEvent) throws -> Bool) throws {
        try replay(from: 1, through: last, tail.snapshot, body)
    }

    private func replay(from first: Position, through last: Position, _ snapshot: Tail.Snapshot, _ body: (RecordedEvent) throws -> Bool) throws {
        var position = first
        let archived = min(last, snapshot.archived)
        let goes = try withReader { reader -> Bool in
            var ahead: RunsAhead?
            defer { ahead?.end() }
            var runs = 0
            while position <= archived {
                // Whoever has read so much reads on: the next runs are decoded meanwhile.
                if runs == Self.runsReadAlone, !options.runsInline { ahead = RunsAhead(archive, from: position, through: archived) }
                guard let run = try ahead.map({ try $0.next() }) ?? reader.run(containing: position) else { throw archive.noRun(at: position) }
                // The run's events lie at one position after the other: where to end is known without looking at them.
                for place in run.order[Int(position - run.position)..<Int(min(last - run.position + 1, Position(run.events.count)))] {
                    if try !body(run.recorded(at: Int(place))) { return false }
                }
                position = run.position + Position(run.events.count)
                runs += 1
            }
            return true
        }
        guard goes, position <= last else { return }
        for frame in snapshot.frames where frame.lastPosition >= position {
            for index in frame.items.indices {
                let place = frame.firstPosition + Position(index)
                if place < position { continue }
                if place > last { return }
                if try !body(frame.recorded(index)) { return }
            }
        }
    }

    private func replay(
        _ log: LogID, from first: Position, through last: Position, _ snapshot: Tail.Snapshot, _ body: (RecordedEvent) throws -> Bool
    ) throws {
        let places = try archive.environment.read { [archive] in try archive.places(log, $0) }
        let goes = try withReader { reader -> Bool in
            for slice in places?.slices ?? [] where slice.run <= min(last, snapshot.archived) {
                let run = try reader.run(at: slice.run)
                if run.position + Position(run.events.count) <= first { continue }
                guard slice.index < run.slices.count, run.slices[slice.index].log == log else {
                    throw Archive.damaged(archive.path, "the row of log \(log) and the run at position \(slice.run) disagree")
                }
                for place in run.slices[slice.index].range {
                    let position = run.events[place].position
                    if position < first || position > snapshot.archived { continue }
                    if position > last { return false }
                    if try !body(run.recorded(at: place)) { return false }
                }
            }
            return true
        }
        guard goes else { return }
        for frame in snapshot.frames where frame.lastPosition >= first {
            for index in frame.items.indices {
                let position = frame.firstPosition + Position(index)
                if position < first || position <= snapshot.archived { continue }
                if position > last { return }
                let recorded = try frame.recorded(index)
                if recorded.log == log, try !body(recorded) { return }
            }
        }
    }

    /// One event; `nil` if the log has no such seq.
    public func event(in log: LogID, at seq: Seq) throws -> RecordedEvent? {
        var found: RecordedEvent?
        try forEachEvent(in: log, range: seq...seq) { event in
            found = event
            return false
        }
        return found
    }

    /// The stamp of one event; `nil` if the log has no such seq. Reads a run's columns for it, and decodes them only where several are asked for in a row.
    package func stamp(in log: LogID, at seq: Seq) throws -> EventStamp? {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places.
        let (snapshot, first, positions) = tailPlaces(of: log)
        if let places = try archive.environment.read({ [archive] in try archive.places(log, $0) }),
            let found = try withReader({ try $0.stamp(of: seq, in: places) })
        {
            return found
        }
        guard seq >= first, seq - first < UInt64(positions.count), let (frame, index) = snapshot.frame(of: positions[Int(seq - first)]) else { return nil }
        let envelope = try frame.envelope(index)
        return EventStamp(
            position: positions[Int(seq - first)], hlc: envelope.hlc, replica: envelope.origin.replica, counter: envelope.origin.counter)
    }

    /// A range of a log's events, ascending or descending, at most `limit`. Decompresses only the runs, and the frames of texts, that it needs.
    public func events(in log: LogID, range: ClosedRange<Seq> = 1...Seq.max, isReversed: Bool = false, limit: Int = .max) throws -> [RecordedEvent] {
        var result: [RecordedEvent] = []
        if limit <= 0 { return result }
        try forEachEvent(in: log, range: range, isReversed: isReversed) { event in
            result.append(event)
            return result.count < limit
        }
        return result
    }

    /// Visits a range of a log's events until the closure says false.
    public func forEachEvent(
        in log: LogID, range: ClosedRange<Seq> = 1...Seq.max, isReversed: Bool = false, _ body: (RecordedEvent) throws -> Bool
    ) throws {
        try checkOpen()
        let snapshot = tail.snapshot
        // Where the newest lie; the writer's lock is held for as long as it takes to copy the numbers, never over a commit's I/O.
        let (tailFirst, tailPositions) = writer.withLock { writer -> (Seq, [Position]) in
            guard let state = writer.known(log) else { return (.max, []) }
            return (state.tailFirstSeq, state.tail.filter { $0 <= snapshot.visible })
        }
        func fromTail(_ seq: Seq) throws -> RecordedEvent? {
            guard seq >= tailFirst, seq - tailFirst < UInt64(tailPositions.count),
                let (frame, index) = snapshot.frame(of: tailPositions[Int(seq - tailFirst)])
            else { return nil }
            return try frame.recorded(index)
        }
        guard let places = try archive.environment.read({ [archive] in try archive.places(log, $0) }) ?? (tailPositions.isEmpty ? nil : LogPlaces(of: log))
        else { return }
        let last = max(places.archivedSeq, tailPositions.isEmpty ? 0 : tailFirst + Seq(tailPositions.count) - 1)
        let first = max(range.lowerBound, 1)
        let end = min(range.upperBound, last)
        guard first <= end else { return }
        try withReader { reader in
            var seq = isReversed ? end : first
            while true {
                let event: RecordedEvent
                if let (run, place) = try reader.place(of: seq, in: places) {
                    event = try run.recorded(at: place)
                } else if let found = try fromTail(seq) {
                    event = found
                } else {
                    throw Archive.damaged(archive.path, "log \(log) has no seq \(seq) (I2)")
                }
                if try !body(event) { return }
                if isReversed {
                    if seq == first { return }
                    seq -= 1
                } else {
                    if seq == end { return }
                    seq += 1
                }
            }
        }
    }

    /// What an operator sees of a log.
    public struct LogSummary: Sendable, Hashable {
        public var log: LogID
        /// Events, which is also the last seq.
        public var events: Seq
        public var messages: UInt64
        public var participants: [UserID]
    }

    /// All logs that have events, the archived ones in the order of their keys, then those that only the journal knows.
    public func forEachLog(_ body: (LogSummary) throws -> Bool) throws {
        try forEachRow { row in
            try body(
                LogSummary(
                    log: row.id, events: row.seq, messages: row.messages, participants: row.people.filter { $0.joinedSeq != 0 }.map(\.user).sorted()))
        }
    }

    /// Logs whose ids begin with a text (of hexadecimal digits and hyphens), for those who type them; at most `limit`.
    public func conversations(withPrefix prefix: String, limit: Int = 10) throws -> [ConversationID] {
        var result: [ConversationID] = []
        let prefix = prefix.lowercased()
        try forEachRow { row in
            if case .conversation(let id) = row.id, id.description.hasPrefix(prefix) { result.append(id) }
            return result.count < limit
        }
        return result
    }

    /// Rows as of the last visible event: archived rows, with the journal's events folded on top.
    func forEachRow(withTrees: Bool = false, _ body: (LogRow) throws -> Bool) throws {
        try forEachRow(withTrees: withTrees) { row, _ in try body(row) }
    }

    /// The same, with the position of the log's last event where the journal holds it.
    ///
    /// - Parameter unreadable: told of a row that is damaged, by its key; unless it throws, the others follow.
    func forEachRow(
        withTrees: Bool, unreadable: (_ key: [UInt8], EventLogError) throws -> Void = { throw $1 }, body: (LogRow, Position?) throws -> Bool
    ) throws {
        try checkOpen()
        let snapshot = tail.snapshot
        var pending: [LogID: [(TailFrame, Int)]] = [:]
        for frame in snapshot.frames {
            for index in frame.items.indices where frame.firstPosition + Position(index) <= snapshot.visible {
                pending[try frame.envelope(index).log, default: []].append((frame, index))
            }
        }
        func folded(_ row: LogRow, _ events: [(TailFrame, Int)]) throws -> (LogRow, Position?) {
            var row = row
            var last: Position?
            var cursor: SeedTree.Cursor?
            if withTrees { cursor = try seeds(of: row).cursor() }
            for (frame, index) in events {
                let envelope = try frame.envelope(index)
                if envelope.seq <= row.seq { continue }
                last = frame.firstPosition + Position(index)
                row.apply(try Effect(envelope: envelope, body: BodyParts(body: frame.bodyBytes(index))))
                guard withTrees else { continue }
                let salt = cursor?.leaf(at: envelope.seq - 1)
                guard let commitment = frame.commitment(index) ?? salt.map({ Merkle.bodyCommitment(salt: $0, body: frame.bodyBytes(index)) }) else {
                    throw Archive.damaged(path, "the salt of log \(envelope.log) seq \(envelope.seq) is missing")
                }
                row.tree.append(Merkle.eventLeaf(envelope: frame.envelopeBytes(index), commitment: commitment))
            }
            return (row, last)
        }
        // Rows in batches, so that no snapshot of the archive is held while the caller works.
        var next: [UInt8] = []
        while true {
            var rows: [LogRow] = []
            var isAtEnd = true
            try archive.environment.read { [archive] transaction in
                var found: [([UInt8], [UInt8])] = []
                try transaction.forEach(archive.logs, from: next) { key, value in
                    let name = Array(key)
                    if name == next { return true }
                    found.append((name, Array(value)))
                    return found.count < 256
                }
                for (key, value) in found {
                    do {
                        rows.append(try value.withUnsafeBytes { try archive.row(key, $0, transaction) })
                    } catch let error as EventLogError where error.code == .damaged {
                        try unreadable(key, error)
                        pending = pending.filter { Archive.key(log: $0.key) != key }
                    }
                }
                isAtEnd = found.isEmpty
                if let last = found.last { next = last.0 }
            }
            if isAtEnd { break }
            for row in rows {
                let events = pending.removeValue(forKey: row.id) ?? []
                if row.seq == 0, events.isEmpty { continue }
                let (row, last) = try folded(row, events)
                if try !body(row, last) { return }
            }
        }
        // Logs that only the journal knows; the writer gave them the numbers that the flush will give them.
        let fresh = pending.sorted { ($0.value[0].0.firstPosition, $0.value[0].1) < ($1.value[0].0.firstPosition, $1.value[0].1) }
        for (log, events) in fresh {
            guard let number = writer.withLock({ $0.known(log)?.row.number }) else { continue }
            let (row, last) = try folded(LogRow(id: log, number: number), events)
            if try !body(row, last) { return }
        }
    }

    func seeds(of row: LogRow) throws -> PuncturedSeeds {
        guard let seeds = keys.withLock({ $0.ring.seeds(ofLog: row.number) }) else {
            throw Archive.damaged(path, "the secret of log \(row.id) is missing")
        }
        return seeds
    }

    /// What a store costs and holds.
    public struct Statistics: Sendable, Hashable {
        public var events: UInt64
        public var conversations: UInt64
        public var messages: UInt64
        public var journalBytes: Int
        public var archiveBytes: Int
        /// Canonical bytes of all archived events.
        public var rawBytes: UInt64
        /// Bytes of the runs that hold them.
        public var compressedBytes: UInt64
        /// All files on disk, for each event.
        public var bytesPerEvent: Double
        public var segments: UInt64
        /// Events that the archive holds; those after them are in the journal only.
        public var archivedEvents: UInt64
        /// The projections' names, each with the position through which its rows are saved: opening folds what comes after.
        public var projections: [String: Position]
        public var freePages: Int
        /// The snapshot that the oldest reader holds, in commits before the newest; `nil` if nobody reads.
        public var oldestReader: Int?
    }

    public func statistics() throws -> Statistics {
        try checkOpen()
        let state = try archive.environment.read { [archive] in try archive.state($0) }
        let snapshot = tail.snapshot
        var conversations = state.conversations
        var messages = state.messages
        for frame in snapshot.frames {
            for index in frame.items.indices {
                let envelope = try frame.envelope(index)
                if frame.firstPosition + Position(index) <= state.position { continue }
                if envelope.kind == Event.Kind.messageSent.rawValue { messages += 1 }
                if envelope.seq == 1, case .conversation = envelope.log { conversations += 1 }
            }
        }
        var journalBytes = 0
        for slot in 0..<FileJournal.fileCount {
            if let file = try? File(FileJournal.path(path, slot), 0) { journalBytes += (try? file.size) ?? 0 }
        }
        let information = try archive.environment.information()
        let events = max(snapshot.visible, state.position)
        return Statistics(
            events: events, conversations: conversations, messages: messages, journalBytes: journalBytes,
            archiveBytes: (try? File(archive.path, 0).size) ?? 0, rawBytes: state.rawBytes, compressedBytes: state.compressedBytes,
            bytesPerEvent: events == 0 ? 0 : Double(Directory.diskBytes(path)) / Double(events), segments: state.runs, archivedEvents: state.position,
            projections: try savedFolds(), freePages: (try? archive.environment.freePages()) ?? 0,
            oldestReader: information.oldestReaderTransaction.map { information.lastTransaction - $0 })
    }
}
