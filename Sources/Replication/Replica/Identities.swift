internal import ConversationStore

/// Who this replica is to its hub, and who it was: it takes another id when its counters cannot be told from another's any more.
enum Identities {
    /// Takes a new id: the counters of its lanes begin anew, and what it made as `old` stays known as its own.
    static func take(_ new: ReplicaIdentity, after old: ReplicaIdentity?, _ transaction: inout SideStore.Writing) throws {
        try transaction.put(SyncTables.state, ReplicaState.Key.nonce, new.nonce)
        if let old {
            let former = try transaction.get(SyncTables.state, ReplicaState.Key.former) ?? []
            try transaction.put(SyncTables.state, ReplicaState.Key.former, former + old.replica.bytes)
        }
        var lanes: [[UInt8]] = []
        try transaction.forEach(SyncTables.lanes, from: []) { key, _ in
            lanes.append(key)
            return true
        }
        for lane in lanes { try transaction.delete(SyncTables.lanes, lane) }
    }

    /// What this replica made and can offer again, and the rest.
    static func split(_ events: [RecordedEvent], _ own: Set<ReplicaID>) -> (own: [RecordedEvent], others: [RecordedEvent]) {
        var result: (own: [RecordedEvent], others: [RecordedEvent]) = ([], [])
        for event in events {
            // Of an erased event there is no body to send.
            if own.contains(event.origin.replica), !event.isErased { result.own.append(event) } else { result.others.append(event) }
        }
        return result
    }

    /// All ids that this replica ever had.
    static func own(_ side: SideStore, _ identity: ReplicaIdentity) throws -> Set<ReplicaID> {
        let former = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.former) } ?? []
        return Set(stride(from: 0, to: former.count - former.count % 16, by: 16).compactMap { ReplicaID(bytes: former[$0..<$0 + 16]) } + [identity.replica])
    }
}
