import ConversationStore
import EventLog
import Replication
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A device's life beside a hub in the same process, whose files lie elsewhere and never crash: it adopts events and whole runs, shows newest parts first,
/// writes offline, and is closed and opened in between.
///
///     h LOG SEQ DIGEST POSITION   the hub has this event at this position of its order
///     H LOG SIZE ROOT             so large, the hub's log has this root
///     o CONVERSATION MESSAGE      the device's own message is durable in its outbox
///     a LOG SEQ                   the device holds this event durably
///     m                           all that concerns the user is held: from here on the cursor vouches for everything
///
/// What the hub has is told when it is convenient: all of it counts for each state.
struct Device {
    static let user = UserID("ada")!
    private static let friend = UserID("bob")!, stranger = UserID("eve")!
    static let options: ReplicaOptions = {
        var options = ReplicaOptions()
        // A replica must not be talked into less than full durability: its cursor would speak of what is lost.
        options.store = ConversationStoreOptions(durability: .relaxed(interval: .seconds(3600)), journalBytesMax: 64 << 10, projections: [LogCounts.self])
        return options
    }()

    private let directory: String
    private var random: SeededGenerator
    private let hubStore: ConversationStore
    private let hub: Hub
    private var replica: Replica
    private var conversations: [ConversationID] = []
    /// How far the hub's order, and each log's events at the device, were told.
    private var told: Position = 0
    private var sizes: [LogID: Seq] = [:]
    private var held: [LogID: Seq] = [:]

    static func hubDirectory(_ directory: String) -> String { directory + "-hub" }

    init(directory: String, seed: UInt64) throws {
        self.directory = directory + "/s"
        random = SeededGenerator(state: seed)
        hubStore = try ConversationStore.open(at: Self.hubDirectory(directory))
        hub = try Hub(store: hubStore, options: .anyUser())
        replica = try Replica.open(at: self.directory, user: Self.user, options: Self.options)
    }

    mutating func run() throws {
        for _ in 0..<5 { try create() }
        try talk(120)
        try large(50)
        // Newest parts of the newest conversations, in the side store.
        try sync(.newest(conversations: 3, messages: 8))
        try write(3)
        try reopen()
        try talk(30)
        try sync(.newest(conversations: 3, messages: 8))
        try write(2)
        try sync(.newest(conversations: 3, messages: 8))
        // All the rest: with an empty outbox runs are taken whole.
        try large(60)
        try sync(.mine, isAll: true)
        try write(4)
        try reopen()
        try sync(.mine, isAll: true)
        try replica.store.log.flush()
        for _ in 0..<3 {
            try live(12)
            try large(45)
            try sync(.mine, isAll: true)
            try write(2)
            try reopen()
            try create()
            try talk(50)
            try sync(.mine, isAll: true)
        }
        try replica.store.log.flush()
        try replica.close()
        hub.shutdown()
        try hubStore.close()
    }

    // The hub.

    private mutating func text(_ bytes: Int) -> String {
        var text = ""
        while text.utf8.count < bytes { text += String(random.next(), radix: 36) }
        return text
    }

    private mutating func append(_ conversation: ConversationID, _ author: UserID, _ content: Event.Content) throws {
        let event = Event(conversation: conversation, author: author, content: content)
        guard case .accepted = try hubStore.log.appendBlocking([Submission(event)])[0] else { throw EventLogError(.invalidArgument, "device: \(content)") }
        try tellHub()
    }

    private mutating func create() throws {
        let id = ConversationID(high: random.next() & ~0xF000 | 0x4000, low: random.next())
        // Of one in four the device must never hear.
        let others = Int.random(in: 0..<4, using: &random) == 0 && !conversations.isEmpty ? [Self.friend, Self.stranger] : [Self.friend, Self.user]
        try append(id, Self.friend, .conversationCreated(kind: .group, title: text(10), participants: others))
        if others.contains(Self.user) { conversations.append(id) } else { try send(id, 20) }
    }

    private mutating func send(_ id: ConversationID, _ bytes: Int) throws {
        let message = Event.Message(id: MessageID(high: random.next() & ~0xF000 | 0x4000, low: random.next()), role: .user, text: text(bytes))
        try append(id, Self.friend, .messageSent(message))
    }

    private mutating func talk(_ count: Int) throws {
        for _ in 0..<count {
            let id = conversations.randomElement(using: &random)!
            try send(id, Int.random(in: 5...60, using: &random))
            if Int.random(in: 0..<9, using: &random) == 0 { try append(id, Self.user, .preferenceSet(key: "pinned", value: text(3))) }
        }
    }

    /// So much of one conversation, of texts that do not compress, that it is a run which goes as it lies.
    private mutating func large(_ count: Int) throws {
        let id = conversations.randomElement(using: &random)!
        for _ in 0..<count { try send(id, 1200) }
        try hubStore.log.flush()
    }

    /// Tells of the events that have come to the hub since, and of the roots of all sizes that their logs had.
    private mutating func tellHub() throws {
        var changed: [LogID: Seq] = [:]
        try hubStore.log.replay(from: told + 1) { record in
            acknowledge("h \(record.log) \(record.seq) \(digest(record)) \(record.position)")
            changed[record.log] = record.seq
            told = record.position
            return true
        }
        for (log, size) in changed {
            for size in sizes[log, default: 0] + 1...size {
                guard let head = try hubStore.log.head(of: log) else { continue }
                if head.size == size {
                    acknowledge("H \(log) \(size) \(head.root)")
                } else if case .consistency(let proof) = try hubStore.log.proveConsistency(log: log, from: size) {
                    acknowledge("H \(log) \(size) \(proof.root1)")
                }
            }
            sizes[log] = size
        }
    }

    // The device.

    /// Offline: some of it about messages that the hub has, which is not sent before what it rests on.
    private mutating func write(_ count: Int) throws {
        for _ in 0..<count {
            guard let id = conversations.filter({ (try? replica.store.participants(of: $0).contains(Self.user)) ?? false }).randomElement(using: &random) else {
                return
            }
            let message = MessageID(high: random.next() & ~0xF000 | 0x4000, low: random.next())
            try replica.append(
                Event(conversation: id, author: Self.user, content: .messageSent(Event.Message(id: message, role: .user, text: "mine " + text(20)))))
            acknowledge("o \(id) \(message)")
            if Int.random(in: 0..<2, using: &random) == 0 {
                try replica.append(Event(conversation: id, author: Self.user, content: .reactionSet(message: message, emoji: "👍", isOn: true)))
            }
        }
    }

    private mutating func reopen() throws {
        try replica.close()
        replica = try Replica.open(at: directory, user: Self.user, options: Self.options)
    }

    /// While a session is open the hub's events come one by one.
    private mutating func live(_ count: Int) throws {
        let session = Session(replica, hub, .mine)
        try session.settle()
        for number in 0..<count {
            try talk(1)
            if number % 5 == 4 {
                try write(1)
                session.connection.outboxChanged()
            }
            usleep(500)
        }
        try session.end()
        try tellHub()
    }

    private mutating func sync(_ scope: Scope, isAll: Bool = false) throws {
        // The fault: says that it is held before it has come.
        if Control.chosen == .sync, isAll { try tellHeld(by: hubStore.log) { $0.participants.contains(Self.user) } }
        while true {
            let session = Session(replica, hub, scope)
            let isDone = try session.settle()
            try session.end()
            if isDone { break }
            try reopen()
        }
        try tellHub()
        try tellHeld(by: replica.store.log) { _ in true }
        if isAll { acknowledge("m") }
    }

    private mutating func tellHeld(by store: EventStore, _ isMeant: (EventStore.LogSummary) -> Bool) throws {
        var lines: [String] = []
        try store.forEachLog { log in
            guard isMeant(log) else { return true }
            if log.events > held[log.log, default: 0] { lines.append("a \(log.log) \(log.events)") }
            held[log.log] = log.events
            return true
        }
        for line in lines { acknowledge(line) }
    }
}

/// A session with a hub in this process.
final class Session {
    private final class Heard: Sendable {
        struct State {
            var isSettled = false
            var end: ReplicaEvent?
        }

        private let state = Mutex(State())
        var now: State { state.withLock { $0 } }

        func hear(_ event: ReplicaEvent) {
            state.withLock { state in
                switch event {
                case .settled: state.isSettled = true
                case .ended, .failed, .mustReopen: state.end = event
                default: break
                }
            }
        }
    }

    private let heard = Heard()
    let connection: ReplicaConnection

    init(_ replica: Replica, _ hub: Hub, _ scope: Scope) {
        connection = InProcess.connect(replica, to: hub, scope: scope) { [heard] event in heard.hear(event) }
    }

    /// Until all is held and answered. Answers false if the replica must be opened anew first.
    @discardableResult
    func settle() throws -> Bool {
        try wait { $0.isSettled || $0.end != nil }
        switch heard.now.end {
        case nil, .ended(Bye(.normal)): return true
        case .mustReopen: return false
        case .failed(let error): throw error
        case .some(let end): throw EventLogError(.invalidArgument, "the session ended: \(end)")
        }
    }

    func end() throws {
        connection.end()
        try wait { $0.end != nil }
    }

    private func wait(_ isOver: (Heard.State) -> Bool) throws {
        for _ in 0..<200_000 {
            if isOver(heard.now) { return }
            usleep(100)
        }
        throw EventLogError(.invalidArgument, "the session does not go on")
    }
}
