/// Writes one batch of rows at a time on a thread of its own.
final class RowWriting: Sendable {
    private struct State {
        var job: (@Sendable () throws -> Void)?
        var rows: (any FrozenRows)?
        var failure: (any Error)?
        var isEnding = false
        var hasEnded = false
    }

    private let state = Monitor(State())
    private let runsInline: Bool

    init(runsInline: Bool = false) {
        self.runsInline = runsInline
        if runsInline { return }
        WorkerThread.start { [state] in
            while true {
                let job = state.withLock(waitingWhile: { $0.job == nil && !$0.isEnding }) { $0.job }
                guard let job else { break }
                var failure: (any Error)?
                do { try job() } catch { failure = error }
                state.withLock {
                    $0.failure = failure
                    $0.job = nil
                    state.wakeAll()
                }
            }
            state.withLock {
                $0.hasEnded = true
                state.wakeAll()
            }
        }
    }

    var isIdle: Bool { state.withLock { $0.job == nil } }

    func start(_ rows: any FrozenRows, _ job: @escaping @Sendable () throws -> Void) {
        if runsInline {
            var failure: (any Error)?
            do { try job() } catch { failure = error }
            return state.withLock {
                $0.rows = rows
                $0.failure = failure
            }
        }
        state.withLock {
            $0.rows = rows
            $0.job = job
            state.wakeAll()
        }
    }

    /// Waits until the last batch is written, and gives its rows back, once.
    func wait() throws -> (any FrozenRows)? {
        try state.withLock(waitingWhile: { $0.job != nil }) { state in
            defer {
                state.rows = nil
                state.failure = nil
            }
            if let failure = state.failure { throw failure }
            return state.rows
        }
    }

    func end() {
        if runsInline { return }
        state.withLock {
            $0.isEnding = true
            state.wakeAll()
        }
        state.withLock(waitingWhile: { !$0.hasEnded }) { _ in }
    }
}
