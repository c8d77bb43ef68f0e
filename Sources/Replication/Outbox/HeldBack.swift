internal import EventLog

/// What is not sent before the hub has answered: events about a message of which it is not known yet whether it becomes the one of that id, what follows an
/// event that was sent under another id of this replica, and all that comes behind either in their conversation.
///
/// If the message is refused they wait for it; had they been sent, they would change whatever message has the id at the hub. And what was sent under another id
/// may have to be sent anew, behind what is sent under this one.
struct HeldBack {
    private let identity: ReplicaIdentity
    /// Of these all that follows waits: it was said behind what waits, and may be meant for other ears.
    private var conversations: Set<ConversationID> = []
    /// The messages of conversations that the hub has not answered, with the first entry of each: made when first asked for.
    private var unanswered: [ConversationID: Unanswered] = [:]

    private struct Unanswered {
        var messages: [MessageID: UInt64] = [:]
        /// The first that was sent under another id.
        var otherID: UInt64?
    }

    init(_ identity: ReplicaIdentity) { self.identity = identity }

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
        let conversation = entry.event.conversation
        if unanswered[conversation] == nil { unanswered[conversation] = unanswered(table[conversation]) }
        if let first = unanswered[conversation]!.otherID, first < entry.id { return true }
        switch entry.event.content {
        // A stream goes in the same flight as its beginning.
        case .chunkAppended, .messageCompleted, .messageInterrupted: return false
        default: break
        }
        return entry.neededMessages.contains { unanswered[conversation]!.messages[$0].map { $0 < entry.id } ?? false }
    }

    private func unanswered(_ entries: [OutboxEntry]) -> Unanswered {
        var result = Unanswered()
        for entry in entries where !entry.isFailed && entry.accepted == nil {
            if case .messageSent(let message) = entry.event.content, result.messages[message.id] == nil { result.messages[message.id] = entry.id }
            if entry.state == .sent, entry.origin.replica != identity.replica { result.otherID = min(result.otherID ?? .max, entry.id) }
        }
        return result
    }
}
