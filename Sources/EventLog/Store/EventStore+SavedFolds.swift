/// Saving the folds' rows by themselves, beside no flush: at a close, and behind a replica's first sync.
extension EventStore {
    /// Writes the folds' last rows. When nothing is in the journal any more: they are the fold of all that is archived.
    func saveFolds() throws { try maintain { _ = try save(threads: options.runsInline ? 0 : Self.encodersMax) } }

    /// What is frozen to be saved by itself, and the position of which it is the fold.
    private struct Frozen {
        var encoding: RowEncoding?
        var rows: [(slot: FoldSlot, rows: any FrozenRows)]
        var position: Position
    }

    /// Writes what no fold's rows hold yet in a transaction of their own, while the archive stands still; if something is in the journal, a flush does it. By
    /// who holds `maintenance`.
    ///
    /// - Parameter threads: how many encode; with 0 the caller does.
    /// - Returns: false if it is left to a flush.
    func save(threads: Int) throws -> Bool {
        if folds.isEmpty { return true }
        let frozen = foldProgress.withLock { progress -> Frozen? in
            let sound = folds.filter { !$0.isBroken }
            // With this lock held nothing is folded: what is in no journal is in the archive.
            guard tail.isEmpty else {
                if let last = progress.cuts.indices.last, progress.cuts[last].frame == progress.foldedFrame {
                    progress.cuts[last].rows += freeze(sound, &progress)
                } else {
                    progress.savesNext = true
                }
                return nil
            }
            // What is encoded is older than what is frozen now, and need not be encoded again.
            let encoding = progress.takeEncoding()
            return Frozen(encoding: encoding, rows: freeze(sound, &progress), position: foldedPosition)
        }
        guard let frozen else { return false }
        var encodings = [frozen.encoding].compactMap { $0 }
        do {
            let position = try archive.environment.read { [archive] in try archive.state($0).position }
            // A commit that failed has turned up.
            guard position == frozen.position else {
                throw Self.poisoned(path, EventLogError(.inputOutput, "the archive has taken in what it said it had not"))
            }
            encodings.append(RowEncoding(frozen.rows, position: position, threads: threads))
            try write(encodings)
        } catch {
            for encoding in encodings { encoding.stop() }
            let rows = (frozen.encoding?.rows ?? []) + (encodings.last === frozen.encoding ? frozen.rows : encodings.last!.rows)
            foldProgress.withLock { $0.putBack(rows) }
            throw error
        }
        for (slot, rows) in encodings.flatMap(\.rows) { settle(rows, in: slot) }
        return true
    }

    /// So many threads help whoever waits for a fold's rows.
    private static let encodersMax = 3

    /// In one transaction, the older first.
    func write(_ encodings: [RowEncoding]) throws {
        guard try encodings.contains(where: { try $0.hasRows() }) else { return }
        try archive.environment.write { [archive] transaction in
            for encoding in encodings { try encoding.forEachBatch { try $0.write(archive, &transaction) } }
        }
        archive.environment.releasePages()
    }

    /// Writes what adopted events left to save, while appends and reads go on; with a flush, if something is in the journal already. What cannot be written
    /// is kept, as in ``saveAdopted(through:isMoreWaiting:_:)``.
    func saveAdoptedFolds() {
        // Who adopts on has begun anew by then, and its end is told too.
        let isSaved = try? maintain {
            // Nobody knows what the archive holds then.
            guard writer.withLock({ $0.failure }) == nil else { return true }
            let isWorthIt = foldProgress.withLock { progress in
                progress.encoding != nil || !progress.unsaved.isEmpty
                    || folds.contains { !$0.isBroken && $0.state.unsavedBytes >= foldSaveBytes / 24 }
            }
            // Nobody waits for it, and others have something to do.
            return try !isWorthIt || save(threads: 0)
        }
        if isSaved == false { requestFlush() }
    }
}
