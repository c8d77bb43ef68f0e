import ConversationStore

/// Where a benchmark of reading reads.
struct ReadPlaces: Sendable {
    private static let recentMax = 100
    /// Random messages that are looked up beforehand: a seq need not be a message's.
    private static let messagesMax = 20_000

    private(set) var conversations: [ConversationID] = []
    private(set) var users: [UserID] = []
    private(set) var messages: [(conversation: ConversationID, seq: Seq)] = []

    init(_ store: ConversationStore, onlyRecent: Bool, withMessages: Bool) throws {
        let chosen = onlyRecent ? try Self.recent(store.log) : nil
        var users: Set<UserID> = []
        var events: [Seq] = []
        var progress = ProgressBar("Choosing")
        defer { progress.clear() }
        // As many messages as logs, as it were, where those are looked up too.
        let logs = try Int(store.log.statistics().conversations)
        let total = logs + (withMessages ? Self.messagesMax : 0)
        func update(_ done: Int) {
            if done & 255 == 0 { progress.update(done: Double(done), total: Double(total), count: done, "places") }
        }
        var seen = 0
        try store.log.forEachLog { log in
            seen += 1
            update(seen)
            guard case .conversation(let id) = log.log, log.messages > 0, chosen?.contains(id) ?? true else { return true }
            conversations.append(id)
            events.append(log.events)
            users.formUnion(log.participants)
            return true
        }
        self.users = users.sorted()
        guard withMessages, !conversations.isEmpty else { return }
        for number in 0..<Self.messagesMax {
            update(seen + number)
            let place = Int.random(in: conversations.indices)
            let seq = Seq.random(in: 1...events[place])
            if let message = try store.timeline(of: conversations[place], .before(seq + 1), limit: 1)?.messages.first {
                messages.append((conversations[place], message.seq))
            }
        }
    }

    func isEmpty(for kind: BenchRead.Kind) -> Bool {
        switch kind {
        case .timeline, .window: conversations.isEmpty
        case .lobby: users.isEmpty
        case .message: messages.isEmpty
        }
    }

    /// Those whose last events have the highest positions, looked for from the end in steps that grow.
    private static func recent(_ log: EventStore) throws -> Set<ConversationID> {
        let end = log.lastPosition
        var span: Position = 4096
        while true {
            let first = end > span ? end - span + 1 : 1
            var last: [ConversationID: Position] = [:]
            try log.replay(from: first, through: end) { event in
                if case .conversation(let id) = event.log { last[id] = event.position }
                return true
            }
            if last.count >= recentMax || first == 1 {
                return Set(last.sorted { $0.value > $1.value }.prefix(recentMax).map(\.key))
            }
            span *= 4
        }
    }
}
