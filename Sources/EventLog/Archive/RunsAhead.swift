/// Archived runs in commit order, each decoded on a thread of its own while the one before it is read.
///
/// For one thread at a time. One run is ready and one is being decoded, so that memory does not grow with the log.
final class RunsAhead {
    private struct State {
        var ready: DecodedRun?
        var failure: (any Error)?
        /// Whether nothing comes any more.
        var isDone = false
        /// Whether nobody wants more.
        var isEnding = false
    }

    // A run is handed over, never shared: its texts are decompressed before, so it needs its reader no more.
    private let state = Monitor(State())

    /// - Parameter last: the last position wanted; the archive reaches at least to there.
    init(_ archive: Archive, from first: Position, through last: Position) {
        WorkerThread.start { [state] in
            let reader = ArchiveReader(archive: archive, runsMax: 0)
            var position = first
            var failure: (any Error)?
            do {
                while position <= last {
                    guard let run = try reader.run(containing: position) else { throw archive.noRun(at: position) }
                    try run.loadTexts()
                    position = run.position + Position(run.events.count)
                    let goes = state.withLock(waitingWhile: { $0.ready != nil && !$0.isEnding }) { state -> Bool in
                        state.ready = run
                        return !state.isEnding
                    }
                    state.wakeAll()
                    if !goes { break }
                }
            } catch {
                failure = error
            }
            state.withLock {
                $0.failure = failure
                $0.isDone = true
                state.wakeAll()
            }
        }
    }

    /// The next run; `nil` behind the last. Throws what was wrong with it, after the runs before it.
    func next() throws -> DecodedRun? {
        let run = try state.withLock(waitingWhile: { $0.ready == nil && !$0.isDone }) { state -> DecodedRun? in
            if let run = state.ready.take() { return run }
            if let failure = state.failure { throw failure }
            return nil
        }
        state.wakeAll()
        return run
    }

    /// Waits until the thread is gone: nothing is read any more.
    func end() {
        state.withLock {
            $0.isEnding = true
            state.wakeAll()
        }
        state.withLock(waitingWhile: { !$0.isDone }) { _ in }
    }
}
