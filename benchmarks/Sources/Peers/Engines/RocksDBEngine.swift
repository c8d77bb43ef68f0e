import CRocksDB
import EventLog
import Glibc

/// RocksDB through its C API: one write batch a commit, WAL synced, a column family for each table.
final class RocksDBEngine: Engine {
    private enum Table: Int, CaseIterable {
        case events
        case order
        case ids

        /// RocksDB insists on a column family named `default`.
        var name: String {
            switch self {
            case .events: "default"
            case .order: "order"
            case .ids: "ids"
            }
        }
    }

    private struct IDKey: Hashable {
        var conversation: ConversationID
        var message: MessageID
    }

    private let database: OpaquePointer
    private let tables: [OpaquePointer?]
    private let batch: OpaquePointer
    private let writing: OpaquePointer
    private let reading: OpaquePointer
    private let options: EngineOptions
    private var sequencer: Sequencer
    private var keys = Keys()
    private var row: [UInt8] = []
    private var added: Set<IDKey> = []

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        self.options = options
        sequencer = Sequencer(after: held)
        let cache = rocksdb_cache_create_lru(RocksTuning.cacheBytes)
        defer { rocksdb_cache_destroy(cache) }
        let tunings = Table.allCases.map { RocksTuning.options(cache: cache, filtersMemtable: $0 == .ids) }
        defer { tunings.forEach(rocksdb_options_destroy) }
        let names = Table.allCases.map { strdup($0.name) }
        defer { names.forEach { free($0) } }
        var handles = [OpaquePointer?](repeating: nil, count: names.count)
        var problem: UnsafeMutablePointer<CChar>?
        let opened = rocksdb_open_column_families(
            tunings[0], directory, CInt(names.count), names.map { UnsafePointer($0) }, tunings.map { $0 }, &handles, &problem)
        try Self.check(problem)
        guard let opened else { throw EngineError("rocksdb_open_column_families gave nothing") }
        database = opened
        tables = handles
        batch = rocksdb_writebatch_create()
        writing = rocksdb_writeoptions_create()
        rocksdb_writeoptions_set_sync(writing, options.isDurable ? 1 : 0)
        reading = rocksdb_readoptions_create()
    }

    private static func check(_ problem: UnsafeMutablePointer<CChar>?) throws {
        guard let problem else { return }
        defer { free(problem) }
        throw EngineError("rocksdb: " + String(cString: problem))
    }

    private func put(_ table: Table, _ key: [UInt8], _ value: [UInt8]) {
        key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                rocksdb_writebatch_put_cf(
                    batch, tables[table.rawValue], key.baseAddress?.assumingMemoryBound(to: CChar.self), key.count,
                    value.baseAddress?.assumingMemoryBound(to: CChar.self), value.count)
            }
        }
    }

    /// Lends the value of a key, if there is one.
    private func get<Result>(_ table: Table, _ key: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Result) throws
        -> Result?
    {
        var problem: UnsafeMutablePointer<CChar>?
        let start = key.baseAddress?.assumingMemoryBound(to: CChar.self)
        let slice = rocksdb_get_pinned_cf(database, reading, tables[table.rawValue], start, key.count, &problem)
        try Self.check(problem)
        guard let slice else { return nil }
        defer { rocksdb_pinnableslice_destroy(slice) }
        var count = 0
        let value = rocksdb_pinnableslice_value(slice, &count)
        return try body(UnsafeRawBufferPointer(start: value, count: count))
    }

    func append(_ items: ArraySlice<Item>) throws {
        rocksdb_writebatch_clear(batch)
        added.removeAll(keepingCapacity: true)
        for item in items {
            let conversation = item.event.conversation
            let (seq, position) = sequencer.next(conversation)
            keys.set(conversation, seq: seq, position: position)
            try Row.encode(item, position: position, into: &row)
            put(.events, keys.event, row)
            put(.order, keys.position, keys.event)
            guard options.keepsIDs, let message = item.event.content.newMessageID else { continue }
            keys.set(conversation, message: message, seq: seq)
            // What this batch adds is not in the database yet.
            guard added.insert(IDKey(conversation: conversation, message: message)).inserted,
                try keys.message.withUnsafeBytes({ try get(.ids, $0) { _ in true } }) == nil
            else { throw EngineError("a message id repeats") }
            put(.ids, keys.message, keys.seq)
        }
        var problem: UnsafeMutablePointer<CChar>?
        rocksdb_write(database, writing, batch, &problem)
        try Self.check(problem)
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        let table: Table = order == .commit ? .order : .events
        let iterator = rocksdb_create_iterator_cf(database, reading, tables[table.rawValue])
        defer { rocksdb_iter_destroy(iterator) }
        rocksdb_iter_seek_to_first(iterator)
        var count = 0
        while rocksdb_iter_valid(iterator) != 0 {
            var (keyCount, valueCount) = (0, 0)
            let key = UnsafeRawBufferPointer(start: rocksdb_iter_key(iterator, &keyCount), count: keyCount)
            let value = UnsafeRawBufferPointer(start: rocksdb_iter_value(iterator, &valueCount), count: valueCount)
            let (conversation, seq) = try Keys.parse(order == .commit ? value : key)
            if order == .commit {
                guard let event = try get(.events, value, { try Row.decode($0, conversation: conversation, seq: seq) }) else {
                    throw EngineError("rocksdb: an event is missing")
                }
                body(event)
            } else {
                body(try Row.decode(value, conversation: conversation, seq: seq))
            }
            count += 1
            rocksdb_iter_next(iterator)
        }
        var problem: UnsafeMutablePointer<CChar>?
        rocksdb_iter_get_error(iterator, &problem)
        try Self.check(problem)
        return count
    }

    /// Writes the buffers out first, as a server that stops would: else the closed database were mostly its log.
    func close() throws {
        let flushing = rocksdb_flushoptions_create()
        defer { rocksdb_flushoptions_destroy(flushing) }
        var problem: UnsafeMutablePointer<CChar>?
        for table in tables {
            rocksdb_flush_cf(database, flushing, table, &problem)
            try Self.check(problem)
        }
        for table in tables { rocksdb_column_family_handle_destroy(table) }
        rocksdb_writebatch_destroy(batch)
        rocksdb_writeoptions_destroy(writing)
        rocksdb_readoptions_destroy(reading)
        rocksdb_close(database)
    }
}
