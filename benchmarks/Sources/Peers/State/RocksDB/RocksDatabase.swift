import CRocksDB
import Glibc

/// A database with a column family for each table; any number of threads may read.
final class RocksDatabase: @unchecked Sendable {  // RocksDB's handles may be shared; only the owner, alone, resets or closes.
    enum Table: String, CaseIterable {
        /// conversation seq -> event. (RocksDB insists on a column family named `default`.)
        case events = "default"
        /// position -> key of the event
        case order
        /// user seq -> conversation, preference event
        case own
        /// conversation message -> seq
        case ids
        /// conversation seq -> row of the timeline
        case messages
        /// conversation -> summary
        case conversations
        /// user conversation -> membership
        case members
        /// conversation 0 user -> nothing, for a participant; conversation 1 user -> receipt; conversation 2 seq -> nothing, for a deleted message
        case people

        static let state: [Table] = [.ids, .messages, .conversations, .members, .people]
    }

    let handle: OpaquePointer
    private(set) var tables: [Table: OpaquePointer]
    private let tunings: [Table: OpaquePointer?]
    private let cache: OpaquePointer?

    init(_ directory: String) throws {
        let cache = rocksdb_cache_create_lru(RocksTuning.cacheBytes)
        let options = Table.allCases.map { RocksTuning.options(cache: cache, filtersMemtable: $0 == .ids) }
        let names = Table.allCases.map { strdup($0.rawValue) }
        defer { names.forEach { free($0) } }
        var handles = [OpaquePointer?](repeating: nil, count: names.count)
        let opened = try Self.checked {
            rocksdb_open_column_families(
                options[0], directory, CInt(names.count), names.map { UnsafePointer($0) }, options, &handles, &$0)
        }
        guard let opened else { throw EngineError("rocksdb_open_column_families gave nothing") }
        handle = opened
        tables = Dictionary(uniqueKeysWithValues: zip(Table.allCases, handles.compactMap { $0 }))
        tunings = Dictionary(uniqueKeysWithValues: zip(Table.allCases, options))
        self.cache = cache
    }

    static func checked<Result>(_ body: (inout UnsafeMutablePointer<CChar>?) -> Result) throws -> Result {
        var problem: UnsafeMutablePointer<CChar>?
        let result = body(&problem)
        guard let problem else { return result }
        defer { free(problem) }
        throw EngineError("rocksdb: " + String(cString: problem))
    }

    subscript(table: Table) -> OpaquePointer? { tables[table] }

    /// Lends the value of a key, if there is one.
    func get<Result>(
        _ table: Table, _ key: [UInt8], _ reading: OpaquePointer?, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result? {
        let slice = try key.withChars { start, count in
            try Self.checked { rocksdb_get_pinned_cf(handle, reading, self[table], start, count, &$0) }
        }
        guard let slice else { return nil }
        defer { rocksdb_pinnableslice_destroy(slice) }
        return try body(slice.pinnedBytes)
    }

    func recreate(_ dropped: [Table]) throws {
        for table in dropped {
            try Self.checked { rocksdb_drop_column_family(handle, self[table], &$0) }
            rocksdb_column_family_handle_destroy(self[table])
            tables[table] = try Self.checked { rocksdb_create_column_family(handle, tunings[table] ?? nil, table.rawValue, &$0) }
        }
    }

    func flush() throws {
        let flushing = rocksdb_flushoptions_create()
        defer { rocksdb_flushoptions_destroy(flushing) }
        for table in tables.values { try Self.checked { rocksdb_flush_cf(handle, flushing, table, &$0) } }
    }

    func compact() {
        for table in tables.values { rocksdb_compact_range_cf(handle, table, nil, 0, nil, 0) }
    }

    /// Writes the buffers out first, as a server that stops would: else the closed database were mostly its log.
    func close() throws {
        try flush()
        tables.values.forEach(rocksdb_column_family_handle_destroy)
        rocksdb_close(handle)
        tunings.values.forEach(rocksdb_options_destroy)
        rocksdb_cache_destroy(cache)
    }
}

extension [UInt8] {
    func withChars<Result>(_ body: (UnsafePointer<CChar>?, Int) throws -> Result) rethrows -> Result {
        try withUnsafeBytes { try body($0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count) }
    }
}

extension OpaquePointer {
    /// The bytes of a `rocksdb_pinnableslice_t`, as long as that lives.
    var pinnedBytes: UnsafeRawBufferPointer {
        var count = 0
        let start = rocksdb_pinnableslice_value(self, &count)
        return UnsafeRawBufferPointer(start: start, count: count)
    }
}
