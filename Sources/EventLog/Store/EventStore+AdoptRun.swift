extension EventStore {
    /// Takes a segment as another store's archive holds it (``storedRun(containing:)``) into this store's archive: without the journal, and without
    /// compressing it again. For each of its logs it must begin just where this store's log ends.
    ///
    /// Appends wait meanwhile. What the journal holds is archived first. The run, the rows of its logs, their secrets and the store's state become durable
    /// in one commit of the archive: all of it is kept, or nothing.
    ///
    /// - Parameter secrets: of logs that this store does not hold yet, as `secret(of:)` gives them; those of others are ignored.
    /// - Parameter check: called for each log with the tree that it will have, before anything is kept; what it throws ends the call. It may read the
    ///   store, not append.
    /// - Returns: the logs and their new last seqs.
    /// - Throws: `SegmentError` for bytes that are no segment of a store; `EventLogError`: `invalidArgument` if a log does not begin where this store's
    ///   ends (I2), or a salt is missing; `diskFull` (nothing was written), `unknownOutcome`, `damaged`, `closed` or `readOnly`.
    package func adoptRun(
        _ bytes: [UInt8], secrets: [LogID: [UInt8]], check: (LogID, CompactRange) throws -> Void
    ) throws -> [LogID: Seq] {
        let seeds = try Self.seeds(secrets)
        let run = try PreparedRun(bytes) { try seeds[$0] ?? knownSeeds(of: $0) }
        return try adoptRuns([(run, secrets)]) { _, log, _, tree in try check(log, tree) }
    }

    /// The same for segments that were decoded, checked and hashed before, by other threads: all of them in one commit, or none.
    ///
    /// - Parameter foldsLater: what is shown may stay behind what is kept for as long as folding takes: for who adopts on meanwhile.
    /// - Parameter check: called for each run, and each of its logs, with the last seq that was held and the tree that the log will have.
    package func adoptRuns(
        _ runs: [(run: PreparedRun, secrets: [LogID: [UInt8]])], foldsLater: Bool = false,
        check: (_ run: Int, LogID, _ lastSeq: Seq, CompactRange) throws -> Void
    ) throws -> [LogID: Seq] {
        try checkWritable()
        let runs = try runs.map { ($0.run, try Self.seeds($0.secrets)) }
        // Not `lead` nor `maintain`: what was adopted last may still be folded while this is written.
        return try leadership.withLock { leader in
            _ = leader.hasUnsynced
            if let failure = writer.withLock({ $0.failure }) { throw failure }
            if !tail.isEmpty { try flush() }
            return try maintenance.withLock { _ in
                guard tail.isEmpty else { throw EventLogError(.inputOutput, "\(path): the journal's events could not be archived; try again") }
                var rows = adoptedRows.withLock { rows in
                    defer { rows = AdoptedRows() }
                    return rows
                }
                let adoption = try RunAdoption(runs, &rows, self, check)
                try keep(adoption)
                rows.put(adoption.logs.map(\.row), commit: adoption.state.commit)
                adoptedRows.withLock { $0 = rows }
                let last = adoption.logs.map { ($0.row.id, $0.row.seq) }
                writer.withLock { $0.adopted(last.map(\.0), adoption.state) }
                journal!.skip(through: adoption.state.position)
                // In this order: whoever looks at the tail and then at the archive misses nothing.
                tail.adopt(through: adoption.state.position)
                fold(adopted: runs.map(\.0), through: adoption.state.position, isLater: foldsLater && !options.runsInline)
                return Dictionary(uniqueKeysWithValues: last)
            }
        }
    }

    /// The seeds of a log that is held; `nil`: it is not.
    package func knownSeeds(of log: LogID) throws -> PuncturedSeeds? {
        guard let number = try writer.withLock({ try $0.number(of: log) }) else { return nil }
        return keys.withLock { $0.ring.seeds(ofLog: number) }
    }

    /// Lets go of what was kept for the next run.
    package func endAdopting() {
        adoptedRows.withLock { $0 = AdoptedRows() }
        try? parity.sync()
    }

    private func keep(_ adoption: RunAdoption) throws {
        // Before the commit: whoever sees a log's row finds its secret. Nobody asks for numbers that no row has.
        let fresh = adoption.logs.compactMap { log in log.secret.map { (number: log.row.number, seeds: $0) } }
        let key = keys.withLock { keys in
            for log in fresh { keys.ring.explicit[log.number] = log.seeds }
            return keys.file.current.secret
        }
        do {
            let secrets = try fresh.map { ($0.number, try Wrapping.wrap($0.seeds.encoded, key: key, for: "log \($0.number)")) }
            try archive.environment.write { [archive] transaction in
                for run in adoption.runs { try transaction.put(archive.runs, Archive.key(position: run.position), run.bytes, isAppend: true) }
                for row in adoption.rows { try transaction.put(archive.logs, row.key, row.value) }
                for (number, replica) in adoption.newReplicas {
                    let key = Archive.key(position: number)
                    try transaction.put(archive.replicas, key, Archive.sealed(key, replica.bytes))
                }
                for (number, wrapped) in secrets {
                    let name = Archive.key(position: number)
                    try transaction.put(archive.secrets, name, Archive.sealed(name, wrapped))
                }
                try transaction.put(archive.meta, Archive.MetaKey.state, Archive.sealed(Archive.MetaKey.state, adoption.state.encode()))
            }
        } catch {
            let typed = (error as? LMDBError).map { Archive.typed($0, archive.path) } ?? error
            if let typed = typed as? EventLogError, typed.code == .diskFull {
                keys.withLock { keys in for log in fresh { keys.ring.explicit[log.number] = nil } }
                throw typed
            }
            // A commit that failed may still turn up on the disk.
            let failure = Self.poisoned(path, typed)
            writer.withLock { $0.failure = failure }
            throw failure
        }
        for run in adoption.runs { run.bytes.withUnsafeBytes { addParity([(run.position, $0)], isSynced: false) } }
        let numbers = adoption.newReplicas
        replicaNumbers.withLock { for (number, replica) in numbers { $0[replica] = number } }
    }
}

/// Rows that the archive has, as the last run that it took in left them: the next one from the same hub is of the same logs for the most part.
struct AdoptedRows {
    private var rows: [LogID: LogRow] = [:]
    private var people = 0
    /// The archive's commit of which they are: any later one may have changed them.
    private var commit: UInt64 = 0
    /// A room's row has an entry for each person.
    private static let rowsMax = 4096, peopleMax = 1 << 17

    /// Gives a row away, so that it can be changed where it lies.
    mutating func take(_ log: LogID, commit: UInt64) -> LogRow? {
        guard self.commit == commit, let row = rows.removeValue(forKey: log) else { return nil }
        people -= row.people.count
        return row
    }

    mutating func put(_ new: [LogRow], commit: UInt64) {
        if rows.count + new.count > Self.rowsMax || people > Self.peopleMax { self = AdoptedRows() }
        self.commit = commit
        for row in new {
            people += row.people.count
            rows[row.id] = row
        }
    }
}

/// What the archive is after it took in runs: made in memory, and checked, before anything is written.
private struct RunAdoption {
    struct Log {
        var row: LogRow
        /// Of a log that is new here, if it came with one.
        var secret: PuncturedSeeds?
    }

    /// At their positions here.
    private(set) var runs: [(position: Position, bytes: [UInt8])] = []
    private(set) var state: Archive.State
    private(set) var logs: [Log]
    private(set) var newReplicas: [(number: UInt64, replica: ReplicaID)] = []
    /// The logs' rows, ascending by key.
    private(set) var rows: [(key: [UInt8], value: [UInt8])] = []

    init(
        _ runs: [(run: PreparedRun, secrets: [LogID: PuncturedSeeds])], _ rows: inout AdoptedRows, _ store: EventStore,
        _ check: (Int, LogID, Seq, CompactRange) throws -> Void
    ) throws {
        let archive = store.archive
        var places: [LogID: Int] = [:]
        var logs: [Log] = []
        state = try archive.environment.read { transaction in
            var state = try archive.state(transaction)
            for slice in runs.lazy.flatMap(\.run.slices) where places[slice.log] == nil {
                let row = try rows.take(slice.log, commit: state.commit) ?? archive.row(slice.log, transaction)
                if row == nil { state.nextNumber += 1 }
                places[slice.log] = logs.count
                logs.append(Log(row: row ?? LogRow(id: slice.log, number: state.nextNumber - 1)))
            }
            return state
        }
        self.logs = logs
        logs = []
        let ring = store.keys.withLock { $0.ring }
        for (number, (run, secrets)) in runs.enumerated() {
            try take(run, secrets, places, ring, archive) { try check(number, $0, $1, $2) }
        }
        state.commit += 1
        encodeRows(numbers: store.replicaNumbers.withLock { $0 })
    }

    private mutating func take(
        _ run: PreparedRun, _ secrets: [LogID: PuncturedSeeds], _ places: [LogID: Int], _ ring: KeyRing, _ archive: Archive,
        _ check: (LogID, Seq, CompactRange) throws -> Void
    ) throws {
        let position = state.position + 1
        for slice in run.slices {
            let held = logs[places[slice.log]!].row.seq
            guard slice.firstSeq == held + 1 else {
                throw EventLogError(.invalidArgument, "log \(slice.log): seq \(slice.firstSeq) cannot follow \(held) (I2)")
            }
        }
        for (index, slice) in run.slices.enumerated() {
            let place = places[slice.log]!
            let held = logs[place].row.seq
            if held == 0 {
                // This store's own keys would do for the hashing, but not for what the log's other copies prove.
                guard let secret = secrets[slice.log] else {
                    throw EventLogError(.invalidArgument, "the first events of log \(slice.log) came without its secret")
                }
                logs[place].secret = secret
            }
            guard let seeds = logs[place].secret ?? ring.seeds(ofLog: logs[place].row.number) else {
                throw Archive.damaged(archive.path, "the secret of log \(slice.log) is missing")
            }
            let messages = logs[place].row.messages
            try logs[place].row.apply(run.run, slice.range)
            logs[place].row.tree.append(try run.tree(of: index, seeds))
            let sent = logs[place].row.messages - messages
            logs[place].row.slices.append(
                LogRow.Slice(run: position, index: index, firstSeq: slice.firstSeq, count: slice.range.count, messages: Int(sent)))
            state.messages += sent
            if slice.firstSeq == 1, case .conversation = slice.log { state.conversations += 1 }
            try check(slice.log, held, logs[place].row.tree)
        }
        state.hlc = max(state.hlc, run.hlc.rawValue)
        run.move(to: position)
        var bytes = run.bytes
        try DecodedRun.move(&bytes, from: SegmentCodec.position, to: position)
        state.position += Position(run.eventCount)
        state.runs += 1
        state.rawBytes += UInt64(run.rawBytes)
        state.compressedBytes += UInt64(bytes.count)
        runs.append((position, bytes))
    }

    private mutating func encodeRows(numbers: [ReplicaID: UInt64]) {
        var numbers = numbers
        let keys = logs.map { Archive.key(log: $0.row.id) }
        var bytes = ByteBuffer(capacity: 1 << 12)
        for index in keys.indices.sorted(by: { keys[$0].lexicographicallyPrecedes(keys[$1]) }) {
            bytes.removeAll()
            logs[index].row.encode(into: &bytes)
            logs[index].row.encodeLanes(into: &bytes) { replica in
                if let known = numbers[replica] { return known }
                let number = UInt64(numbers.count)
                numbers[replica] = number
                newReplicas.append((number, replica))
                return number
            }
            Archive.seal(keys[index], from: 0, in: &bytes)
            rows.append((keys[index], bytes.array()))
        }
    }
}
