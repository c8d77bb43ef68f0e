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

    /// Does on the caller's thread what a flush's thread would do now, in a store that has none.
    package func flushIfAsked() {
        guard options.runsInline else { return }
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

    /// The flush's thread.
    func flushLoop() {
        let flusher = Flusher(store: self)
        while true {
            // By size when a writer asks, else by time: what rests in the journal is sealed all the same.
            let isIdle: (borrowing FlushState) -> Bool = { $0.asked == $0.begun && !$0.isClosing }
            let shouldEnd = flushing.withLock(waitingWhile: isIdle, atMostMilliseconds: Self.flushMilliseconds) { state -> Bool? in
                if state.asked == state.begun, !state.isClosing {
                    if tail.isEmpty { return nil }
                    state.asked += 1
                }
                if state.asked == state.begun {
                    state.hasEnded = true
                    flushing.wakeAll()
                    return true
                }
                state.begun = state.asked
                return false
            }
            guard let shouldEnd else {
                frameMemory.trim()
                continue
            }
            if shouldEnd { return }
            flush(with: flusher)
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
