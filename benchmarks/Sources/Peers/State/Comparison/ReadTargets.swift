import EventLog

/// What may be read of a store of certain events, and random choices among it, the same for every engine.
struct ReadTargets {
    enum Read: Sendable {
        case page(ConversationID)
        case lobby(UserID)
        case message(ConversationID, Seq)
    }

    private var conversations: [ConversationID] = []
    private var recent: [ConversationID] = []
    private var users: [UserID] = []
    private var busyUsers: [UserID] = []
    private var messages: [(ConversationID, Seq)] = []

    init(_ items: [Item]) {
        var active: [ConversationID: Int] = [:]
        var seqs: [ConversationID: Seq] = [:]
        var memberships: [UserID: Set<ConversationID>] = [:]
        for (at, item) in items.enumerated() {
            let id = item.event.conversation
            if case .preferenceSet = item.event.content { continue }
            active[id] = at
            seqs[id, default: 0] += 1
            if case .messageSent = item.event.content { messages.append((id, seqs[id] ?? 0)) }
            if case .conversationCreated(_, _, let participants) = item.event.content {
                conversations.append(id)
                for user in [item.event.author] + participants { memberships[user, default: []].insert(id) }
            }
        }
        recent = active.sorted { $0.value > $1.value }.prefix(ReadKind.recentConversations).map(\.key)
        users = memberships.keys.sorted()
        busyUsers = users.filter { memberships[$0, default: []].count >= ReadKind.rows }
    }

    /// Whether there is anything of the kind to read.
    func has(_ kind: ReadKind) -> Bool {
        switch kind {
        case .page, .recentPage: !conversations.isEmpty
        case .lobby: !busyUsers.isEmpty
        case .anyLobby: !users.isEmpty
        case .message: !messages.isEmpty
        }
    }

    func choose(_ kind: ReadKind, _ count: Int, seed: UInt64) -> [Read] {
        var random = SplitMix(state: seed)
        return (0..<count).map { _ in
            switch kind {
            case .page: .page(conversations[random.below(conversations.count)])
            case .recentPage: .page(recent[random.below(recent.count)])
            case .lobby: .lobby(busyUsers[random.below(busyUsers.count)])
            case .anyLobby: .lobby(users[random.below(users.count)])
            case .message:
                { index in .message(messages[index].0, messages[index].1) }(random.below(messages.count))
            }
        }
    }
}

/// Steele, Lea and Flood's SplitMix64: the same choices in each run.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }

    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
