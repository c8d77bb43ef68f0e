import EventLog

/// Hands values from one thread to another, in order, at most a few at a time: the sender waits while it is full.
final class Handoff<Element: Sendable>: Sendable {
    /// The receiver wants no more.
    struct Cancelled: Error {}

    private struct State {
        var elements: [Element] = []
        var failure: (any Error)?
        var isFinished = false
        var isCancelled = false
    }

    private let state = Monitor(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// Waits for room first.
    func send(_ element: Element) throws(Cancelled) {
        let isTaken = state.withLock(waitingWhile: { $0.elements.count >= capacity && !$0.isCancelled }) { state in
            guard !state.isCancelled else { return false }
            state.elements.append(element)
            self.state.wakeAll()
            return true
        }
        if !isTaken { throw Cancelled() }
    }

    /// Says that nothing more comes; what was sent is still received before the failure is thrown.
    func finish(throwing failure: (any Error)? = nil) {
        state.withLock { state in
            state.isFinished = true
            state.failure = failure
            self.state.wakeAll()
        }
    }

    /// The next element, or `nil` at the end.
    func next() throws -> Element? {
        try state.withLock(waitingWhile: { $0.elements.isEmpty && !$0.isFinished }) { state in
            if state.elements.isEmpty {
                if let failure = state.failure { throw failure }
                return nil
            }
            let element = state.elements.removeFirst()
            self.state.wakeAll()
            return element
        }
    }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            state.elements = []
            self.state.wakeAll()
        }
    }
}
