internal import EventLog

/// What of the outbox is not sent before the hub has answered something else. One order carries it: that in which the entries were made.
///
/// - What was sent under the present id waits for nothing: it goes again as it went.
/// - What was sent under an id before waits for what it rests on, where a hub lost that and it is offered anew. The hub knows nothing of either then, and might
///   know something else under the same ids.
/// - What was not sent waits for the answer about a message that it speaks of: if that is refused it waits for it; had it been sent, it would change whatever
///   message has the id at the hub. It waits for all before it that was sent under an id before, which may have to be sent anew, and for what was made behind it
///   and has a counter of its lane (it failed and is tried again): counters ascend.
/// - What is behind one that waits, in its conversation or its log, waits with it: it was said behind that, and may be meant for other ears.
///
/// So each waits for what was made before it, or for what waits for nothing; and nothing waits in a circle.
struct HeldBack {
    enum Standing {
        case free, waits
        /// What it rests on was lost by a hub, and refused when it was offered anew.
        case orphaned
    }

    private struct Known {
        /// The messages that the hub has not answered, with the first entry of each.
        var unanswered: [MessageID: UInt64] = [:]
        /// The first that was sent under an id before.
        var otherID: UInt64?
        /// What is of the present id and has no answer, in the order made: what is made twice bears what was written behind it.
        var creations: [OutboxEntry] = []
        var messages: [MessageID: [OutboxEntry]] = [:]

        init(_ entries: [OutboxEntry], _ replica: ReplicaID) {
            for entry in entries where entry.accepted == nil {
                let message: MessageID? = if case .messageSent(let message) = entry.event.content { message.id } else { nil }
                if !entry.isFailed, let message, unanswered[message] == nil { unanswered[message] = entry.id }
                if entry.origin.replica == replica {
                    if case .conversationCreated = entry.event.content { creations.append(entry) }
                    if let message { messages[message, default: []].append(entry) }
                } else if entry.state == .sent, otherID == nil {
                    otherID = entry.id
                }
            }
        }

        /// On what of the present id an entry rests that was sent under an id before.
        func bases(of entry: OutboxEntry) -> [OutboxEntry] {
            ([creations] + entry.neededMessages.map { messages[$0] ?? [] }).compactMap { made in made.last { $0.id < entry.id } }
        }

        /// Whether the hub has still to say what becomes of that on which an entry rests, or of what was sent under an id before. Only of what came before: a
        /// message may name itself, or two each other, and the hub is to say what it thinks of that.
        func isUnanswered(under entry: OutboxEntry) -> Bool {
            if let otherID, otherID < entry.id { return true }
            switch entry.event.content {
            // A stream goes in the same flight as its beginning.
            case .chunkAppended, .messageCompleted, .messageInterrupted: return false
            default: return entry.neededMessages.contains { unanswered[$0].map { $0 < entry.id } ?? false }
            }
        }
    }

    private let replica: ReplicaID
    /// Made of a conversation when it is first asked for.
    private var known: [ConversationID: Known] = [:]
    /// The first that waits, of each conversation and each log.
    private var ofConversation: [ConversationID: UInt64] = [:]
    private var ofLog: [LogID: UInt64] = [:]

    init(_ identity: ReplicaIdentity) { replica = identity.replica }

    /// What is to become of an entry that has no answer, and was not sent in this session. To be asked of the entries in their order.
    mutating func standing(of entry: OutboxEntry, _ table: OutboxEntries) -> Standing {
        let isSent = entry.state == .sent
        if isSent, entry.origin.replica == replica { return .free }
        let known = known(entry.event.conversation, table)
        if isSent, case .conversation = entry.event.log {
            let bases = known.bases(of: entry)
            if bases.contains(where: { $0.isFailed || $0.isWaiting }) { return .orphaned }
            if !bases.isEmpty { return waits(entry) }
        }
        if ofConversation[entry.event.conversation] ?? .max < entry.id || ofLog[entry.event.log] ?? .max < entry.id { return waits(entry) }
        if isSent { return .free }
        let isBehindCounters = table.lastUnanswered(in: entry.event.log, of: replica) ?? 0 > entry.id
        return isBehindCounters || known.isUnanswered(under: entry) ? waits(entry) : .free
    }

    /// An entry waits, and what is behind it.
    mutating func note(_ entry: OutboxEntry) {
        ofConversation[entry.event.conversation] = min(ofConversation[entry.event.conversation] ?? .max, entry.id)
        ofLog[entry.event.log] = min(ofLog[entry.event.log] ?? .max, entry.id)
    }

    private mutating func waits(_ entry: OutboxEntry) -> Standing {
        note(entry)
        return .waits
    }

    private mutating func known(_ conversation: ConversationID, _ table: OutboxEntries) -> Known {
        if let known = known[conversation] { return known }
        let new = Known(table[conversation], replica)
        known[conversation] = new
        return new
    }
}
