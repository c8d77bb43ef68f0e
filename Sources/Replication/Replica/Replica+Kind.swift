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

    /// Whether a store is the replica of a user, and no full copy of a hub (``isFullCopy``).
    public static func isUsersReplica(at path: String) throws -> Bool {
        guard let side = try SyncTables.openIfPresent(path) else { return false }
        defer { side.close() }
        return try side.read { transaction in
            guard try transaction.get(SyncTables.state, ReplicaState.Key.user) != nil else { return false }
            let scope = try transaction.get(SyncTables.state, ReplicaState.Key.scope)
            return try scope?.withUnsafeBytes { try Scope(Fields($0)) } != .everything
        }
    }

    /// Makes a full copy of a hub the hub's own store: it is a replica no more, and takes events of its own. Nothing is done to any other store.
    ///
    /// - Parameter store: which is open for writing, so that nobody syncs it meanwhile.
    /// - Returns: whether it was one.
    public static func becomeHub(_ store: ConversationStore) throws -> Bool {
        guard try isReplica(at: store.log.path), try !isUsersReplica(at: store.log.path) else { return false }
        let side = try SideStore(directory: store.log.path, tables: SyncTables.names)
        defer { side.close() }
        try side.write { transaction in
            var keys: [[UInt8]] = []
            try transaction.forEach(SyncTables.state, from: []) { key, _ in
                keys.append(Array(key))
                return true
            }
            // What was found of the hub that it copied stays.
            for key in keys where key != ReplicaState.Key.evidence { try transaction.delete(SyncTables.state, key) }
        }
        return true
    }
}
