internal import EventLog

/// What is not sent before the hub has answered: events about a message of which it is not known yet whether it becomes the one of that id. If it is refused
/// they wait for it; had they been sent, they would change whatever message has the id at the hub.
struct HeldBack {
    private struct Held {
        var messages: Set<MessageID> = []
        /// All that follows waits too: nothing may be said before or after somebody's leaving that was said after or before it.
        var isAll = false
    }

    private var held: [ConversationID: Held] = [:]
    /// The messages of conversations that the hub has not answered, with the first entry of each: made when first asked for.
    private var unanswered: [ConversationID: [MessageID: UInt64]] = [:]

    /// Whether an entry waits for the answer to an earlier one. To be asked of the entries in their order.
    mutating func takes(_ entry: OutboxEntry, _ table: OutboxEntries) -> Bool {
        let conversation = entry.event.conversation
        guard waits(entry, held[conversation], table) else { return false }
        var held = held[conversation] ?? Held()
        switch entry.event.content {
        case .messageSent(let message): held.messages.insert(message.id)
        case .participantJoined, .participantLeft: held.isAll = true
        default: break
        }
        self.held[conversation] = held
        return true
    }

    private mutating func waits(_ entry: OutboxEntry, _ held: Held?, _ table: OutboxEntries) -> Bool {
        if held?.isAll ?? false { return true }
        switch entry.event.content {
        // A stream goes in the same flight as its beginning.
        case .chunkAppended(let id, _, _), .messageCompleted(let id, _, _), .messageInterrupted(let id, _): return held?.messages.contains(id) ?? false
        // Messages stay in their order.
        case .messageSent where !(held?.messages.isEmpty ?? true): return true
        case .participantJoined, .participantLeft: return held != nil
        default: return isUnanswered(entry.neededMessages, before: entry, table)
        }
    }

    /// Only what came before: a message may name itself, or two each other, and the hub is to say what it thinks of that.
    private mutating func isUnanswered(_ messages: [MessageID], before entry: OutboxEntry, _ table: OutboxEntries) -> Bool {
        if messages.isEmpty { return false }
        let conversation = entry.event.conversation
        if unanswered[conversation] == nil { unanswered[conversation] = Self.unanswered(table[conversation]) }
        return messages.contains { unanswered[conversation]![$0].map { $0 < entry.id } ?? false }
    }

    private static func unanswered(_ entries: [OutboxEntry]) -> [MessageID: UInt64] {
        var result: [MessageID: UInt64] = [:]
        for entry in entries where !entry.isFailed && entry.accepted == nil {
            if case .messageSent(let message) = entry.event.content, result[message.id] == nil { result[message.id] = entry.id }
        }
        return result
    }
}
