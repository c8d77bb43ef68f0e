import CRocksDB
import EventLog

/// Collects events and changed rows in a write batch, and writes it.
final class RocksStateWriter {
    private let database: RocksDatabase
    private let batch = rocksdb_writebatch_create()
    private let writing = rocksdb_writeoptions_create()
    private var fields = EventFields()
    private var value: [UInt8] = []

    /// Without the log, what is written is durable once the database is flushed.
    init(_ database: RocksDatabase, isSynced: Bool, usesLog: Bool = true) {
        self.database = database
        rocksdb_writeoptions_set_sync(writing, isSynced ? 1 : 0)
        rocksdb_writeoptions_disable_WAL(writing, usesLog ? 0 : 1)
    }

    deinit {
        rocksdb_writebatch_destroy(batch)
        rocksdb_writeoptions_destroy(writing)
    }

    private func put(_ table: RocksDatabase.Table, _ key: [UInt8], _ value: [UInt8]) {
        key.withChars { key, keyCount in
            value.withChars { rocksdb_writebatch_put_cf(batch, database[table], key, keyCount, $0, $1) }
        }
    }

    private func put(_ table: RocksDatabase.Table, _ key: [UInt8], _ record: some RecordCodec) {
        value.removeAll(keepingCapacity: true)
        record.encode(into: &value)
        put(table, key, value)
    }

    func add(_ item: Item, position: Position, seq: Seq) throws {
        value.removeAll(keepingCapacity: true)
        let key: [UInt8]
        if case .preferenceSet = item.event.content {
            key = RocksKey.own(item.event.author, seq)
            value.appendID(item.event.conversation)
            try RocksEvent.encode(item, position, &fields, into: &value)
            put(.own, key, value)
        } else {
            key = RocksKey.seq(item.event.conversation, seq)
            try RocksEvent.encode(item, position, &fields, into: &value)
            put(.events, key, value)
        }
        put(.order, RocksKey.position(position), key)
    }

    func add(_ changes: WorkingSet, _ source: RocksStateSource?) throws {
        for row in changes.changedConversations { put(.conversations, RocksKey.conversation(row.id), row.value) }
        for row in changes.changedMessages { try add(row, source) }
        for row in changes.changedMembers { add(row) }
        for row in changes.changedReceipts { put(.people, RocksKey.people(row.conversation, .receipt, row.id), row.value) }
    }

    private func add(_ row: WorkingSet.Message, _ source: RocksStateSource?) throws {
        let record = row.value
        put(.messages, RocksKey.seq(row.conversation, record.seq), record)
        if record.state == .deleted { put(.people, RocksKey.deleted(row.conversation, record.seq), []) }
        guard !row.isStored else { return }
        guard try source?.seq(of: row.id, in: row.conversation) == nil else { throw EngineError("a message id repeats") }
        value.removeAll(keepingCapacity: true)
        value.appendVarint(record.seq)
        put(.ids, RocksKey.message(row.conversation, row.id), value)
    }

    private func add(_ row: WorkingSet.Member) {
        put(.members, RocksKey.member(row.id, row.conversation), row.value)
        let key = RocksKey.people(row.conversation, .participant, row.id)
        guard row.value.isActive != row.stored?.isActive ?? false else { return }
        if row.value.isActive {
            put(.people, key, [])
        } else {
            key.withChars { rocksdb_writebatch_delete_cf(batch, database[.people], $0, $1) }
        }
    }

    func write() throws {
        try RocksDatabase.checked { rocksdb_write(database.handle, writing, batch, &$0) }
        rocksdb_writebatch_clear(batch)
    }
}
