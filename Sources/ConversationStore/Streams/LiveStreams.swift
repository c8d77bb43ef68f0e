internal import EventLog

/// The streams that this process is producing: one producer a message.
final class LiveStreams: Sendable {
    private struct Key: Hashable {
        var conversation: ConversationID
        var message: MessageID
    }

    private enum Entry {
        case produced(StreamCore)
        /// It is just being ended as abandoned.
        case ending
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        var isClosed = false
    }

    private let state = Monitor(State())

    /// Says false if another produces this message, or it is being ended. Throws if the store is being closed.
    func add(_ core: StreamCore) throws -> Bool { try add(.produced(core), Key(conversation: core.conversation, message: core.id)) }

    func remove(_ core: StreamCore) {
        let key = Key(conversation: core.conversation, message: core.id)
        state.withLock { state in
            if case .produced(let known)? = state.entries[key], known === core { state.entries[key] = nil }
        }
    }

    /// Keeps producers away from a message that is about to be ended, until it is released; says false if there is one.
    func claim(_ conversation: ConversationID, _ message: MessageID) throws -> Bool {
        try add(.ending, Key(conversation: conversation, message: message))
    }

    func release(_ conversation: ConversationID, _ message: MessageID) {
        state.withLock { $0.entries[Key(conversation: conversation, message: message)] = nil }
    }

    private func add(_ entry: Entry, _ key: Key) throws -> Bool {
        try state.withLock { state in
            if state.isClosed { throw EventLogError(.closed, "the store is closed") }
            if state.entries[key] != nil { return false }
            state.entries[key] = entry
            return true
        }
    }

    /// All that are produced; no more are taken.
    func close() -> [StreamCore] {
        state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.entries.values.compactMap { entry in
                if case .produced(let core) = entry { core } else { nil }
            }
        }
    }
}
