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

    private let entries = Monitor<[Key: Entry]>([:])

    /// Says false if another produces this message, or it is being ended.
    func add(_ core: StreamCore) -> Bool { add(.produced(core), Key(conversation: core.conversation, message: core.id)) }

    func remove(_ core: StreamCore) {
        let key = Key(conversation: core.conversation, message: core.id)
        entries.withLock { entries in
            if case .produced(let known)? = entries[key], known === core { entries[key] = nil }
        }
    }

    /// Keeps producers away from a message that is about to be ended, until it is released; says false if there is one.
    func claim(_ conversation: ConversationID, _ message: MessageID) -> Bool { add(.ending, Key(conversation: conversation, message: message)) }

    func release(_ conversation: ConversationID, _ message: MessageID) {
        entries.withLock { $0[Key(conversation: conversation, message: message)] = nil }
    }

    private func add(_ entry: Entry, _ key: Key) -> Bool {
        entries.withLock { entries in
            if entries[key] != nil { return false }
            entries[key] = entry
            return true
        }
    }

    /// All that are produced, which it forgets.
    func takeAll() -> [StreamCore] {
        entries.withLock { entries in
            defer { entries = [:] }
            return entries.values.compactMap { entry in
                if case .produced(let core) = entry { core } else { nil }
            }
        }
    }
}
