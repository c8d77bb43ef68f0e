public import ConversationStore

/// A replica's side store made anew from the sound records of a damaged one.
struct SideHealing {
    private(set) var records: [SideStore.TableName: [SideStore.Record]] = [:]
    /// What could not be kept, for people.
    private(set) var lost: [String]
    private let salvaged: SideStore.Salvaged
    private(set) var outbox: [OutboxEntry] = []

    /// `nil` if the file is sound, or absent.
    ///
    /// - Parameters:
    ///   - user: whose replica it is, where that cannot be read any more.
    ///   - isReplica: whether the log can be a replica's; asked where the file does not tell. `nil`: the log does not either.
    /// - Throws: `EventLogError`; `ReplicaError` `notReplica`, `otherUser`.
    init?(of path: String, user: UserID?, _ options: ReplicaOptions, isReplica: () throws -> Bool?) throws {
        guard StoreFiles.exists(SideStore.path(path)) else { return nil }
        salvaged = try SideStore.salvage(directory: path, tables: SyncTables.names)
        if salvaged.isSound { return nil }
        lost = salvaged.losses(of: SyncTables.names)
        for name in Set(salvaged.names + SyncTables.names) { records[name] = salvaged[name].records }
        // Of an opening that is missing the cursors would be taken for those of the one before.
        if !salvaged[SyncTables.incarnations].isWhole { records[SyncTables.incarnations] = [] }
        readOutbox()
        dropStrangers()
        if options.isService, fact(ReplicaState.Key.user) == nil { set(ReplicaState.Key.service, [1]) }
        let user = try owner(path, user, isReplica)
        set(ReplicaState.Key.user, Array(user.string.utf8))
        let isIdentityKnown = fact(ReplicaState.Key.nonce)?.count == 16
        settleIdentity(user, options)
        try settleOffers(user, isIdentityKnown: isIdentityKnown)
        try settlePreviews()
        // It vouches for what is missing now: so all is compared with what the hub has.
        typealias Key = ReplicaState.Key
        for key in [Key.cursor, Key.outboxPosition, Key.progress, Key.newest, Key.unread, Key.place, Key.healed, Key.filled] { set(key, nil) }
    }

    func write(to side: SideStore) throws {
        for name in SyncTables.names {
            try side.write { transaction in for (key, value) in records[name] ?? [] { try transaction.put(name, key, value) } }
        }
    }

    private func fact(_ key: [UInt8]) -> [UInt8]? { records[SyncTables.state]?.first { $0.key == key }?.value }

    private mutating func set(_ key: [UInt8], _ value: [UInt8]?) {
        records[SyncTables.state, default: []].removeAll { $0.key == key }
        if let value { records[SyncTables.state]!.append((key, value)) }
    }

    private mutating func readOutbox() {
        let all = records[SyncTables.outbox] ?? []
        let read = all.map { record in record.value.withUnsafeBytes { try? OutboxEntry(id: Outbox.id(record.key), decoding: $0) } }
        outbox = read.compactMap { $0 }
        records[SyncTables.outbox] = zip(all, read).filter { $1 != nil }.map(\.0)
        if outbox.count < all.count { lost.append("\(SideStore.fileName): \(all.count - outbox.count) entries of the outbox that are none") }
    }

    /// Where a page is damaged that tells where a table begins, another table's records may be found under its name.
    private mutating func dropStrangers() {
        for name in [SyncTables.previews, SyncTables.ahead, SyncTables.lost, SyncTables.suspects, SyncTables.offers] {
            let all = records[name] ?? []
            let own = all.filter { Self.isOwn($0, of: name) }
            if own.count < all.count { lost.append("\(SideStore.fileName): \(all.count - own.count) records of the table \(name) that are none") }
            records[name] = own
        }
    }

    private static func isOwn(_ record: SideStore.Record, of table: SideStore.TableName) -> Bool {
        let key = record.key
        do {
            return try record.value.withUnsafeBytes { value in
                switch table {
                case SyncTables.previews where key.count == 24 && key.suffix(8).allSatisfy { $0 == 0 }:
                    _ = try Previews.Part(decoding: value)
                    return true
                case SyncTables.previews:
                    let event = try RecordedEvent(kept: value)
                    return key == event.event.conversation.bytes + withUnsafeBytes(of: event.seq.bigEndian) { Array($0) }
                case SyncTables.ahead:
                    let event = try WaitingEvent(decoding: value).event
                    return key == event.log.key + withUnsafeBytes(of: event.seq.bigEndian) { Array($0) }
                default: return key == Lost.key(try RecordedEvent(kept: value))
                }
            }
        } catch {
            return false
        }
    }

    private func owner(_ path: String, _ given: UserID?, _ isReplica: () throws -> Bool?) throws -> UserID {
        // Whether it is the one that was given, its opening tells.
        if let name = fact(ReplicaState.Key.user), let known = UserID(String(decoding: name, as: UTF8.self)) { return known }
        guard let given else {
            throw EventLogError(.damaged, "\(SideStore.path(path)): whose replica it is cannot be read; run `convstore sync --verify --user NAME`")
        }
        // A hub that took itself for a replica would be cut back to what another hub has.
        guard let isReplica = try salvaged[SyncTables.incarnations].records.isEmpty ? isReplica() : false else {
            throw EventLogError(
                .damaged,
                "\(path): neither its file \(SideStore.fileName) nor its log tells whose it is, as \(path)/key or the archive's state cannot be read; put the key "
                    + "back from a copy of it, or name another directory for a new replica: what is held here is read by `convstore export --salvage`")
        }
        guard isReplica else {
            throw ReplicaError(.notReplica, "\(path) has a damaged side store and is no replica; `convstore serve` makes a hub's anew")
        }
        // A service's outbox has events of others.
        if fact(ReplicaState.Key.service) == nil, let entry = outbox.first(where: { $0.event.author != given }) {
            throw ReplicaError(.otherUser, "\(path) is the replica of \(entry.event.author), not of \(given)")
        }
        return given
    }

    /// Counters that may have been given out must not be given out again: without all that were, the replica begins as another one. What was sent is asked
    /// about under the id that it was sent with.
    private mutating func settleIdentity(_ user: UserID, _ options: ReplicaOptions) {
        let nonce = fact(ReplicaState.Key.nonce).flatMap { $0.count == 16 ? $0 : nil }
        // As many as there should be may be another table's.
        let areLanes = (records[SyncTables.lanes] ?? []).allSatisfy { LogID(key: $0.key) != nil && $0.value.count == 8 }
        if nonce != nil, salvaged[SyncTables.lanes].isWhole, areLanes { return }
        var former = fact(ReplicaState.Key.former) ?? []
        var known = Set(stride(from: 0, to: former.count - former.count % 16, by: 16).map { Array(former[$0..<$0 + 16]) })
        let own = [nonce.map { ReplicaIdentity(user: user, nonce: $0).replica }] + outbox.map(\.origin.replica)
        for id in own.compactMap({ $0?.bytes }) where known.insert(id).inserted { former += id }
        set(ReplicaState.Key.former, former)
        // What it took, or a copy of it, is of that family still.
        if let nonce, fact(ReplicaState.Key.family) == nil { set(ReplicaState.Key.family, nonce) }
        set(ReplicaState.Key.nonce, Replica.nonce(options.execution))
        records[SyncTables.lanes] = []
    }

    /// What was found under the name of the offers, and is none of this replica's own, must not be said again: it is kept aside.
    private mutating func settleOffers(_ user: UserID, isIdentityKnown: Bool) throws {
        let identity = ReplicaIdentity(user: user, nonce: fact(ReplicaState.Key.nonce) ?? [])
        let own = try? Identities.own(in: fact, identity)
        let isService = fact(ReplicaState.Key.service) != nil
        var (offers, others): ([SideStore.Record], [SideStore.Record]) = ([], [])
        for record in records[SyncTables.offers] ?? [] {
            let event = try record.value.withUnsafeBytes { try RecordedEvent(kept: $0) }
            // Where nothing tells its ids any more, a user's words are taken for this device's.
            let isOwn = own?.contains(event) ?? false || !isIdentityKnown && !isService && event.event.author == user
            if isOwn { offers.append(record) } else { others.append(record) }
        }
        records[SyncTables.offers] = offers
        records[SyncTables.lost, default: []] += others
    }

    /// Of a newest part without its beginning or with a gap nothing can be shown: its events wait until the hub has been asked what it has there.
    private mutating func settlePreviews() throws {
        var kept: [SideStore.Record] = []
        for (_, part) in Dictionary(grouping: records[SyncTables.previews] ?? [], by: { Array($0.key.prefix(16)) }) {
            let seqs = part.map { $0.key.suffix(8).reduce(Seq(0)) { $0 << 8 | Seq($1) } }
            let base = try seqs.first == 0 ? part[0].value.withUnsafeBytes { try ByteReader.firstVarint($0) } : nil
            if let base, seqs.dropFirst().elementsEqual((base..<base + Seq(part.count - 1)).map { $0 + 1 }) {
                kept += part
                continue
            }
            for record in part where !record.key.suffix(8).allSatisfy({ $0 == 0 }) {
                let event = try record.value.withUnsafeBytes { try RecordedEvent(kept: $0) }
                records[SyncTables.suspects, default: []].append((Lost.key(event), record.value))
            }
        }
        records[SyncTables.previews] = kept
    }
}

extension ByteReader {
    fileprivate static func firstVarint(_ bytes: UnsafeRawBufferPointer) throws -> UInt64 {
        var reader = ByteReader(bytes)
        return try reader.varint()
    }
}

extension Replica {
    /// Makes the side store of a replica anew from what is sound of it, if it is damaged. What the hub has is compared in the next session.
    ///
    /// - Parameter user: whose replica it is, where that cannot be read any more.
    /// - Returns: how many events are kept in the outbox, and what was lost; `nil` if the side store is sound.
    public static func healSide(
        at path: String, user: UserID? = nil, options: ReplicaOptions = ReplicaOptions()
    ) throws -> (pending: Int, lost: [String])? {
        var log = options.store.log
        log.access = .existing
        log.folds = []
        // Held, so that nobody else writes meanwhile.
        let store = try EventStore.open(at: path, options: log)
        defer { try? store.close() }
        guard let healed = try SideHealing(of: path, user: user, options, isReplica: { try store.holdsOnlyAdoptedLogs }) else { return nil }
        try SideStore.replace(directory: path, tables: SyncTables.names, with: healed.records)
        return (healed.outbox.count, healed.lost)
    }
}
