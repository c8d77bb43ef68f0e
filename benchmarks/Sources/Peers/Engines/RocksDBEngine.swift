import CRocksDB
import EventLog
import Glibc

/// RocksDB through its C API: one write batch a commit, WAL synced.
///
/// Tuned as its wiki advises for such a load: 64 MiB write buffers, LZ4 above and zstd in the last level, Bloom filters (a new
/// message id is then not looked up on disk), an LRU cache, log files used again (a sync then changes no file size).
final class RocksDBEngine: Engine {
    private let database: OpaquePointer
    private let batch: OpaquePointer
    private let writing: OpaquePointer
    private let reading: OpaquePointer
    private let options: EngineOptions
    private var sequencer: Sequencer
    private var keys = Keys()
    private var row: [UInt8] = []
    private var added: Set<[UInt8]> = []

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        self.options = options
        sequencer = Sequencer(after: held)
        let table = rocksdb_block_based_options_create()
        rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(256 << 20))
        rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10))
        rocksdb_block_based_options_set_block_size(table, 16 << 10)
        rocksdb_block_based_options_set_format_version(table, 5)
        let tuning = rocksdb_options_create()
        defer { rocksdb_options_destroy(tuning) }
        rocksdb_options_set_create_if_missing(tuning, 1)
        rocksdb_options_set_block_based_table_factory(tuning, table)
        rocksdb_options_set_compression(tuning, CInt(rocksdb_lz4_compression))
        rocksdb_options_set_bottommost_compression(tuning, CInt(rocksdb_zstd_compression))
        rocksdb_options_set_write_buffer_size(tuning, 64 << 20)
        rocksdb_options_set_level_compaction_dynamic_level_bytes(tuning, 1)
        rocksdb_options_set_max_background_jobs(tuning, 2)
        rocksdb_options_set_bytes_per_sync(tuning, 1 << 20)
        rocksdb_options_set_recycle_log_file_num(tuning, 2)
        var problem: UnsafeMutablePointer<CChar>?
        let opened = rocksdb_open(tuning, directory, &problem)
        try Self.check(problem)
        guard let opened else { throw EngineError("rocksdb_open gave nothing") }
        database = opened
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

    private func put(_ key: [UInt8], _ value: some RandomAccessCollection<UInt8>) {
        key.withUnsafeBytes { key in
            _ = value.withContiguousStorageIfAvailable { value in
                value.withMemoryRebound(to: CChar.self) { value in
                    rocksdb_writebatch_put(
                        batch, key.baseAddress!.assumingMemoryBound(to: CChar.self), key.count, value.baseAddress, value.count)
                }
            }
        }
    }

    private func holds(_ key: [UInt8]) throws -> Bool {
        var problem: UnsafeMutablePointer<CChar>?
        let slice = key.withUnsafeBytes {
            rocksdb_get_pinned(database, reading, $0.baseAddress!.assumingMemoryBound(to: CChar.self), key.count, &problem)
        }
        try Self.check(problem)
        defer { if let slice { rocksdb_pinnableslice_destroy(slice) } }
        return slice != nil
    }

    func append(_ items: ArraySlice<Item>) throws {
        rocksdb_writebatch_clear(batch)
        added.removeAll(keepingCapacity: true)
        for item in items {
            let (seq, position) = sequencer.next(item.event.conversation)
            let message = options.keepsIDs ? item.event.content.newMessageID : nil
            keys.set(item.event.conversation, seq: seq, position: position, message: message)
            try Row.encode(item, position: position, into: &row)
            put(keys.event, row)
            put(keys.position, keys.event[1...])
            guard message != nil else { continue }
            guard added.insert(keys.message).inserted, try !holds(keys.message) else { throw EngineError("a message id repeats") }
            put(keys.message, keys.event[17...])
        }
        var problem: UnsafeMutablePointer<CChar>?
        rocksdb_write(database, writing, batch, &problem)
        try Self.check(problem)
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        let iterator = rocksdb_create_iterator(database, reading)
        defer { rocksdb_iter_destroy(iterator) }
        let table = order == .commit ? Keys.order : Keys.events
        withUnsafePointer(to: CChar(table)) { rocksdb_iter_seek(iterator, $0, 1) }
        var count = 0
        var key: [UInt8] = []
        while rocksdb_iter_valid(iterator) != 0 {
            var (keyCount, valueCount) = (0, 0)
            let keyBytes = UnsafeRawBufferPointer(start: rocksdb_iter_key(iterator, &keyCount), count: keyCount)
            guard keyBytes.first == table else { break }
            let value = UnsafeRawBufferPointer(start: rocksdb_iter_value(iterator, &valueCount), count: valueCount)
            switch order {
            case .conversation:
                let (conversation, seq) = try Keys.parse(UnsafeRawBufferPointer(rebasing: keyBytes[1...]))
                body(try Row.decode(value, conversation: conversation, seq: seq))
            case .commit:
                key.removeAll(keepingCapacity: true)
                key.append(Keys.events)
                key.append(contentsOf: value)
                let (conversation, seq) = try Keys.parse(value)
                var problem: UnsafeMutablePointer<CChar>?
                let row = key.withUnsafeBytes {
                    rocksdb_get_pinned(database, reading, $0.baseAddress!.assumingMemoryBound(to: CChar.self), key.count, &problem)
                }
                try Self.check(problem)
                guard let row else { throw EngineError("rocksdb: an event is missing") }
                defer { rocksdb_pinnableslice_destroy(row) }
                let start = rocksdb_pinnableslice_value(row, &valueCount)
                body(try Row.decode(UnsafeRawBufferPointer(start: start, count: valueCount), conversation: conversation, seq: seq))
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
        rocksdb_flush(database, flushing, &problem)
        rocksdb_writebatch_destroy(batch)
        rocksdb_writeoptions_destroy(writing)
        rocksdb_readoptions_destroy(reading)
        rocksdb_close(database)
        try Self.check(problem)
    }
}
