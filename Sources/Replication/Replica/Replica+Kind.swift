internal import ConversationStore
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

    /// Whether a store is the replica of a user: no full copy of a hub (``isFullCopy``), and never served. Where its file `sync` is damaged, as far as can be read.
    public static func isUsersReplica(at path: String) throws -> Bool {
        do {
            guard let side = try SyncTables.openIfPresent(path) else { return false }
            defer { side.close() }
            return try side.read { transaction in
                guard try transaction.get(SyncTables.state, ReplicaState.Key.user) != nil else { return false }
                var wasServed = false
                try transaction.forEach(SyncTables.incarnations, from: []) { _, _ in
                    wasServed = true
                    return false
                }
                return try !wasServed && !isEverything(transaction.get(SyncTables.state, ReplicaState.Key.scope))
            }
        } catch let error as EventLogError where error.code == .damaged {
            let salvaged = try SideStore.salvage(directory: path, tables: SyncTables.names)
            func fact(_ key: [UInt8]) -> [UInt8]? { salvaged[SyncTables.state].records.first { $0.key == key }?.value }
            guard fact(ReplicaState.Key.user) != nil, salvaged[SyncTables.incarnations].records.isEmpty else { return false }
            // What a hub's own is like, or a full copy's, is mended by who serves it.
            return try fact(ReplicaState.Key.scope).map { try !isEverything($0) } ?? salvaged[SyncTables.state].isWhole
        }
    }

    private static func isEverything(_ scope: [UInt8]?) throws -> Bool { try scope?.withUnsafeBytes { try Scope(Fields($0)) } == .everything }
}
