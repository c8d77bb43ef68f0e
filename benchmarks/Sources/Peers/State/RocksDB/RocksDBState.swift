import EventLog

/// RocksDB as a good engineer would use it here: one write batch a commit, WAL synced, a key for each message, conversation and
/// membership; each row that a commit's events touch is read once and written once.
final class RocksDBState: ReadEngine {
    private static let buildBatchRows = 4096
    private let database: RocksDatabase
    private let source: RocksStateSource
    private let writer: RocksStateWriter
    private var changes: WorkingSet
    private var position: Position = 0
    /// What a server keeps in memory: the ends of users' own logs.
    private var ownSeqs: [UserID: Seq] = [:]

    init(directory: String, isDurable: Bool) throws {
        database = try RocksDatabase(directory)
        source = RocksStateSource(database)
        writer = RocksStateWriter(database, isSynced: isDurable)
        changes = WorkingSet(source)
        let last = RocksIterator(database, .order, source.reading, prefix: [], backFrom: RocksKey.position(.max))
        guard try last.isValid else { return }
        var reader = RowReader(last.key)
        position = try reader.fixed()
    }

    func append(_ items: ArraySlice<Item>) throws {
        let now = wallMilliseconds()
        for item in items {
            position += 1
            var seq = try changes.fold(item, position: position, now: now).seq
            if seq == 0 { seq = try nextOwnSeq(of: item.event.author) }
            try writer.add(item, position: position, seq: seq)
        }
        try writer.add(changes, source)
        try writer.write()
        changes.removeAll()
    }

    /// A preference's seq, in its user's own log.
    private func nextOwnSeq(of user: UserID) throws -> Seq {
        var seq = ownSeqs[user] ?? 0
        if seq == 0 {
            let last = RocksIterator(
                database, .own, source.reading, prefix: RocksKey.user(user), backFrom: RocksKey.own(user, .max))
            if try last.isValid {
                var reader = RowReader(last.suffix)
                seq = try reader.fixed()
            }
        }
        ownSeqs[user] = seq + 1
        return seq + 1
    }

    func reader() throws -> any StateReader { RocksStateReader(database) }

    func dropState() throws { try database.recreate(RocksDatabase.Table.state) }

    /// Folds one conversation after the other in memory, as the events lie, and writes finished rows without a log; the flush makes them
    /// durable.
    func buildState() throws {
        let bulk = RocksStateWriter(database, isSynced: false, usesLog: false)
        let preferences = try preferences()
        let now = wallMilliseconds()
        var building = WorkingSet(NoStateSource())
        var fields = EventFields()
        var (conversation, rows) = (ConversationID(high: 0, low: 0), 0)
        func finish() throws {
            for (position, item) in preferences[conversation] ?? [] { _ = try building.fold(item, position: position, now: now) }
            try bulk.add(building, nil)
            rows += building.changedMessages.count + 1
            building.removeAll()
            guard rows >= Self.buildBatchRows else { return }
            try bulk.write()
            rows = 0
        }
        let events = RocksIterator(database, .events, source.reading, prefix: [])
        while try events.isValid {
            var key = RowReader(events.key)
            let id: ConversationID = try key.id()
            if id != conversation {
                try finish()
                conversation = id
            }
            let (position, item) = try RocksEvent.decode(RowReader(events.value), in: id, &fields)
            _ = try building.fold(item, position: position, now: now)
            events.next()
        }
        try finish()
        try bulk.write()
        try database.flush()
    }

    /// All preferences' events by their conversations; they lie in their users' logs.
    private func preferences() throws -> [ConversationID: [(Position, Item)]] {
        var result: [ConversationID: [(Position, Item)]] = [:]
        var fields = EventFields()
        let events = RocksIterator(database, .own, source.reading, prefix: [])
        while try events.isValid {
            var reader = RowReader(events.value)
            let conversation: ConversationID = try reader.id()
            result[conversation, default: []].append(try RocksEvent.decode(reader, in: conversation, &fields))
            events.next()
        }
        return result
    }

    func compact() throws {
        try database.flush()
        database.compact()
    }

    func close() throws { try database.close() }
}
