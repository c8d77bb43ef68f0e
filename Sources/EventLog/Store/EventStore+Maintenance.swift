internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

extension EventStore {
    /// Archives up to this size are written anew at a close that finds more than a sixteenth of them free: it takes less than a second.
    static let compactAtCloseBytesMax = 64 << 20

    func isWorthCompacting() throws -> Bool {
        let information = try archive.environment.information()
        let pages = information.lastPage + 1
        guard pages * information.pageBytes <= Self.compactAtCloseBytesMax else { return false }
        return try archive.environment.freePages() * 16 > pages && pages > 64
    }

    /// Writes the archive record by record into a new file and puts that in the old one's place.
    ///
    /// Record by record, as a copy of pages would carry along what lies between a page's records: deleted and erased bytes. Called with all
    /// threads of the store at rest.
    func rewriteArchive(_ progress: CopyProgress? = nil) throws {
        let new = archive.path + ".new"
        let newParity = ParityFile(directory: path, name: "parity.new")
        for name in [new, new + "-lock", newParity.path] { try Directory.remove(name) }
        do {
            let hasParity = try Self.copyRecords(of: archive, to: new, newParity, progress)
            archive.environment.close()
            try Directory.rename(new, to: archive.path)
            // What the old one has of runs as they were before an erasure goes in any case.
            do {
                if hasParity { try parity.replace(by: newParity) } else { try parity.remove() }
            } catch {
                try? newParity.remove()
                try parity.remove()
            }
            try Directory.remove(archive.path + "-lock")
            try Directory.remove(new + "-lock")
            try Directory.sync(path)
        } catch {
            for name in [new, new + "-lock", newParity.path] { try? Directory.remove(name) }
            throw error
        }
    }

    /// Told how many bytes of how many are copied, about every mebibyte; what it throws ends the copy, and nothing is left of it.
    public typealias CopyProgress = (_ doneBytes: UInt64, _ totalBytes: UInt64) throws -> Void

    /// - Returns: whether there is parity of any run.
    private static func copyRecords(of archive: Archive, to path: String, _ parity: ParityFile, _ progress: CopyProgress?) throws -> Bool {
        // What no record names is left behind: it may hold what was erased since.
        let folds = try archive.environment.tableNames().filter { table in
            guard let name = FoldRecord.name(ofTable: table) else { return false }
            let record = try archive.environment.read { try FoldRecord.read(name, archive, $0) }
            return [record.live, record.building].contains { $0.map { FoldRecord.tableName(name, $0.number) == table } ?? false }
        }
        // A row of a projection can be had from the log again: it goes along as it is.
        let checked = Archive.tableNames.count
        var last: Position = 0
        var isComplete = true
        let check = { (table: Int, key: [UInt8], value: UnsafeRawBufferPointer) throws in
            if table >= checked { return }
            if archive.isSound(key, value, isRun: table == 0) {
                // A record comes again when the target's map had to grow.
                guard table == 0, isComplete, case let position = Archive.position(key), position > last else { return }
                last = position
                do { try parity.add(value, at: position) } catch { isComplete = false }
                return
            }
            throw EventLogError(
                .damaged,
                "\(archive.path): a record of its table \(Archive.tableNames[table]) is damaged, so nothing was copied; `convstore verify` names what else is")
        }
        try copyRecords(of: archive.environment, tables: Archive.tableNames + folds, to: path, check: check, progress) { target, tables in
            // Both of LMDB's meta pages describe the whole: whichever a reader falls back on.
            for _ in 0..<2 {
                try target.write { transaction in
                    guard let state = try transaction.get(tables[4], Archive.MetaKey.state).map(Array.init) else { return }
                    try transaction.put(tables[4], Archive.MetaKey.state, state)
                }
            }
        }
        do { if isComplete { try parity.sync() } } catch { isComplete = false }
        if !isComplete { try? parity.remove() }
        return isComplete && Directory.exists(parity.path)
    }

    /// Writes tables, record by record, into a new file. `check` sees each before, with its table's place in `names`; what it throws ends the copy.
    static func copyRecords(
        of environment: LMDBEnvironment, tables names: [String], to path: String,
        check: (_ table: Int, _ key: [UInt8], _ value: UnsafeRawBufferPointer) throws -> Void = { _, _, _ in }, _ progress: CopyProgress? = nil,
        finish: (LMDBEnvironment, [LMDBEnvironment.Table]) throws -> Void = { _, _ in }
    ) throws {
        let size = try File(environment.path, O_RDONLY).size
        func typing<R>(_ body: () throws -> R) throws -> R {
            do { return try body() } catch let error as LMDBError { throw Archive.typed(error, path) }
        }
        let target = try typing { try LMDBEnvironment(path: path, isReadOnly: false, mapBytes: max(size + size / 8, 1 << 20), mapBytesMax: Int.max / 2) }
        defer { target.close() }
        let tables = try typing { try target.tables(names).compactMap { $0 } }
        let sources = environment.isPinned ? try names.map { try environment.pinnedTable($0) } : try environment.tables(names, creates: false)
        guard !sources.contains(where: { $0 == nil }) else {
            throw EventLogError(.busy, "\(environment.path): a table was being replaced; try again")
        }
        try environment.read { source in
            // Of a table as many bytes as its pages have, by the share of its records that are copied.
            let sizes = try sources.map { try $0.map { try source.size($0) } ?? (records: 0, bytes: 0) }
            let total = UInt64(sizes.reduce(0) { $0 + $1.bytes })
            var before = 0
            for (table, ((from, to), size)) in zip(zip(sources.compactMap { $0 }, tables), sizes).enumerated() {
                var records = 0
                // A bounded number of bytes a transaction, so that dirty pages do not fill the memory.
                var next: [UInt8] = []
                var isMore = true
                while isMore {
                    // The closure runs again when the map had to grow: it starts where the last one that was committed ended.
                    var isReading = false
                    do {
                        (next, isMore) = try target.write { transaction in
                            var bytes = 0
                            var told = 0
                            var last = next
                            var reached = records
                            isReading = true
                            try source.forEach(from, from: next) { key, value in
                                let name = Array(key)
                                if name == next { return true }
                                try check(table, name, value)
                                isReading = false
                                try transaction.put(to, name, value, isAppend: true)
                                isReading = true
                                last = name
                                bytes += value.count
                                reached += 1
                                if bytes - told >= 1 << 20 {
                                    told = bytes
                                    let share = Double(reached) / Double(max(size.records, 1))
                                    try progress?(UInt64(before + Int(Double(size.bytes) * min(share, 1))), total)
                                }
                                return bytes <= 16 << 20
                            }
                            isReading = false
                            if bytes <= 16 << 20 { return (last, false) }
                            records = reached
                            return (last, true)
                        }
                    } catch let error as LMDBError where !isReading {
                        // The reading around us would take it for its own file's.
                        throw Archive.typed(error, path)
                    }
                }
                before += size.bytes
                try progress?(UInt64(before), total)
            }
        }
        try typing { try finish(target, tables) }
        try File(path, O_RDWR).syncAll()
    }

    /// Gives free space back, and leaves no byte of what was erased, or of deleted records: rewrites the archive and the side store, and empties the journal.
    ///
    /// Returns the bytes on disk before and after.
    ///
    /// - Throws: `EventLogError`, `damaged` among them: a record that does not match its checksum is not carried along, and the store stays as it was.
    public static func compact(at path: String, progress: CopyProgress? = nil) throws -> (before: Int, after: Int) {
        let before = Directory.diskBytes(path)
        try StoreReplacement.checkNone(of: path)
        let store = try open(at: path, options: StoreOptions(access: .existing))
        do { try StoreReplacement.checkNone(of: store) } catch {
            try? store.close()
            throw error
        }
        try store.close(isCompacting: true, progress: progress)
        return (before, Directory.diskBytes(path))
    }

    /// Makes a consistent copy of a store, live or not, as of some moment during the call. The copy is the same store: it has its key.
    ///
    /// A record of the log that does not match its checksum ends the copy (`damaged`). It is made aside, in `<target>.copying-<process id>`; what processes that were killed left of theirs is removed.
    public static func copy(from source: String, to target: String, progress: CopyProgress? = nil) throws {
        var trimmed = target
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        guard !Directory.exists(trimmed) else { throw EventLogError(.cannotCreate, "\(target) exists already; name a new directory") }
        let parent = Directory.parent(trimmed)
        guard Directory.exists(parent) else { throw EventLogError(.cannotCreate, "\(target): the directory \(parent) does not exist; make it first") }
        try Directory.refuseNetwork(parent)
        try checkIsStore(source)
        guard !Directory.contains(source, parent) else { throw EventLogError(.cannotCreate, "\(target) lies in the store itself; name another directory") }
        // Before the events: it speaks only of what was durable before it was written.
        let side = try SideStore.snapshot(directory: source)
        defer { side?.close() }
        let store = try open(at: source, options: StoreOptions(access: .readOnly))
        defer { try? store.close() }
        let made: Aside
        do throws(SystemError) {
            made = try Aside(of: trimmed, "copying")
        } catch {
            guard error.isDenied else { throw error.typed }
            throw EventLogError(.cannotCreate, "\(target) cannot be made: \(error)")
        }
        let aside = made.path
        do {
            _ = try copyRecords(of: store.archive, to: Archive.path(aside), ParityFile(directory: aside), progress)
            try Directory.remove(Archive.path(aside) + "-lock")
            try side?.copyRecords(toDirectory: aside)
            // The journal's events beyond what was copied.
            let copied = try Archive(directory: aside, isReadOnly: true, mapBytesMax: Int.max / 2)
            let state = try copied.environment.read { try copied.state($0) }
            copied.environment.close()
            try Directory.remove(Archive.path(aside) + "-lock")
            let file = try KeyFile(reading: source)
            guard file.current.generation == state.keyGeneration || file.next?.generation == state.keyGeneration else {
                throw EventLogError(.busy, "\(source): its key was being replaced; copy again")
            }
            try file.write(to: aside)
            var recovered = try RecoveredJournal(directory: aside, store: store.id, archivedPosition: state.position, archivedFrame: 0)
            recovered.lastFrame = state.frame
            recovered.lastPosition = state.position
            let journal = try FileJournal(
                directory: aside, store: store.id, bytesMax: store.options.journalBytesMax, recovered: recovered, archivedFrame: state.frame)
            let snapshot = store.tail.snapshot
            var frames = snapshot.frames.filter { $0.number > state.frame && $0.lastPosition <= snapshot.visible }
            if frames.isEmpty { frames = [] }
            for frame in frames {
                var bytes = ByteBuffer(capacity: frame.bytes.count + Frame.headerBytes)
                for _ in 0..<Frame.headerBytes { bytes.put(byte: 0) }
                bytes.put(frame.bytes)
                guard case .ready = try journal.reserve(bytes.count) else {
                    throw EventLogError(.inputOutput, "\(target): the copy's journal is full")
                }
                try journal.append(&bytes, firstPosition: frame.firstPosition, events: frame.items.count, isSynced: false)
            }
            if frames.isEmpty {
                // The archive names a frame: the journal must reach it.
                try journal.close()
            } else {
                _ = try journal.sync()
            }
            try Directory.sync(aside)
            try made.rename()
        } catch let error as SystemError {
            Directory.removeTree(aside)
            throw error.typed
        } catch let error as LMDBError {
            Directory.removeTree(aside)
            throw Archive.typed(error, aside)
        } catch {
            Directory.removeTree(aside)
            throw error
        }
        try open(at: trimmed, options: StoreOptions(access: .existing)).close()
    }

    /// Erases one event's body for ever: its text can be read nowhere in the store's directory once `compact` has run, and its salt at once.
    /// Its envelope, all other events, the log's head and every proof made before stay as they are.
    ///
    /// - Throws: `EventLogError`: `noSuchLog`; `invalidArgument` for events that tell who takes part, and for messages that are still streamed; `damaged`
    ///   where any event cannot be read, as what is shown could not be built anew, and until it is no store opens: nothing is erased then. What fails
    ///   behind the commit (`diskFull`, `inputOutput`) says that the event is erased, and what is left to do.
    /// - Parameter progress: of the projections that are built anew, one after the other: how many events of how many are folded.
    public func erase(log: LogID, seq: Seq, progress: ((_ done: UInt64, _ total: UInt64) -> Void)? = nil) throws {
        guard let journal else { throw EventLogError(.readOnly, "\(path) is open for reading only") }
        try checkOpen()
        try takeRebuilding()
        defer { endRebuilding() }
        // Before anything is changed, and while appends go on: what is written meanwhile is sound.
        try checkFoldable(before: log, seq)
        // Appends wait: no frame may hold the text, nor a secret under the old key, when the new key is in force.
        try lead { leader in
            _ = leader.hasUnsynced
            if let failure = writer.withLock({ $0.failure }) { throw failure }
            try flush()
            do {
                try maintain {
                    try withReader { reader in try erase(log, seq, journal, reader) }
                }
            } catch let error as SystemError {
                throw error.typed
            }
        }
        // Rows may hold the text, and only a fold of what is left says what they hold without it.
        do {
            for slot in folds { try rebuild(slot, isOpening: false, progress: progress) }
        } catch {
            throw Self.erasedOnly(log, seq, error, "what is shown could not be built anew", "convstore rebuild")
        }
    }

    /// Says what failed behind an erasure's commit: it stands all the same.
    private static func erasedOnly(_ log: LogID, _ seq: Seq, _ error: any Error, _ what: String, _ command: String) -> any Error {
        guard let typed = (error as? SystemError)?.typed ?? (error as? EventLogError) else { return error }
        let erased = "log \(log) seq \(seq) is erased, but \(what)"
        return typed.code == .diskFull
            ? EventLogError(.diskFull, "\(erased): the disk is full; free some space, then run `\(command)`")
            : EventLogError(typed.code, "\(erased) (\(typed.message)); then run `\(command)`")
    }

    /// Reads all events that an erasure is followed by a fold of.
    private func checkFoldable(before log: LogID, _ seq: Seq) throws {
        try flush()
        guard try withReader({ try !erasable(log, seq, $0).isErased }) else { return }
        let archived = try archive.environment.read { [archive] in try archive.state($0).position }
        // As they are now: a run that was read before may have been damaged since.
        readers.withLock { $0 = [] }
        do {
            try replayArchive(from: 1, through: archived) { _ in true }
        } catch let error as EventLogError where error.code == .damaged {
            throw EventLogError(.damaged, "\(error.message); nothing was erased, as what is shown could not be built anew without all of it")
        }
    }

    /// An event that may be erased, in its run.
    private func erasable(_ log: LogID, _ seq: Seq, _ reader: ArchiveReader) throws -> (row: LogRow, run: DecodedRun, place: Int, isErased: Bool) {
        guard let row = try archive.environment.read({ [archive] in try archive.row(log, $0) }), let (run, place) = try reader.place(of: seq, in: row) else {
            throw EventLogError(.noSuchLog, "\(path): log \(log) has no seq \(seq)")
        }
        switch Event.Kind(rawValue: run.events[place].kind) {
        case .conversationCreated, .participantJoined, .participantLeft:
            throw EventLogError(.invalidArgument, "log \(log) seq \(seq) tells who takes part: it cannot be erased")
        case .conversationUpdated where try run.recorded(at: place).event.content.setsHistory:
            throw EventLogError(.invalidArgument, "log \(log) seq \(seq) tells where the history begins for who joins later: it cannot be erased")
        default: break
        }
        if row.open.contains(where: { $0.seq == seq }) {
            throw EventLogError(.invalidArgument, "log \(log) seq \(seq) is still being streamed: complete or interrupt it first")
        }
        return (row, run, place, run.events[place].isErased)
    }

    private func erase(_ log: LogID, _ seq: Seq, _ journal: FileJournal, _ reader: ArchiveReader) throws {
        let (row, run, place, isErased) = try erasable(log, seq, reader)
        guard !isErased else { return }
        var ring = keys.withLock { $0.ring }
        let foldNames = try archive.environment.tableNames().compactMap(FoldRecord.name(ofTable:))
        guard let salt = ring.seeds(ofLog: row.number)?.leaf(at: seq - 1) else { throw Archive.damaged(path, "the salt of log \(log) seq \(seq) is missing") }

        // The run anew, without the body.
        var events: [PendingEvent] = []
        events.reserveCapacity(run.events.count)
        var whole = ByteBuffer()
        for index in run.order {
            let index = Int(index)
            var event = PendingEvent(envelope: run.envelope(at: index), body: try run.body(at: index), commitment: run.commitments[index])
            if index == place {
                event.body.encode(into: &whole)
                event.commitment = Merkle.bodyCommitment(salt: PlantedBug.misHashErased.isPlanted ? Merkle.emptyRoot : salt, body: whole.bytes)
            }
            events.append(event)
        }
        var encoder = RunEncoder(shape: RunShape())
        var value = ByteBuffer(capacity: 1 << 20)
        let slices = try encoder.encode(events, at: run.position, into: &value)
        guard slices.map(\.log) == run.slices.map(\.log) else { throw Archive.damaged(path, "the run at position \(run.position) cannot be rewritten") }

        // Before the text is gone, or what restores the run would tell of it. Should no erasure follow, the run has no parity until it is repaired or compacted.
        do { try parity.replace(value.bytes, at: run.position, archiveBytes: archiveBytes) } catch { do { try parity.remove() } catch { throw error.typed } }

        // The salt: forgotten, and everything else wrapped anew under a new key.
        guard ring.forget(log: row.number, seq: seq) else { throw Archive.damaged(path, "the salt of log \(log) seq \(seq) is missing") }
        var file = keys.withLock { $0.file }
        let next = KeyFile.Key(generation: file.current.generation + 1, secret: .random())
        file.next = next
        try file.write(to: path)
        do {
            try archive.environment.write { [archive] transaction in
                guard let bytes = try transaction.get(archive.meta, Archive.MetaKey.state) else { throw Archive.damaged(archive.path, "its state is missing") }
                var state = try Archive.State(decoding: Archive.open(Archive.MetaKey.state, bytes, "the store's state"))
                state.keyGeneration = next.generation
                // All of it is archived. The frame of an erasure before this one, of which the archive has not heard, goes with its file now.
                state.frame = max(state.frame, journal.lastFrame)
                state.commit += 1
                try transaction.put(archive.runs, Archive.key(position: run.position), value.bytes)
                try Self.put(ring, key: next.secret, archive, &transaction)
                // Should we die before they are built anew, the next opening does it; a fold that is not named now as well.
                for name in foldNames { try FoldRecord().write(name, archive, &transaction) }
                try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, state.encode()))
            }
        } catch {
            let typed = (error as? LMDBError).map { Archive.typed($0, archive.path) } ?? error
            if let typed = typed as? EventLogError, typed.code == .diskFull, isCurrent(file.current) {
                file.next = nil
                try? file.write(to: path)
                throw typed
            }
            // A commit that failed may still turn up on the disk: the key file keeps both keys until an opening sees which one counts.
            let failure = Self.poisoned(path, typed)
            writer.withLock { $0.failure = failure }
            throw failure
        }
        file.current = next
        file.next = nil
        let written = file
        keys.withLock { $0 = (written, ring) }
        readers.withLock { $0 = [] }
        reader.forget()
        writer.withLock { $0.forgetRuns() }
        do {
            try file.write(to: path)
            try journal.wipe()
        } catch {
            // The next opening forgets the old key, and its closing empties the journal.
            throw Self.erasedOnly(log, seq, error, "its old bytes still lie in the store's files", "convstore compact")
        }
    }

    /// Whether the archive can be read, and is still wrapped with this key: only then may the other one be forgotten.
    private func isCurrent(_ key: KeyFile.Key) -> Bool {
        let state = try? archive.environment.read { [archive] in try archive.state($0) }
        return state?.keyGeneration == key.generation
    }

    private static func put(_ ring: KeyRing, key: Hash256, _ archive: Archive, _ transaction: inout WriteTransaction) throws {
        let master = try Wrapping.wrap(ring.master.encoded, key: key, for: "seeds")
        try transaction.put(archive.meta, Archive.MetaKey.seeds, Archive.sealed(Archive.MetaKey.seeds, master))
        for (number, seeds) in ring.explicit.sorted(by: { $0.key < $1.key }) {
            let name = Archive.key(position: number)
            try transaction.put(archive.secrets, name, Archive.sealed(name, try Wrapping.wrap(seeds.encoded, key: key, for: "log \(number)")))
        }
    }
}

extension Event.Content {
    /// Without it, who joined later would be shown what was said before.
    fileprivate var setsHistory: Bool {
        if case .conversationUpdated(_, let attributes) = self { attributes.contains { $0.name == Event.historyAttribute } } else { false }
    }
}
