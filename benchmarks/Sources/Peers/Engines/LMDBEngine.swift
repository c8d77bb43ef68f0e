import CLMDBPeer
import EventLog

/// LMDB with one key an event, one transaction a commit.
final class LMDBEngine: Engine {
    private let environment: OpaquePointer
    private let tables: (events: MDB_dbi, order: MDB_dbi, ids: MDB_dbi)
    private let options: EngineOptions
    private var sequencer: Sequencer
    private var keys = Keys()
    private var row: [UInt8] = []

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        self.options = options
        sequencer = Sequencer(after: held)
        var opened: OpaquePointer?
        try Self.check(mdb_env_create(&opened))
        guard let opened else { throw EngineError("mdb_env_create gave nothing") }
        environment = opened
        try Self.check(mdb_env_set_mapsize(environment, 16 << 30))
        try Self.check(mdb_env_set_maxdbs(environment, 3))
        let flags = options.isDurable ? 0 : UInt32(MDB_NOSYNC)
        try Self.check(mdb_env_open(environment, directory, flags, 0o600))
        var transaction: OpaquePointer?
        try Self.check(mdb_txn_begin(environment, nil, 0, &transaction))
        func table(_ name: String) throws -> MDB_dbi {
            var handle: MDB_dbi = 0
            try Self.check(mdb_dbi_open(transaction, name, UInt32(MDB_CREATE), &handle))
            return handle
        }
        tables = (try table("events"), try table("order"), try table("ids"))
        try Self.check(mdb_txn_commit(transaction))
    }

    private static func check(_ code: CInt) throws {
        guard code == 0 else { throw EngineError("lmdb: " + String(cString: mdb_strerror(code))) }
    }

    private func put(_ transaction: OpaquePointer?, _ table: MDB_dbi, _ key: [UInt8], _ value: [UInt8], _ flags: CInt = 0) throws {
        try key.withUnsafeBytes { key in
            try value.withUnsafeBytes { value in
                var key = MDB_val(key)
                var value = MDB_val(value)
                try Self.check(mdb_put(transaction, table, &key, &value, UInt32(flags)))
            }
        }
    }

    func append(_ items: ArraySlice<Item>) throws {
        var transaction: OpaquePointer?
        try Self.check(mdb_txn_begin(environment, nil, 0, &transaction))
        do {
            for item in items {
                let conversation = item.event.conversation
                let (seq, position) = sequencer.next(conversation)
                keys.set(conversation, seq: seq, position: position)
                try Row.encode(item, position: position, into: &row)
                try put(transaction, tables.events, keys.event, row)
                try put(transaction, tables.order, keys.position, keys.event, MDB_APPEND)
                guard options.keepsIDs, let message = item.event.content.newMessageID else { continue }
                keys.set(conversation, message: message, seq: seq)
                try put(transaction, tables.ids, keys.message, keys.seq, MDB_NOOVERWRITE)
            }
        } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        try Self.check(mdb_txn_commit(transaction))
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        var transaction: OpaquePointer?
        try Self.check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction))
        defer { mdb_txn_abort(transaction) }
        var cursor: OpaquePointer?
        try Self.check(mdb_cursor_open(transaction, order == .commit ? tables.order : tables.events, &cursor))
        defer { mdb_cursor_close(cursor) }
        var (key, value) = (MDB_val(), MDB_val())
        var count = 0
        var code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST)
        while code == 0 {
            if order == .commit {
                key = value
                try Self.check(mdb_get(transaction, tables.events, &key, &value))
            }
            let (conversation, seq) = try Keys.parse(key.bytes)
            body(try Row.decode(value.bytes, conversation: conversation, seq: seq))
            count += 1
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
        }
        guard code == MDB_NOTFOUND else { throw EngineError("lmdb: " + String(cString: mdb_strerror(code))) }
        return count
    }

    func close() throws {
        try Self.check(mdb_env_sync(environment, 1))
        mdb_env_close(environment)
    }
}

extension MDB_val {
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    }

    fileprivate var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: mv_data, count: mv_size) }
}
