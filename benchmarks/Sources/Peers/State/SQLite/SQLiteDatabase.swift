import CSQLite

/// A connection as both the writer and the readers open it: WAL, a large cache, the file mapped.
struct SQLiteDatabase {
    let handle: OpaquePointer

    init(_ path: String, isReadOnly: Bool, isDurable: Bool = true) throws {
        var opened: OpaquePointer?
        let flags = (isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(path, &opened, flags, nil) == SQLITE_OK, let opened else { throw EngineError("sqlite3_open_v2") }
        handle = opened
        if !isReadOnly {
            try execute("PRAGMA journal_mode = WAL")
            try execute("PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
        }
        try execute("PRAGMA cache_size = -262144")
        try execute("PRAGMA mmap_size = 1073741824")
    }

    func execute(_ text: String) throws {
        guard sqlite3_exec(handle, text, nil, nil, nil) == SQLITE_OK else {
            throw EngineError("sqlite: " + String(cString: sqlite3_errmsg(handle)))
        }
    }

    func prepare(_ text: String) throws -> SQLiteStatement {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v3(handle, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil) == SQLITE_OK, let statement else {
            throw EngineError("sqlite: " + String(cString: sqlite3_errmsg(handle)) + " in " + text)
        }
        return SQLiteStatement(handle: statement)
    }

    /// Ends the statements that read tables about to be dropped.
    func finalizeStatements(but kept: [SQLiteStatement]) {
        var at = sqlite3_next_stmt(handle, nil)
        while let statement = at {
            at = sqlite3_next_stmt(handle, statement)
            if !kept.contains(where: { $0.handle == statement }) { sqlite3_finalize(statement) }
        }
    }

    /// Also ends the statements. The last connection's close writes the WAL into the database and removes it.
    func close() throws {
        while let statement = sqlite3_next_stmt(handle, nil) { sqlite3_finalize(statement) }
        guard sqlite3_close(handle) == SQLITE_OK else { throw EngineError("sqlite3_close") }
    }
}
