/// One fold in an open store: its live state, and which of its tables that state stands over.
///
/// `@unchecked Sendable`: what can change is touched with the store's fold lock held for writing, or while the store opens.
final class FoldSlot: @unchecked Sendable {
    let fold: any EventFold
    var state: any FoldState
    /// The table that the state's rows go to; `nil` in a store that is only read.
    var table: FoldTable?
    var generation: UInt32 = 0
    /// Once it is broken nothing of it is written any more: the archive's rows stay as they were, and sound.
    var isBroken = false

    init(_ fold: any EventFold) {
        self.fold = fold
        state = fold.makeState(over: nil)
    }

    func apply(_ event: RecordedEvent) {
        if isBroken { return }
        do {
            try state.fold(event)
        } catch {
            isBroken = true
            let typed = error as? EventLogError ?? EventLogError(.damaged, "\(error)")
            fold.fail(EventLogError(typed.code, "the projection \(fold.name) cannot go on at position \(event.position): \(typed.message)"))
        }
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
    /// The last frame that was folded, and cut.
    var foldedFrame: UInt64 = 0
    var cutFrame: UInt64 = 0
    /// Bytes of frames folded since the last cut.
    var bytes = 0
}
