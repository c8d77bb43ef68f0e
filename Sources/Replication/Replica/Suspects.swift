internal import ConversationStore
internal import EventLog

/// What became of an event of which nothing vouches that the hub has it.
enum Fate {
    case held, lost
    /// It lies in a hole: what stands there will come.
    case unknown
    /// What stands there is not for this user any more, who came in anew: nobody can tell, and to offer it again could record it twice.
    case outOfSight
}

extension Previews {
    /// What became of an event, as far as what is held tells: while more comes, what is lost may come again.
    func fate(of event: RecordedEvent, in log: EventStore) throws -> Fate {
        var held: HeldEvent?
        if try event.seq <= log.lastSeq(of: event.log) {
            held = try log.stamp(in: event.log, at: event.seq).map { HeldEvent($0, log: event.log, seq: event.seq) }
        } else if event.seq <= baseSeq(of: event.log) {
            if lastSeqOfFirst(event.log) > 0 { return .outOfSight }
            return isTold(event).map { $0 ? .held : .lost } ?? .unknown
        } else {
            held = self.event(in: event.log, at: event.seq).map { HeldEvent($0) }
        }
        // An erased body says nothing else than the one that it was.
        return held == HeldEvent(event) ? .held : .lost
    }
}

/// This replica's own among what a hub may have lost, or has lost and is offered again by the next opening.
///
/// Until then it stands on the screen as pending, unless it stands there as confirmed: what its user wrote is never gone, wherever a process is killed.
struct Suspects {
    private var suspects: [ConversationID: [RecordedEvent]] = [:]
    private var offers: [ConversationID: [RecordedEvent]] = [:]

    var isEmpty: Bool { suspects.isEmpty && offers.isEmpty }
    func has(_ id: ConversationID) -> Bool { suspects[id] != nil || offers[id] != nil }
    /// The times of what may be shown of it in a conversation.
    func times(in id: ConversationID) -> [HLC] { ((suspects[id] ?? []) + (offers[id] ?? [])).filter(\.event.content.writesRegister).map(\.origin.hlc) }
    var conversations: Set<ConversationID> { Set(suspects.keys).union(offers.keys) }

    init(_ side: SideStore, _ identity: ReplicaIdentity) throws {
        self = try side.read { try Self($0, Identities.own($0, identity), withOffers: true) }
    }

    /// - Parameter withOffers: whether the outbox has not taken them over.
    init(_ transaction: borrowing SideStore.Reading, _ own: Identities.Own, withOffers: Bool) throws {
        try Lost.forEach(transaction, in: SyncTables.suspects) { if own.contains($0), !$0.isErased { suspects[$0.event.conversation, default: []].append($0) } }
        guard withOffers else { return }
        try Lost.forEach(transaction, in: SyncTables.offers) { offers[$0.event.conversation, default: []].append($0) }
    }

    /// What of it is to be shown in a conversation as pending, before what the outbox has.
    ///
    /// It costs as much as there is of it: what a log brings that grows is struck from the screen by its origin.
    func pending(in id: ConversationID, beside entries: [OutboxEntry], _ previews: Previews, _ store: ConversationStore) throws -> [PendingEvent] {
        let suspects = suspects[id] ?? []
        let shown = suspects.isEmpty ? [] : previews.messages(shownOf: id)
        let gone = try suspects.filter {
            guard case .lost = try previews.fate(of: $0, in: store.log) else { return false }
            // It may stand there as another event, as after a hub that was put forward again.
            guard case .messageSent(let message) = $0.event.content else { return true }
            return try !shown.contains(message.id) && store.confirmedMessage(in: id, id: message.id) == nil
        }
        let known = Dictionary(grouping: entries, by: \.origin.hlc)
        // The outbox may offer it already, under another origin.
        return (gone + (offers[id] ?? [])).filter { event in !event.times.contains { known[$0]?.contains { $0.event == event.event } ?? false } }
            .map { PendingEvent($0.event, origin: $0.origin, hlc: $0.effectiveTime) }
    }
}
