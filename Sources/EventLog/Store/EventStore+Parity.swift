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
        do {
            try StoreReplacement.checkNone(of: store)
            count = try store.restoreRuns(mended: mended).count
        } catch {
            try? store.close()
            throw error
        }
        // What it cannot archive of its journal is damage of another kind.
        do { try store.close() } catch let error as EventLogError where error.code == .damaged {}
        return count
    }

    /// Writes pages of the archive's file anew that LMDB must not be led to as they are: those of runs that the disk does not give, where their parity tells what
    /// they held, and the heads of values' first pages, where nothing else that LMDB needs is damaged. For a store that nobody has open.
    ///
    /// - Throws: `EventLogError`: `noSuchStore`, `newerFormat`, `busy`, `inputOutput`; `damaged`: there are other pages that the disk does not give.
    package static func mendPages(at path: String) throws -> MendedPages {
        try checkIsStore(path)
        let archive = Archive.path(path)
        guard Directory.exists(archive) else { return MendedPages() }
        do { _ = try KeyFile(reading: path) } catch let error as EventLogError where error.code == .newerFormat {
            throw error
        } catch {}
        do {
            try StoreReplacement.checkNone(of: path)
            let lock = try File(path + "/lock", O_RDWR | O_CREAT)
            guard lock.lockExclusively() else { throw EventLogError(.busy, "\(path) is open for writing: try again when that has ended") }
            defer { lock.unlock() }
            let unreadable = try DataFile(path: archive).unreadablePages()
            var pages: Set<UInt64> = []
            if !unreadable.isEmpty {
                pages = try rewrite(unreadable, of: archive, ParityFile(directory: path))
                if let page = unreadable.first(where: { !pages.contains($0) }) {
                    throw Archive.damaged(archive, "page \(page) cannot be read, and nothing tells what it held")
                }
            }
            try pages.formUnion(ChainMending.mend(file: archive))
            return try MendedPages(pages, of: archive)
        } catch let error as SystemError {
            throw error.typed
        }
    }

    /// Writes pages of runs as they were, which has a disk put them elsewhere. What parity makes of a run is judged by its checksums alone: LMDB must not be led
    /// there before.
    ///
    /// - Parameter unreadable: ascending.
    /// - Returns: those that were written.
    private static func rewrite(_ unreadable: [UInt64], of path: String, _ parity: ParityFile) throws -> Set<UInt64> {
        let file = try DataFile(path: path)
        let records = parity.records(archiveBytes: Int(file.fileBytes))
        var written: [UInt64: [UInt8]] = [:]
        _ = file.forEachPlace(database: "runs") { key, place in
            let lost = unreadable[unreadable.countBelow(place.pages.lowerBound)..<unreadable.countBelow(place.pages.upperBound)]
            guard key.byteCount == 8, !lost.isEmpty else { return true }
            let position = Archive.position(key.array)
            var value = file.value(at: place)
            if value.withUnsafeBytes({ !DecodedRun.isSound($0, at: position) }) {
                guard let restored = records.parity(at: position).flatMap({ RunParity.restored(value, by: $0, at: position) }) else { return true }
                value = restored
            }
            for page in lost {
                let header = page == place.chain ? PageLayout.chainHeader(page: page, pages: UInt64(place.pages.count)) : []
                let bytes = header + value[place.bytes(onPage: page)]
                written[page] = bytes + [UInt8](repeating: 0, count: place.pageBytes - bytes.count)
            }
            return true
        }
        if written.isEmpty { return [] }
        let target = try File(path, O_RDWR)
        for (page, bytes) in written { try bytes.withUnsafeBytes { try target.write($0, at: Int(page) * bytes.count) } }
        try target.sync()
        return Set(written.keys)
    }

    /// The same with an open store. Reads all runs.
    ///
    /// - Parameter mended: what ``mendPages(at:)`` set right.
    /// - Returns: the positions of the runs that are as they were, and had been damaged.
    package func restoreRuns(mended: MendedPages = MendedPages()) throws -> Set<Position> {
        let records = parity.records(archiveBytes: archiveBytes)
        var damaged: [Position] = []
        var restored: Set<Position> = []
        var isRight = true
        try forEachRun { position, value in
            defer { MappedPages.release(value) }
            guard DecodedRun.isSound(value, at: position) else { return damaged.append(position) }
            if mended.runs.contains(position) { restored.insert(position) }
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

    /// Of the archive's file, which bounds how many runs there may be.
    var archiveBytes: Int { (try? File(archive.path, O_RDONLY).size) ?? 1 << 40 }

    /// Writes the file anew: of each sound run its parity, of a damaged one what there is.
    private func renewParity(_ records: ParityRecords) throws {
        let new = ParityFile(directory: path, name: "parity.new")
        // Nothing is archived meanwhile, or its parity would go with the old file.
        try maintain {
            try new.remove()
            do {
                try forEachRun { position, value in
                    if DecodedRun.isSound(value, at: position) {
                        try new.add(value, at: position)
                    } else if let old = records.parity(at: position) {
                        try new.add(parity: old, at: position)
                    }
                    MappedPages.release(value)
                }
                try new.sync()
                if Directory.exists(new.path) { try parity.replace(by: new) } else { try parity.remove() }
            } catch {
                try? new.remove()
                throw error
            }
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

/// What was written anew in an archive's file before it was opened.
package struct MendedPages: Sendable {
    /// The positions of runs to which it belongs.
    let runs: Set<Position>
    /// Of other tables' values, too.
    package let isAny: Bool

    init() { (runs, isAny) = ([], false) }

    fileprivate init(_ pages: Set<UInt64>, of path: String) throws {
        var runs: Set<Position> = []
        let sorted = pages.sorted()
        if !pages.isEmpty {
            _ = try DataFile(path: path).forEachPlace(database: "runs") { key, place in
                let isMended = sorted.countBelow(place.pages.lowerBound) < sorted.countBelow(place.pages.upperBound)
                if key.byteCount == 8, isMended { runs.insert(Archive.position(key.array)) }
                return true
            }
        }
        (self.runs, isAny) = (runs, !pages.isEmpty)
    }
}

extension [UInt64] {
    /// How many of an ascending array are less than a number.
    fileprivate func countBelow(_ bound: UInt64) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < bound { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
