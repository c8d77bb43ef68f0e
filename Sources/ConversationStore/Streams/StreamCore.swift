internal import EventLog

/// What a streamed message does with its deltas: they wait in order while a commit is under way, and go into the next one together.
final class StreamCore: Sendable {
    enum End: Sendable {
        case completed(String?, Event.Usage?)
        case interrupted(String)

        func isSameKind(as other: End) -> Bool {
            switch (self, other) {
            case (.completed, .completed), (.interrupted, .interrupted): true
            default: false
            }
        }
    }

    private struct State {
        /// On their way into a commit: the chunks before `next`.
        var submitted: [String] = []
        var pending: [String] = []
        var pendingBytes = 0
        /// The index of the first pending chunk.
        var next: UInt32
        /// Chunks that are committed.
        var committed: UInt32
        var isPumping = false
        var end: End?
        var hasEnded = false
        /// The end was answered.
        var isEndSettled = false
        var isClosing = false
        var receipt: Receipt?
        var failure: (any Error)?
        /// Those who wait for room, those who wait until so many chunks are committed, and those who wait until nothing is pending.
        var waitingForRoom: [CheckedContinuation<Void, Never>] = []
        var waitingForCommit: [(chunks: UInt32, continuation: CheckedContinuation<Void, Never>)] = []
        var waitingForRest: [CheckedContinuation<Void, Never>] = []

        var isFull: Bool { pendingBytes > StreamCore.pendingBytesMax || pending.count > StreamCore.pendingMax }

        /// Takes out whoever need not wait any longer.
        mutating func takeReady() -> [CheckedContinuation<Void, Never>] {
            let isOver = !isPumping || failure != nil
            var ready: [CheckedContinuation<Void, Never>] = []
            if isOver || !isFull { swap(&ready, &waitingForRoom) }
            for waiter in waitingForCommit where isOver || waiter.chunks <= committed { ready.append(waiter.continuation) }
            waitingForCommit.removeAll { isOver || $0.chunks <= committed }
            if !isPumping {
                ready += waitingForRest
                waitingForRest = []
            }
            return ready
        }
    }

    /// What may wait before the producer does.
    static let pendingBytesMax = 256 << 10, pendingMax = 2048
    /// Chunks in one batch.
    private static let batchMax = 512

    let conversation: ConversationID
    let id: MessageID
    let author: UserID
    private let store: ConversationStore
    private let state: Monitor<State>

    init(_ store: ConversationStore, _ conversation: ConversationID, _ id: MessageID, _ author: UserID, next: UInt32) {
        self.store = store
        self.conversation = conversation
        self.id = id
        self.author = author
        state = Monitor(State(next: next, committed: next))
    }

    /// What waits in memory, for tests.
    var waitingBytes: Int { state.withLock { state in state.pendingBytes + state.submitted.reduce(0) { $0 + $1.utf8.count } } }

    func append(_ text: String) async throws {
        // Told at once, to the one who did it; the stream goes on.
        guard text.utf8.count <= EventLimits.textBytesMax else { throw Refusal(.tooLarge, "text") }
        let starts = try state.withLock { state -> Bool in
            if let failure = state.failure { throw failure }
            if state.end != nil { throw Refusal(.messageClosed) }
            if text.isEmpty { return false }
            state.pending.append(text)
            state.pendingBytes += text.utf8.count
            defer { state.isPumping = true }
            return !state.isPumping
        }
        if starts { startPump() }
        await withCheckedContinuation { continuation in
            let mayGo = state.withLock { state in
                if !state.isFull || !state.isPumping || state.failure != nil { return true }
                state.waitingForRoom.append(continuation)
                return false
            }
            if mayGo { continuation.resume() }
        }
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    /// Waits until what was appended before is committed; what others append meanwhile does not hold it up.
    func drain() async throws {
        await withCheckedContinuation { continuation in
            let mayGo = state.withLock { state in
                let chunks = state.next + UInt32(state.pending.count)
                if !state.isPumping || state.failure != nil || state.committed >= chunks { return true }
                state.waitingForCommit.append((chunks, continuation))
                return false
            }
            if mayGo { continuation.resume() }
        }
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    private func rest() async {
        await withCheckedContinuation { continuation in
            let mayGo = state.withLock { state in
                if !state.isPumping { return true }
                state.waitingForRest.append(continuation)
                return false
            }
            if mayGo { continuation.resume() }
        }
    }

    func end(_ end: End) async throws -> Receipt? {
        let isSoEnded = requestEnd(end)
        await rest()
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            // It has ended, but not like this.
            if !isSoEnded { throw Refusal(.messageClosed) }
            return state.receipt
        }
    }

    /// Ends the message whatever happened to it; its failure was, or will be, told elsewhere. Says whether it ended like this, not otherwise before.
    @discardableResult
    func finish(_ end: End) async -> Bool {
        let isSoEnded = requestEnd(end)
        await rest()
        return isSoEnded
    }

    /// The handle is gone: ends the message unless that was done.
    func abandon(reason: String) { requestEnd(.interrupted(reason)) }

    /// Says whether the message ends like this: the first who asks decides.
    @discardableResult
    private func requestEnd(_ end: End) -> Bool {
        let (starts, isSoEnded) = state.withLock { state -> (Bool, Bool) in
            if let known = state.end { return (false, known.isSameKind(as: end)) }
            state.end = end
            defer { state.isPumping = true }
            return (!state.isPumping, true)
        }
        if starts { startPump() }
        return isSoEnded
    }

    /// The store is about to close: what is not known to be committed, for the closing thread to append. What is on its way already is then a repeat,
    /// which changes nothing.
    func takeRest() -> [Submission] {
        let (rest, ready) = state.withLock { state -> ([Submission], [CheckedContinuation<Void, Never>]) in
            if state.isClosing || state.isEndSettled { return ([], []) }
            state.isClosing = true
            var rest: [Submission] = []
            if state.failure == nil {
                rest = submissions(chunks: state.submitted + state.pending, from: state.next - UInt32(state.submitted.count))
                if let end = state.end { rest.append(submission(of: end, hasFailed: false)) }
                state.failure = EventLogError(.closed, "\(store.log.path): the store is closed")
            }
            state.pending = []
            state.pendingBytes = 0
            return (rest, state.takeReady())
        }
        for continuation in ready { continuation.resume() }
        return rest
    }

    private func startPump() { Task.detached { await self.pump() } }

    private enum Work {
        case chunks([String], from: UInt32)
        case end(End)
        case none
    }

    private func pump() async {
        while true {
            let (work, ready) = state.withLock { state -> (Work, [CheckedContinuation<Void, Never>]) in
                if state.failure == nil, !state.isClosing, !state.pending.isEmpty {
                    let batch = Array(state.pending.prefix(Self.batchMax))
                    state.pending.removeFirst(batch.count)
                    state.pendingBytes -= batch.reduce(0) { $0 + $1.utf8.count }
                    state.submitted = batch
                    defer { state.next += UInt32(batch.count) }
                    return (.chunks(batch, from: state.next), state.takeReady())
                }
                if let end = state.end, !state.hasEnded, !state.isClosing {
                    state.hasEnded = true
                    return (.end(end), state.takeReady())
                }
                state.pending = []
                state.pendingBytes = 0
                state.isPumping = false
                return (.none, state.takeReady())
            }
            for continuation in ready { continuation.resume() }
            switch work {
            case .none: return
            case .chunks(let batch, let first): await submit(submissions(chunks: batch, from: first), isEnd: false)
            case .end(let end):
                // Even after a failure: what is open must be closed. If it is closed already, that was the failure.
                await submit([submission(of: end, hasFailed: state.withLock { $0.failure != nil })], isEnd: true)
                store.liveStreams.remove(self)
            }
        }
    }

    private func submissions(chunks: [String], from first: UInt32) -> [Submission] {
        chunks.enumerated().map { offset, text in
            Submission(
                Event(conversation: conversation, author: author, content: .chunkAppended(message: id, index: first + UInt32(offset), text: text)))
        }
    }

    private func submission(of end: End, hasFailed: Bool) -> Submission {
        let content: Event.Content
        switch end {
        case .completed(let reason, let usage) where !hasFailed: content = .messageCompleted(message: id, finishReason: reason, usage: usage)
        case .completed: content = .messageInterrupted(message: id, reason: "error")
        case .interrupted(let reason): content = .messageInterrupted(message: id, reason: reason)
        }
        var submission = Submission(Event(conversation: conversation, author: author, content: content))
        // An author who was removed meanwhile leaves no message open.
        if case .messageInterrupted = content { submission.isOwnHousekeeping = true }
        return submission
    }

    private func submit(_ submissions: [Submission], isEnd: Bool) async {
        var failure: (any Error)?
        var receipt: Receipt?
        do {
            for outcome in try await store.log.append(submissions) {
                receipt = try ConversationStore.receipt(outcome)
                // A chunk of this index that we did not append: somebody else goes on with this message, and our text is not in it.
                if !isEnd, case .duplicate = outcome { throw Refusal(.messageConflict, "another producer appends to this message") }
            }
        } catch {
            failure = error
        }
        let ready = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            if failure == nil {
                state.receipt = receipt
                state.committed = state.next
                state.submitted = []
            }
            state.failure = state.failure ?? failure
            if isEnd { state.isEndSettled = true }
            return state.takeReady()
        }
        for continuation in ready { continuation.resume() }
    }
}
