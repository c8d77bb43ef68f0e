internal import EventLog

/// What of the outbox is not sent before the hub has answered something else. One order carries it, that in which the entries were made: each waits for what
/// was made before it alone, and so nothing waits in a circle.
///
/// - What was sent waits for what it rests on, where a hub lost that and it is offered anew, or it was sent under another id. The hub may know nothing of either,
///   and something else under the same ids. Where that was refused it fails.
/// - What was not sent waits for the answer about a message that it speaks of: if that is refused it waits for it; had it been sent, it would change whatever
///   message has the id at the hub. And it waits for all before it that was sent under an id before, which may have to be sent anew.
/// - What is behind one that waits, in its conversation, waits with it: it was said behind that, and may be meant for other ears. So does what is behind one
///   that was sent, in its log: counters ascend.
struct HeldBack {
    enum Standing {
        case free, waits
        /// What it rests on was refused. The hub would refuse it too, but one that was set back since has forgotten that. What a hub lost was offered anew then.
        case fails(OutboxEntry)
    }

    /// Of a conversation what the hub has not answered.
    private struct Unanswered {
        /// Each with its first entry.
        var messages: [MessageID: UInt64] = [:]
        /// The first that was sent under an id before.
        var otherID: UInt64?
    }

    /// Of a conversation what others may rest on, in the order made: what is made twice bears what was written behind it.
    private struct Made {
        var creations: [OutboxEntry] = []
        var messages: [MessageID: [OutboxEntry]] = [:]
        var chunks: [MessageID: [OutboxEntry]] = [:]
    }

    private let replica: ReplicaID
    // Made of a conversation when first asked for.
    private var unanswered: [ConversationID: Unanswered] = [:]
    private var made: [ConversationID: Made] = [:]
    /// The first that waits.
    private var ofConversation: [ConversationID: UInt64] = [:]
    /// What was found to fail.
    private var failed: Set<UInt64> = []
    /// The first of those that were sent.
    private var ofLog: [LogID: UInt64] = [:]

    init(_ identity: ReplicaIdentity) { replica = identity.replica }

    /// What is to become of an entry that has no answer, and was not sent in this session. To be asked of the entries in their order.
    mutating func standing(of entry: OutboxEntry, _ table: OutboxEntries) -> Standing {
        var waits = ofConversation[entry.event.conversation] ?? .max < entry.id || ofLog[entry.event.log] ?? .max < entry.id
        if entry.state == .sent {
            if entry.restsOn > 0, let base = table.entry(entry.event.log, entry.origin.replica, entry.restsOn), base.isRefused || failed.contains(base.id) {
                return fails(entry.refusedWithBase)
            }
            let bases = bases(of: entry, table)
            if bases.contains(where: { $0.isFailed || $0.isWaiting || failed.contains($0.id) }) { return fails(entry.orphaned) }
            waits = waits || !bases.isEmpty
        } else {
            waits = waits || isUnanswered(under: entry, table)
        }
        if waits { hold(entry) }
        return waits ? .waits : .free
    }

    private mutating func fails(_ entry: OutboxEntry) -> Standing {
        failed.insert(entry.id)
        hold(entry)
        return .fails(entry)
    }

    /// An entry waits, and what is behind it.
    mutating func hold(_ entry: OutboxEntry) {
        ofConversation[entry.event.conversation] = min(ofConversation[entry.event.conversation] ?? .max, entry.id)
        if entry.state == .sent { ofLog[entry.event.log] = min(ofLog[entry.event.log] ?? .max, entry.id) }
    }

    /// On what without an answer, or refused, an entry rests that was sent, but for what its `rests_on` tells of: a hub refuses the one with the other.
    private mutating func bases(of entry: OutboxEntry, _ table: OutboxEntries) -> [OutboxEntry] {
        guard let made = made(in: entry, table) else { return [] }
        // In the same lane it would be named.
        let isApart = { (base: OutboxEntry) in base.state == .pending || base.origin.replica != entry.origin.replica }
        let lists = [made.creations] + entry.neededMessages.map { made.messages[$0] ?? [] }
        let bases = lists.compactMap { $0.before(entry.id).last }.filter { $0.isRefused || !$0.isFailed && isApart($0) }
        // Of the same lane one may have been refused and written again.
        guard let chunk = entry.chunk(before: made.chunks), isApart(chunk), chunk.isRefused || !chunk.isFailed else { return bases }
        return bases + [chunk]
    }

    private mutating func made(in entry: OutboxEntry, _ table: OutboxEntries) -> Made? {
        guard case .conversation(let id) = entry.event.log else { return nil }
        if let known = made[id] { return known }
        var new = Made()
        for other in table[id] where other.accepted == nil {
            switch other.event.content {
            case .conversationCreated: new.creations.append(other)
            case .messageSent(let message): new.messages[message.id, default: []].append(other)
            case .chunkAppended(let stream, _, _): new.chunks[stream, default: []].append(other)
            default: break
            }
        }
        made[id] = new
        return new
    }

    /// Whether the hub has still to say what becomes of that on which an entry rests, or of what was sent under an id before. Only of what came before: a
    /// message may name itself, or two each other, and the hub is to say what it thinks of that.
    private mutating func isUnanswered(under entry: OutboxEntry, _ table: OutboxEntries) -> Bool {
        let conversation = entry.event.conversation
        if unanswered[conversation] == nil {
            var new = Unanswered()
            for other in table[conversation] where !other.isFailed && other.accepted == nil {
                if case .messageSent(let message) = other.event.content, new.messages[message.id] == nil { new.messages[message.id] = other.id }
                if other.state == .sent, other.origin.replica != replica, new.otherID == nil { new.otherID = other.id }
            }
            unanswered[conversation] = new
        }
        let known = unanswered[conversation]!
        if let otherID = known.otherID, otherID < entry.id { return true }
        switch entry.event.content {
        // A stream goes in the same flight as its beginning.
        case .chunkAppended, .messageCompleted, .messageInterrupted: return false
        default: return entry.neededMessages.contains { known.messages[$0].map { $0 < entry.id } ?? false }
        }
    }
}

extension Outbox {
    /// Whether an answer is still to come in a session in which the hub decides nothing more of some logs.
    ///
    /// What waits need not be asked about: it waits for something that is awaited itself, or for what has no answer in this session.
    func awaitsAnswers(but undecided: Set<LogID>) -> Bool {
        let unsent = Set(again)
        var stuck: Set<ConversationID> = []
        var isUnderWay = false
        table.forEach { entry in
            guard entry.isUnanswered, !unsent.contains(entry.id) else { return }
            if undecided.contains(entry.event.log) { stuck.insert(entry.event.conversation) } else { isUnderWay = true }
        }
        if isUnderWay { return true }
        var held = HeldBack(identity)
        return entries.contains { entry in
            guard entry.isUnanswered ? unsent.contains(entry.id) : entry.state == .pending && !entry.isWaiting else { return false }
            if case .waits = held.standing(of: entry, table) { return false }
            // What was overtaken stays until nothing of its conversation is under way.
            if entry.state == .pending, table.lastSent(in: entry.event.log, of: identity.replica) ?? 0 > entry.id, stuck.contains(entry.event.conversation) {
                held.hold(entry)
                return false
            }
            return !undecided.contains(entry.event.log)
        }
    }
}
