internal import EventLog

/// What takes a hub long for one peer: all who need some take turns at it, on threads of their own. So nobody who wants little waits for those who want much,
/// nor does anything else that runs on Swift's threads.
///
/// The order is that of the asking, but for the first few turns: who has had fewer goes before who has had more, as most need no more (least attained
/// service, L. Kleinrock, Queueing Systems II, 1976, with a bound, so that who wants much is not put off for ever).
final class Turns: Sendable {
    private struct State {
        var waiting: [(rank: Int, turn: @Sendable () -> Void)] = []
        var threads = 0
    }
    private let state = Monitor(State())
    private let execution: Execution
    /// So many turns count.
    static let rankMax = 8

    init(_ execution: Execution) { self.execution = execution }

    /// - Parameter taken: how many turns were taken for the same.
    func take(after taken: Int, _ turn: @escaping @Sendable () -> Void) {
        let rank = min(taken, Self.rankMax)
        let begins = state.withLock { state -> Bool in
            let place = state.waiting.lastIndex { $0.rank <= rank }.map { $0 + 1 } ?? 0
            state.waiting.insert((rank, turn), at: place)
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
            return state.waiting.removeFirst().turn
        }
    }
}
