internal import ConversationStore

/// Sets a replica right of which a hub has lost, or never had, the newest events of some logs: the store is written anew without them, beside the old one,
/// and takes its place. What was cut off is kept aside, and offered again where this replica made it.
enum Rewinding {
    private static func aside(_ path: String) -> String { trimmed(path) + ".rewinding" }
    private static func old(_ path: String) -> String { trimmed(path) + ".rewound" }

    private static func trimmed(_ path: String) -> String {
        var path = path
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Does what a session planned, or what was cut off while it was done.
    static func finish(at path: String, _ options: ReplicaOptions) throws {
        // Between the two renamings the old one has no name: it gets it back.
        if !StoreFiles.exists(path), StoreFiles.exists(old(path)) { try StoreFiles.rename(old(path), to: trimmed(path)) }
        StoreFiles.remove(aside(path))
        if StoreFiles.exists(path) { StoreFiles.remove(old(path)) }
        guard let side = try SideStore.openIfPresent(directory: path, tables: SyncTables.names) else { return }
        let (rewind, anew) = try side.read { transaction in
            (try transaction.get(SyncTables.state, ReplicaState.Key.rewind), try transaction.get(SyncTables.state, ReplicaState.Key.anew))
        }
        side.close()
        if rewind == nil, anew == nil { return }
        try rewrite(path, rewind.map { try ReplicaState.rewind($0) } ?? [:], anew: anew.map { Set(try ReplicaState.rewind($0).keys) } ?? [], options)
        try StoreFiles.rename(trimmed(path), to: old(path))
        try StoreFiles.rename(aside(path), to: trimmed(path))
        StoreFiles.remove(old(path))
    }

    /// Writes a damaged replica anew from what is sound of it. What stands behind a gap is kept in the side store until the hub has filled that.
    ///
    /// - Returns: events that were saved, and what was lost, for people.
    static func salvage(_ path: String, _ user: UserID?, _ options: ReplicaOptions) throws -> (saved: Int, lost: [String]) {
        StoreFiles.remove(aside(path))
        let secrets = try Secrets(of: path, options)
        var held: [LogID: Seq] = [:]
        var ahead: [RecordedEvent] = []
        var saved = 0
        var lost: [String] = []
        var log = options.store.log
        log.access = .readWrite
        let target = try EventStore.open(at: aside(path), options: log)
        do {
            var batch: [RecordedEvent] = []
            var fresh: [LogID: [UInt8]] = [:]
            func adopt() throws {
                if batch.isEmpty { return }
                _ = try target.adoptBlocking(batch, secrets: fresh)
                batch = []
                fresh = [:]
            }
            try EventStore.salvage(at: path) { event in
                let last = held[event.log] ?? 0
                guard event.seq > last, let secret = secrets.known[event.log] else { return }
                guard event.seq == last + 1 else { return ahead.append(event) }
                if last == 0 { fresh[event.log] = secret }
                held[event.log] = event.seq
                batch.append(event)
                saved += 1
                if batch.count == 4096 { try adopt() }
            } lost: {
                lost.append($0)
            }
            try adopt()
            try target.close()
        } catch {
            try? target.close()
            throw error
        }
        let side = try SideStore(directory: aside(path), tables: SyncTables.names)
        if let healed = try SideHealing(of: path, user: user, options, isReplica: { secrets.areAdopted }) {
            try healed.write(to: side)
            lost += healed.lost
        } else {
            try copySide(of: path, to: side)
        }
        try side.write { transaction in
            // What each log had, so that a lost end is missed too; where that cannot be told, all is compared. So it is where something came behind the
            // cursor: a hub that was set back since may not have it any more, and nothing would tell.
            let place = try transaction.get(SyncTables.state, ReplicaState.Key.place)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0
            if var heads = secrets.heads, secrets.lastPosition == place {
                // What an earlier damage took and no hub has brought yet is still missing.
                for (log, head) in try DamagedLogs.heads(transaction) where head.size > heads[log]?.size ?? 0 { heads[log] = head }
                try DamagedLogs.put(heads.filter { held[$0.key] != $0.value.size }, ahead: ahead, &transaction)
                try transaction.put(SyncTables.state, ReplicaState.Key.place, withUnsafeBytes(of: UInt64(saved).bigEndian) { Array($0) })
            } else {
                try DamagedLogs.put([:], ahead: ahead, &transaction)
                try transaction.delete(SyncTables.state, ReplicaState.Key.cursor)
            }
        }
        side.close()
        try StoreFiles.rename(trimmed(path), to: old(path))
        try StoreFiles.rename(aside(path), to: trimmed(path))
        StoreFiles.remove(old(path))
        return (saved, lost)
    }

    /// The logs' secrets and heads, if the store can be opened at all.
    private struct Secrets {
        var known: [LogID: [UInt8]] = [:]
        var heads: [LogID: LogHead]?
        var lastPosition: Position = 0
        /// Whether they came from a hub.
        var areAdopted = false

        init(of path: String, _ options: ReplicaOptions) throws {
            var log = options.store.log
            log.access = .existing
            log.folds = []
            let store: EventStore
            do { store = try EventStore.open(at: path, options: log) } catch let error as EventLogError where error.code == .damaged { return }
            // What it cannot archive any more is read from its journal as it lies.
            defer { try? store.close() }
            lastPosition = store.lastPosition
            areAdopted = (try? store.holdsOnlyAdoptedLogs) ?? false
            var heads: [LogID: LogHead] = [:]
            do {
                try store.forEachHead { head in
                    heads[head.log] = LogHead(size: head.size, root: head.root)
                    known[head.log] = try store.secret(of: head.log)
                    return true
                }
                self.heads = heads
            } catch let error as EventLogError where error.code == .damaged {
                // Without their secrets events cannot be kept: the hub has them.
                known = [:]
            }
        }
    }

    private static func rewrite(_ path: String, _ plan: [LogID: Seq], anew: Set<LogID>, _ options: ReplicaOptions) throws {
        var lost: [RecordedEvent] = []
        // A log that comes anew: until it has come nothing tells what of it the hub still has, should it be set back once more.
        var suspects: [RecordedEvent] = []
        var log = options.store.log
        log.access = .existing
        let source = try EventStore.open(at: path, options: log)
        do {
            log.access = .readWrite
            let target = try EventStore.open(at: aside(path), options: log)
            do {
                var batch: [RecordedEvent] = []
                var secrets: [LogID: [UInt8]] = [:]
                func adopt() throws {
                    if batch.isEmpty { return }
                    _ = try target.adoptBlocking(batch, secrets: secrets)
                    batch = []
                    secrets = [:]
                }
                try source.replay { event in
                    if let last = plan[event.log], event.seq > last {
                        lost.append(event)
                        return true
                    }
                    if anew.contains(event.log) {
                        suspects.append(event)
                        return true
                    }
                    if event.seq == 1 { secrets[event.log] = try source.secret(of: event.log) }
                    batch.append(event)
                    if batch.count == 4096 { try adopt() }
                    return true
                }
                try adopt()
                try target.close()
            } catch {
                try? target.close()
                throw error
            }
            try source.close()
        } catch {
            try? source.close()
            throw error
        }
        let side = try SideStore(directory: aside(path), tables: SyncTables.names)
        defer { side.close() }
        try copySide(of: path, to: side)
        try side.write { try Lost.put(suspects, in: SyncTables.suspects, &$0) }
        try offerAgain(lost, side, options)
    }

    private static func copySide(of path: String, to target: SideStore) throws {
        guard let source = try SideStore.openIfPresent(directory: path, tables: SyncTables.names) else { return }
        defer { source.close() }
        for table in SyncTables.names {
            var records: [(key: [UInt8], value: [UInt8])] = []
            try source.read { transaction in
                try transaction.forEach(table) { key, value in
                    records.append((key, value))
                    return true
                }
            }
            try target.write { transaction in for (key, value) in records { try transaction.put(table, key, value) } }
        }
    }

    /// What this replica made goes back into the outbox, in order, as new events of its lanes; they keep their message ids, by which a hub knows a
    /// repeat. What others made, be they devices of the same user, is theirs to offer: an event without an id would else be recorded twice.
    private static func offerAgain(_ lost: [RecordedEvent], _ side: SideStore, _ options: ReplicaOptions) throws {
        let facts = try side.read { transaction in
            (name: try transaction.get(SyncTables.state, ReplicaState.Key.user), nonce: try transaction.get(SyncTables.state, ReplicaState.Key.nonce))
        }
        guard let name = facts.name, let user = UserID(String(decoding: name, as: UTF8.self)), let nonce = facts.nonce else {
            throw EventLogError(.damaged, "whose replica it is cannot be read")
        }
        let old = ReplicaIdentity(user: user, nonce: nonce)
        let new = ReplicaIdentity(user: user, nonce: Replica.nonce(options.execution))
        let (own, others) = Identities.split(lost, try Identities.own(side, old))
        let outbox = try Outbox(side, identity: new)
        try outbox.putFirst(own) { transaction in
            try transaction.delete(SyncTables.state, ReplicaState.Key.rewind)
            try transaction.delete(SyncTables.state, ReplicaState.Key.anew)
            try transaction.delete(SyncTables.state, ReplicaState.Key.cursor)
            try Identities.take(new, after: old, &transaction)
            try Lost.put(others, &transaction)
        }
    }
}
