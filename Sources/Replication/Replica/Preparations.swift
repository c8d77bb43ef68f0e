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
        /// How many of the first of `queue` were begun.
        var begun = 0
        /// Kept by the store, and to be let go of.
        var kept: [LargeSegment] = []
        /// One at a time: whoever keeps them does as much.
        var isRunning = false
        /// Of this session's logs, as they came: the events of one may stand in several segments.
        var secrets: [LogID: PuncturedSeeds] = [:]

        var isDue: Bool { begun < min(queue.count, Preparations.aheadMax) || !kept.isEmpty }
    }

    /// So many while those before them are kept, which may be `ReplicaConnection.heldMax`. Each costs some megabytes.
    private static let aheadMax = 6

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
        // Not held by what it holds: a session that breaks off leaves some untaken.
        let preparation = Preparation(segment) { [weak self] log in try self?.seeds(of: log) }
        state.withLock { state in
            for note in segment.logs where !note.secret.isEmpty { state.secrets[note.log] = PuncturedSeeds(secret: note.secret) }
            state.queue.append(preparation)
        }
        prepare()
    }

    private func seeds(of log: LogID) throws -> PuncturedSeeds? { try state.withLock { $0.secrets[log] } ?? store.knownSeeds(of: log) }

    /// The oldest that was not taken: of the segment that is to be kept now.
    func next() -> Preparation? {
        defer { prepare() }
        return state.withLock { state in
            if state.queue.isEmpty { return nil }
            state.begun = max(state.begun - 1, 0)
            return state.queue.removeFirst()
        }
    }

    /// Whether another one has come.
    var isNextHere: Bool { state.withLock { !$0.queue.isEmpty } }

    /// The events of a run are many to let go of: not by whoever keeps the next.
    func letGo(of segments: consuming [LargeSegment]) {
        state.withLock { $0.kept += segments }
        prepare()
    }

    private func prepare() {
        let begins = state.withLock { state in
            defer { state.isRunning = state.isRunning || state.isDue }
            return !state.isRunning && state.isDue
        }
        if begins { execution.runLong { [self] in while prepareOne() {} } }
    }

    private func prepareOne() -> Bool {
        let (kept, next) = state.withLock { state -> ([LargeSegment], Preparation?) in
            state.isRunning = state.isDue
            defer { state.kept = [] }
            guard state.begun < min(state.queue.count, Self.aheadMax) else { return (state.kept, nil) }
            state.begun += 1
            return (state.kept, state.queue[state.begun - 1])
        }
        next?.run()
        return next != nil || !kept.isEmpty
    }
}

/// A segment that may go into the archive as it is, on its way there.
struct LargeSegment {
    var frame: SegmentFrame
    var preparation: Preparations.Preparation
    /// Of the message that brought it.
    var bytes = 0
    /// What the hub said behind it.
    var progress: Progress?
}
