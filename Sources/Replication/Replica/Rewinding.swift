internal import ConversationStore

/// Sets a replica right of which a hub has lost, or never had, the newest events of some logs: the store is written anew without them, beside the old one,
/// and takes its place. What was cut off is kept aside, and offered again where this replica made it.
enum Rewinding {
    // Of a path that was resolved once: what it leads to gets other names meanwhile.
    private static func aside(_ path: String) -> String { path + ".rewinding" }
    private static func old(_ path: String) -> String { path + ".rewound" }

    /// Does what a session planned, or what was cut off while it was done.
    static func finish(at path: String, _ options: ReplicaOptions) throws {
        let path = StoreFiles.resolved(path)
        try StoreReplacement.checkNone(of: path)
        // Next to always there is nothing to do.
        let isPlanned = try plan(at: path) != nil
        guard isPlanned || StoreFiles.exists(aside(path)) || hasOld(path) else { return }
        let replacement = try StoreReplacement(of: path)
        defer { replacement.end() }
        try giveNameBack(to: path)
        StoreFiles.remove(aside(path))
        if StoreFiles.exists(path), hasOld(path) {
            try checkSuccessor(path, at: path)
            try discardOld(path)
        }
        guard let (rewind, anew, retract) = try plan(at: path) else { return }
        let plan = try [rewind, retract].compactMap { try $0.map { try ReplicaState.rewind($0) } }.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: min) }
        // A session plans one of the three; should more be there, what stands beside a gone cursor is compared anyway.
        let isRetracting = rewind == nil && anew == nil
        try rewrite(path, plan, anew: anew.map { Set(try ReplicaState.rewind($0).keys) } ?? [], isRetracting: isRetracting, options)
        try replace(path)
    }

    /// Puts the new store in the old one's place.
    private static func replace(_ path: String) throws {
        // Killed behind it, the old one lies where the next opening removes it.
        if try StoreFiles.exchange(aside(path), with: path) { return StoreFiles.remove(aside(path)) }
        if hasOld(path) {
            try checkSuccessor(path, at: aside(path))
            StoreFiles.remove(old(path))
        }
        if StoreFiles.exists(old(path)) {
            throw ReplicaError(.notReplica, "\(old(path)) is in the way of \(path), which has to be written anew: move it elsewhere and sync again")
        }
        try StoreFiles.rename(path, to: old(path))
        try StoreFiles.rename(aside(path), to: path)
        try discardOld(path)
    }

    /// Under the name that any opening clears: half removed it would be in the way of the next.
    private static func discardOld(_ path: String) throws {
        try StoreFiles.rename(old(path), to: aside(path))
        StoreFiles.remove(aside(path))
    }

    /// Where names cannot be exchanged, a replica whose process was killed between two renamings has none: whoever looks for it gives it back.
    static func recover(at path: String) throws {
        let path = StoreFiles.resolved(path)
        guard !StoreFiles.exists(path), hasOld(path) else { return }
        let replacement = try StoreReplacement(of: path)
        defer { replacement.end() }
        try giveNameBack(to: path)
    }

    private static func giveNameBack(to path: String) throws {
        if !StoreFiles.exists(path), hasOld(path) { try StoreFiles.rename(old(path), to: path) }
    }

    /// The old one's work is done, if it is this replica that takes its place: somebody may have put another store there while it had no name.
    private static func checkSuccessor(_ path: String, at place: String) throws {
        // The old one may be damaged.
        if let user = try user(of: place), [user, nil].contains(try? self.user(of: old(path))) { return }
        throw ReplicaError(
            .notReplica,
            "\(old(path)) is the replica that a sync was setting right when it was killed, and \(path) is another store: move that elsewhere and sync again")
    }

    /// Whether a replica lies there whose place another one was to take: a sound store that is none is somebody's who chose that name.
    private static func hasOld(_ path: String) -> Bool {
        guard SyncTables.isThere(old(path)) else { return false }
        do { return try user(of: old(path)) != nil } catch { return true }
    }

    private static func user(of path: String) throws -> [UInt8]? {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        return try side.read { try $0.get(SyncTables.state, ReplicaState.Key.user) }
    }

    /// What a session planned, as it lies in the side store.
    private static func plan(at path: String) throws -> (rewind: [UInt8]?, anew: [UInt8]?, retract: [UInt8]?)? {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        let plan = try side.read { transaction in
            (
                rewind: try transaction.get(SyncTables.state, ReplicaState.Key.rewind), anew: try transaction.get(SyncTables.state, ReplicaState.Key.anew),
                retract: try transaction.get(SyncTables.state, ReplicaState.Key.retract)
            )
        }
        return plan.rewind == nil && plan.anew == nil && plan.retract == nil ? nil : plan
    }

    /// Writes a damaged replica anew from what is sound of it. What stands behind a gap is kept in the side store until the hub has filled that.
    ///
    /// - Returns: events that were saved, of these those that are kept beside their logs until the hub has been asked, and what was lost, for people.
    static func salvage(_ path: String, _ user: UserID?, _ options: ReplicaOptions) throws -> (saved: Int, aside: Int, lost: [String]) {
        let path = StoreFiles.resolved(path)
        let replacement = try StoreReplacement(of: path)
        defer { replacement.end() }
        return try salvage(path, user, options, contradicted: [])
    }

    /// - Parameter contradicted: logs whose events do not lead to their heads, as a first reading found.
    private static func salvage(
        _ path: String, _ user: UserID?, _ options: ReplicaOptions, contradicted: Set<LogID>
    ) throws -> (saved: Int, aside: Int, lost: [String]) {
        StoreFiles.remove(aside(path))
        var remains = Remains(secrets: try Secrets(of: path, options), contradicted: contradicted)
        var log = options.store.log
        log.access = .readWrite
        let target = try EventStore.open(at: aside(path), options: log)
        let found: Set<LogID>
        do {
            try EventStore.salvage(at: path) {
                try remains.take($0, into: target)
            } lost: {
                remains.lost.append($0)
            }
            try remains.adopt(into: target)
            found = try remains.secrets.contradicted(by: target, remains.held)
            try target.close()
        } catch {
            try? target.close()
            throw error
        }
        // Rows of their own events would vouch for what somebody, or bad memory, made of them.
        if !found.isEmpty { return try salvage(path, user, options, contradicted: found) }
        for (log, head) in remains.secrets.heads ?? [:] where contradicted.contains(log) {
            remains.lost.append("log \(log): its events do not lead to its head at seq \(head.size), though they match their checksums")
        }
        let beside = remains.besideCount
        let side = try SideStore(directory: aside(path), tables: SyncTables.names)
        if let healed = try SideHealing(of: path, user: user, options, isReplica: { remains.secrets.areAdopted }) {
            try healed.write(to: side)
            remains.lost += healed.lost
        } else {
            try copySide(of: path, to: side)
        }
        try side.write { try remains.note(&$0) }
        side.close()
        try replace(path)
        return (remains.saved + beside, beside, remains.lost)
    }

    /// What is sound of a damaged store's events: what goes into the new one, and what must wait beside it.
    private struct Remains {
        let secrets: Secrets
        let contradicted: Set<LogID>
        /// What goes into the new store, up to where.
        private(set) var held: [LogID: Seq] = [:]
        private(set) var saved = 0
        private var batch: [RecordedEvent] = []
        private var fresh: [LogID: [UInt8]] = [:]
        /// What stands behind gaps.
        private var ahead: [RecordedEvent] = []
        /// Of logs whose rows or secrets are lost. Where their ends are known, their first events come again from the hub, with their secrets, and the others
        /// stand behind that gap. Else all comes again, and is compared: a hub that was set back may not have it.
        private var orphans: [LogID: [RecordedEvent]] = [:]
        /// Of logs that contradict themselves, whatever the checksums say: they come again whole, and must lead to their heads, or be just these events.
        private var doubtful: [RecordedEvent] = []
        private var read: Position = 0, last: Position = 0
        /// What cannot be saved, for people.
        var lost: [String] = []

        init(secrets: Secrets, contradicted: Set<LogID>) { (self.secrets, self.contradicted) = (secrets, contradicted) }

        var besideCount: Int { ahead.count + doubtful.count + orphans.values.reduce(0) { $0 + $1.count } }

        mutating func take(_ event: RecordedEvent, into target: EventStore) throws {
            read += 1
            last = max(last, event.position)
            if contradicted.contains(event.log) { return doubtful.append(event) }
            guard let secret = secrets.known[event.log] else { return orphans[event.log, default: []].append(event) }
            let seq = held[event.log] ?? 0
            guard event.seq > seq else { return }
            guard event.seq == seq + 1 else { return ahead.append(event) }
            if seq == 0 { fresh[event.log] = secret }
            held[event.log] = event.seq
            batch.append(event)
            saved += 1
            if batch.count == 4096 { try adopt(into: target) }
        }

        mutating func adopt(into target: EventStore) throws {
            if batch.isEmpty { return }
            _ = try target.adoptBlocking(batch, secrets: fresh)
            batch = []
            fresh = [:]
        }

        /// Notes what waits beside the logs, and what each log had, so that a lost end is missed too; where that cannot be told, all is compared. So it is
        /// where something came behind the cursor: a hub that was set back since may not have it any more, and nothing would tell.
        func note(_ transaction: inout SideStore.Writing) throws {
            let place = try transaction.get(SyncTables.state, ReplicaState.Key.place)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0
            // Where a row is lost, its log's events tell how far it went, if none of them is lost as well.
            let isKnown = secrets.lastPosition == place && last <= place && (secrets.areAllHeads || read == secrets.lastPosition)
            try Lost.put(doubtful, in: SyncTables.suspects, &transaction)
            var ahead = ahead
            for events in orphans.values {
                if isKnown, secrets.heads != nil { ahead += events.filter { $0.seq > 1 } }
                try Lost.put(events.filter { !isKnown || secrets.heads == nil || $0.seq == 1 }, in: SyncTables.suspects, &transaction)
            }
            if var heads = secrets.heads, isKnown {
                for (log, events) in orphans where heads[log] == nil {
                    heads[log] = LogHead(size: events.map(\.seq).max()!, root: DamagedLogs.unknownRoot)
                }
                // What an earlier damage took and no hub has brought yet is still missing.
                for (log, head) in try DamagedLogs.heads(transaction) where head.size > heads[log]?.size ?? 0 { heads[log] = head }
                if !PlantedBug.forgetDamage.isPlanted { try DamagedLogs.put(heads.filter { held[$0.key] != $0.value.size }, ahead: ahead, &transaction) }
                try transaction.put(SyncTables.state, ReplicaState.Key.place, withUnsafeBytes(of: UInt64(saved).bigEndian) { Array($0) })
            } else {
                try DamagedLogs.put([:], ahead: ahead, &transaction)
                try ReplicaState.forgetCursor(&transaction)
            }
            // It says of logs that they were sent up to somewhere, not to the heads that they had.
            try transaction.delete(SyncTables.state, ReplicaState.Key.progress)
            try transaction.delete(SyncTables.state, ReplicaState.Key.newest)
        }
    }

    /// The logs' secrets and heads, if the store can be opened at all.
    private struct Secrets {
        var known: [LogID: [UInt8]] = [:]
        /// Those that can be read; `nil`: not even the archive's state can, or its key is lost.
        var heads: [LogID: LogHead]?
        var areAllHeads = false
        var lastPosition: Position = 0
        /// Whether they came from a hub; `nil`: that cannot be told.
        var areAdopted: Bool?

        init(of path: String, _ options: ReplicaOptions) throws {
            var log = options.store.log
            log.access = .existing
            log.folds = []
            log.skipsUnreadableSecrets = true
            let store: EventStore
            do {
                store = try EventStore.open(at: path, options: log)
            } catch let error as EventLogError where error.code == .damaged {
                salvage(path)
                return
            }
            // What it cannot archive any more is read from its journal as it lies.
            defer { try? store.close() }
            lastPosition = store.lastPosition
            areAdopted = try? store.holdsOnlyAdoptedLogs
            var heads: [LogID: LogHead] = [:]
            areAllHeads = try store.forEachReadableHead { head, secret in
                heads[head.log] = LogHead(size: head.size, root: head.root)
                known[head.log] = secret
            }
            self.heads = heads
        }

        /// The logs that are held whole by a store, and lead to other heads there.
        func contradicted(by target: EventStore, _ held: [LogID: Seq]) throws -> Set<LogID> {
            var found: Set<LogID> = []
            for (log, head) in heads ?? [:] where held[log] == head.size {
                if try target.head(of: log)?.root != head.root { found.insert(log) }
            }
            return found
        }

        /// Of a store that cannot even be opened, what its archive tells: of what stood in the journal alone it knows nothing.
        private mutating func salvage(_ path: String) {
            guard let found = EventStore.salvageHeads(at: path) else { return }
            lastPosition = found.position
            areAllHeads = found.isWhole
            areAdopted = found.logs.isEmpty ? nil : found.logs.values.allSatisfy { $0.secret != nil }
            heads = found.logs.mapValues { LogHead(size: $0.head.size, root: $0.head.root) }
            known = found.logs.compactMapValues(\.secret)
        }
    }

    private static func rewrite(_ path: String, _ plan: [LogID: Seq], anew: Set<LogID>, isRetracting: Bool, _ options: ReplicaOptions) throws {
        var lost: [RecordedEvent] = []
        /// Of these the origins stand before what is cut off, too.
        var doubles: Set<Sent> = []
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
                for event in lost {
                    if try target.seq(of: event.origin, in: event.log) != nil { doubles.insert(Sent(event)) }
                }
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
        let place = try side.read { try $0.get(SyncTables.state, ReplicaState.Key.place)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0 }
        try offerAgain(lost, after: place, doubles, isRetracting: isRetracting, side, options)
    }

    private static func copySide(of path: String, to target: SideStore) throws {
        guard let source = try SyncTables.openIfPresent(path) else { return }
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

    /// A counter of a lane, which one event has.
    private struct Sent: Hashable {
        var log: LogID
        var replica: ReplicaID
        var counter: UInt64

        init(_ event: RecordedEvent) { (log, replica, counter) = (event.log, event.origin.replica, event.origin.counter) }
    }

    /// Of what was cut off, and came when no cursor vouched for it yet, the events that this replica has surely sent. An event leaves the outbox only when it
    /// comes back as it was: so what has a counter that was given out, and is not there any more, was sent. The rest may have been made up, in its name too.
    private static func sent(_ cut: [RecordedEvent], after place: Position, _ doubles: Set<Sent>, _ identity: ReplicaIdentity, _ outbox: Outbox) throws -> Set<
        Sent
    > {
        var seen = doubles
        return Set(
            try cut.filter { event in
                let (log, origin) = (event.log, event.origin)
                return try event.position > place && origin.replica == identity.replica && !event.isErased
                    && origin.counter > 0 && origin.counter <= outbox.counter(of: log)
                    && outbox.table.entry(log, origin.replica, origin.counter) == nil
                    && seen.insert(Sent(event)).inserted
            }.map { Sent($0) })
    }

    /// What this replica made goes back into the outbox, in order. What it sent since the last cursor is asked about under its origin: the hub may have it,
    /// elsewhere. All else goes as new events of its lanes; they keep their message ids, by which a hub knows a repeat. What others made, be they devices of
    /// the same user, is theirs to offer: an event without an id would else be recorded twice.
    ///
    /// - Parameter isRetracting: the hub has lost nothing. What this replica did not surely send is kept aside, and the cursor stays.
    private static func offerAgain(
        _ lost: [RecordedEvent], after place: Position, _ doubles: Set<Sent>, isRetracting: Bool, _ side: SideStore, _ options: ReplicaOptions
    ) throws {
        let facts = try side.read { transaction in
            (name: try transaction.get(SyncTables.state, ReplicaState.Key.user), nonce: try transaction.get(SyncTables.state, ReplicaState.Key.nonce))
        }
        guard let name = facts.name, let user = UserID(String(decoding: name, as: UTF8.self)), let nonce = facts.nonce else {
            throw EventLogError(.damaged, "whose replica it is cannot be read")
        }
        let old = ReplicaIdentity(user: user, nonce: nonce)
        let new = isRetracting ? old : ReplicaIdentity(user: user, nonce: try Identities.nextNonce(after: old, side, options.execution))
        let outbox = try Outbox(side, identity: new)
        let sent = try sent(lost, after: place, doubles, old, outbox)
        var (own, others) = Identities.split(lost, try Identities.own(side, old))
        if isRetracting {
            others += own.filter { !sent.contains(Sent($0)) }
            own.removeAll { !sent.contains(Sent($0)) }
        }
        let times = try OfferedTimes.offered(
            own, others: { try others + Lost.read(side) + Lost.read(side, in: SyncTables.suspects) }, waiting: outbox.entries)
        own = zip(own, times).map { sent.contains(Sent($0)) ? $0 : $1 }
        // One counter has one event, but what was made up may name it too.
        var rest = sent
        try outbox.putFirst(
            own, sentNonce: old.nonce, wasSent: { rest.remove(Sent($0)) != nil },
            write: { transaction in
                try transaction.delete(SyncTables.state, ReplicaState.Key.retract)
                try Lost.put(others, &transaction)
                if isRetracting { return }
                try transaction.delete(SyncTables.state, ReplicaState.Key.rewind)
                try transaction.delete(SyncTables.state, ReplicaState.Key.anew)
                try ReplicaState.forgetCursor(&transaction)
                try Identities.take(new, after: old, &transaction)
            })
    }
}
