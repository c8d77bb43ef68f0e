internal import EventLog

/// What takes a hub long for one peer: all who need some take turns at it, in the order in which they asked, on threads of their own. So nobody who wants
/// little waits for those who want much, nor does anything else that runs on Swift's threads.
final class Turns: Sendable {
    private struct State {
        var waiting: [@Sendable () -> Void] = []
        var threads = 0
    }
    private let state = Monitor(State())
    private let execution: Execution

    init(_ execution: Execution) { self.execution = execution }

    func take(_ turn: @escaping @Sendable () -> Void) {
        let begins = state.withLock { state -> Bool in
            state.waiting.append(turn)
            guard state.threads < execution.longAtOnce else { return false }
            state.threads += 1
            return true
        }
        if begins { execution.runLong { [self] in while let next { next() } } }
    }

    private var next: (@Sendable () -> Void)? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.threads -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
