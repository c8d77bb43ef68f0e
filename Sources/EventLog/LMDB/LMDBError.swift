internal import CLMDB

/// What LMDB, or the system under it, answered.
struct LMDBError: Error, Hashable, CustomStringConvertible {
    let code: CInt
    let call: String

    var description: String { "\(call): " + String(cString: mdb_strerror(code)) }

    static let notFound = MDB_NOTFOUND

    @inline(__always) static func check(_ code: CInt, _ call: String) throws(LMDBError) {
        if code != MDB_SUCCESS { throw LMDBError(code: code, call: call) }
    }
}
