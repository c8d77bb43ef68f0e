internal import CLMDB

/// A snapshot of the environment, lent for the length of a closure.
struct ReadTransaction: ~Copyable {
    let handle: OpaquePointer

    /// Who lends the handle ends it.
    init(handle: OpaquePointer) { self.handle = handle }

    /// The same snapshot, for a type that wraps it while this one is lent.
    var lent: ReadTransaction { ReadTransaction(handle: handle) }

    /// The value's bytes, which lie in the map: copy what must outlive the transaction.
    func get(_ table: LMDBEnvironment.Table, _ key: some Collection<UInt8>) throws(LMDBError) -> UnsafeRawBufferPointer? {
        try lookUp(handle, table, Array(key))
    }

    /// Visits records in key order from a key on (or backwards from it), until the closure says false.
    func forEach(
        _ table: LMDBEnvironment.Table, from key: [UInt8] = [], isReversed: Bool = false,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Bool
    ) throws {
        try visit(handle, table.index, from: key, isReversed: isReversed, body)
    }

    /// The last record at or below a key.
    func floor(_ table: LMDBEnvironment.Table, _ key: [UInt8]) throws -> (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)? {
        var found: (UnsafeRawBufferPointer, UnsafeRawBufferPointer)?
        try forEach(table, from: key, isReversed: true) { key, value in
            found = (key, value)
            return false
        }
        return found
    }

    /// A table's records, and the bytes of the pages that they lie on.
    func size(_ table: LMDBEnvironment.Table) throws(LMDBError) -> (records: Int, bytes: Int) {
        var stat = MDB_stat()
        try LMDBError.check(mdb_stat(handle, table.index, &stat), "mdb_stat")
        return (stat.ms_entries, (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) * Int(stat.ms_psize))
    }

    /// An address in the map; `nil` if the environment is empty.
    func anyAddress() throws -> UnsafeRawPointer? {
        var address: UnsafeRawPointer?
        // The tables' names have the first table there is; LMDB has it open always.
        try visit(handle, 1, from: [], isReversed: false) { _, value in
            address = value.baseAddress
            return false
        }
        return address
    }

    func forEachFree(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        try visit(handle, 0, from: [], isReversed: false) { _, value in
            try body(value)
            return true
        }
    }
}

/// A write transaction: committed once, by the environment, or rolled back.
struct WriteTransaction: ~Copyable {
    private var handle: OpaquePointer?
    private let isOwned: Bool

    init(handle: OpaquePointer, isOwned: Bool = true) {
        self.handle = handle
        self.isOwned = isOwned
    }

    deinit { if isOwned, let handle { mdb_txn_abort(handle) } }

    /// The same transaction, for a type that wraps it while this one is lent. It cannot be committed.
    var lent: WriteTransaction { WriteTransaction(handle: handle!, isOwned: false) }

    mutating func commit() throws(LMDBError) {
        let ending = handle
        handle = nil  // LMDB frees the handle, even if the commit fails.
        try LMDBError.check(mdb_txn_commit(ending), "mdb_txn_commit")
    }

    /// What was there and what this transaction has written so far.
    var reading: ReadTransaction { ReadTransaction(handle: handle!) }

    func get(_ table: LMDBEnvironment.Table, _ key: some Collection<UInt8>) throws(LMDBError) -> UnsafeRawBufferPointer? {
        try reading.get(table, key)
    }

    func forEach(_ table: LMDBEnvironment.Table, from key: [UInt8] = [], _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Bool) throws {
        try reading.forEach(table, from: key, body)
    }

    func put(_ table: LMDBEnvironment.Table, _ key: [UInt8], _ value: UnsafeRawBufferPointer, isAppend: Bool = false) throws(LMDBError) {
        let code = key.withUnsafeBytes { key in
            var keyValue = MDB_val(mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
            var data = MDB_val(mv_size: value.count, mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
            return mdb_put(handle, table.index, &keyValue, &data, isAppend ? UInt32(MDB_APPEND) : 0)
        }
        try LMDBError.check(code, "mdb_put")
    }

    func put(_ table: LMDBEnvironment.Table, _ key: [UInt8], _ value: [UInt8], isAppend: Bool = false) throws(LMDBError) {
        var failure: LMDBError?
        value.withUnsafeBytes { bytes in
            do throws(LMDBError) { try put(table, key, bytes, isAppend: isAppend) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Removes a table and all its rows. Nobody may use it any more.
    func drop(_ table: LMDBEnvironment.Table) throws(LMDBError) { try LMDBError.check(mdb_drop(handle, table.index, 1), "mdb_drop") }

    func delete(_ table: LMDBEnvironment.Table, _ key: [UInt8]) throws(LMDBError) {
        let code = key.withUnsafeBytes { key in
            var keyValue = MDB_val(mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
            return mdb_del(handle, table.index, &keyValue, nil)
        }
        if code != MDB_NOTFOUND { try LMDBError.check(code, "mdb_del") }
    }
}

private func lookUp(_ handle: OpaquePointer, _ table: LMDBEnvironment.Table, _ key: [UInt8]) throws(LMDBError) -> UnsafeRawBufferPointer? {
    var data = MDB_val()
    let code = key.withUnsafeBytes { key in
        var keyValue = MDB_val(mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
        return mdb_get(handle, table.index, &keyValue, &data)
    }
    if code == MDB_NOTFOUND { return nil }
    try LMDBError.check(code, "mdb_get")
    return UnsafeRawBufferPointer(start: data.mv_data, count: data.mv_size)
}

private func visit(
    _ handle: OpaquePointer, _ table: MDB_dbi, from key: [UInt8], isReversed: Bool,
    _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Bool
) throws {
    var cursor: OpaquePointer?
    try LMDBError.check(mdb_cursor_open(handle, table, &cursor), "mdb_cursor_open")
    defer { mdb_cursor_close(cursor) }
    var keyValue = MDB_val()
    var data = MDB_val()
    var code: CInt
    if key.isEmpty {
        code = mdb_cursor_get(cursor, &keyValue, &data, isReversed ? MDB_LAST : MDB_FIRST)
    } else {
        code = key.withUnsafeBytes { key in
            keyValue = MDB_val(mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
            return mdb_cursor_get(cursor, &keyValue, &data, MDB_SET_RANGE)
        }
        if isReversed {
            let isExact = code == MDB_SUCCESS && UnsafeRawBufferPointer(start: keyValue.mv_data, count: keyValue.mv_size).elementsEqual(key)
            if !isExact { code = mdb_cursor_get(cursor, &keyValue, &data, code == MDB_NOTFOUND ? MDB_LAST : MDB_PREV) }
        }
    }
    var bytes = 0
    while code == MDB_SUCCESS {
        // A long walk holds no more memory than a short one. The system maps up to sixteen pages for one that is read.
        bytes += data.mv_size
        if bytes >= 2 << 20, let address = data.mv_data {
            MappedPages.releaseAll(around: address)
            bytes = 0
        }
        let more = try body(
            UnsafeRawBufferPointer(start: keyValue.mv_data, count: keyValue.mv_size), UnsafeRawBufferPointer(start: data.mv_data, count: data.mv_size))
        if !more { return }
        code = mdb_cursor_get(cursor, &keyValue, &data, isReversed ? MDB_PREV : MDB_NEXT)
    }
    if code != MDB_NOTFOUND { throw LMDBError(code: code, call: "mdb_cursor_get") }
}
