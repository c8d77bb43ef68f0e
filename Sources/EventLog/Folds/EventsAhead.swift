/// Archived events in commit order, made on a thread of its own while those before them are folded.
///
/// For one thread at a time. Events come in batches; a few of them are ready at once, so that memory does not grow with the log.
final class EventsAhead: Sendable {
    /// Events that are made in their places and moved out of them: an event is some 300 bytes, and what it refers to is counted for each copy.
    ///
    /// `@unchecked Sendable`: filled by the one thread, then handed to the other.
    private final class Batch: @unchecked Sendable {
        private let events = UnsafeMutablePointer<RecordedEvent>.allocate(capacity: EventsAhead.batchEvents)
        private var taken = 0
        private var count = 0

        var isFull: Bool { count == EventsAhead.batchEvents }

        func append(_ event: consuming RecordedEvent) {
            precondition(!isFull)
            (events + count).initialize(to: event)
            count += 1
        }

        /// The next event, which is the caller's then; `nil` behind the last.
        func next() -> RecordedEvent? {
            guard taken < count else { return nil }
            defer { taken += 1 }
            return (events + taken).move()
        }

        deinit {
            (events + taken).deinitialize(count: count - taken)
            events.deallocate()
        }
    }

    private struct State {
        var batches: [Batch] = []
        var failure: (any Error)?
        /// Whether nothing comes any more.
        var isDone = false
        /// Whether nobody wants more.
        var isEnding = false
    }

    private static let batchEvents = 1024
    private static let batchesMax = 8

    private let state = Monitor(State())

    /// - Parameter source: hands out runs and places in them; ends when the closure says false.
    init(_ source: @escaping @Sendable ((_ run: DecodedRun, _ place: Int) throws -> Bool) throws -> Void) {
        WorkerThread.start { [state] in
            var batch = Batch()
            func hand() -> Bool {
                state.withLock(waitingWhile: { $0.batches.count >= Self.batchesMax && !$0.isEnding }) { state in
                    state.batches.append(batch)
                    batch = Batch()
                    return !state.isEnding
                }
            }
            var failure: (any Error)?
            do {
                try source { run, place in
                    batch.append(try run.recorded(at: place))
                    guard batch.isFull else { return true }
                    defer { state.wakeAll() }
                    return hand()
                }
            } catch {
                failure = error
            }
            _ = hand()
            state.withLock {
                $0.failure = failure
                $0.isDone = true
                state.wakeAll()
            }
        }
    }

    /// Lends the events until the closure says false. Throws what the source or the closure throws, after the events before it.
    func forEach(_ body: (borrowing RecordedEvent) throws -> Bool) throws {
        while true {
            let batch = try state.withLock(waitingWhile: { $0.batches.isEmpty && !$0.isDone }) { state -> Batch? in
                guard state.batches.isEmpty else { return state.batches.removeFirst() }
                if let failure = state.failure { throw failure }
                return nil
            }
            guard let batch else { return }
            state.wakeAll()
            while let event = batch.next() { if try !body(event) { return } }
        }
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
