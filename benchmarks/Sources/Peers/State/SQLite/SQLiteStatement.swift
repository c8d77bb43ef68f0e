import CSQLite
import EventLog

/// A prepared statement. Bindings and columns count as SQLite's do: from 1 and from 0.
struct SQLiteStatement {
    let handle: OpaquePointer

    func bind(_ index: CInt, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }

    func bind(_ index: CInt, _ value: UInt64) { sqlite3_bind_int64(handle, index, Int64(bitPattern: value)) }

    func bind(_ index: CInt, _ value: Bool) { sqlite3_bind_int64(handle, index, value ? 1 : 0) }

    func bind(_ index: CInt, _ value: UInt64?) {
        if let value { bind(index, value) } else { sqlite3_bind_null(handle, index) }
    }

    func bind(_ index: CInt, _ value: String?) {
        guard var value else { return _ = sqlite3_bind_null(handle, index) }
        value.withUTF8 { bytes in
            // The empty text has no address, and a null pointer would bind NULL.
            guard !bytes.isEmpty else { return _ = bind_static_text(handle, index, "", 0) }
            bytes.withMemoryRebound(to: CChar.self) { _ = bind_copied_text(handle, index, $0.baseAddress, CInt($0.count)) }
        }
    }

    func bind<Tag>(_ index: CInt, _ value: Identifier<Tag>?) {
        guard let value else { return _ = sqlite3_bind_null(handle, index) }
        withUnsafeBytes(of: (value.high.bigEndian, value.low.bigEndian)) { _ = bind_copied_blob(handle, index, $0.baseAddress, 16) }
    }

    /// No bytes are NULL.
    func bind(_ index: CInt, _ value: [UInt8]) {
        value.withUnsafeBytes { _ = bind_copied_blob(handle, index, $0.baseAddress, CInt($0.count)) }
    }

    /// Goes to the next row; after the last the statement is ready to be used again.
    func step() throws -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            sqlite3_reset(handle)
            return false
        default:
            sqlite3_reset(handle)
            throw EngineError("sqlite: " + String(cString: sqlite3_errmsg(sqlite3_db_handle(handle))))
        }
    }

    /// Runs a statement that has no rows.
    func run() throws {
        guard try !step() else { throw EngineError("sqlite: a row where none was expected") }
    }

    /// Lends the one row, if there is one.
    func first<Result>(_ body: (Self) throws -> Result) throws -> Result? {
        guard try step() else { return nil }
        defer { sqlite3_reset(handle) }
        return try body(self)
    }

    func isNull(_ column: CInt) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func int(_ column: CInt) -> Int64 { sqlite3_column_int64(handle, column) }

    func number(_ column: CInt) -> UInt64 { UInt64(bitPattern: int(column)) }

    func isTrue(_ column: CInt) -> Bool { int(column) != 0 }

    func bytes(_ column: CInt) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(handle, column)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    func text(_ column: CInt) -> String {
        let start = sqlite3_column_text(handle, column)
        return String(decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))), as: UTF8.self)
    }

    func textIfAny(_ column: CInt) -> String? { isNull(column) ? nil : text(column) }

    func user(_ column: CInt) throws -> UserID {
        guard let user = UserID(text(column)) else { throw EngineError("sqlite: not a user id") }
        return user
    }

    func id<Tag>(_ column: CInt) throws -> Identifier<Tag> {
        var reader = RowReader(bytes(column))
        return try reader.id()
    }

    func idIfAny<Tag>(_ column: CInt) throws -> Identifier<Tag>? { isNull(column) ? nil : try id(column) }

    /// A value that is stored as a small number.
    func choice<Value: RawRepresentable>(_ column: CInt) throws -> Value where Value.RawValue: FixedWidthInteger {
        guard let value = Value(rawValue: .init(truncatingIfNeeded: int(column))) else { throw EngineError("sqlite: damaged row") }
        return value
    }
}
