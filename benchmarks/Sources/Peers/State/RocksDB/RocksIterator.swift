import CRocksDB

/// A walk over the keys of a table that begin with a prefix. The lent bytes live until the next step.
struct RocksIterator: ~Copyable {
    private let handle: OpaquePointer?
    private let prefix: [UInt8]

    /// From the first key with this prefix, or from the first at or after `start`.
    init(_ database: RocksDatabase, _ table: RocksDatabase.Table, _ reading: OpaquePointer?, prefix: [UInt8], from start: [UInt8]? = nil) {
        handle = rocksdb_create_iterator_cf(database.handle, reading, database[table])
        self.prefix = prefix
        (start ?? prefix).withChars { rocksdb_iter_seek(handle, $0, $1) }
    }

    /// From the last key at or before `end`, which has the prefix.
    init(_ database: RocksDatabase, _ table: RocksDatabase.Table, _ reading: OpaquePointer?, prefix: [UInt8], backFrom end: [UInt8]) {
        handle = rocksdb_create_iterator_cf(database.handle, reading, database[table])
        self.prefix = prefix
        end.withChars { rocksdb_iter_seek_for_prev(handle, $0, $1) }
    }

    deinit { rocksdb_iter_destroy(handle) }

    /// Whether it stands at a key with the prefix.
    var isValid: Bool {
        get throws {
            guard rocksdb_iter_valid(handle) != 0 else {
                try RocksDatabase.checked { rocksdb_iter_get_error(handle, &$0) }
                return false
            }
            return key.starts(with: prefix)
        }
    }

    var key: UnsafeRawBufferPointer {
        var count = 0
        let start = rocksdb_iter_key(handle, &count)
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    /// The key without the prefix.
    var suffix: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: key[prefix.count...]) }

    var value: UnsafeRawBufferPointer {
        var count = 0
        let start = rocksdb_iter_value(handle, &count)
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    func next() { rocksdb_iter_next(handle) }

    func previous() { rocksdb_iter_prev(handle) }
}
