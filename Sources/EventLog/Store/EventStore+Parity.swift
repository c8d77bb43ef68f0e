#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Runs that the store itself sets right, by the parity beside its archive.
extension EventStore {
    /// Writes the parity of runs that were archived. What cannot be written is left out: nothing rests on it.
    func addParity(_ runs: [(position: Position, bytes: UnsafeRawBufferPointer)], isSynced: Bool) {
        for (position, bytes) in runs { try? parity.add(bytes, at: position) }
        if isSynced { try? parity.sync() }
    }

    /// Puts damaged runs of a store right again of which the store itself can tell what their bytes were: those that have parity (32 KiB or more), and lost
    /// no more than a page (4 KiB) in a row. What is put there leads to the heads that the store has, as far as the rest of it can be read. Writes parity anew
    /// where that of a sound run is missing or wrong; nothing else is changed.
    ///
    /// - Returns: how many runs are as they were. Others may be damaged still: ``verify(at:progress:)`` tells.
    /// - Throws: `EventLogError`: as an opening for writing does (`damaged`: more is than its runs), `diskFull` or `unknownOutcome`.
    public static func restore(at path: String, options: StoreOptions = StoreOptions()) throws -> Int {
        var options = options
        options.access = .existing
        options.folds = []
        let mended = try mendPages(at: path)
        let store = try open(at: path, options: options)
        let count: Int
        do { count = try store.restoreRuns(mended: mended).count } catch {
            try? store.close()
            throw error
        }
        // What it cannot archive of its journal is damage of another kind.
        do { try store.close() } catch let error as EventLogError where error.code == .damaged {}
        return count
    }

    /// Writes anew what LMDB needs of a run's first page, where that is damaged and nothing else that LMDB needs is. For a store that nobody has open.
    ///
    /// - Returns: the positions of such runs, perhaps some that are no runs'.
    /// - Throws: `EventLogError`: `noSuchStore`, `newerFormat`, `busy`, `inputOutput`.
    package static func mendPages(at path: String) throws -> Set<Position> {
        try checkIsStore(path)
        guard Directory.exists(Archive.path(path)) else { return [] }
        do { _ = try KeyFile(reading: path) } catch let error as EventLogError where error.code == .newerFormat {
            throw error
        } catch {}
        do {
            let lock = try File(path + "/lock", O_RDWR | O_CREAT)
            guard lock.lockExclusively() else { throw EventLogError(.busy, "\(path) is open for writing: try again when that has ended") }
            defer { lock.unlock() }
            return Set(try ChainMending.mend(file: Archive.path(path)).filter { $0.count == 8 }.map(Archive.position))
        } catch let error as SystemError {
            throw error.typed
        }
    }

    /// The same with an open store. Reads all runs.
    ///
    /// - Parameter mended: what ``mendPages(at:)`` set right.
    /// - Returns: the positions of the runs that are as they were, and had been damaged.
    package func restoreRuns(mended: Set<Position> = []) throws -> Set<Position> {
        let records = parity.records(archiveBytes: (try? File(archive.path, O_RDONLY).size) ?? 0)
        var damaged: [Position] = []
        var restored: Set<Position> = []
        var isRight = records.isWhole
        try forEachRun { position, value in
            guard DecodedRun.isSound(value, at: position) else { return damaged.append(position) }
            if mended.contains(position) { restored.insert(position) }
            isRight = isRight && (value.count < RunParity.runBytesMin || records.parity(at: position) == RunParity.of(value))
        }
        for start in stride(from: 0, to: damaged.count, by: Self.restoredAtOnce) {
            var blocks: [Position: [RunBlock]] = [:]
            var pinned: Set<Position> = []
            for position in damaged[start..<min(start + Self.restoredAtOnce, damaged.count)] {
                guard let found = try restoredBlocks(ofRun: position, records) else { continue }
                blocks[position] = found.blocks
                if found.isPinned { pinned.insert(position) }
            }
            if !blocks.isEmpty { restored.formUnion(try repairRuns(blocks, pinned: pinned)) }
        }
        // No reason to fail: what is missing is made another time.
        if !isRight { try? renewParity(records) }
        return restored
    }

    /// Writes the file anew: of each sound run its parity, of a damaged one what there is.
    private func renewParity(_ records: ParityRecords) throws {
        let new = ParityFile(directory: path, name: "parity.new")
        try new.remove()
        do {
            try forEachRun { position, value in
                if DecodedRun.isSound(value, at: position) {
                    try new.add(value, at: position)
                } else if let old = records.parity(at: position) {
                    try new.add(parity: old, at: position)
                }
            }
            try new.sync()
            parity.close()
            if Directory.exists(new.path) { try Directory.rename(new.path, to: parity.path) } else { try parity.remove() }
        } catch {
            try? new.remove()
            throw error
        }
    }

    /// What is known of the logs of so many runs is held in memory.
    private static let restoredAtOnce = 512

    private func restoredBlocks(ofRun position: Position, _ records: ParityRecords) throws -> (blocks: [RunBlock], isPinned: Bool)? {
        let run = try archive.environment.read { [archive] transaction in
            try transaction.get(archive.runs, Archive.key(position: position)).map(Array.init) ?? []
        }
        guard let parity = records.parity(at: position), let restored = RunParity.restored(run, by: parity, at: position),
            let blocks = RunBlocks.blocks(of: restored, unlike: RunBlocks.checks(of: run))
        else { return nil }
        return (blocks, run.withUnsafeBytes { (try? DecodedRun.Header($0, at: position)) != nil })
    }
}
