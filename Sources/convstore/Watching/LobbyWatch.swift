import ConversationStore

/// What changed of a user's conversations since they were last looked at.
struct LobbyWatch {
    enum Change {
        case row(LobbyRow)
        /// The user takes part no longer.
        case removed(ConversationID)
    }

    let user: UserID
    private let limit: Int
    /// So many rows are compared whatever happened.
    private static let recheckedMax = 500
    private var hasBegun = false
    private var position: Position = 0
    private var shown: [ConversationID: LobbyRow] = [:]
    /// Of these more is shown than what is confirmed, which no position tells of.
    private var overlaid: Set<ConversationID> = []

    init(_ user: UserID, limit: Int) {
        self.user = user
        self.limit = limit
    }

    /// The newest conversations first, as a lobby stands; then each that is not what it was, the one that moved last at the end.
    mutating func update(from store: ConversationStore) throws -> [Change] {
        let last = store.log.lastPosition
        let changed = overlaid.union(store.overlaidConversations)
        defer {
            position = max(position, last)
            overlaid = Set(store.overlaidConversations)
        }
        if !hasBegun {
            hasBegun = true
            let rows = try store.lobby(of: user, limit: limit).rows
            for row in rows { shown[row.conversation] = row }
            return rows.map { .row($0) }
        }
        var touched = Dictionary(uniqueKeysWithValues: changed.map { ($0, position) })
        // No event tells of what was erased: so what was shown is looked at again.
        if last == position || shown.count <= Self.recheckedMax { for id in shown.keys { touched[id] = position } }
        var left: Set<ConversationID> = []
        try store.log.replay(from: position + 1, through: last) { event in
            switch event.log {
            case .conversation(let id):
                touched[id] = event.position
                if case .participantLeft(user) = event.event.content { left.insert(id) }
            case .user(let owner): if owner == user { touched[event.event.conversation] = event.position }
            }
            return true
        }
        var changes: [Change] = []
        for (id, _) in touched.sorted(by: { $0.value < $1.value }) {
            if let row = try store.lobbyRow(of: id, for: user) {
                if shown.updateValue(row, forKey: id) != row { changes.append(.row(row)) }
            } else if shown.removeValue(forKey: id) != nil || left.contains(id) {
                changes.append(.removed(id))
            }
        }
        return changes
    }
}
