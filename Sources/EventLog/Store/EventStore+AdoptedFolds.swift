/// Folding what the archive took in past the journal.
extension EventStore {
    /// Folds events of runs that were just taken in, of which nothing is in the tail. By who leads and holds `maintenance`.
    ///
    /// - Parameter isLater: a thread of its own does it, while the next runs are written; others wait for it (``lead(_:)``, ``maintain(_:)``).
    func fold(adopted runs: [PreparedRun], through last: Position, isLater: Bool) {
        endFolding(saving: .whileMoreWaits)
        let folding = AdoptedFolding(through: last)
        adoptedFolding.withLock { $0 = folding }
        let fold: @Sendable () -> Void = { [self] in
            for run in runs {
                if !folds.isEmpty { foldProgress.withLock { _ in apply(run) } }
                options.observer? { run.events() }
            }
            folding.end()
        }
        if isLater { return WorkerThread.start(fold) }
        fold()
        endFolding(saving: .now)
    }

    /// How many adopted events are folded before readers get their turn: more than of those that are appended, as most of the work is done once for what
    /// follows each other in a log.
    private static let adoptedALock = 4096

    private func apply(_ run: PreparedRun) {
        run.forEachWindow(of: Self.adoptedALock) { window in
            foldLock.write {
                for slot in folds { slot.apply(window) }
                foldedPosition = window.lastPosition
            }
        }
    }

    /// Whether rows that are due are saved, and when they are due.
    package enum AdoptedSaving {
        /// They are left to the next flush.
        case no
        /// Nothing else waits.
        case now
        /// More runs wait to be taken in, and somebody for what is in them: rows may become four times as many before they are saved.
        case whileMoreWaits
    }

    /// Leads the store's writing, when all that was taken in is folded.
    func lead<R>(_ body: (inout LeaderState) throws -> R) rethrows -> R {
        try leadership.withLock { leader in
            endFolding()
            return try body(&leader)
        }
    }

    /// Keeps others from maintaining what is archived, when all that was taken in is folded.
    func maintain<R>(_ body: () throws -> R) rethrows -> R {
        try maintenance.withLock { _ in
            endFolding()
            return try body()
        }
    }

    /// Waits for the thread that folds what was adopted last, if there is one.
    ///
    /// - Parameter saving: but for `no` by who leads and holds `maintenance`.
    package func endFolding(saving: AdoptedSaving = .no) {
        guard let folding = adoptedFolding.withLock({ $0 }) else { return }
        folding.wait()
        adoptedFolding.withLock { if $0 === folding { $0 = nil } }
        if saving != .no, !folds.isEmpty { foldProgress.withLock { saveAdopted(through: folding.last, isMoreWaiting: saving == .whileMoreWaits, &$0) } }
    }

    /// Writes rows that were encoded meanwhile, and has others encoded, if any are due. What cannot be written is kept: its rows are saved with the
    /// next that are, or folded again by an opening.
    private func saveAdopted(through position: Position, isMoreWaiting: Bool, _ progress: inout FoldProgress) {
        let now = options.now
        let bytes = isMoreWaiting ? 4 * foldSaveBytes : foldSaveBytes
        let due = folds.filter { isDue($0, from: bytes, now) }
        if let encoding = progress.encoding {
            // As much again may gather while rows are encoded.
            guard encoding.isDone || due.contains(where: { $0.state.unsavedBytes >= max(bytes, 2 * foldSaveBytes) }) else { return }
            write(encoding, &progress)
        }
        if due.isEmpty { return }
        progress.encoding = RowEncoding(freeze(due, &progress), position: position, threads: options.runsInline ? 0 : 1)
    }

    /// Writes rows that are being encoded. By who holds `maintenance`.
    func write(_ encoding: RowEncoding, _ progress: inout FoldProgress) {
        guard !encoding.rows.contains(where: { $0.slot.isBroken }) else { return progress.stopEncoding() }
        do {
            try write([encoding])
            progress.encoding = nil
            for (slot, rows) in encoding.rows { settle(rows, in: slot) }
        } catch {
            progress.stopEncoding()
        }
    }
}

/// Events of adopted runs on their way into the folds.
final class AdoptedFolding: Sendable {
    let last: Position
    private let hasEnded = Monitor(false)

    init(through last: Position) { self.last = last }

    func end() {
        hasEnded.withLock { $0 = true }
        hasEnded.wakeAll()
    }

    func wait() { hasEnded.withLock(waitingWhile: { !$0 }) { _ in } }
}
