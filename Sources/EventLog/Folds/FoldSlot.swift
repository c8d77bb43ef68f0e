/// One fold in an open store: its live state, and which of its tables that state stands over.
///
/// `@unchecked Sendable`: state and table change with the fold lock held for writing and `maintenance`, which whoever flushes or rebuilds holds too;
/// `isBroken` and `lastSave` are touched with `foldProgress` held; or all of it while the store opens or closes. Who encodes rows reads the table: a rebuild
/// puts another one there when nobody does.
final class FoldSlot: @unchecked Sendable {
    let fold: any EventFold
    var state: any FoldState
    /// The table that the state's rows go to; `nil` in a store that is only read.
    var table: FoldTable?
    var generation: UInt32 = 0
    /// When its rows were last frozen to be saved.
    var lastSave: Duration
    /// Once it is broken nothing of it is written any more: the archive's rows stay as they were, and sound.
    var isBroken = false

    init(_ fold: any EventFold, now: Duration) {
        self.fold = fold
        lastSave = now
        state = fold.makeState(over: nil)
    }

    func apply(_ event: borrowing RecordedEvent) {
        if isBroken { return }
        do {
            try state.fold(event)
        } catch {
            fail(error, at: event.position)
        }
    }

    func apply(_ window: RunWindow) {
        if isBroken { return }
        // Of the part that is folded, where parts are: the event may be a later one of its log.
        var position: Position = 0
        do {
            if state.foldsByLog, !window.dependsOnOrder {
                for part in window.parts {
                    position = part.firstPosition
                    try state.fold(part)
                }
            } else {
                try window.forEachEvent { event in
                    position = event.position
                    try state.fold(event)
                }
            }
        } catch {
            fail(error, at: position)
        }
    }

    private func fail(_ error: any Error, at position: Position) {
        isBroken = true
        let typed = error as? EventLogError ?? EventLogError(.damaged, "\(error)")
        fold.fail(EventLogError(typed.code, "the projection \(fold.name) cannot go on at position \(position): \(typed.message)"))
    }
}

/// The folds' changes up to the end of one of the journal's frames: what one flush writes.
struct FoldCut: Sendable {
    var frame: UInt64
    var rows: [(slot: FoldSlot, rows: any FrozenRows)]
}

/// What has been folded and not been flushed.
struct FoldProgress {
    var cuts: [FoldCut] = []
    /// Frozen rows that could not be written when nothing was in the journal: they go with the next that are.
    var unsaved: [(slot: FoldSlot, rows: any FrozenRows)] = []
    /// Rows of adopted events that are being encoded: older than any that are frozen later.
    var encoding: RowEncoding?
    /// The last frame that was folded, and cut.
    var foldedFrame: UInt64 = 0
    var cutFrame: UInt64 = 0
    /// Bytes of frames folded since the last cut.
    var bytes = 0
    /// Whether every cut is to take all rows, as the store is about to close.
    var savesAll = false
    /// Whether the next cut is.
    var savesNext = false

    /// They are to be written before any that are frozen from now on, or with them.
    mutating func takeUnsaved() -> [(slot: FoldSlot, rows: any FrozenRows)] {
        stopEncoding()
        defer { unsaved = [] }
        return unsaved.filter { !$0.slot.isBroken }
    }

    /// What could not be written, while others were folded on: it goes before what was frozen of the same folds meanwhile.
    mutating func putBack(_ rows: [(slot: FoldSlot, rows: any FrozenRows)]) {
        var rest: [(slot: FoldSlot, rows: any FrozenRows)] = []
        for (slot, rows) in rows.reversed() {
            func isSame(_ other: (slot: FoldSlot, rows: any FrozenRows)) -> Bool { other.slot === slot }
            if let cut = cuts.firstIndex(where: { $0.rows.contains(where: isSame) }) {
                cuts[cut].rows.insert((slot, rows), at: cuts[cut].rows.firstIndex(where: isSame)!)
            } else {
                rest.append((slot, rows))
            }
        }
        unsaved = rest.reversed() + unsaved
    }

    /// Gives away what is being encoded, to be written; nothing of it, if a fold broke.
    mutating func takeEncoding() -> RowEncoding? {
        if let encoding, encoding.rows.contains(where: { $0.slot.isBroken }) { stopEncoding() }
        defer { encoding = nil }
        return encoding
    }

    /// Rows that are being encoded are unsaved as others are. Waits for whoever is at it.
    mutating func stopEncoding() {
        guard let encoding else { return }
        encoding.stop()
        unsaved += encoding.rows
        self.encoding = nil
    }
}
