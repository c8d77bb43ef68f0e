internal import ConversationStore

/// Who this replica is to its hub, and who it was: it takes another id when its counters cannot be told from another's any more.
enum Identities {
    /// Takes a new id: the counters of its lanes begin anew, and what it made as `old` stays known as its own.
    static func take(_ new: ReplicaIdentity, after old: ReplicaIdentity?, _ transaction: inout SideStore.Writing) throws {
        try transaction.put(SyncTables.state, ReplicaState.Key.nonce, new.nonce)
        if let old {
            let former = try transaction.get(SyncTables.state, ReplicaState.Key.former) ?? []
            try transaction.put(SyncTables.state, ReplicaState.Key.former, former + old.replica.bytes)
            if try transaction.get(SyncTables.state, ReplicaState.Key.family) == nil {
                try transaction.put(SyncTables.state, ReplicaState.Key.family, old.nonce)
            }
        }
        var lanes: [[UInt8]] = []
        try transaction.forEach(SyncTables.lanes, from: []) { key, _ in
            lanes.append(key)
            return true
        }
        for lane in lanes { try transaction.delete(SyncTables.lanes, lane) }
    }

    /// The nonce of the id that a replica takes next.
    static func nextNonce(after identity: ReplicaIdentity, _ side: SideStore, _ execution: Execution) throws -> [UInt8] {
        try side.read { transaction in try IdentityFamily(of: identity) { try transaction.get(SyncTables.state, $0) } }.nextNonce(execution)
    }

    /// What a replica made: what stands under one of its ids, or one that a copy of it took, and what stands under another one but is its own.
    ///
    /// A device that was set back to a copy finds at the hub what it sent under ids that it took since.
    final class Own {
        let ids: Set<ReplicaID>
        private let origins: Set<[UInt8]>
        private let family: IdentityFamily
        /// Made when somebody else's id is asked for.
        private lazy var familyIDs = family.ids()

        fileprivate init(ids: Set<ReplicaID>, origins: Set<[UInt8]>, family: IdentityFamily) { (self.ids, self.origins, self.family) = (ids, origins, family) }

        func contains(_ event: RecordedEvent) -> Bool {
            ids.contains(event.origin.replica) || !origins.isEmpty && origins.contains(Identities.encode(event))
                || familyIDs.contains { $0.contains(event.origin.replica) }
        }
    }

    /// Keeps in mind that events are this replica's own, under whose id they may stand.
    static func know(_ events: [RecordedEvent], as identity: ReplicaIdentity, _ transaction: inout SideStore.Writing) throws {
        if events.isEmpty { return }
        let own = try own(in: { try transaction.get(SyncTables.state, $0) }, identity)
        let new = events.filter { !own.contains($0) }.flatMap { encode($0) }
        if new.isEmpty { return }
        try transaction.put(SyncTables.state, ReplicaState.Key.own, (transaction.get(SyncTables.state, ReplicaState.Key.own) ?? []) + new)
    }

    private static func encode(_ event: RecordedEvent) -> [UInt8] {
        var out = ByteBuffer(capacity: 48)
        let key = event.log.key
        out.put(varint: UInt64(key.count))
        out.put(key)
        out.put(event.origin.replica.bytes)
        out.put(varint: event.origin.counter)
        return out.array()
    }

    private static func origins(_ bytes: [UInt8]) throws -> Set<[UInt8]> {
        try bytes.withUnsafeBytes { bytes in
            var result: Set<[UInt8]> = []
            var reader = ByteReader(bytes)
            while !reader.isAtEnd {
                let start = bytes.count - reader.remaining
                _ = try reader.lengthPrefixed()
                _ = try reader.take(16)
                _ = try reader.varint()
                result.insert(Array(bytes[start..<bytes.count - reader.remaining]))
            }
            return result
        }
    }

    /// What this replica made and can offer again, and the rest.
    static func split(_ events: [RecordedEvent], _ own: Own) -> (own: [RecordedEvent], others: [RecordedEvent]) {
        var result: (own: [RecordedEvent], others: [RecordedEvent]) = ([], [])
        for event in events {
            // Of an erased event there is no body to send.
            if own.contains(event), !event.isErased { result.own.append(event) } else { result.others.append(event) }
        }
        return result
    }

    static func own(_ side: SideStore, _ identity: ReplicaIdentity) throws -> Own {
        try side.read { try own($0, identity) }
    }

    static func own(_ transaction: borrowing SideStore.Reading, _ identity: ReplicaIdentity) throws -> Own {
        try own(in: { try transaction.get(SyncTables.state, $0) }, identity)
    }

    static func own(in fact: ([UInt8]) throws -> [UInt8]?, _ identity: ReplicaIdentity) throws -> Own {
        let former = try fact(ReplicaState.Key.former) ?? []
        let ids = stride(from: 0, to: former.count - former.count % 16, by: 16).compactMap { ReplicaID(bytes: former[$0..<$0 + 16]) }
        return Own(
            ids: Set(ids + [identity.replica]), origins: try origins(fact(ReplicaState.Key.own) ?? []), family: try IdentityFamily(of: identity, in: fact))
    }
}
