public import ConversationStore
internal import Synchronization

/// A store that others follow: it decides what they push, and sends each what it may see.
///
/// Safe to use from any thread. Transports call ``connect(send:close:)`` for each peer.
public final class Hub: Sendable {
    public let store: ConversationStore
    let options: HubOptions
    /// This opening of the store, for cursors.
    package let incarnation: UInt64
    let openings: Incarnations
    let heads: HeadCache
    let headsLog: HeadsLogProver
    let origins: OriginIndex
    let bases: BaseCache
    private let state = Monitor(State())
    let counters = HubCounters()
    let encoders = SegmentEncoders()
    let turns: Turns
    private let lookedForRoom = Monitor<Instant?>(nil)
    private let shortage = Monitor<Shortage?>(nil)
    private let toldFailure = Monitor<EventLogError.Code?>(nil)

    struct State {
        var index = HubIndex()
        /// By their numbers, not their addresses: so a simulation meets them in the same order each time.
        var connections: [UInt64: HubConnection] = [:]
        var lastNumber: UInt64 = 0
        var byUser: [UserID: [UInt64: HubConnection]] = [:]
        var everything: [UInt64: HubConnection] = [:]
        /// Of these each user's: a service account may take part in a conversation, too.
        var services: [UserID: Set<UInt64>] = [:]
        var isShutDown = false

        /// A dictionary is walked in another order each time, and a seed must give the same world again.
        var inOrder: [HubConnection] { connections.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// Reads where each log stands, and begins a new incarnation.
    public init(store: ConversationStore, options: HubOptions = HubOptions()) throws {
        self.store = store
        self.options = options
        turns = Turns(options.execution)
        heads = HeadCache(store: store.log)
        headsLog = HeadsLogProver(store: store.log)
        origins = OriginIndex(store: store.log)
        bases = BaseCache(store: store)
        incarnation = options.execution.random()
        // Set back to a backup, with a wall clock that stands behind, it would else give the times of its lost days again, one by one.
        store.log.advanceClock(by: incarnation & 0x7FFF)
        openings = try Incarnations(store: store.log, beginning: incarnation, log: options.log)
        // Commits wait until the index stands, then are folded into it.
        try state.withLock { state in
            store.tap { [weak self] events in self?.committed(events) }
            state.index = try HubIndex(store.log)
        }
    }

    /// A peer has come.
    ///
    /// - Parameters:
    ///   - send: takes whole messages, in order, never two at once; must not wait.
    ///   - close: is called at most once, after the last `send`.
    ///   - takesMore: whether the transport takes events beside what waits to be sent already; if not, it says when it does: ``HubConnection/drained()``.
    public func connect(
        send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void, takesMore: @escaping @Sendable () -> Bool = { true }
    ) -> HubConnection {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let connection = HubConnection(hub: self, number: number, send: send, close: close, takesMore: takesMore)
        let isLate = state.withLock { state in
            state.connections[connection.number] = connection
            return state.isShutDown
        }
        counters.opened()
        if isLate { connection.end(Bye(.goingAway, "the hub is going away", retryAfterMilliseconds: 1000)) }
        return connection
    }

    /// Says BYE to everybody; who comes later is turned away.
    public func shutdown() {
        let connections = state.withLock { state in
            state.isShutDown = true
            return state.inOrder
        }
        for connection in connections { connection.end(Bye(.goingAway, "the hub is going away", retryAfterMilliseconds: 1000)) }
    }

    /// As `EventStore.abandon`: its connections are forgotten, and hear nothing any more.
    package func abandon() { state.withLock { state in (state.connections, state.byUser, state.everything) = ([:], [:], [:]) } }

    /// Once a second or so: heartbeats and deadlines of all connections.
    public func tick() {
        lookForRoom()
        noteStore()
        for connection in state.withLock({ $0.inOrder }) { connection.tick() }
    }

    public var statistics: HubStatistics {
        var statistics = counters.statistics(connections: state.withLock { $0.connections.count })
        statistics.writeFailures = store.log.writeFailures
        statistics.isWritable = hindrance == nil
        return statistics
    }

    /// Why not all that is sent can be stored.
    package var hindrance: EventLogError? { store.log.writeFailure ?? waiting }

    /// Why an event waits at its device, while the hub goes on with others.
    var waiting: EventLogError? { shortage.withLock { $0?.failure } }

    /// The largest event that waits at its device for room. Smaller ones that are stored meanwhile do not end that.
    private struct Shortage {
        let log: LogID
        let origin: Origin?
        let bytes: Int
        let failure: EventLogError
        var lastTry: Instant

        func isOf(_ submission: Submission) -> Bool { log == submission.event.log && origin == submission.origin }
    }

    func noteShortage(of submission: Submission, _ failure: EventLogError) {
        let now = options.execution.now()
        let bytes = EventStore.bytesBound(submission)
        shortage.withLock { shortage in
            if let known = shortage, known.isOf(submission) || known.bytes > bytes {
                if known.isOf(submission) { shortage?.lastTry = now }
                return
            }
            shortage = Shortage(log: submission.event.log, origin: submission.origin, bytes: bytes, failure: failure, lastTry: now)
        }
    }

    /// What was decided waits no more.
    func endShortage(of submissions: [Submission]) {
        shortage.withLock { shortage in
            if let known = shortage, submissions.contains(where: known.isOf) { shortage = nil }
        }
    }

    /// Not at each tick, as it may write.
    private func lookForRoom() {
        let now = options.execution.now()
        let isTime = lookedForRoom.withLock { looked in
            guard looked.map({ now.milliseconds(since: $0) >= 5000 }) ?? true else { return false }
            looked = now
            return true
        }
        guard isTime else { return }
        store.log.lookForRoom()
        guard let known = shortage.withLock({ $0 }) else { return }
        // A device that gave the event up, or went away, does not send it again.
        guard now.milliseconds(since: known.lastTry) >= Self.shortageMilliseconds || store.log.hasRoom(for: known.bytes) else { return }
        shortage.withLock { if $0?.log == known.log, $0?.origin == known.origin { $0 = nil } }
    }

    /// A device sends again what had no room about each minute (`HubConnection.stuckMilliseconds`).
    private static let shortageMilliseconds: UInt64 = 180_000

    /// Tells when the store begins or ceases to fail: once for all peers that meet it.
    func noteStore() {
        let failure = hindrance
        let isNews = toldFailure.withLock { told in
            defer { told = failure?.code }
            return told != failure?.code
        }
        guard isNews else { return }
        switch failure {
        case let failure? where failure.code == .diskFull:
            options.log("there is no room for all that is sent, which waits at its devices: free some space on the disk of \(store.log.path) (\(failure))")
        case let failure?: options.log("what is sent cannot be stored: look at the disk of \(store.log.path), and restart if this stays (\(failure))")
        case nil: options.notice("the store at \(store.log.path) is written again")
        }
    }

    // What connections need.

    func joined(_ connection: HubConnection, _ identity: Identity, seesEverything: Bool) {
        state.withLock { state in
            guard state.connections[connection.number] != nil else { return }
            if seesEverything {
                state.everything[connection.number] = connection
                state.services[identity.user, default: []].insert(connection.number)
            } else {
                state.byUser[identity.user, default: [:]][connection.number] = connection
            }
        }
    }

    func left(_ connection: HubConnection, _ identity: Identity?) {
        let wasThere = state.withLock { state in
            state.everything[connection.number] = nil
            if let user = identity?.user {
                state.services[user]?.remove(connection.number)
                if state.services[user]?.isEmpty ?? false { state.services[user] = nil }
                state.byUser[user]?[connection.number] = nil
                if state.byUser[user]?.isEmpty ?? false { state.byUser[user] = nil }
            }
            return state.connections.removeValue(forKey: connection.number) != nil
        }
        if wasThere { counters.closed() }
    }

    /// The root over a log's first events.
    func root(of log: LogID, at size: Seq, _ effort: inout Effort) throws -> Hash256 {
        guard let tree = try heads.tree(of: log, through: size, &effort) else {
            throw EventLogError(.damaged, "\(store.log.path): the tree of \(log) at seq \(size) cannot be made")
        }
        return tree.root()
    }

    var id: StoreID { options.claimedStore ?? store.log.id }

    func withIndex<R>(_ body: (borrowing HubIndex) throws -> R) rethrows -> R { try state.withLock { try body($0.index) } }

    /// The connections of those who take part in a conversation now.
    func connections(in conversation: ConversationID, but other: HubConnection) -> [HubConnection] {
        state.withLock { state in
            state.index.members(of: conversation).flatMap { user in
                (state.byUser[user].map { Array($0.values) } ?? []) + (state.services[user] ?? []).compactMap { state.everything[$0] }
            }.filter { $0 !== other }.sorted { $0.number < $1.number }
        }
    }

    /// Events are durable: everybody whom they concern is told, by the thread that committed them. It says which logs, the connections read themselves.
    private func committed(_ events: [RecordedEvent]) {
        let woken = state.withLock { state -> [HubConnection] in
            var woken: [UInt64: HubConnection] = [:]
            for event in events {
                state.index.fold(event)
                for (id, connection) in state.everything {
                    connection.changed(event.log, at: event.seq, isNew: false)
                    woken[id] = connection
                }
                if state.byUser.isEmpty { continue }
                var joined: UserID?
                if case .participantJoined(let user) = event.event.content { joined = user }
                state.index.forEachConcerned(by: event) { user in
                    for (id, connection) in state.byUser[user] ?? [:] {
                        connection.changed(event.log, at: event.seq, isNew: user == joined)
                        woken[id] = connection
                    }
                }
            }
            // A relaxed store says nothing more than that what it told of before can be read now.
            return (events.isEmpty ? state.connections : woken).sorted { $0.key < $1.key }.map(\.value)
        }
        for connection in woken { connection.wake() }
    }
}

public struct HubOptions: Sendable {
    /// Checks a token. `claimed` is whom HELLO names. Calls back once, from any thread.
    public var authenticate:
        @Sendable (_ token: String, _ claimed: UserID, _ reply: @escaping @Sendable (Result<Identity, AuthenticationFailure>) -> Void) -> Void
    /// Told of errors of the store, for a log; never a user's text.
    public var log: @Sendable (String) -> Void = { _ in }
    /// Told that such an error is over.
    public var notice: @Sendable (String) -> Void = { _ in }
    package var execution = Execution.tasks
    package var limits = HubSession.Limits()
    /// Whom it says that it is, for tests of hubs that lie.
    package var claimedStore: StoreID?
    /// A new device's first screen: conversations with their newest messages, and further rows of its lobby.
    package var firstScreenConversations = 20
    package var firstScreenLobby = 50
    /// Where newest parts are wanted, a conversation of which more events than that came behind the cursor is offered: a peer that holds none of it takes but a page.
    package var offeredEvents = 512
    /// How many logs the first lot of a first sync has, and behind how many bytes of events PROGRESS is told.
    package var firstLot = 64
    package var progressBytes = 64 << 10
    /// Of more logs that it cannot read a hub tells no peer: it ends the session.
    package var unreadableMax = WireLimits.unreadableMax
    /// Where a peer asks for small messages, they are not made smaller than that.
    package var messageBytesMin = 4 << 10

    /// Without a way to check tokens, nobody is let in.
    public init(
        authenticate:
            @escaping @Sendable (
                _ token: String, _ claimed: UserID, _ reply: @escaping @Sendable (Result<Identity, AuthenticationFailure>) -> Void
            ) -> Void = { _, _, reply in reply(.failure(AuthenticationFailure())) }
    ) {
        self.authenticate = authenticate
    }

    /// Believes whom HELLO names: for tests, and for a hub that only its own machine can reach.
    public static func anyUser(services: Set<UserID> = []) -> HubOptions {
        HubOptions { _, claimed, reply in reply(.success(Identity(user: claimed, isService: services.contains(claimed)))) }
    }
}

/// What a hub has done since it was opened.
public struct HubStatistics: Hashable, Sendable {
    public var connections: Int
    public var connectionsTotal: UInt64
    public var messagesReceived: UInt64
    public var bytesReceived: UInt64
    public var messagesSent: UInt64
    public var bytesSent: UInt64
    public var eventsSent: UInt64
    public var eventsAccepted: UInt64
    public var eventsRefused: UInt64
    /// Commits that failed, as the disk is full or fails.
    public var writeFailures: UInt64 = 0
    /// Whether the last one succeeded, and nothing waits at its device for room.
    public var isWritable = true
}

/// Counters that any thread may raise.
final class HubCounters: Sendable {
    private let openedCount = Atomic<UInt64>(0), receivedMessages = Atomic<UInt64>(0), receivedBytes = Atomic<UInt64>(0)
    private let sentMessages = Atomic<UInt64>(0), sentBytes = Atomic<UInt64>(0), sentEvents = Atomic<UInt64>(0)
    private let acceptedEvents = Atomic<UInt64>(0), refusedEvents = Atomic<UInt64>(0)

    func opened() { openedCount.add(1, ordering: .relaxed) }
    func closed() {}
    func received(_ bytes: Int) {
        receivedMessages.add(1, ordering: .relaxed)
        receivedBytes.add(UInt64(bytes), ordering: .relaxed)
    }
    func sent(_ bytes: Int, events: Int) {
        sentMessages.add(1, ordering: .relaxed)
        sentBytes.add(UInt64(bytes), ordering: .relaxed)
        sentEvents.add(UInt64(events), ordering: .relaxed)
    }
    func decided(accepted: Int, refused: Int) {
        acceptedEvents.add(UInt64(accepted), ordering: .relaxed)
        refusedEvents.add(UInt64(refused), ordering: .relaxed)
    }

    func statistics(connections: Int) -> HubStatistics {
        HubStatistics(
            connections: connections, connectionsTotal: openedCount.load(ordering: .relaxed), messagesReceived: receivedMessages.load(ordering: .relaxed),
            bytesReceived: receivedBytes.load(ordering: .relaxed), messagesSent: sentMessages.load(ordering: .relaxed),
            bytesSent: sentBytes.load(ordering: .relaxed), eventsSent: sentEvents.load(ordering: .relaxed),
            eventsAccepted: acceptedEvents.load(ordering: .relaxed), eventsRefused: refusedEvents.load(ordering: .relaxed))
    }
}
