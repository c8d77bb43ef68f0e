internal import EventLog

/// Wakes observers after commits. It tells them that something changed, never what: they read that themselves, so a slow one costs nothing.
final class ChangeHub: Sendable {
    enum Topic: Hashable {
        case conversation(ConversationID)
        case lobby(UserID)
        case everything
    }

    /// A hub that follows this store.
    var tap: (@Sendable ([RecordedEvent]) -> Void)? {
        get { tapped.withLock { $0.body } }
        set { tapped.withLock { $0.body = newValue } }
    }

    /// A closure in a generic box of its own would be wrapped in another one by each look at it: each commit would cost more than the one before.
    private struct Tap {
        var body: (@Sendable ([RecordedEvent]) -> Void)?
    }

    private let tapped = Monitor(Tap())

    private struct State {
        var observers: [Topic: [ObjectIdentifier: Waker]] = [:]
        var lobbies = 0
        var isFinished = false
    }

    private let state = Monitor(State())
    /// Who takes part in a conversation, `nil` if that cannot be read; set once, before the first commit.
    nonisolated(unsafe) var participants: @Sendable (ConversationID) -> [UserID]? = { _ in [] }

    func add(_ waker: Waker, _ topic: Topic) {
        let isFinished = state.withLock { state in
            if case .lobby = topic { state.lobbies += 1 }
            state.observers[topic, default: [:]][ObjectIdentifier(waker)] = waker
            return state.isFinished
        }
        if isFinished { waker.finish() }
    }

    func remove(_ waker: Waker, _ topic: Topic) {
        state.withLock { state in
            guard state.observers[topic]?.removeValue(forKey: ObjectIdentifier(waker)) != nil else { return }
            if case .lobby = topic { state.lobbies -= 1 }
            if state.observers[topic]!.isEmpty { state.observers[topic] = nil }
        }
    }

    /// Events have become visible; if none are named, then some that were told of before. Called by the thread that committed them.
    ///
    /// - Parameter events: makes them, which may cost more than all else here: asked only if somebody looks at them.
    func committed(_ events: () -> [RecordedEvent]) {
        var made: [RecordedEvent]?
        if let tap {
            made = events()
            tap(made!)
        }
        let (isIdle, hasLobbies) = state.withLock { ($0.observers.isEmpty, $0.lobbies > 0) }
        if isIdle { return }
        let events = made ?? events()
        if events.isEmpty { return wakeAll() }
        var topics: Set<Topic> = [.everything]
        for event in events {
            if case .conversation(let id) = event.log { topics.insert(.conversation(id)) }
            guard hasLobbies else { continue }
            switch event.event.content {
            case .preferenceSet: topics.insert(.lobby(event.event.author))
            case .participantLeft(let user): topics.insert(.lobby(user))
            default: break
            }
        }
        if hasLobbies {
            for case .conversation(let id) in topics {
                guard let users = participants(id) else { return wakeAll() }
                for user in users { topics.insert(.lobby(user)) }
            }
        }
        let wakers = state.withLock { state in topics.flatMap { state.observers[$0].map { Array($0.values) } ?? [] } }
        for waker in wakers { waker.wake() }
    }

    /// What lies over a conversation has changed. Which lobbies show that takes longer to tell than for those to look that there are, on a replica.
    func overlaid(_ conversation: ConversationID) {
        let wakers = state.withLock { state in
            state.observers.flatMap { topic, wakers -> [Waker] in
                switch topic {
                case .conversation(conversation), .lobby: Array(wakers.values)
                default: []
                }
            }
        }
        for waker in wakers { waker.wake() }
    }

    /// Those who observe, for tests.
    var observers: Int { state.withLock { state in state.observers.values.reduce(0) { $0 + $1.count } } }

    private func wakeAll() {
        let wakers = state.withLock { state in state.observers.values.flatMap { $0.values } }
        for waker in wakers { waker.wake() }
    }

    func finish() {
        let wakers = state.withLock { state in
            state.isFinished = true
            return state.observers.values.flatMap { $0.values }
        }
        for waker in wakers { waker.finish() }
    }
}

/// One observer's bell: however often it is rung, the observer looks once.
final class Waker: Sendable {
    private struct State {
        var isRung = false
        var isFinished = false
        var waiting: CheckedContinuation<Void, Never>?
    }
    private let state = Monitor(State())

    func wake() {
        let waiting = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.isRung = true
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    func finish() {
        let waiting = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.isFinished = true
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// Waits until it is rung; says false when the store was closed or the task cancelled.
    func wait() async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if state.isRung || state.isFinished { return true }
                    state.waiting = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            finish()
        }
        return state.withLock { state in
            defer { state.isRung = false }
            return state.isRung || !state.isFinished
        }
    }

    var isFinished: Bool { state.withLock { $0.isFinished } }
}
