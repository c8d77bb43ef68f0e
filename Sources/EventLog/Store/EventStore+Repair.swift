extension EventStore {
    /// The archived runs of which bytes are damaged and logs' rows tell what they hold, ascending. Reads all runs.
    ///
    /// - Parameter spansMax: of a run with more of them none are told.
    package func damagedRuns(spansMax: Int = .max) throws -> [DamagedRun] {
        var found: [Position: [UInt8]] = [:]
        try forEachRun { position, value in
            if !DecodedRun.isSound(value, at: position) { found[position] = Array(value) }
        }
        if found.isEmpty { return [] }
        var slices: [Position: [(index: Int, span: EventSpan)]] = [:]
        // What a damaged row would tell of a run is missing then, and shows.
        try forEachRow(withTrees: false, unreadable: { _, _ in }) { row, _ in
            for slice in row.slices where found[slice.run] != nil {
                slices[slice.run, default: []].append((slice.index, EventSpan(log: row.id, firstSeq: slice.firstSeq, count: slice.count)))
            }
            return true
        }
        return found.sorted { $0.key < $1.key }.compactMap { position, bytes in
            guard let slices = slices[position]?.sorted(by: { $0.index < $1.index }), let first = slices.first?.span else { return nil }
            // What a hub encodes holds one log after the other; where the columns are sound they tell it for whatever was encoded here.
            let inRows = slices.map(\.index) == Array(slices.indices) ? slices.map(\.span) : []
            let spans = DecodedRun.spans(of: bytes, at: position) ?? inRows
            return DamagedRun(
                log: first.log, seq: first.firstSeq, position: position, byteCount: bytes.count, checks: RunBlocks.checks(of: bytes),
                spans: spans.count <= spansMax ? spans : [])
        }
    }

    /// Visits the archive's runs where they lie, one a snapshot.
    func forEachRun(_ body: (Position, UnsafeRawBufferPointer) throws -> Void) throws {
        try checkOpen()
        var key: [UInt8] = []
        var isMore = true
        while isMore {
            isMore = false
            try archive.environment.read { [archive] transaction in
                try transaction.forEach(archive.runs, from: key) { name, value in
                    let name = Array(name)
                    if name == key { return true }
                    key = name
                    isMore = true
                    if name.count == 8 { try body(name.reduce(0) { $0 << 8 | Position($1) }, value) }
                    return false
                }
            }
        }
    }

    /// Puts blocks that somebody gave into damaged runs, by the runs' positions.
    ///
    /// Nobody is believed: a run is kept if it is sound then, holds just what the rows of the logs say, is what a store may take from a peer, and leads,
    /// with the logs' other events, to the heads that this store has. Such runs are replaced, some a commit; others stay as they are.
    ///
    /// - Parameter pinned: runs of which the header, with checksums of all else, is the store's own: what else is damaged of their logs is no reason to doubt them.
    /// - Returns: the positions of the runs that were replaced.
    /// - Throws: `EventLogError`: `diskFull` (then some may be replaced), `unknownOutcome`, `damaged`, `closed` or `readOnly`.
    package func repairRuns(_ blocks: [Position: [RunBlock]], pinned: Set<Position> = []) throws -> [Position] {
        try checkWritable()
        return try lead { leader in
            _ = leader.hasUnsynced
            if let failure = writer.withLock({ $0.failure }) { throw failure }
            return try maintain {
                let sound = try RunRepair(blocks, pinned, self).sound.sorted()
                for start in stride(from: 0, to: sound.count, by: Self.runsOfCommit) {
                    try replace(sound[start..<min(start + Self.runsOfCommit, sound.count)], blocks)
                }
                return sound
            }
        }
    }

    /// So many runs are held in memory at once.
    private static let runsOfCommit = 32

    private func replace(_ runs: ArraySlice<Position>, _ blocks: [Position: [RunBlock]]) throws {
        do {
            try archive.environment.write { [archive] transaction in
                for position in runs {
                    let key = Archive.key(position: position)
                    guard var bytes = try transaction.get(archive.runs, key).map(Array.init), RunBlocks.put(blocks[position] ?? [], into: &bytes) else {
                        continue
                    }
                    try transaction.put(archive.runs, key, bytes)
                }
            }
        } catch {
            let typed = (error as? LMDBError).map { Archive.typed($0, archive.path) } ?? error
            if let typed = typed as? EventLogError, typed.code == .diskFull { throw typed }
            let failure = Self.poisoned(path, typed)
            writer.withLock { $0.failure = failure }
            throw failure
        }
        readers.withLock { $0 = [] }
        writer.withLock { $0.forgetRuns() }
    }
}

/// Damaged runs with blocks from elsewhere in them, and which of them are sound: found in memory, before anything is written.
private struct RunRepair {
    private struct Candidate {
        var slices: [(log: LogID, firstSeq: Seq, tree: CompactRange)]
    }

    /// Where the runs begin that may be kept.
    private(set) var sound: Set<Position> = []

    init(_ blocks: [Position: [RunBlock]], _ pinned: Set<Position>, _ store: EventStore) throws {
        var candidates: [Position: Candidate] = [:]
        for (position, blocks) in blocks { candidates[position] = try Self.candidate(position, blocks, store) }
        let rows = try Self.rows(in: candidates, store)
        for (position, candidate) in candidates where !Self.holds(candidate, rows, at: position) { candidates[position] = nil }
        let (trees, unread) = try Self.trees(of: rows, candidates, store)
        for (position, candidate) in candidates {
            let leads = candidate.slices.allSatisfy { trees[$0.log] == rows[$0.log]?.tree || pinned.contains(position) && unread.contains($0.log) }
            if leads { sound.insert(position) }
        }
    }

    /// A run with its blocks; `nil` if it is not one that a store may take from a peer, or is not damaged at all.
    private static func candidate(_ position: Position, _ blocks: [RunBlock], _ store: EventStore) throws -> Candidate? {
        let value = try store.archive.environment.read { [archive = store.archive] transaction in
            try transaction.get(archive.runs, Archive.key(position: position)).map { DecodedRun.isSound($0, at: position) ? [] : Array($0) }
        }
        guard var bytes = value, !bytes.isEmpty, RunBlocks.put(blocks, into: &bytes) else { return nil }
        var segment = bytes
        do {
            try DecodedRun.move(&segment, from: position, to: SegmentCodec.position)
            let run = try PreparedRun(segment) { try store.knownSeeds(of: $0) }
            // A log that is not known here has no tree, and no row.
            return Candidate(slices: run.slices.map { ($0.log, $0.firstSeq, $0.tree) })
        } catch is RunError {
            return nil
        } catch is SegmentError {
            return nil
        } catch let error as EventLogError where [.invalidArgument, .damaged].contains(error.code) {
            return nil
        }
    }

    /// The archive's rows of all logs that the candidates, or the rows, name for these runs.
    private static func rows(in candidates: [Position: Candidate], _ store: EventStore) throws -> [LogID: LogRow] {
        var logs: Set<LogID> = []
        // A run with events of which the row is damaged holds more than the rows say, and is not kept.
        try store.forEachRow(withTrees: false, unreadable: { _, _ in }) { row, _ in
            if row.slices.contains(where: { candidates[$0.run] != nil }) { logs.insert(row.id) }
            return true
        }
        return try store.archive.environment.read { [archive = store.archive] transaction in
            var rows: [LogID: LogRow] = [:]
            for log in logs { rows[log] = try archive.row(log, transaction) }
            return rows
        }
    }

    /// Whether a run's slices are those that the rows name, no more and no fewer.
    private static func holds(_ candidate: Candidate, _ rows: [LogID: LogRow], at position: Position) -> Bool {
        var count = 0
        for (log, row) in rows {
            for slice in row.slices where slice.run == position {
                guard candidate.slices.indices.contains(slice.index), case let own = candidate.slices[slice.index], own.log == log,
                    own.firstSeq == slice.firstSeq, own.tree.size == slice.count
                else { return false }
                count += 1
            }
        }
        return count == candidate.slices.count
    }

    /// The trees over the logs' archived events, the candidates' in the place of what is damaged; and the logs of which something cannot be read, whose trees
    /// are not whole.
    private static func trees(
        of rows: [LogID: LogRow], _ candidates: [Position: Candidate], _ store: EventStore
    ) throws -> (trees: [LogID: CompactRange], unread: Set<LogID>) {
        var trees = rows.mapValues { _ in CompactRange() }
        var unread: Set<LogID> = []
        let reader = ArchiveReader(archive: store.archive, runsMax: 1)
        for position in Set(rows.values.flatMap { $0.slices.map(\.run) }).sorted() {
            do {
                let slices = try candidates[position]?.slices ?? Self.trees(ofRun: reader.run(at: position), rows, store, &unread)
                for slice in slices {
                    guard trees[slice.log]?.end == slice.firstSeq - 1 else { continue }
                    trees[slice.log]?.append(slice.tree)
                }
            } catch let error as EventLogError where error.code == .damaged {
                // What stands behind it has no tree to go on from.
                for (log, row) in rows where row.slices.contains(where: { $0.run == position }) { unread.insert(log) }
            }
        }
        return (trees, unread)
    }

    /// What stands for the leaves of the slices of some logs.
    private static func trees(
        ofRun run: DecodedRun, _ rows: [LogID: LogRow], _ store: EventStore, _ unread: inout Set<LogID>
    ) throws -> [(log: LogID, firstSeq: Seq, tree: CompactRange)] {
        try run.slices.compactMap { slice in
            guard let row = rows[slice.log] else { return nil }
            var hasher = LeafHasher(try store.seeds(of: row))
            var tree = CompactRange(begin: slice.firstSeq - 1)
            for place in slice.range {
                do {
                    guard let leaf = try hasher.leaf(run.recorded(at: place)) else { return nil }
                    tree.append(leaf)
                } catch is RunError {
                    unread.insert(slice.log)
                    return nil
                }
            }
            return (slice.log, slice.firstSeq, tree)
        }
    }
}
