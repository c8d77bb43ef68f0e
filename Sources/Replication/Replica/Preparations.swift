internal import ConversationStore

/// Large segments on their way into a replica: decoded, checked and hashed by whoever has time, while those before them are folded.
final class Preparations: Sendable {
    /// One segment's. It is done once: by a task of its own, or by whoever needs it before that has begun.
    final class Preparation: Sendable {
        private enum State {
            case waiting(SegmentFrame)
            case running
            case done(Result<PreparedRun, any Error>)
        }
        private let state: Monitor<State>
        private let seeds: @Sendable (LogID) throws -> PuncturedSeeds?

        init(_ segment: SegmentFrame, seeds: @escaping @Sendable (LogID) throws -> PuncturedSeeds?) {
            state = Monitor(.waiting(segment))
            self.seeds = seeds
        }

        func run() {
            let segment = state.withLock { state -> SegmentFrame? in
                guard case .waiting(let segment) = state else { return nil }
                state = .running
                return segment
            }
            guard let segment else { return }
            let result = Result { try PreparedRun(segment.run, seeds: seeds) }
            state.withLock { $0 = .done(result) }
            state.wakeAll()
        }

        /// Waits only for one who is at it.
        func take() throws -> PreparedRun {
            run()
            return try state.withLock(waitingWhile: { if case .running = $0 { true } else { false } }) { state in
                guard case .done(let result) = state else { preconditionFailure("a preparation that nobody did") }
                return try result.get()
            }
        }
    }

    private struct State {
        var queue: [Preparation] = []
        /// Of this session's logs, as they came: the events of one may stand in several segments.
        var secrets: [LogID: PuncturedSeeds] = [:]
    }

    /// Prepared runs cost some ten MiB each.
    private static let aheadMax = 2

    private let state = Monitor(State())
    private let execution: Execution
    private let store: EventStore

    init(_ store: EventStore, _ execution: Execution) {
        self.store = store
        self.execution = execution
    }

    /// A message has come; in the order of their coming.
    func note(_ message: [UInt8]) {
        // Field 6 of `Frame`, and large: anything else is handled where it is read.
        guard message.count >= Replica.wholeBytesMin, message.first == 6 << 3 | 2, case .segment(let segment)? = try? Frame(decoding: message),
            segment.run.count >= Replica.wholeBytesMin
        else { return }
        let preparation = Preparation(segment) { [self] log in try state.withLock { $0.secrets[log] } ?? store.knownSeeds(of: log) }
        let isSoon = state.withLock { state in
            for note in segment.logs where !note.secret.isEmpty { state.secrets[note.log] = PuncturedSeeds(secret: note.secret) }
            state.queue.append(preparation)
            return state.queue.count <= Self.aheadMax
        }
        if isSoon { execution.run { preparation.run() } }
    }

    /// The oldest that was not taken: of the segment that is to be kept now.
    func next() -> Preparation? {
        let (first, ahead) = state.withLock { state -> (Preparation?, Preparation?) in
            let first = state.queue.isEmpty ? nil : state.queue.removeFirst()
            return (first, state.queue.count >= Self.aheadMax ? state.queue[Self.aheadMax - 1] : state.queue.last)
        }
        if let ahead { execution.run { ahead.run() } }
        return first
    }
}
