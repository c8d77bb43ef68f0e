public import ConversationStore

/// A user's offline copy of what a hub has for that user: reads and writes without a network, then syncs.
///
/// Its ``store`` is a conversation store like any other; the replica's own events stand in the outbox, shown on top of what is confirmed, until the hub has
/// accepted them. Safe to use from any thread.
public final class Replica: Sendable {
    public let store: ConversationStore
    public let user: UserID
    /// Whether it is a service account's (``ReplicaOptions/isService``).
    public let isService: Bool
    let options: ReplicaOptions
    let side: SideStore
    let heads: HeadCache
    /// The outbox and what belongs with it.
    let state: Monitor<State>

    struct State {
        var outbox: Outbox
        var previews: Previews
        var damaged: DamagedLogs
        var lost: LostEvents
        var suspects: Suspects
        /// Whether logs have grown since it was last told what became of those in holes.
        var mayTellSuspects = true
        var clock = OwnClock()
        var cursor: Cursor?
        /// In its place, and never beside it: a part is no reason to take this replica for whole.
        var part: ReplicaState.Part?
        /// The newest event by the hub's clock that came, and is not among what the cursor covers. A part tells where the hub stood when it began to be sent:
        /// what happened since and has come is for this to name.
        var newest: HeldEvent?
        /// The newest of what the cursor covers, if that is known: a hub that has another one there is another hub, whatever it knows of the cursor.
        var covered: HeldEvent?
        /// What that was before nothing vouched for all.
        var formerlyCovered: HeldEvent?
        /// Whether the disk has them.
        var isCursorSaved = true
        /// Logs that the hub could not read when it gave the cursor, each with the last seq for which a head vouches: of them it may lack something.
        var unread: [LogID: Seq] = [:]
        /// The newest checkpoint of this session's hub, to be kept with the next cursor.
        var checkpoint: String?
        /// What this session's HELLO said of the past: the hub's WELCOME is about that.
        var greeting = Greeting()
        /// This store's own last position when the cursor was given, or what stands in its place.
        var place: Position = 0
        /// No cursor vouches for what is held: all is compared with what the hub has.
        var isComparing = false
        /// Logs that the hub could not read when all was to be compared, each with whether something is held of it: that may be of a lost life of the hub, and
        /// is compared in the next session.
        var uncompared: [LogID: Bool] = [:]
        /// Logs with events of an earlier session for which no head vouched before its end, each with the last seq that was vouched for. The hub is asked about them.
        var unvouched: [LogID: Seq] = [:]
        /// What the session's scope names; `nil`: it leaves nothing out.
        var scopeNames: Set<ConversationID>?

        /// Nothing vouches any more for what is held.
        mutating func forgetCursor() {
            cursor = nil
            outbox.position = 0
            formerlyCovered = covered ?? formerlyCovered
            (part, newest, covered, unread) = (nil, nil, nil, [:])
            damaged.forgetHealed()
            isCursorSaved = true
        }

        mutating func note(newest event: RecordedEvent?) {
            if let event, newest.map({ event.hlc > $0.hlc }) ?? true { newest = HeldEvent(event) }
        }

        /// All that came is covered by the cursor, and so is all that is held.
        mutating func coverNewest(isHeld: (HeldEvent) throws -> Bool) rethrows {
            if covered == nil, let formerlyCovered, Scope.covers(formerlyCovered.log, scopeNames), try isHeld(formerlyCovered) { covered = formerlyCovered }
            formerlyCovered = nil
            if let newest, covered.map({ newest.hlc > $0.hlc }) ?? true { covered = newest }
            newest = nil
        }
    }

    struct Greeting {
        var checkpoint: (size: UInt64, root: Hash256)?
        var hasCursor = false
        /// It named a part that is held: the hub awaits to be told what is held beside it.
        var namesPart = false
        /// It left out what it might have carried of the outbox: that may stand in what comes.
        var holdsBack = false
        /// So many sessions before it the line cut before anything came of them.
        var breaks = 0
        /// What it said of the size of messages.
        var messageBytes = Int.max
    }

    /// Opens a replica, or makes one where nothing is.
    ///
    /// - Parameter user: whose it is; needed to make one.
    /// - Throws: `EventLogError`; `ReplicaError`: `notReplica`, `otherUser`.
    public static func open(at path: String, user: UserID?, options: ReplicaOptions = ReplicaOptions()) throws -> Replica {
        // The working directory may be another one behind that.
        let path = [".", ".."].contains(path.split(separator: "/").last) ? StoreFiles.resolved(path) : path
        try Rewinding.finish(at: path, options)
        return try Replica(path, user, options)
    }

    /// Gives a replica its name back that a killed process left without one; else does nothing. Any opening for syncing does that by itself.
    package static func recover(at path: String) throws { try Rewinding.recover(at: path) }

    /// A token may be so long.
    public static var tokenBytesMax: Int { WireLimits.tokenBytesMax }

    /// Writes a replica anew of which bytes are damaged: what is sound of it stays, the next sync asks the hub for the rest. The outbox stays.
    ///
    /// - Parameter user: whose replica it is, where that cannot be read any more.
    /// - Returns: how many events were saved, how many of these are kept beside their logs until the hub has been asked, and what was lost.
    public static func salvage(
        at path: String, user: UserID? = nil, options: ReplicaOptions = ReplicaOptions()
    ) throws -> (saved: Int, aside: Int, lost: [String]) {
        try Rewinding.salvage(path, user, options)
    }

    private init(_ path: String, _ user: UserID?, _ options: ReplicaOptions) throws {
        self.options = options
        var open = options.store
        let exists = try SyncTables.openIfPresent(path).map { side in
            defer { side.close() }
            return try side.read { try $0.get(SyncTables.state, ReplicaState.Key.user) != nil }
        }
        if exists != true, user == nil {
            throw ReplicaError(.notReplica, "\(path) is no replica; `convstore sync --user NAME` makes one")
        }
        // Made with it: a store that is seen without would be an ordinary one to all who write next.
        let new = exists == true ? nil : user.map { ReplicaIdentity(user: $0, nonce: Self.nonce(options.execution)) }
        open.side = new.map { ReplicaState.side(of: $0) }
        open.access = user == nil ? .existing : .readWrite
        // Cursor and outbox are written as soon as what they speak of is held: were that not durable, the hub would never be asked for it again.
        open.durability = .full
        try StoreReplacement.checkNone(of: path)
        store = try ConversationStore.open(at: path, options: open)
        do {
            // One that began meanwhile found nobody who wrote here, and puts another store in this one's place.
            try StoreReplacement.checkNone(of: store.log)
            if exists == true, try store.log.lacksAdoptedSecrets {
                throw EventLogError(.damaged, "\(path): the secret of a conversation is missing; run `convstore sync --verify`")
            }
            if exists != true, store.log.lastPosition > 0 { throw try Self.refusal(of: store.log, path, hasSide: exists != nil) }
            side = try SideStore(directory: path, tables: SyncTables.names)
            let facts = try side.read { try Facts($0) }
            isService = facts.isService || options.isService
            let identity = try Self.identity(facts, user, new: new, side, store.log)
            if isService, !facts.isService { try Self.beginService(facts, side, path) }
            self.user = identity.user
            heads = HeadCache(store: store.log)
            let (outbox, isOffering) = try Self.outbox(side, identity, options)
            state = Monitor(try Self.state(facts, outbox, side, store.log))
            try state.withLock { state in
                state.clock = beginClock(behind: facts.clock, state)
                try takeUp(&state, isOffering: isOffering)
            }
        } catch {
            try? store.close()
            throw error
        }
    }

    /// What the side store says of the replica.
    private struct Facts {
        let user: [UInt8]?, nonce: [UInt8]?, cursor: [UInt8]?, part: [UInt8]?, newest: [UInt8]?, scope: [UInt8]?
        let outboxPosition: [UInt8]?, unread: [UInt8]?
        let place: Position
        let clock: HLC
        let isService: Bool

        init(_ transaction: borrowing SideStore.Reading) throws {
            user = try transaction.get(SyncTables.state, ReplicaState.Key.user)
            nonce = try transaction.get(SyncTables.state, ReplicaState.Key.nonce)
            cursor = try transaction.get(SyncTables.state, ReplicaState.Key.cursor)
            part = try transaction.get(SyncTables.state, ReplicaState.Key.progress)
            newest = try transaction.get(SyncTables.state, ReplicaState.Key.newest)
            scope = try transaction.get(SyncTables.state, ReplicaState.Key.scope)
            place = try transaction.get(SyncTables.state, ReplicaState.Key.place)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0
            outboxPosition = try transaction.get(SyncTables.state, ReplicaState.Key.outboxPosition)
            unread = try transaction.get(SyncTables.state, ReplicaState.Key.unread)
            clock = HLC(rawValue: try transaction.get(SyncTables.state, ReplicaState.Key.clock)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0)
            isService = try transaction.get(SyncTables.state, ReplicaState.Key.service) != nil
        }
    }

    private static func identity(
        _ facts: Facts, _ user: UserID?, new: ReplicaIdentity?, _ side: SideStore, _ log: EventStore
    ) throws -> ReplicaIdentity {
        guard let name = facts.user else {
            // An ordinary store that is empty still. Was it a replica a moment ago, somebody put another store in its place.
            guard let new else { throw EventLogError(.damaged, "\(log.path): whose replica it is cannot be read") }
            try side.write { transaction in
                for (key, value) in ReplicaState.facts(of: new) { try transaction.put(SyncTables.state, key, value) }
            }
            return new
        }
        guard let known = UserID(String(decoding: name, as: UTF8.self)), let nonce = facts.nonce, nonce.count == 16 else {
            throw EventLogError(.damaged, "\(log.path): whose replica it is cannot be read")
        }
        let identity = ReplicaIdentity(user: user ?? known, nonce: nonce)
        if identity.user != known {
            // One that never met its hub was begun with a wrong name.
            guard facts.cursor == nil, log.lastPosition == 0, try Outbox(side, identity: identity).entries.isEmpty else {
                throw ReplicaError(.otherUser, "\(log.path) is the replica of \(known), not of \(identity.user)")
            }
            try side.write { try $0.put(SyncTables.state, ReplicaState.Key.user, Array(identity.user.string.utf8)) }
        }
        return identity
    }

    private static func beginService(_ facts: Facts, _ side: SideStore, _ path: String) throws {
        // The hub would turn the user away from then on.
        guard try facts.scope.map({ try $0.withUnsafeBytes { try Scope(Fields($0)) } }) ?? .everything == .everything else {
            throw ReplicaError(.otherUser, "\(path) was synced as a user's replica; make a service account's in another directory")
        }
        try side.write { try $0.put(SyncTables.state, ReplicaState.Key.service, [1]) }
    }

    private static func state(_ facts: Facts, _ outbox: Outbox, _ side: SideStore, _ log: EventStore) throws -> State {
        // A journal's last frame that is damaged looks like one that was never finished: what the cursor vouches for is not there any more.
        var damaged = try DamagedLogs(side)
        let isShort = try log.lastPosition < facts.place || damaged.hasLostAgain(in: log)
        if isShort {
            try side.write { try ReplicaState.forgetCursor(&$0) }
            damaged.forgetHealed()
        }
        let cursor = try isShort ? nil : facts.cursor.map { try ReplicaState.cursor($0) }
        let part = try isShort || cursor != nil ? nil : facts.part.map { try ReplicaState.Part(decoding: $0) }
        let newest = try facts.newest.map { try ReplicaState.heldEvent($0) }
        if let cursor, let position = facts.outboxPosition { outbox.position = ReplicaState.outboxPosition(position, beside: cursor) }
        return State(
            outbox: outbox, previews: try Previews(side), damaged: damaged, lost: try LostEvents(side), suspects: try Suspects(side, outbox.identity),
            cursor: cursor, part: part,
            newest: part == nil ? nil : newest, covered: cursor == nil ? nil : newest,
            unread: cursor == nil ? [:] : try facts.unread.map { try ReplicaState.rewind($0) } ?? [:], place: facts.place)
    }

    /// Does what a process before this one had left to do, and shows what stands beside the logs.
    private func takeUp(_ state: inout State, isOffering: Bool) throws {
        // What came from the hub and was not struck from the outbox before the end.
        var held: [RecordedEvent] = []
        for entry in state.outbox.entries where entry.origin.counter > 0 && entry.state == .sent {
            guard let seq = try store.log.seq(of: entry.origin, in: entry.event.log) else { continue }
            if let event = try store.log.event(in: entry.event.log, at: seq) { held.append(event) }
        }
        for part in state.previews.all {
            if case .conversation(let id) = part.log, !state.outbox.table[id].isEmpty { held += part.events }
        }
        _ = try state.outbox.confirmed(held) { _ in .awaited }
        if isOffering { try strikeStanding(&state) }
        try settleLost(after: state.cursor == nil ? 0 : state.place, &state)
        if !state.lost.isEmpty { try settleLost(state.previews.all.flatMap(\.events), &state) }
        state.previews.show(in: store)
        show(state.outbox.table.conversations.union(state.suspects.conversations), state)
    }

    /// Why a store that holds events is not taken for a replica.
    ///
    /// Of one whose file `sync` was deleted all logs came with their secrets; so did those of a hub that `import --exact` moved here. Taken for a replica
    /// such a hub would be cut back to what another one has: so nobody guesses.
    private static func refusal(of log: EventStore, _ path: String, hasSide: Bool) throws -> ReplicaError {
        guard try !hasSide && log.holdsOnlyAdoptedLogs else {
            return ReplicaError(.notReplica, "\(path) holds a store that is no replica; name another directory")
        }
        return ReplicaError(
            .notReplica,
            "\(path) holds a store that is no replica, or one that has lost its file \(SideStore.fileName), and with it whose it is and what its outbox held; "
                + "name another directory for a new replica: what is held here can still be read")
    }

    /// With this replica's own among what the hub lost first, under a new id: counters of its lanes may be on their way.
    private static func outbox(_ side: SideStore, _ identity: ReplicaIdentity, _ options: ReplicaOptions) throws -> (Outbox, isOffering: Bool) {
        let offers = try Lost.read(side, in: SyncTables.offers)
        if offers.isEmpty { return (try Outbox(side, identity: identity), false) }
        let new = ReplicaIdentity(user: identity.user, nonce: try Identities.nextNonce(after: identity, side, options.execution))
        let outbox = try Outbox(side, identity: new)
        try outbox.putFirst(
            offers,
            write: { transaction in
                try Lost.delete(offers, in: SyncTables.offers, &transaction)
                try Identities.take(new, after: identity, &transaction)
            })
        return (outbox, true)
    }

    static func nonce(_ execution: Execution) -> [UInt8] {
        var out = ByteBuffer(capacity: 16)
        out.put(fixed64: execution.random())
        out.put(fixed64: execution.random())
        return out.array()
    }

    /// Ends the replica; what is in the outbox stays.
    public func close() throws {
        saveCursor()
        try store.close()
        side.close()
    }

    // Writing.

    /// Takes an event of this user's, or with ``ReplicaOptions/isService`` of anybody's, into the outbox: durable, and shown, when it returns.
    @discardableResult
    public func append(_ event: Event) throws -> OutboxEntry { try append([event])[0] }

    /// Takes events into the outbox, all of them or none.
    ///
    /// - Throws: `Refusal` for what this replica can tell that no hub will accept; `EventLogError`.
    @discardableResult
    public func append(_ events: [Event]) throws -> [OutboxEntry] {
        try state.withLock { state in
            try check(events, beside: state.outbox)
            var made: [(event: Event, hlc: HLC)] = []
            for event in events { made.append((event, time(of: event, beside: made, &state))) }
            let entries = try state.outbox.add(made, clock: state.clock.last)
            for (conversation, new) in Dictionary(grouping: entries, by: \.event.conversation) {
                store.appendPending(new.map { PendingEvent($0) }, of: conversation)
            }
            return entries
        }
    }

    /// What the hub would say, as far as it can be told from here. It decides, not we: what may be is let through.
    private func check(_ events: [Event], beside outbox: Outbox) throws {
        struct Place: Hashable {
            var conversation: ConversationID
            var author: UserID
        }
        var isOpen: Set<Place> = []
        for event in events {
            guard isService || event.author == user else { throw Refusal(.forbidden, "this is the replica of \(user)") }
            // Whoever comes in with one of the events may write the others, whatever their order: the hub decides.
            let people: [UserID] =
                switch event.content {
                case .conversationCreated(_, _, let people): people + [event.author]
                case .participantJoined(let person): [person]
                default: []
                }
            for person in people where person != event.author || event.creates(event.conversation, with: person) {
                isOpen.insert(Place(conversation: event.conversation, author: person))
            }
        }
        for event in events {
            if let refusal = EventStore.checkForm(event) { throw refusal }
            if case .conversationCreated = event.content { continue }
            let place = Place(conversation: event.conversation, author: event.author)
            if isOpen.contains(place) { continue }
            if !outbox.creates(event.conversation, with: event.author) {
                let people = try store.participants(of: event.conversation)
                guard !people.isEmpty else { throw Refusal(.unknownConversation) }
                guard people.contains(event.author) else { throw Refusal(.notParticipant) }
            }
            isOpen.insert(place)
        }
    }

    // The outbox.

    public var outbox: [OutboxEntry] { state.withLock { $0.outbox.entries } }

    /// Sends failed events again; `nil`: all that failed.
    @discardableResult
    public func retry(_ ids: Set<UInt64>? = nil) throws -> Int { try change { try $0.retry(ids) } }

    /// Gives events up that failed, or that were not sent yet; `nil`: all that failed.
    @discardableResult
    public func discard(_ ids: Set<UInt64>? = nil) throws -> Int { try change { try $0.discard(ids) } }

    /// Changes the text of a message or an edit that was not sent yet, or that failed.
    ///
    /// It is another event from then on, of this time; with the text that it had it stays the same.
    public func edit(_ id: UInt64, text: String) throws {
        try state.withLock { state in
            let old = state.outbox.table[id]
            let hlc = old.map { time(of: $0.event, replaced: $0.origin.hlc, &state) } ?? state.clock.last
            let touched = try state.outbox.edit(id, text: text, hlc: hlc, clock: state.clock.last)
            show(touched, state)
        }
    }

    private func change(_ body: (Outbox) throws -> (count: Int, touched: Set<ConversationID>)) throws -> Int {
        try state.withLock { state in
            let (count, touched) = try body(state.outbox)
            show(touched, state)
            return count
        }
    }

    /// Puts what is pending on the screens of these conversations.
    func show(_ conversations: Set<ConversationID>, _ state: borrowing State) {
        Self.show(state.outbox, state.suspects, state.previews, conversations, in: store)
    }

    static func show(_ outbox: Outbox, _ suspects: Suspects, _ previews: Previews, _ conversations: Set<ConversationID>, in store: ConversationStore) {
        for id in conversations {
            let entries = outbox.table[id]
            // A log that cannot be read says so to those who read it.
            let gone = suspects.isEmpty ? [] : (try? suspects.pending(in: id, beside: entries, previews, store)) ?? []
            store.setPending(gone + entries.map { PendingEvent($0) }, of: id)
        }
    }

    // Where it stands.

    /// What is missing of each log that is not held whole.
    public var holes: [(log: LogID, seqs: ClosedRange<Seq>)] {
        // A log that cannot be read says so to those who read it.
        state.withLock { $0.previews.holes { log in (try? store.log.lastSeq(of: log)) ?? 0 } }
    }

    /// Of these, those of a scope.
    package func holes(in scope: Scope) -> [(log: LogID, seqs: ClosedRange<Seq>)] { holes.filter { Scope.covers($0.log, scope.names) } }

    /// Events that a hub had and lost, which this replica kept aside.
    public func lostEvents() throws -> [RecordedEvent] { try Lost.read(side) }

    /// Events of which that is not known yet, and that nothing shows as confirmed (``KeptAside/doubtful(in:)``).
    public func doubtfulEvents() throws -> [RecordedEvent] { try side.read { try KeptAside($0, side) }.doubtful(in: store.log) }

    /// What a hub did that no honest one does, as it was told when it was found.
    public var evidence: String? {
        get throws { try side.read { try $0.get(SyncTables.state, ReplicaState.Key.evidence) }.map { String(decoding: $0, as: UTF8.self) } }
    }

    public var cursor: Cursor? { state.withLock { $0.cursor } }

    /// Whether it stands for all that the logs hold.
    package var isVouched: Bool { state.withLock { $0.cursor != nil && store.log.lastPosition == $0.place } }

    func saveCursor() {
        // Written under the lock: a cursor that is taken back meanwhile must not come back.
        state.withLock { state in
            if state.isCursorSaved { return }
            state.isCursorSaved = true
            guard state.cursor != nil || state.part != nil else { return }
            // Being behind is safe: what comes twice is skipped.
            try? side.write { transaction in
                if state.previews.areVouched { try transaction.delete(SyncTables.state, ReplicaState.Key.unvouched) }
                try ReplicaState.forgetCursor(&transaction)
                // What has come since this cursor did.
                try state.damaged.keepHealed(&transaction)
                if let cursor = state.cursor {
                    try transaction.put(SyncTables.state, ReplicaState.Key.cursor, ReplicaState.encode(cursor))
                    let position = ReplicaState.encode(outboxPosition: state.outbox.position, beside: cursor)
                    try transaction.put(SyncTables.state, ReplicaState.Key.outboxPosition, position)
                    if let covered = state.covered { try transaction.put(SyncTables.state, ReplicaState.Key.newest, ReplicaState.encode(covered)) }
                    if !state.unread.isEmpty { try transaction.put(SyncTables.state, ReplicaState.Key.unread, ReplicaState.encode(state.unread)) }
                    if let checkpoint = state.checkpoint { try transaction.put(SyncTables.state, ReplicaState.Key.checkpoint, Array(checkpoint.utf8)) }
                } else if let part = state.part {
                    try transaction.put(SyncTables.state, ReplicaState.Key.progress, part.encoded())
                    if let newest = state.newest { try transaction.put(SyncTables.state, ReplicaState.Key.newest, ReplicaState.encode(newest)) }
                }
                try transaction.put(SyncTables.state, ReplicaState.Key.place, withUnsafeBytes(of: state.place.bigEndian) { Array($0) })
            }
            if state.cursor != nil { state.checkpoint = nil }
        }
    }
}

public struct ReplicaOptions: Sendable {
    /// Its durability is always full, whatever is said here.
    public var store = ConversationStoreOptions()
    /// Whether it is a service account's, which may write in any user's name: an AI's proxy. Such a replica is a copy of everything, and stays one, however it
    /// is opened later. The hub goes by the token's claim, not by this: without the claim it ends the session (`forbidden`), and what was written waits.
    public var isService = false
    package var execution = Execution.tasks
    package var limits = HubSession.Limits()
    /// How small messages are to be when the line has cut two sessions before anything came of them, and when it has cut four.
    package var messageBytes = (behindTwo: 128 << 10, behindFour: 16 << 10)

    public init() {}
}
