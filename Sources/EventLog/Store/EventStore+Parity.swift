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

    /// Puts damaged runs of a store right again of which the store itself can tell what their bytes were: those that have parity (64 KiB or more), and lost
    /// no more than a page (4 KiB) in a row. What is put there leads to the heads that the store has, as far as the rest of it can be read. Writes parity anew
    /// where that of a sound run is missing or wrong; nothing else is changed.
    ///
    /// - Returns: how many runs are as they were. Others may be damaged still: ``verify(at:progress:)`` tells.
    /// - Throws: `EventLogError`: as an opening for writing does (`damaged`: more is than its runs), `diskFull` or `unknownOutcome`.
    public static func restore(at path: String, options: StoreOptions = StoreOptions()) throws -> Int {
        var options = options
        options.access = .existing
        options.folds = []
        var mended = try mendPages(at: path)
        let store = try open(at: path, options: options)
        do { mended.formUnion(try store.restoreRuns()) } catch {
            try? store.close()
            throw error
        }
        // What it cannot archive of its journal is damage of another kind.
        do { try store.close() } catch let error as EventLogError where error.code == .damaged {}
        return mended.count
    }

    /// Writes anew what LMDB needs of a run's first page, where that is damaged and nothing else that LMDB needs is. For a store that nobody has open.
    ///
    /// - Returns: the positions of such runs.
    /// - Throws: `EventLogError`: `noSuchStore`, `busy`, `inputOutput`.
    package static func mendPages(at path: String) throws -> Set<Position> {
        try checkIsStore(path)
        guard Directory.exists(Archive.path(path)) else { return [] }
        do {
            let lock = try File(path + "/lock", O_RDWR | O_CREAT)
            guard lock.lockExclusively() else { throw EventLogError(.busy, "\(path) is open for writing by another process: try again when that has ended") }
            defer { lock.unlock() }
            return Set(try ChainMending.mend(file: Archive.path(path)).filter { $0.count == 8 }.map(Archive.position))
        } catch let error as SystemError {
            throw error.typed
        }
    }

    /// The same with an open store. Reads all runs.
    ///
    /// - Returns: the positions of the runs that were replaced.
    package func restoreRuns() throws -> [Position] {
        let records = parity.records()
        var damaged: [Position] = []
        try forEachRun { position, value in
            if !DecodedRun.isSound(value, at: position) {
                damaged.append(position)
            } else if !records.has(position) {
                try? parity.add(value, at: position)
            } else if records.parity(at: position) != RunParity.of(value) {
                try? parity.replace(value, at: position)
            }
        }
        try? parity.sync()
        var restored: [Position] = []
        for start in stride(from: 0, to: damaged.count, by: Self.restoredAtOnce) {
            var blocks: [Position: [RunBlock]] = [:]
            var pinned: Set<Position> = []
            for position in damaged[start..<min(start + Self.restoredAtOnce, damaged.count)] {
                guard let found = try restoredBlocks(ofRun: position, records) else { continue }
                blocks[position] = found.blocks
                if found.isPinned { pinned.insert(position) }
            }
            if !blocks.isEmpty { restored += try repairRuns(blocks, pinned: pinned) }
        }
        return restored
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
