internal import EventLog

/// What is not sent before the hub has answered: events about a message of which it is not known yet whether it becomes the one of that id, and all that
/// follows in their conversation. If the message is refused they wait for it; had they been sent, they would change whatever message has the id at the hub.
struct HeldBack {
    /// Of these all that follows waits: it was said behind what waits, and may be meant for other ears.
    private var conversations: Set<ConversationID> = []
    /// The messages of conversations that the hub has not answered, with the first entry of each: made when first asked for.
    private var unanswered: [ConversationID: [MessageID: UInt64]] = [:]

    /// Whether an entry waits for the answer to an earlier one. To be asked of the entries in their order.
    mutating func takes(_ entry: OutboxEntry, _ table: OutboxEntries) -> Bool {
        let conversation = entry.event.conversation
        if conversations.contains(conversation) { return true }
        guard isUnanswered(entry, table) else { return false }
        conversations.insert(conversation)
        return true
    }

    /// Only of what came before: a message may name itself, or two each other, and the hub is to say what it thinks of that.
    private mutating func isUnanswered(_ entry: OutboxEntry, _ table: OutboxEntries) -> Bool {
        switch entry.event.content {
        // A stream goes in the same flight as its beginning.
        case .chunkAppended, .messageCompleted, .messageInterrupted: return false
        default: break
        }
        let (messages, conversation) = (entry.neededMessages, entry.event.conversation)
        if messages.isEmpty { return false }
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
