extension EventStore {
    /// How many events are folded before readers get their turn: some ten microseconds' work.
    static let eventsALock = 64

    /// Takes a committed frame into memory, and folds its events. Called by whoever leads, and while the store opens.
    ///
    /// `breaks`: where readers may come in, as counts of events, ascending: never in the middle of an atomic batch.
    func fold(_ events: [RecordedEvent], breaks: [Int], frame: TailFrame, isNew: Bool = true) {
        foldProgress.withLock { progress in
            if isNew { tail.append(frame) }
            if folds.isEmpty { return }
            var next = breaks.makeIterator()
            apply(events) { start in
                while let end = next.next() { if end >= start + Self.eventsALock { return end } }
                return events.count
            }
            progress.foldedFrame = frame.number
            progress.bytes += frame.bytes.count
            if progress.bytes >= flushBytes { cut(&progress) }
        }
    }

    func apply(_ events: [RecordedEvent], end: (_ start: Int) -> Int) {
        var start = 0
        events.withUnsafeBufferPointer { events in
            while start < events.count {
                let end = end(start)
                foldLock.write {
                    for slot in folds {
                        slot.state.prepare(UnsafeBufferPointer(rebasing: events[start..<end]))
                        for place in start..<end { lend(events.baseAddress! + place) { slot.apply($0) } }
                    }
                    if end > start { foldedPosition = events[end - 1].position }
                }
                start = end
            }
        }
    }

    func isDue(_ slot: FoldSlot, from bytes: Int, _ now: Duration) -> Bool {
        !slot.isBroken && (slot.state.unsavedBytes >= bytes || now - slot.lastSave >= Self.foldSaveInterval)
    }

    /// A fold's rows are saved when so many bytes of them are not: rows change far more often than they must be written. What the archive has beyond
    /// them is folded again at opening. A store whose journal is small holds less of them, too.
    var foldSaveBytes: Int { min(24 << 20, options.journalBytesMax / 4 * 3) }
    /// And at the first flush after so long, so that opening beside us has little to fold.
    private static let foldSaveInterval = Duration.seconds(30)

    /// Freezes what the folds hold as of the last folded frame.
    private func cut(_ progress: inout FoldProgress) {
        guard progress.foldedFrame > progress.cutFrame else { return }
        let now = options.now
        let due = folds.filter { !$0.isBroken && (progress.savesAll || progress.savesNext || isDue($0, from: foldSaveBytes, now)) }
        progress.savesNext = false
        progress.cuts.append(FoldCut(frame: progress.foldedFrame, rows: freeze(due, &progress)))
        progress.cutFrame = progress.foldedFrame
        progress.bytes = 0
    }

    /// What the folds that are due hold as of now, behind what is unsaved of any; and as of now, too, what those hold of which anything is unsaved, as the
    /// position that is written with it is that of now.
    func freeze(_ due: [FoldSlot], _ progress: inout FoldProgress) -> [(slot: FoldSlot, rows: any FrozenRows)] {
        let unsaved = progress.takeUnsaved()
        let slots = folds.filter { slot in due.contains { $0 === slot } || unsaved.contains { $0.slot === slot } }
        let now = options.now
        for slot in slots { slot.lastSave = now }
        return unsaved + foldLock.write { slots.map { (slot: $0, rows: $0.state.freeze()) } }
    }

    /// The oldest cut that is not in the archive; makes one if there is none.
    func nextCut() -> FoldCut? {
        foldProgress.withLock { progress in
            if progress.cuts.isEmpty { cut(&progress) }
            return progress.cuts.first
        }
    }

    /// The same cut as it is now, without what broke meanwhile.
    func cut(ofFrame frame: UInt64) -> FoldCut? {
        foldProgress.withLock { progress in
            guard var cut = progress.cuts.first(where: { $0.frame == frame }) else { return nil }
            cut.rows.removeAll { $0.slot.isBroken }
            return cut
        }
    }

    /// The archive holds the oldest cut now.
    func settle(_ done: FoldCut) {
        let isNext = foldProgress.withLock { progress in
            guard progress.cuts.first?.frame == done.frame else { return false }
            progress.cuts.removeFirst()
            return true
        }
        guard isNext else { return }
        // Commits go on meanwhile; no rebuild can put another state in the slot, as this flush holds `maintenance`.
        for (slot, rows) in done.rows { settle(rows, in: slot) }
    }

    /// A little at a time: readers come in between.
    func settle(_ rows: any FrozenRows, in slot: FoldSlot) {
        var place: FrozenPlace? = FrozenPlace()
        while let next = place { place = foldLock.write { slot.state.settle(rows, from: next) } }
    }

    /// The names of the folds that were named when the store was opened.
    package var foldNames: [String] { folds.map(\.fold.name) }

    /// How far each fold's rows are saved, whether or not it was named when the store was opened.
    func savedFolds() throws -> [String: Position] {
        var saved: [String: Position] = [:]
        for name in Set(try archive.environment.tableNames().compactMap(FoldRecord.name(ofTable:))) {
            saved[name] = try archive.environment.read { [archive] in try FoldRecord.read(name, archive, $0).live?.position }
        }
        return saved
    }

    // Opening.

    /// Attaches the folds' archived rows, and brings them up to the archived position. Before the journal's events are folded.
    func openFolds() throws {
        let position = try archive.environment.read { [archive] in try archive.state($0).position }
        foldLock.write { foldedPosition = position }
        for slot in folds {
            do {
                if try attach(slot, position) { continue }
            } catch let error as EventLogError where error.code == .damaged {
                // Rows that cannot be read: the log says what they hold. If it is the log that is damaged, folding it anew says so.
            }
            if journal == nil {
                guard position <= Self.foldedInMemoryMax else {
                    throw EventLogError(
                        .projectionMissing, "\(path): the projection \(slot.fold.name) is missing or of another version; run `convstore rebuild`")
                }
                install(slot.fold.makeState(over: nil), in: slot, table: nil, generation: 0)
                try catchUp(slot, from: 0, to: position)
            } else {
                try rebuild(slot, isOpening: true, progress: options.foldProgress)
            }
        }
    }

    /// Takes up the rows that are saved, and brings them up to the archived position; false if there are none that are of use.
    private func attach(_ slot: FoldSlot, _ position: Position) throws -> Bool {
        let record = try archive.environment.read { [archive] in try FoldRecord.read(slot.fold.name, archive, $0) }
        guard let live = record.live, live.version == slot.fold.version, live.position <= position,
            let table = try archive.foldTable(slot.fold.name, live.number, creates: false),
            try live.position == 0 || !slot.fold.leavesRows || !table.isEmpty()
        else { return false }
        install(slot.fold.makeState(over: table), in: slot, table: table, generation: live.number)
        if live.position < position { try catchUp(slot, from: live.position, to: position) }
        return true
    }

    /// So many events are folded in memory: by a store that is only read, rather than refuse.
    private static let foldedInMemoryMax: Position = 200_000

    private func install(_ state: any FoldState, in slot: FoldSlot, table: FoldTable?, generation: UInt32) {
        foldLock.write {
            slot.state = state
            slot.table = table
            slot.generation = generation
            slot.isBroken = false
            slot.fold.install(state)
        }
    }

    /// Folds archived events that a store without this fold appended.
    private func catchUp(_ slot: FoldSlot, from: Position, to: Position) throws {
        guard journal != nil, let table = slot.table else {
            try replayArchive(from: from + 1, through: to) { event in
                try slot.state.fold(event)
                return true
            }
            return
        }
        try build(slot.state, slot.fold, table, from: from, to: to) { record, position in record.live?.position = position }
    }

    /// Lends a fold's rows as they are now, and the position that they are the fold of, while others fold and read on.
    ///
    /// - Parameter copy: gives a second state, which stands over a snapshot of the table, what the live one holds beyond it. Nothing is folded and
    ///   nobody reads meanwhile.
    package func withSnapshot<R>(
        of fold: any EventFold, copy: (_ snapshot: any FoldState) throws -> Void, _ body: (any FoldState, Position) throws -> R
    ) throws -> R {
        try checkOpen()
        guard let slot = folds.first(where: { $0.fold === fold }) else {
            throw EventLogError(.invalidArgument, "\(path): nobody folds \(fold.name) here")
        }
        // Nobody folds on in a store that is only read, nor while who asks holds it up.
        if journal == nil || foldLock.isHeld { return try foldLock.read { try body(slot.state, foldedPosition) } }
        var snapshot: LMDBEnvironment.Snapshot?
        defer { if let snapshot { archive.environment.end(snapshot) } }
        let (state, position) = try foldProgress.withLock { progress in
            progress.stopEncoding()
            return try foldLock.write {
                // What changes later changes rows of its own.
                progress.unsaved.append((slot, slot.state.freeze()))
                snapshot = try archive.environment.beginSnapshot()
                let table = slot.table?.at(snapshot!)
                // From its first use on the snapshot has the table, though a rebuild drops it.
                _ = try table?.isEmpty()
                let state = fold.makeState(over: table)
                try copy(state)
                return (state, foldedPosition)
            }
        }
        return try body(state, position)
    }

    /// Folds the log anew through a position, beside the store, into a state that lives as long as the closure runs: in memory if the log is small, else
    /// over a file of its own.
    package func foldAnew<R>(
        _ fold: any EventFold, through total: Position, progress: ((_ done: UInt64, _ total: UInt64) throws -> Void)? = nil,
        _ body: (any FoldState) throws -> R
    ) throws -> R {
        try checkOpen()
        let scratch = total > Self.foldedInMemoryMax ? try ScratchArchive() : nil
        defer { scratch?.remove() }
        let table = try scratch?.table(fold.name)
        let state = fold.makeState(over: table)
        try replayFolded(through: total) { event in
            try state.fold(event)
            if event.position & 0x3FFF == 0 {
                try progress?(event.position, total)
                if let scratch, let table, state.unsavedBytes > Self.buildBytesMax {
                    let rows = state.freeze()
                    var batch = RowBatch()
                    try rows.encode(into: &batch)
                    try scratch.write { try batch.write(to: table.table, &$0) }
                    state.settle(rows)
                }
            }
            return true
        }
        return try body(state)
    }

    // Building.

    /// Unsaved rows of a state that is being built are written when they are so many bytes, though the writer is still at others.
    private static let buildBytesMax = 32 << 20
    /// And when they are so many, if it is not: little is left to write when the last event is folded.
    private static let buildBytesMin = 6 << 20

    /// Folds archived events into a state and writes its rows, with the position, in slices.
    private func build(
        _ state: any FoldState, _ fold: any EventFold, _ table: FoldTable, from: Position, to: Position,
        progress: ((UInt64, UInt64) throws -> Void)? = nil, _ move: @escaping @Sendable (inout FoldRecord, Position) -> Void
    ) throws {
        var position = from
        // Rows are encoded and written by another thread while this one folds on.
        let writer = RowWriting(runsInline: options.runsInline)
        defer { writer.end() }
        // One for all slices: fresh memory of this size is fetched from the system page by page.
        let encoded = Monitor(RowBatch())
        func save() throws {
            if let done = try writer.wait() { state.settle(done) }
            let rows = state.freeze()
            let reached = position
            writer.start(rows) { [self] in
                try encoded.withLock { batch in
                    batch.removeAll()
                    try rows.encode(into: &batch)
                    // One writer at a time may let the map grow: a flush waits.
                    try maintain {
                        try archive.environment.write { [archive] transaction in
                            try batch.write(to: table.table, &transaction)
                            try FoldRecord.update(fold.name, archive, &transaction) { move(&$0, reached) }
                        }
                        archive.environment.releasePages()
                    }
                }
            }
        }
        try replayArchive(from: from + 1, through: to) { event in
            try state.fold(event)
            position = event.position
            if position & 0x3FFF == 0 {
                do {
                    try progress?(position, to)
                } catch {
                    // Who goes on later need not begin anew.
                    try save()
                    _ = try writer.wait()
                    throw error
                }
                if state.unsavedBytes > (writer.isIdle ? Self.buildBytesMin : Self.buildBytesMax) { try save() }
            }
            return true
        }
        position = to
        try save()
        if let done = try writer.wait() { state.settle(done) }
    }

    /// Archived events only, which do not change while we read.
    func replayArchive(from first: Position, through last: Position, _ body: (borrowing RecordedEvent) throws -> Bool) throws {
        guard first <= last else { return }
        if options.runsInline || last - first < Self.eventsAheadFrom {
            return try readArchive(from: first, through: last) { run, place in try body(run.recorded(at: place)) }
        }
        let ahead = EventsAhead { [self] body in try readArchive(from: first, through: last, body) }
        defer { ahead.end() }
        try ahead.forEach(body)
    }

    /// For fewer events a thread of their own is not worth it.
    private static let eventsAheadFrom: Position = 4096

    private func readArchive(from first: Position, through last: Position, _ body: (_ run: DecodedRun, _ place: Int) throws -> Bool) throws {
        try withReader { reader in
            var position = first
            while position <= last {
                guard let run = try reader.run(containing: position) else {
                    throw archive.noRun(at: position)
                }
                for place in run.order[Int(position - run.position)...] {
                    if run.events[Int(place)].position > last { return }
                    if try !body(run, Int(place)) { return }
                }
                position = run.position + Position(run.events.count)
            }
        }
    }

    /// Builds a fold's state anew from the first event, beside the live one, and puts it in its place whole.
    ///
    /// Appends and reads go on meanwhile. What was built is kept when it is interrupted (the closure throws, or the process ends), and a later
    /// rebuild goes on from there.
    package func rebuild(_ name: String, progress: ((_ done: UInt64, _ total: UInt64) throws -> Void)? = nil) throws {
        try checkOpen()
        guard journal != nil else { throw EventLogError(.readOnly, "\(path) is open for reading only") }
        guard let slot = folds.first(where: { $0.fold.name == name }) else { throw EventLogError(.invalidArgument, "there is no projection \(name)") }
        try takeRebuilding()
        defer { endRebuilding() }
        try rebuild(slot, isOpening: false, progress: progress)
    }

    func takeRebuilding() throws {
        let isFree = rebuilding.withLock { busy in
            defer { busy = true }
            return !busy
        }
        if !isFree { throw EventLogError(.busy, "\(path): a projection is being rebuilt; try again when that is done") }
    }

    func endRebuilding() { rebuilding.withLock { $0 = false } }

    func rebuild(_ slot: FoldSlot, isOpening: Bool, progress: ((UInt64, UInt64) throws -> Void)?) throws {
        do {
            try rebuildUntyped(slot, isOpening: isOpening, progress: progress)
        } catch let error as LMDBError {
            throw Archive.typed(error, archive.path)
        }
    }

    /// What the archive says of a fold; nothing, if that cannot be read.
    private func foldRecord(_ name: String) throws -> FoldRecord {
        do {
            return try archive.environment.read { [archive] in try FoldRecord.read(name, archive, $0) }
        } catch let error as EventLogError where error.code == .damaged {
            return FoldRecord()
        }
    }

    private func rebuildUntyped(_ slot: FoldSlot, isOpening: Bool, progress: ((UInt64, UInt64) throws -> Void)?) throws {
        let fold = slot.fold
        var record = try foldRecord(fold.name)
        let archived = { [archive] in try archive.environment.read { try archive.state($0).position } }
        // LMDB has one writer at a time, and its map may not grow beside one: a flush waits.
        try maintain {
            if let building = record.building, building.version == fold.version, building.position <= (try archived()),
                try archive.foldTable(fold.name, building.number, creates: false)?.damagedRows() == 0
            {
                return  // One that was cut off.
            }
            // As it is now: a flush may have moved the live position since, and an older one beside newer rows would count events twice.
            record = try foldRecord(fold.name)
            let number = slot.table == nil ? record.live.map { $0.number ^ 1 } ?? 0 : slot.generation ^ 1
            if let old = try archive.foldTable(fold.name, number, creates: false) { try archive.drop(old) }
            record.building = FoldRecord.Generation(version: fold.version, number: number, position: 0)
            let first = record
            try archive.environment.write { [archive] in try first.write(fold.name, archive, &$0) }
        }
        let building = record.building!
        guard let table = try maintain({ try archive.foldTable(fold.name, building.number, creates: true) }) else {
            throw Archive.damaged(archive.path, "a table cannot be made")
        }
        let state = fold.makeState(over: table)
        var position = building.position
        // The archive grows while we fold: what is left becomes less each time.
        while true {
            let target = try archived()
            if position < target {
                try build(state, fold, table, from: position, to: target, progress: progress) { record, position in record.building?.position = position }
                position = target
            }
            if isOpening { break }
            try flush()
            if try archived() - position < 65_536 { break }
        }
        // No flush: the archive stands still. No fold: the live state stands still.
        try maintain {
            try foldProgress.withLock { cuts in
                let target = try archived()
                try replayArchive(from: position + 1, through: target) { event in
                    try state.fold(event)
                    return true
                }
                var batch = RowBatch()
                let rows = state.freeze()
                try rows.encode(into: &batch)
                try archive.environment.write { [archive] transaction in
                    try batch.write(to: table.table, &transaction)
                    var record = record
                    record.live = FoldRecord.Generation(version: fold.version, number: building.number, position: target)
                    record.building = nil
                    try record.write(fold.name, archive, &transaction)
                }
                state.settle(rows)
                // Cuts that wait for their flush name the old state's rows: each gets the new one's as of the same frame.
                cuts.stopEncoding()
                cuts.unsaved.removeAll { $0.slot === slot }
                for index in cuts.cuts.indices { cuts.cuts[index].rows.removeAll { $0.slot === slot } }
                for frame in isOpening ? [] : tail.snapshot.frames {
                    for index in frame.items.indices where frame.firstPosition + Position(index) > target {
                        try state.fold(frame.recorded(index))
                    }
                    if let index = cuts.cuts.firstIndex(where: { $0.frame == frame.number }) {
                        cuts.cuts[index].rows.append((slot, state.freeze()))
                    }
                }
                install(state, in: slot, table: table, generation: building.number)
                if let old = try archive.foldTable(fold.name, building.number ^ 1, creates: false) { try archive.drop(old) }
            }
        }
    }
}
