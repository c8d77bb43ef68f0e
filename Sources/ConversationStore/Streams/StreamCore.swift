internal import EventLog

/// What a streamed message does with its deltas: they wait in order while a commit is under way, and go into the next one together.
final class StreamCore: Sendable {
    enum End: Sendable {
        case completed(String?, Event.Usage?)
        case interrupted(String)
    }

    private struct State {
        var pending: [String] = []
        var pendingBytes = 0
        var next: UInt32
        var isPumping = false
        var end: End?
        var hasEnded = false
        var receipt: Receipt?
        var failure: (any Error)?
        /// Those who wait for room, and those who wait until nothing is pending.
        var waitingForRoom: [CheckedContinuation<Void, Never>] = []
        var waitingForRest: [CheckedContinuation<Void, Never>] = []

        var isFull: Bool { pendingBytes > StreamCore.pendingBytesMax || pending.count > StreamCore.pendingMax }
    }

    /// What may wait before the producer does.
    private static let pendingBytesMax = 256 << 10, pendingMax = 2048
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
        state = Monitor(State(next: next))
        store.liveStreams.add(conversation, id)
    }

    func append(_ text: String) async throws {
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
                if !state.isFull || !state.isPumping { return true }
                state.waitingForRoom.append(continuation)
                return false
            }
            if mayGo { continuation.resume() }
        }
    }

    func drain() async throws {
        await rest()
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
        requestEnd(end)
        await rest()
        return try state.withLock { state in
            if let failure = state.failure { throw failure }
            return state.receipt
        }
    }

    /// Ends the message whatever happened to it; its failure was, or will be, told elsewhere.
    func finish(_ end: End) async {
        requestEnd(end)
        await rest()
    }

    /// The handle is gone: ends the message unless that was done.
    func abandon(reason: String) { requestEnd(.interrupted(reason)) }

    private func requestEnd(_ end: End) {
        let starts = state.withLock { state -> Bool in
            guard state.end == nil else { return false }
            state.end = end
            defer { state.isPumping = true }
            return !state.isPumping
        }
        if starts { startPump() }
    }

    private func startPump() { Task.detached { await self.pump() } }

    private enum Work {
        case chunks([String], from: UInt32)
        case end(End)
        case none
    }

    private func pump() async {
        while true {
            var room: [CheckedContinuation<Void, Never>] = []
            var rest: [CheckedContinuation<Void, Never>] = []
            let work = state.withLock { state -> Work in
                if state.failure == nil, !state.pending.isEmpty {
                    let batch = Array(state.pending.prefix(Self.batchMax))
                    state.pending.removeFirst(batch.count)
                    state.pendingBytes -= batch.reduce(0) { $0 + $1.utf8.count }
                    defer { state.next += UInt32(batch.count) }
                    if !state.isFull { swap(&room, &state.waitingForRoom) }
                    return .chunks(batch, from: state.next)
                }
                if let end = state.end, !state.hasEnded {
                    state.hasEnded = true
                    return .end(end)
                }
                state.pending = []
                state.pendingBytes = 0
                state.isPumping = false
                swap(&room, &state.waitingForRoom)
                swap(&rest, &state.waitingForRest)
                return .none
            }
            for continuation in room + rest { continuation.resume() }
            switch work {
            case .none: return
            case .chunks(let batch, let first):
                await submit(
                    batch.enumerated().map { .chunkAppended(message: id, index: first + UInt32($0.offset), text: $0.element) })
            case .end(let end):
                // Even after a failure: what is open must be closed. If it is closed already, that was the failure.
                switch end {
                case .completed(let reason, let usage):
                    let hasFailed = state.withLock { $0.failure != nil }
                    await submit([
                        hasFailed ? .messageInterrupted(message: id, reason: "error") : .messageCompleted(message: id, finishReason: reason, usage: usage)
                    ])
                case .interrupted(let reason): await submit([.messageInterrupted(message: id, reason: reason)])
                }
                store.liveStreams.remove(conversation, id)
            }
        }
    }

    private func submit(_ contents: [Event.Content]) async {
        do {
            let outcomes = try await store.log.append(contents.map { Submission(Event(conversation: conversation, author: author, content: $0)) })
            let receipts = try outcomes.map { try ConversationStore.receipt($0) }
            state.withLock { $0.receipt = receipts.last }
        } catch {
            state.withLock { $0.failure = $0.failure ?? error }
        }
    }
}

/// The streams that this process is producing.
final class LiveStreams: Sendable {
    private struct Key: Hashable {
        var conversation: ConversationID
        var message: MessageID
    }
    private let keys = Monitor<Set<Key>>([])

    func add(_ conversation: ConversationID, _ message: MessageID) {
        _ = keys.withLock { $0.insert(Key(conversation: conversation, message: message)) }
    }

    func remove(_ conversation: ConversationID, _ message: MessageID) {
        _ = keys.withLock { $0.remove(Key(conversation: conversation, message: message)) }
    }

    func contains(_ conversation: ConversationID, _ message: MessageID) -> Bool {
        keys.withLock { $0.contains(Key(conversation: conversation, message: message)) }
    }
}
