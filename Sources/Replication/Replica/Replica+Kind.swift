public import ConversationStore
internal import EventLog

/// What a store is: a hub's own, a user's replica, or a full copy of a hub.
extension Replica {
    /// Whether a store is a replica.
    public static func isReplica(at path: String) throws -> Bool {
        guard let side = try SyncTables.openIfPresent(path) else { return false }
        defer { side.close() }
        return try side.read { try $0.get(SyncTables.state, ReplicaState.Key.user) != nil }
    }

    /// Whether it has asked for all conversations of its hub, as a service account's may (`convstore follow`).
    public var isFullCopy: Bool { get throws { try savedScope() == .everything } }

    /// Whether a store is the replica of a user: no full copy of a hub (``isFullCopy``), and never served. One of which that cannot be read is none.
    public static func isUsersReplica(at path: String) throws -> Bool {
        do {
            guard let side = try SyncTables.openIfPresent(path) else { return false }
            defer { side.close() }
            return try side.read { transaction in
                guard try transaction.get(SyncTables.state, ReplicaState.Key.user) != nil, try !isFullCopy(transaction) else { return false }
                return try isEmpty(SyncTables.incarnations, transaction)
            }
        } catch let error as EventLogError where error.code == .damaged {
            return false
        }
    }

    /// What became of a store that is served.
    public enum Promotion: Sendable {
        /// It was a hub's own already.
        case none
        /// It was a full copy of a hub.
        case done
        /// It is a full copy that lacks something, or holds what only its next sync would settle: it stays one.
        case notWhole
    }

    /// Makes a full copy of a hub the hub's own store: it is a replica no more, and takes events of its own.
    ///
    /// - Parameter store: which is open for writing, so that nobody syncs it meanwhile.
    public static func promote(_ store: ConversationStore) throws -> Promotion {
        typealias Key = ReplicaState.Key
        let side = try SideStore(directory: store.log.path, tables: SyncTables.names)
        defer { side.close() }
        let promotion = try side.read { transaction -> Promotion in
            guard try transaction.get(SyncTables.state, Key.user) != nil, try isFullCopy(transaction) else { return .none }
            for table in [SyncTables.outbox, SyncTables.offers, SyncTables.suspects, SyncTables.ahead, SyncTables.previews] {
                guard try isEmpty(table, transaction) else { return .notWhole }
            }
            for plan in [Key.rewind, Key.anew, Key.retract, Key.damaged] where try transaction.get(SyncTables.state, plan) != nil { return .notWhole }
            return try transaction.get(SyncTables.state, Key.cursor) == nil ? .notWhole : .done
        }
        guard promotion == .done else { return promotion }
        try side.write { transaction in
            var keys: [[UInt8]] = []
            try transaction.forEach(SyncTables.state, from: []) { key, _ in
                keys.append(Array(key))
                return true
            }
            // What was found of the hub that it copied stays.
            for key in keys where key != Key.evidence { try transaction.delete(SyncTables.state, key) }
        }
        return promotion
    }

    private static func isFullCopy(_ transaction: borrowing SideStore.Reading) throws -> Bool {
        let scope = try transaction.get(SyncTables.state, ReplicaState.Key.scope)
        return try scope?.withUnsafeBytes { try Scope(Fields($0)) } == .everything
    }

    private static func isEmpty(_ table: SideStore.TableName, _ transaction: borrowing SideStore.Reading) throws -> Bool {
        var isEmpty = true
        try transaction.forEach(table, from: []) { _, _ in
            isEmpty = false
            return false
        }
        return isEmpty
    }
}
