internal import Synchronization

extension EventStore {
    /// Events wait at most about so long for the archive.
    static let flushMilliseconds = 10_000

    /// Asks for a flush without waiting for it.
    func requestFlush() {
        flushing.withLock { state in
            guard state.asked == state.begun else { return }
            state.asked += 1
            flushing.wakeAll()
        }
    }

    /// Seals everything that is durable into the archive, and returns when it is there.
    ///
    /// - Throws: `EventLogError`: `diskFull` or `inputOutput`; the events stay in the journal, and a later flush tries again.
    public func flush() throws {
        guard journal != nil else { return }
        let ticket = flushing.withLock { state -> UInt64 in
            // One that has begun may have missed what was appended last.
            if state.asked == state.begun {
                state.asked += 1
                flushing.wakeAll()
            }
            return state.asked
        }
        flushIfAsked()
        let failure = flushing.withLock(waitingWhile: { $0.done < ticket && !$0.hasEnded }) { $0.failure }
        if let failure { throw failure }
    }

    /// Waits until the archive has taken a slice of the journal, or has tried to take all of it.
    func waitForSlice() throws {
        let (seen, ticket) = flushing.withLock { state -> (UInt64, UInt64) in
            if state.asked == state.begun {
                state.asked += 1
                flushing.wakeAll()
            }
            return (state.slices, state.asked)
        }
        flushIfAsked()
        let failure = flushing.withLock(waitingWhile: { $0.slices == seen && $0.done < ticket && !$0.hasEnded }) { $0.slices == seen ? $0.failure : nil }
        if let failure { throw failure }
    }

    /// A slice of the journal is free again.
    func noteSlice() {
        flushing.withLock { state in
            state.slices += 1
            flushing.wakeAll()
        }
    }

    /// Has the rows of what was adopted saved soon, unless they are few, without waiting for it: for whoever has taken in all there is. By size or time
    /// they would be saved beside what comes next, which then waits for the same disk; and an opening would fold again what is not saved.
    package func saveFoldsSoon() {
        guard journal != nil, !folds.isEmpty else { return }
        flushing.withLock { state in
            state.savesFolds = true
            flushing.wakeAll()
        }
        flushIfAsked()
    }

    /// Does on the caller's thread what a flush's thread would do now, in a store that has none.
    package func flushIfAsked() {
        guard options.runsInline else { return }
        let savesFolds = flushing.withLock { state in
            defer { state.savesFolds = false }
            return state.savesFolds
        }
        if savesFolds { saveAdoptedFolds() }
        let isAsked = flushing.withLock { state in
            defer { state.begun = state.asked }
            return state.asked != state.begun
        }
        guard isAsked else { return }
        inlineFlusher.withLock { flusher in
            if flusher == nil { flusher = Flusher(store: self) }
            flush(with: flusher!)
        }
    }

    /// What the flush's thread does next.
    private enum Step { case rest, flush, saveFolds, end }

    /// The flush's thread.
    func flushLoop() {
        let flusher = Flusher(store: self)
        while true {
            // By size when a writer asks, else by time: what rests in the journal is sealed all the same.
            let isIdle: (borrowing FlushState) -> Bool = { $0.asked == $0.begun && !$0.isClosing && !$0.savesFolds }
            let step = flushing.withLock(waitingWhile: isIdle, atMostMilliseconds: Self.flushMilliseconds) { state -> Step in
                if isIdle(state) {
                    if tail.isEmpty { return .rest }
                    state.asked += 1
                }
                // Somebody may wait for a flush.
                if state.asked != state.begun {
                    state.begun = state.asked
                    return .flush
                }
                if state.isClosing {
                    state.hasEnded = true
                    flushing.wakeAll()
                    return .end
                }
                state.savesFolds = false
                return .saveFolds
            }
            switch step {
            case .rest: frameMemory.trim()
            case .flush: flush(with: flusher)
            case .saveFolds: saveAdoptedFolds()
            case .end: return
            }
        }
    }

    private func flush(with flusher: Flusher) {
        var failure: EventLogError?
        do {
            try flusher.flush()
        } catch let error as EventLogError {
            failure = error
        } catch let error as LMDBError {
            failure = Archive.typed(error, archive.path)
        } catch let error as SystemError {
            failure = error.typed
        } catch {
            failure = EventLogError(.inputOutput, "\(archive.path): \(error)")
        }
        frameMemory.trim()
        flushing.withLock { state in
            state.done = state.begun
            state.failure = failure
            flushing.wakeAll()
        }
    }
}
