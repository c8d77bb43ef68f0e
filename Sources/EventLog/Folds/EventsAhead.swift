/// Archived events in commit order, made on a thread of its own while those before them are folded.
///
/// For one thread at a time. Events come in batches; a few of them are ready at once, so that memory does not grow with the log.
final class EventsAhead: Sendable {
    private struct State {
        var batches: [ContiguousArray<RecordedEvent>] = []
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
            var batch = ContiguousArray<RecordedEvent>()
            batch.reserveCapacity(Self.batchEvents)
            func hand() -> Bool {
                state.withLock(waitingWhile: { $0.batches.count >= Self.batchesMax && !$0.isEnding }) { state in
                    state.batches.append(batch)
                    batch = ContiguousArray()
                    batch.reserveCapacity(Self.batchEvents)
                    return !state.isEnding
                }
            }
            var failure: (any Error)?
            do {
                try source { run, place in
                    // Made here, where it stays: an event is some 300 bytes, and refers to more.
                    batch.append(try run.recorded(at: place))
                    guard batch.count == Self.batchEvents else { return true }
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

    /// Lends the events where they lie until the closure says false. Throws what the source or the closure throws, after the events before it.
    func forEach(_ body: (UnsafePointer<RecordedEvent>) throws -> Bool) throws {
        while true {
            let batch = try state.withLock(waitingWhile: { $0.batches.isEmpty && !$0.isDone }) { state -> ContiguousArray<RecordedEvent>? in
                guard state.batches.isEmpty else { return state.batches.removeFirst() }
                if let failure = state.failure { throw failure }
                return nil
            }
            guard let batch else { return }
            state.wakeAll()
            let goes = try batch.withUnsafeBufferPointer { events in
                for place in events.indices { if try !body(events.baseAddress! + place) { return false } }
                return true
            }
            if !goes { return }
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
