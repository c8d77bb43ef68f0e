internal import ConversationStore

/// What the hub's log has said so far, and who was ever allowed to see what: told from the events alone, beside the hub's own index.
struct HubHistory {
    /// A log's events, by seq.
    private(set) var logs: [LogID: [RecordedEvent]] = [:]
    private(set) var position: Position = 0
    private var members: [ConversationID: Set<UserID>] = [:]
    /// The last seq that a user may see now; for somebody who left, that of the leaving.
    private var visible: [UserID: [ConversationID: Seq]] = [:]
    /// The last seq that a user was ever allowed to see, in the futures too that a restored hub has lost.
    private var everVisible: [UserID: [LogID: Seq]] = [:]

    mutating func take(_ event: RecordedEvent) throws {
        position = event.position
        guard event.seq == Seq(logs[event.log]?.count ?? 0) + 1 else {
            throw SimulationFailure("I2: the hub's log \(event.log) has seq \(event.seq) behind \(logs[event.log]?.count ?? 0)")
        }
        logs[event.log, default: []].append(event)
        guard case .conversation(let id) = event.log else {
            if case .user(let user) = event.log { note(user, event.log, event.seq) }
            return
        }
        var people = members[id] ?? []
        switch event.event.content {
        case .conversationCreated(_, _, let others): people.formUnion(others + [event.event.author])
        case .participantJoined(let user): people.insert(user)
        case .participantLeft(let user):
            people.remove(user)
            visible[user, default: [:]][id] = event.seq
            note(user, event.log, event.seq)
        default: break
        }
        members[id] = people
        for user in people {
            visible[user, default: [:]][id] = event.seq
            note(user, event.log, event.seq)
        }
    }

    private mutating func note(_ user: UserID, _ log: LogID, _ seq: Seq) {
        everVisible[user, default: [:]][log] = max(everVisible[user]?[log] ?? 0, seq)
    }

    /// The hub was set back: what it says is read anew, what was allowed was allowed.
    mutating func forget() { self = HubHistory(everVisible: everVisible) }

    init() {}

    private init(everVisible: [UserID: [LogID: Seq]]) { self.everVisible = everVisible }

    func wasAllowed(_ log: LogID, _ seq: Seq, _ user: UserID) -> Bool { seq <= everVisible[user]?[log] ?? 0 }

    /// The events that a user may see now, log by log.
    func events(for user: UserID) -> [LogID: [RecordedEvent]] {
        var result: [LogID: [RecordedEvent]] = [:]
        for (id, seq) in visible[user] ?? [:] { result[.conversation(id)] = logs[.conversation(id)].map { Array($0.prefix(Int(seq))) } }
        if let own = logs[.user(user)] { result[.user(user)] = own }
        return result
    }

    /// I3: no origin twice in a log, no message twice in a conversation.
    func checkOnce() throws {
        for (log, events) in logs {
            var origins: Set<OriginKey> = []
            var messages: Set<MessageID> = []
            for event in events {
                guard origins.insert(OriginKey(event.origin)).inserted else {
                    throw SimulationFailure("I3: \(log) has the origin \(event.origin.replica) \(event.origin.counter) twice, again at seq \(event.seq)")
                }
                if case .messageSent(let message) = event.event.content, !messages.insert(message.id).inserted {
                    throw SimulationFailure("I3: \(log) has the message \(message.id) twice, again at seq \(event.seq)")
                }
            }
        }
    }

    /// Whether an event of just this content was recorded.
    func holds(_ event: Event) -> Bool { self.event(like: event) != nil }

    func event(like event: Event) -> RecordedEvent? { logs[event.log]?.first { $0.event == event } }
}

/// An origin without its clock.
struct OriginKey: Hashable {
    var replica: ReplicaID
    var counter: UInt64

    init(_ origin: Origin) {
        replica = origin.replica
        counter = origin.counter
    }

    init(replica: ReplicaID, counter: UInt64) {
        self.replica = replica
        self.counter = counter
    }
}
