internal import EventLog

/// What a hub lost and this replica offers anew, under its present id: what was sent before, under an id that it had, and rests on that, is not sent again
/// before it is answered. The hub knows nothing of either, and might know something else under the same ids.
struct Offers {
    enum Standing {
        case answered, awaited, refused
    }

    private struct Known {
        /// In the order made: what is made twice bears what was written behind it.
        var creations: [OutboxEntry] = []
        var messages: [MessageID: [OutboxEntry]] = [:]
        /// Offers that were not sent yet, in the order made.
        var unsent: ArraySlice<UInt64> = []

        func bases(of entry: OutboxEntry) -> [OutboxEntry] {
            ([creations] + entry.neededMessages.map { messages[$0] ?? [] }).compactMap { made in made.last { $0.id < entry.id } }
        }
    }

    private let identity: ReplicaIdentity
    /// Made of a conversation when it is first asked for.
    private var known: [ConversationID: Known] = [:]

    init(_ identity: ReplicaIdentity) { self.identity = identity }

    /// Conversations of which something waits for an offer, with the first such entry: what was sent behind it stays behind it, and what was made behind it too.
    private var late: [ConversationID: UInt64] = [:]

    /// An offer waits for an answer itself: what was sent behind it stays behind it.
    mutating func noteHeld(_ entry: OutboxEntry) {
        let conversation = entry.event.conversation
        late[conversation] = min(late[conversation] ?? entry.id, entry.id)
    }

    /// What became of that on which an entry rests that was sent. To be asked of the entries in the order of their sending.
    ///
    /// - Parameter fresh: what goes for the first time before it, in the same flight.
    mutating func standing(of entry: OutboxEntry, _ table: OutboxEntries, beside fresh: Set<UInt64>) -> Standing {
        let standing = standingAlone(of: entry, table)
        let conversation = entry.event.conversation
        if standing == .answered, entry.origin.replica != identity.replica {
            if late[conversation] != nil { return .awaited }
            // One that had to wait for an answer goes before what was sent behind it.
            if case .conversation = entry.event.log, hasUnsent(before: entry, table, beside: fresh) {
                noteHeld(entry)
                return .awaited
            }
        }
        if standing == .awaited { late[conversation] = min(late[conversation] ?? entry.id, entry.id) }
        return standing
    }

    /// Whether an entry waits for no offer but for the order's sake.
    mutating func restsOnNothing(_ entry: OutboxEntry, _ table: OutboxEntries) -> Bool { standingAlone(of: entry, table) == .answered }

    /// Whether an entry that was not sent comes behind one that waits. The offers themselves come before it.
    func holdBack(_ entry: OutboxEntry) -> Bool { late[entry.event.conversation].map { $0 < entry.id } ?? false }

    /// Whether an offer before an entry has not been sent, nor goes now.
    mutating func hasUnsent(before entry: OutboxEntry, _ table: OutboxEntries, beside fresh: Set<UInt64>) -> Bool {
        let id = entry.event.conversation
        look(into: id, table)
        while let first = known[id]!.unsent.first, fresh.contains(first) { known[id]!.unsent.removeFirst() }
        return known[id]!.unsent.first.map { $0 < entry.id } ?? false
    }

    private mutating func standingAlone(of entry: OutboxEntry, _ table: OutboxEntries) -> Standing {
        guard entry.origin.replica != identity.replica, case .conversation(let id) = entry.event.log else { return .answered }
        look(into: id, table)
        let bases = known[id]!.bases(of: entry)
        if bases.contains(where: { $0.isFailed || $0.isWaiting }) { return .refused }
        return bases.isEmpty ? .answered : .awaited
    }

    private mutating func look(into id: ConversationID, _ table: OutboxEntries) {
        if known[id] != nil { return }
        var new = Known()
        for other in table[id] {
            if other.state == .pending, !other.isWaiting, other.sending > 0 { new.unsent.append(other.id) }
            guard other.origin.replica == identity.replica, other.accepted == nil else { continue }
            switch other.event.content {
            case .conversationCreated: new.creations.append(other)
            case .messageSent(let message): new.messages[message.id, default: []].append(other)
            default: break
            }
        }
        known[id] = new
    }
}
