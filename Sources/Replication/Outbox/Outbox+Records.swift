internal import EventLog

/// What the side store has of an outbox.
extension Outbox {
    static func entries(in transaction: borrowing SideStore.Reading) throws -> [OutboxEntry] {
        var found: [OutboxEntry] = []
        try transaction.forEach(SyncTables.outbox, from: []) { key, value in
            found.append(try value.withUnsafeBytes { try OutboxEntry(id: Self.id(key), decoding: $0) })
            return true
        }
        return found
    }

    /// The greatest id that an entry has had, also one that is gone; 0 where a version before wrote it.
    static func lastID(in transaction: borrowing SideStore.Reading) throws -> UInt64 {
        guard let bytes = try transaction.get(SyncTables.state, ReplicaState.Key.outboxID) else { return 0 }
        // Nobody has given out so many.
        return (try? id(bytes)).map { $0 >> 62 == 0 ? $0 : 0 } ?? 0
    }

    func keepLastID(_ new: [OutboxEntry], _ transaction: inout SideStore.Writing) throws {
        try transaction.put(SyncTables.state, ReplicaState.Key.outboxID, Self.key(max(nextID - 1, new.last?.id ?? 0)))
    }

    static func key(_ id: UInt64) -> [UInt8] { withUnsafeBytes(of: id.bigEndian) { Array($0) } }

    static func id(_ key: [UInt8]) throws -> UInt64 {
        guard key.count == 8 else { throw CodecError(.badValue) }
        return key.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
