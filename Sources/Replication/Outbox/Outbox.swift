internal import EventLog

/// A replica's own events on their way to the hub: durable before anybody sees them, in order, each until the hub has said yes or its maker no more.
///
/// For one thread at a time: the replica guards it.
final class Outbox {
    let side: SideStore
    var table = OutboxEntries()
    private(set) var nextID: UInt64 = 1
    /// Sent in a session before and not answered: to be sent again. Ascending.
    private(set) var again: [UInt64] = []
    /// What went for the first time in this session's last flight, as it was before.
    private var lastFlight: [OutboxEntry] = []
    /// Entries without an id that were made since the last session began, and not sent: nobody can have sent them before.
    private var newIDs: Set<UInt64> = []
    /// The hub's position behind which it may have the others, that of a cursor that this replica had when the oldest of them was made: a lost life of it, from
    /// which it was restored, may have sent them since. It goes with the cursor, and is 0 without one.
    var position: Position = 0
    var identity: ReplicaIdentity
    /// Entries that became the hub's, or failed otherwise than by its answer, and were not told of yet.
    var settled = (accepted: 0, failed: 0)

    /// In the order made.
    var entries: [OutboxEntry] { table.all }
    var isEmpty: Bool { table.isEmpty }

    convenience init(_ side: SideStore, identity: ReplicaIdentity) throws {
        let (entries, lastID) = try side.read { (try Self.entries(in: $0), try Self.lastID(in: $0)) }
        self.init(side, entries, lastID: lastID, identity: identity)
    }

    /// - Parameters:
    ///   - entries: what the side store has.
    ///   - lastID: the greatest id that one had, there or not: a number that somebody was shown names no other entry, ever.
    init(_ side: SideStore, _ entries: [OutboxEntry], lastID: UInt64 = 0, identity: ReplicaIdentity) {
        self.side = side
        self.identity = identity
        var found = entries
        if PlantedBug.loseOutbox.isPlanted { found = [] }
        for entry in found { table.put(entry) }
        nextID = max(found.last?.id ?? 0, lastID) + 1
        sendAgain()
        settleWaiting(table.conversations)
    }

    // Making.

    /// Takes events in; they are durable when it returns.
    ///
    /// - Parameter clock: the last time that was given, if it is not that of the last of these.
    func add(_ events: [(event: Event, hlc: HLC)], clock: HLC? = nil) throws -> [OutboxEntry] {
        var new: [OutboxEntry] = []
        for (event, hlc) in events {
            let origin = Origin(replica: identity.replica, counter: 0, hlc: hlc)
            new.append(OutboxEntry(id: nextID + UInt64(new.count), event: event, origin: origin, nonce: identity.nonce))
        }
        try replace(new, clock: clock ?? new.last?.origin.hlc)
        newIDs.formUnion(new.lazy.filter { !$0.event.isKnownByContent }.map(\.id))
        nextID += UInt64(new.count)
        return new.map { table[$0.id]! }
    }

    /// Takes events back that a hub had accepted and lost, or of which somebody said so who cannot be believed: before all others, also those that were sent
    /// since, which may rest on them, but for what was sent before them (``with(first:sentNonce:wasSent:)``). So all entries get other ids, and this is for an
    /// outbox that nobody has looked into. In one transaction with what `write` writes.
    ///
    /// They are new events of this identity's lanes, which must be a new one if there are any.
    ///
    /// - Parameter sentNonce: what the replica id was made of under which some were sent that `wasSent` names: these are sent again as they were.
    func putFirst(
        _ given: [RecordedEvent], sentNonce: [UInt8] = [], wasSent: (RecordedEvent) -> Bool = { _ in false },
        write: (inout SideStore.Writing) throws -> Void = { _ in }
    ) throws {
        guard let all = with(first: given, sentNonce: sentNonce, wasSent: wasSent) else { return try side.write { try write(&$0) } }
        let old = entries
        try side.write { transaction in
            try write(&transaction)
            for entry in old { try transaction.delete(SyncTables.outbox, Self.key(entry.id)) }
            for entry in all { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
            try keepLastID(all, &transaction)
        }
        take(all)
    }

    /// The same in memory alone, for who only reads: as the next opening will write it.
    func assumeFirst(_ given: [RecordedEvent]) { if let all = with(first: given) { take(all) } }

    private func take(_ all: [OutboxEntry]) {
        table = OutboxEntries()
        for entry in all { table.put(entry) }
        nextID = max(nextID, (all.last?.id ?? 0) + 1)
        sendAgain()
        settleWaiting(table.conversations)
    }

    /// Whether a conversation is being made here, with the user in it.
    func creates(_ conversation: ConversationID, with user: UserID) -> Bool {
        table[conversation].contains { $0.event.creates(conversation, with: user) }
    }

    /// Changes the text of a message that was not sent yet.
    ///
    /// - Parameters:
    ///   - hlc: a clock other than what the entry had. A hub may know the entry as it was, and have erased it: by their clocks alone the two are told apart then.
    ///   - clock: the last time that was given, if it is not that.
    func edit(_ id: UInt64, text: String, hlc: HLC, clock: HLC? = nil) throws -> Set<ConversationID> {
        guard var entry = table[id], entry.state != .sent else { throw Self.isSent(id) }
        let old: String
        switch entry.event.content {
        case .messageSent(var message):
            old = message.text
            message.text = text
            entry.event.content = .messageSent(message)
        case .messageEdited(let message, let before):
            old = before
            entry.event.content = .messageEdited(message: message, text: text)
        default: throw EventLogError(.invalidArgument, "entry \(id) of the outbox has no text")
        }
        if old.utf8.elementsEqual(text.utf8) { return [] }
        entry.origin.hlc = hlc
        try replace([entry], clock: clock ?? hlc)
        return [entry.event.conversation]
    }

    /// Sends failed events again, as new ones of their lanes: the hub has answered the old ones for ever. What was sent and rests on them has failed with them:
    /// it is sent again too if all are.
    func retry(_ ids: Set<UInt64>?) throws -> (count: Int, touched: Set<ConversationID>) {
        let named = entries.filter { $0.isFailed && ids?.contains($0.id) ?? true }
        let resting = resting(on: named)
        let changed = (ids == nil ? named + resting : named).map { entry in
            var entry = entry
            // Anew is what its user wants it to be then, and it is looked for no more.
            entry.wasSent = entry.state != OutboxEntry.isErasedPerhaps
            if !entry.wasSent { entry.former = nil }
            entry.state = .pending
            entry.isCounted = false
            entry.origin = Origin(replica: identity.replica, counter: 0, hlc: entry.origin.hlc)
            entry.nonce = identity.nonce
            return entry
        }
        try replace(changed + (ids == nil ? [] : resting.map(\.refusedWithBase)))
        return (changed.count, Set((changed + resting).map(\.event.conversation)))
    }

    /// What was sent and has no answer, and rests on some that the hub refused, or on what does: it refuses that too, if it has not forgotten what it refused.
    /// So it is with what speaks of a message that was accepted once, and was refused when the hub had been set back.
    private func resting(on failed: [OutboxEntry]) -> [OutboxEntry] {
        struct Place: Hashable {
            var replica: ReplicaID
            var counter: UInt64
        }
        var found: [OutboxEntry] = []
        for (conversation, refused) in Dictionary(grouping: failed.filter(\.isRefused), by: \.event.conversation) {
            var bases = Set(refused.map { Place(replica: $0.origin.replica, counter: $0.origin.counter) })
            var messages = Needed(refused.filter { if case .messageSent = $0.event.content { true } else { false } })
            var creation: OutboxEntry?
            var chunks: [MessageID: [OutboxEntry]] = [:]
            var refusedIDs = Set(refused.map(\.id))
            for entry in table[conversation] {
                switch entry.event.content {
                case .conversationCreated: creation = entry
                case .chunkAppended(let stream, _, _): chunks[stream, default: []].append(entry)
                default: break
                }
                guard entry.isUnanswered else { continue }
                let isResting = entry.restsOn > 0 && bases.contains(Place(replica: entry.origin.replica, counter: entry.restsOn))
                // In its own lane it would name it.
                let isApart = [creation, entry.chunk(before: chunks)].contains { base in
                    base.map { refusedIDs.contains($0.id) && $0.origin.replica != entry.origin.replica } ?? false
                }
                guard isResting || isApart || messages.holdsBack(entry) else { continue }
                bases.insert(Place(replica: entry.origin.replica, counter: entry.origin.counter))
                messages.add(entry)
                refusedIDs.insert(entry.id)
                found.append(entry)
            }
        }
        return found
    }

    /// Gives events up that were not sent, or that failed; what depends on one of them fails with it.
    func discard(_ ids: Set<UInt64>?) throws -> (count: Int, touched: Set<ConversationID>) {
        let gone = entries.filter { $0.state != .sent && (ids?.contains($0.id) ?? $0.isFailed) }
        if gone.isEmpty { return (0, []) }
        let goneIDs = Set(gone.map(\.id))
        var orphans = resting(on: gone).map(\.refusedWithBase)
        let waiting = Set(again), orphanIDs = Set(orphans.map(\.id))
        let byConversation = Dictionary(grouping: gone, by: \.event.conversation), touched = Set(byConversation.keys)
        for (conversation, gone) in byConversation {
            let missing = Needed(gone)
            // Of what was sent that waits: what would go without that which a hub lost.
            let offers = Dictionary(grouping: gone, by: \.origin.replica).mapValues { Needed($0) }
            for entry in table[conversation] where !goneIDs.contains(entry.id) && missing.holdsBack(entry) {
                if entry.state == .pending {
                    var entry = entry
                    entry.state = .failed(code: entry.codeWithoutBase, detail: "it depends on an event that was discarded")
                    entry.isWaiting = false
                    orphans.append(entry)
                } else if waiting.contains(entry.id), entry.isUnanswered, !orphanIDs.contains(entry.id),
                    offers.contains(where: { $0.key != entry.origin.replica && $0.value.holdsBack(entry) })
                {
                    orphans.append(entry.orphaned)
                }
            }
        }
        try side.write { transaction in
            for entry in gone { try transaction.delete(SyncTables.outbox, Self.key(entry.id)) }
            try keepLastID([], &transaction)
            for entry in orphans { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
        }
        // The last first, as in `keep`.
        for entry in gone.reversed() { table.remove(entry.id) }
        for orphan in orphans.reversed() { table.put(orphan) }
        settleWaiting(touched)
        return (gone.count, touched)
    }

    private static func isSent(_ id: UInt64) -> EventLogError {
        EventLogError(.invalidArgument, "entry \(id) of the outbox is not there, or was sent already")
    }

    // Sending.

    func takeSettled() -> (accepted: Int, failed: Int) {
        defer { settled = (0, 0) }
        return settled
    }

    /// A new session: what was sent before and not answered is sent again. So is what was accepted and has not come from there: a hub that was set back knows
    /// nothing of it.
    ///
    /// What had an answer when others were sent that rest on it has none now: that is told with them from here on.
    func beginSession() throws {
        for var entry in entries where entry.state == .sent && entry.accepted != nil {
            entry.accepted = nil
            table.put(entry)
        }
        lastFlight = []
        newIDs = []
        sendAgain()
        var bases = Bases()
        try replace(
            again.compactMap { id in
                guard var entry = table[id] else { return nil }
                let base = bases.counter(under: entry, of: entry.origin.replica, table)
                guard base > entry.restsOn, base < entry.origin.counter else { return nil }
                entry.restsOn = base
                return entry
            })
    }

    /// What was sent and not answered is sent again.
    func sendAgain() { again = table.unanswered }

    /// The next events for a PUSH, in the order made, but for what waits. They are marked as sent, durably, before this returns: whatever happens then, their
    /// counters are not given to others.
    func take(bytesMax: Int, eventsMax: Int, takesLarge: Bool = true) throws -> (events: [PushedEvent], touched: Set<ConversationID>) {
        var flight: Flight
        var touched: Set<ConversationID> = []
        repeat {
            flight = Flight(identity, bytesMax: bytesMax, eventsMax: eventsMax, takesLarge: takesLarge)
            let rest = try fill(&flight)
            try keep(flight)
            try replace(rest.orphans)
            settled.failed += rest.orphans.count
            let moved = try move(rest.overtaken)
            touched.formUnion((flight.fresh + rest.orphans).map(\.event.conversation) + moved)
            if rest.orphans.isEmpty, moved.isEmpty { break }
        } while flight.events.isEmpty
        return (flight.events, touched)
    }

    /// What a pass over the outbox finds that is not as it must be.
    private struct Rest {
        var orphans: [OutboxEntry] = []
        /// Of each conversation the first that was not sent, and what was made behind it and is of its lane was: it had failed, or what it rests on had.
        var overtaken: [ConversationID: UInt64] = [:]
    }

    private func fill(_ flight: inout Flight) throws -> Rest {
        var held = HeldBack(identity), rest = Rest()
        var waiting: [UInt64] = []
        let pending = PlantedBug.reorderLane.isPlanted ? table.pendingIDs.reversed() : table.pendingIDs
        var (inAgain, inPending) = (0, 0), isFull = false
        while inAgain < again.count || inPending < pending.count {
            let isAgain = inPending == pending.count || inAgain < again.count && again[inAgain] < pending[inPending]
            if let entry = table[isAgain ? again[inAgain] : pending[inPending]], isAgain ? entry.isUnanswered : !entry.isWaiting {
                switch held.standing(of: entry, table) {
                case .waits: if isAgain { waiting.append(entry.id) }
                case .fails(let entry): rest.orphans.append(entry)
                case .free where isAgain: isFull = !flight.add(entry, isFirst: false, mayStandBehind: place(of: entry))
                // Its counter would be greater than that of one behind it: in the next session it would go first.
                case .free where table.lastSent(in: entry.event.log, of: identity.replica) ?? 0 > entry.id:
                    held.hold(entry)
                    rest.overtaken[entry.event.conversation] = min(rest.overtaken[entry.event.conversation] ?? .max, entry.id)
                case .free:
                    isFull = try !flight.addFresh(entry, mayStandBehind: place(of: entry), table) { try counter(of: $0) }
                }
            }
            if isFull { break }
            if isAgain { inAgain += 1 } else { inPending += 1 }
        }
        again.replaceSubrange(..<inAgain, with: waiting)
        return rest
    }

    /// Behind which of the hub's positions it may have an entry under another origin; `nil`: nowhere, or it knows it again by what it says.
    private func place(of entry: OutboxEntry) -> Position? {
        if entry.event.isKnownByContent || newIDs.contains(entry.id) || PlantedBug.repeatOffers.isPlanted { return nil }
        return entry.former == nil ? position : 0
    }

    func isNew(_ id: UInt64) -> Bool { newIDs.contains(id) }

    /// Whether something has no id by which the hub would know it again, and was made before this session.
    private var hasOldWithoutName: Bool { !table.allSatisfy { $0.event.isKnownByContent || newIDs.contains($0.id) } }

    /// All that the hub had up to a position of its own has come.
    ///
    /// - Returns: whether ``position`` has changed.
    func caughtUp(at new: Position) -> Bool {
        // What is made from here on, or was made in this session and waits still, cannot stand before.
        if position == new || hasOldWithoutName && !PlantedBug.passOutbox.isPlanted { return false }
        position = new
        return true
    }

    /// What was not sent of conversations, of each from an entry on, gets ids behind all others. So does what waits there to be sent again under an id before, and
    /// behind which nothing was sent: it was made behind that. But what stands in the user's log keeps its place in its lane, which other conversations share:
    /// of two preferences the clocks decide.
    ///
    /// What was sent and waits, and rests on what goes, cannot be sent alone: it fails, and goes along. While the hub has that in hand nothing moves: its answer
    /// says what becomes of it.
    ///
    /// - Returns: the conversations of which something has moved.
    private func move(_ firsts: [ConversationID: UInt64]) throws -> Set<ConversationID> {
        if firsts.isEmpty { return [] }
        let waiting = Set(again)
        var old: [OutboxEntry] = [], orphans: Set<UInt64> = [], touched: Set<ConversationID> = []
        conversations: for (id, first) in firsts {
            let lastOwn = table.lastSent(in: .conversation(id), of: identity.replica) ?? 0
            var moved: [OutboxEntry] = [], orphaned: Set<UInt64> = [], bases = Needed([])
            for entry in table[id] where entry.id >= first {
                let isWaiting = waiting.contains(entry.id) && entry.isUnanswered
                let isBehind = isWaiting && entry.id > lastOwn && entry.origin.replica != identity.replica && entry.event.log == .conversation(id)
                if entry.state == .sent, !isBehind {
                    // On nothing that had no answer it rested where it says so.
                    guard entry.isUnanswered, entry.restsOn > 0 || entry.origin.replica != identity.replica, bases.holdsBack(entry) else { continue }
                    guard isWaiting else { continue conversations }
                    orphaned.insert(entry.id)
                }
                moved.append(entry)
                bases.add(entry)
            }
            old += moved
            orphans.formUnion(orphaned)
            touched.insert(id)
        }
        old.sort { $0.id < $1.id }
        let new = old.enumerated().map { (orphans.contains($1.id) ? $1.orphaned : $1).with(id: nextID + UInt64($0)) }
        try side.write { transaction in
            for entry in old { try transaction.delete(SyncTables.outbox, Self.key(entry.id)) }
            for entry in new { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
            try keepLastID(new, &transaction)
        }
        nextID += UInt64(new.count)
        settled.failed += orphans.count
        for entry in old.reversed() { table.remove(entry.id) }
        for entry in new { table.put(entry) }
        let moved = Set(old.map(\.id))
        again = again.filter { !moved.contains($0) } + new.filter { $0.state == .sent }.map(\.id)
        settleWaiting(touched)
        return touched
    }

    /// The hub has not looked at this session's only flight: what went in it for the first time was not sent. Its counters are not given out again.
    func takeBack() throws -> Set<ConversationID> {
        let unread = lastFlight.filter { table[$0.id]?.isUnanswered ?? false }
        lastFlight = []
        try replace(unread)
        return Set(unread.map(\.event.conversation))
    }

    private func keep(_ flight: Flight) throws {
        lastFlight = flight.fresh.compactMap { table[$0.id] }
        if flight.fresh.isEmpty { return }
        try side.write { transaction in
            for entry in flight.fresh { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
            for (log, counter) in flight.counters { try transaction.put(SyncTables.lanes, log.key, withUnsafeBytes(of: counter.bigEndian) { Array($0) }) }
        }
        // The last first: the list of what is pending gets shorter from its end.
        for entry in flight.fresh.reversed() { table.put(entry) }
        if !newIDs.isEmpty { newIDs.subtract(flight.fresh.map(\.id)) }
    }

    func counter(of log: LogID) throws -> UInt64 {
        try side.read { transaction in
            try transaction.get(SyncTables.lanes, log.key)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0
        }
    }

    // Keeping.

    /// - Parameter clock: the last time that was given, where some of these are new.
    private func replace(_ changed: [OutboxEntry], clock: HLC? = nil) throws {
        if changed.isEmpty { return }
        try side.write { transaction in
            for entry in changed { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
            guard let clock else { return }
            try transaction.put(SyncTables.state, ReplicaState.Key.clock, withUnsafeBytes(of: clock.rawValue.bigEndian) { Array($0) })
            try keepLastID(changed, &transaction)
        }
        // Lists of ids mostly grow and shrink at their ends.
        for entry in changed[0].state == .pending ? changed : changed.reversed() { table.put(entry) }
        settleWaiting(Set(changed.map(\.event.conversation)))
    }

    /// What depends on a failed event waits for it.
    func settleWaiting(_ conversations: Set<ConversationID>) {
        for conversation in conversations where table.hasTrouble(in: conversation) {
            let all = table[conversation]
            var needed = Needed(all.filter(\.isFailed))
            for var entry in all where entry.state == .pending {
                let waits = needed.holdsBack(entry)
                if waits { needed.add(entry) }
                guard entry.isWaiting != waits else { continue }
                entry.isWaiting = waits
                table.put(entry)
            }
        }
    }
}

/// What others of the same conversation, made behind it, may need and do not have.
private struct Needed {
    /// Each with its first entry.
    private var messages: [MessageID: UInt64] = [:]
    private var creation: UInt64?

    init(_ entries: [OutboxEntry]) { for entry in entries { add(entry) } }

    mutating func add(_ entry: OutboxEntry) {
        switch entry.event.content {
        case .conversationCreated: creation = min(creation ?? .max, entry.id)
        case .messageSent(let message): messages[message.id] = min(messages[message.id] ?? .max, entry.id)
        default: break
        }
    }

    func holdsBack(_ entry: OutboxEntry) -> Bool {
        creation.map { $0 < entry.id } ?? false || entry.neededMessages.contains { messages[$0].map { $0 < entry.id } ?? false }
    }
}

extension Event {
    /// Whether it makes this conversation, and the user takes part in it.
    func creates(_ conversation: ConversationID, with user: UserID) -> Bool {
        guard self.conversation == conversation, case .conversationCreated(_, _, let people) = content else { return false }
        return author == user || people.contains(user)
    }
}

extension LogID {
    /// A key of the side store's tables.
    var key: [UInt8] {
        switch self {
        case .conversation(let id): [0] + id.bytes
        case .user(let user): [1] + Array(user.string.utf8)
        }
    }

    init?(key: [UInt8]) {
        switch key.first {
        case 0:
            guard let id = ConversationID(bytes: key.dropFirst()) else { return nil }
            self = .conversation(id)
        case 1:
            guard let text = String(validating: key.dropFirst(), as: UTF8.self), let user = UserID(text) else { return nil }
            self = .user(user)
        default: return nil
        }
    }
}
