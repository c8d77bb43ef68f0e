internal import EventLog

/// Events of the outbox that go with one frame, and what must be kept before they leave.
struct Flight {
    private(set) var events: [PushedEvent] = []
    /// Those that go for the first time, with the counters that were given to them.
    private(set) var fresh: [OutboxEntry] = []
    private(set) var counters: [LogID: UInt64] = [:]
    private let identity: ReplicaIdentity
    private let bytesMax: Int
    private let eventsMax: Int
    private let takesLarge: Bool
    private var bytes = 0
    private var bases = Bases()

    /// - Parameter takesLarge: whether a first one goes though it has more bytes.
    init(_ identity: ReplicaIdentity, bytesMax: Int, eventsMax: Int, takesLarge: Bool) {
        self.identity = identity
        self.bytesMax = bytesMax
        self.eventsMax = eventsMax
        self.takesLarge = takesLarge
    }

    /// `false`: there is no room for it.
    mutating func add(_ entry: OutboxEntry, isFirst: Bool, mayStandBehind position: Position?) -> Bool {
        let event = entry.pushed(isFirstSending: isFirst, sessionReplica: identity.replica, mayStandBehind: position)
        let size = event.envelope.count + event.body.count + 64
        guard takesLarge && events.isEmpty || bytes + size <= bytesMax && events.count < eventsMax else { return false }
        bytes += size
        events.append(event)
        return true
    }

    /// Gives an entry the next counter of its lane, which was `last(log)`. `false`: there is no room for it.
    mutating func addFresh(
        _ entry: OutboxEntry, mayStandBehind position: Position?, _ table: OutboxEntries, after last: (LogID) throws -> UInt64
    ) throws -> Bool {
        var entry = entry
        entry.restsOn = bases.counter(under: entry, of: identity.replica, table)
        let log = entry.event.log
        let counter = try counters[log] ?? last(log)
        entry.origin = Origin(replica: identity.replica, counter: counter + 1, hlc: entry.origin.hlc)
        entry.nonce = identity.nonce
        entry.state = .sent
        entry.wasSent = true
        entry.isElsewhere = false
        guard add(entry, isFirst: true, mayStandBehind: position) else { return false }
        counters[log] = counter + 1
        fresh.append(entry)
        bases.add(entry)
        return true
    }
}
