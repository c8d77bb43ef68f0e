import CLMDB

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A real LMDB environment in a temporary directory, made through liblmdb, with random content that a seed determines.
final class LMDBFile {
    struct Entry: Hashable {
        var key: [UInt8]
        var value: [UInt8]
    }

    /// All databases in order, each with its entries in order.
    struct Content: Hashable {
        struct Database: Hashable {
            var name: [UInt8]
            var entries: [Entry]
        }
        var databases: [Database] = []

        /// How many entries (or names) differ; nil if not even their numbers are the same.
        func differences(from other: Content) -> Int? {
            guard databases.map(\.entries.count) == other.databases.map(\.entries.count) else { return nil }
            return zip(databases, other.databases).reduce(0) { sum, pair in
                sum + (pair.0.name == pair.1.name ? 0 : 1) + zip(pair.0.entries, pair.1.entries).count { $0 != $1 }
            }
        }
    }

    struct Failure: Error { let code: CInt }

    let directory: String
    var path: String { directory + "/data.mdb" }
    private var environment: OpaquePointer?
    private var reader: OpaquePointer?

    init(mapBytes: Int = 1 << 28) throws {
        directory = Self.temporaryDirectory()
        try open(mapBytes: mapBytes)
    }

    /// A file of these bytes, not opened.
    init(replacingContentWith bytes: [UInt8]) throws {
        directory = Self.temporaryDirectory()
        let file = fopen(path, "w")
        fwrite(bytes, 1, bytes.count, file)
        fclose(file)
    }

    private static func temporaryDirectory() -> String {
        var template = Array("/tmp/convstore-datafile-XXXXXX".utf8CString)
        return template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
    }

    deinit {
        close()
        for name in ["data.mdb", "lock.mdb", "copy/data.mdb"] { unlink(directory + "/" + name) }
        rmdir(directory + "/copy")
        rmdir(directory)
    }

    func open(mapBytes: Int = 1 << 28) throws {
        try Self.check(mdb_env_create(&environment))
        try Self.check(mdb_env_set_maxdbs(environment, 16))
        try Self.check(mdb_env_set_mapsize(environment, mapBytes))
        try Self.check(mdb_env_open(environment, directory, UInt32(MDB_NOSYNC), 0o600))
    }

    func close() {
        holdReader(false)
        if let environment { mdb_env_close(environment) }
        environment = nil
    }

    static func check(_ code: CInt) throws {
        if code != MDB_SUCCESS { throw Failure(code: code) }
    }

    /// Holds a snapshot, so that pages let go since then are not reused; or lets it go.
    func holdReader(_ isHeld: Bool) {
        if let reader { mdb_txn_abort(reader) }
        reader = nil
        if isHeld { mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &reader) }
    }

    func write(commits: Bool = true, _ body: (OpaquePointer) throws -> Void) throws {
        var transaction: OpaquePointer?
        try Self.check(mdb_txn_begin(environment, nil, 0, &transaction))
        do {
            try body(transaction!)
        } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        if commits { try Self.check(mdb_txn_commit(transaction)) } else { mdb_txn_abort(transaction) }
    }

    static func database(_ name: String, _ transaction: OpaquePointer) throws -> MDB_dbi {
        var database: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, name, UInt32(MDB_CREATE), &database))
        return database
    }

    static func put(_ key: [UInt8], _ value: [UInt8], in database: MDB_dbi, _ transaction: OpaquePointer, flags: CInt = 0) throws {
        var key = key
        var value = value
        try key.withUnsafeMutableBytes { key in
            try value.withUnsafeMutableBytes { value in
                var keyValue = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
                var dataValue = MDB_val(mv_size: value.count, mv_data: value.baseAddress)
                try check(mdb_put(transaction, database, &keyValue, &dataValue, UInt32(flags)))
            }
        }
    }

    static func delete(_ key: [UInt8], in database: MDB_dbi, _ transaction: OpaquePointer) throws {
        var key = key
        try key.withUnsafeMutableBytes { key in
            var keyValue = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
            let code = mdb_del(transaction, database, &keyValue, nil)
            if code != MDB_NOTFOUND { try check(code) }
        }
    }

    /// Deletes up to `count` entries from the first key at or after `key` on.
    static func deleteRange(from key: [UInt8], count: Int, in database: MDB_dbi, _ transaction: OpaquePointer) throws {
        for _ in 0..<count {
            var cursor: OpaquePointer?
            try check(mdb_cursor_open(transaction, database, &cursor))
            defer { mdb_cursor_close(cursor) }
            var key = key
            let code = key.withUnsafeMutableBytes { key -> CInt in
                var found = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
                var value = MDB_val()
                return mdb_cursor_get(cursor, &found, &value, MDB_SET_RANGE)
            }
            if code == MDB_NOTFOUND { return }
            try check(code)
            try check(mdb_cursor_del(cursor, 0))
        }
    }

    /// All that liblmdb reads, each entry both in passing and by its key, in the file of `directory`, without lock file and without writing.
    static func readAll(directory: String) throws -> Content {
        var environment: OpaquePointer?
        try check(mdb_env_create(&environment))
        defer { mdb_env_close(environment) }
        try check(mdb_env_set_maxdbs(environment, 16))
        try check(mdb_env_open(environment, directory, UInt32(MDB_RDONLY | MDB_NOLOCK), 0o600))
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction))
        defer { mdb_txn_abort(transaction) }
        var main: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, nil, 0, &main))
        return Content(
            databases: try entries(of: main, transaction).map { entry in
                var database: MDB_dbi = 0
                try check(mdb_dbi_open(transaction, String(decoding: entry.key, as: UTF8.self), 0, &database))
                return Content.Database(name: entry.key, entries: try entries(of: database, transaction))
            }
        )
    }

    private static func entries(of database: MDB_dbi, _ transaction: OpaquePointer?) throws -> [Entry] {
        var cursor: OpaquePointer?
        try check(mdb_cursor_open(transaction, database, &cursor))
        defer { mdb_cursor_close(cursor) }
        var entries: [Entry] = []
        var key = MDB_val()
        var value = MDB_val()
        var code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST)
        while code == MDB_SUCCESS {
            entries.append(Entry(key: bytes(key), value: bytes(value)))
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
        }
        if code != MDB_NOTFOUND { throw Failure(code: code) }
        for entry in entries where try get(entry.key, in: database, transaction) != entry.value { throw Failure(code: MDB_NOTFOUND) }
        return entries
    }

    private static func get(_ key: [UInt8], in database: MDB_dbi, _ transaction: OpaquePointer?) throws -> [UInt8] {
        var key = key
        return try key.withUnsafeMutableBytes { key in
            var keyValue = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
            var value = MDB_val()
            try check(mdb_get(transaction, database, &keyValue, &value))
            return bytes(value)
        }
    }

    private static func bytes(_ value: MDB_val) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: value.mv_data, count: value.mv_size))
    }

    /// Copies the environment compacted into the directory "copy".
    func compactedCopy() throws -> String {
        holdReader(false)
        mkdir(directory + "/copy", 0o700)
        unlink(directory + "/copy/data.mdb")
        try Self.check(mdb_env_copy2(environment, directory + "/copy", UInt32(MDB_CP_COMPACT)))
        return directory + "/copy/data.mdb"
    }
}

/// Random writes of all the sorts that leave another shape of pages behind.
struct LMDBWorkload {
    enum Style: CaseIterable {
        /// Keys of like length, values of some 100 bytes, as ours are.
        case even
        /// Keys of 1 to 511 bytes, values around the sizes where LMDB changes its mind.
        case wild
        /// Ascending keys, values of all sizes.
        case appending
    }

    let style: Style
    var random: SplitMix64
    private var appended: UInt64 = 0

    init(style: Style, seed: UInt64) {
        self.style = style
        random = SplitMix64(state: seed)
    }

    mutating func key() -> [UInt8] {
        switch style {
        case .even: return bigEndian(random.next() % 4000) + bigEndian(7)
        case .wild:
            let count = random.next() % 4 == 0 ? Int(random.next() % 511) + 1 : Int(random.next() % 12) + 1
            return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next() % 5) }
        case .appending:
            appended += 1
            return bigEndian(appended)
        }
    }

    mutating func value() -> [UInt8] {
        let count: Int
        switch random.next() % (style == .even ? 40 : 8) {
        case 0: count = Int(random.next() % 60_000)
        case 1: count = 1_500 + Int(random.next() % 700)
        case 2: count = Int(random.next() % 9_000)
        case 3: count = 0
        default: count = Int(random.next() % 240)
        }
        var value = Array(repeating: UInt8(truncatingIfNeeded: random.next()), count: count)
        for index in 0..<min(8, count) { value[index] = UInt8(truncatingIfNeeded: random.next()) }
        return value
    }

    private func bigEndian(_ value: UInt64) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    /// One transaction; now and then a large one, one that is aborted, or one that empties or drops a database.
    mutating func transact(_ file: LMDBFile, operationsMax: UInt64 = 60) throws {
        if random.next() % 8 == 0 { file.holdReader(random.next() % 3 != 0) }
        let commits = random.next() % 12 != 0
        let operations = random.next() % 10 == 0 ? operationsMax * 5 : random.next() % operationsMax + 1
        try file.write(commits: commits) { transaction in
            let names = ["alpha", "beta", "gamma", "delta"]
            var databases: [MDB_dbi] = []
            for name in names { databases.append(try LMDBFile.database(name, transaction)) }
            for _ in 0..<operations {
                let database = databases[Int(random.next() % (random.next() % 2 == 0 ? 4 : 1))]
                switch random.next() % 20 {
                case 0..<12:
                    let key = key()
                    try LMDBFile.put(key, value(), in: database, transaction)
                    if random.next() % 10 == 0 { try LMDBFile.put(key, value(), in: database, transaction) }
                case 12..<18: try LMDBFile.delete(key(), in: database, transaction)
                default: try LMDBFile.deleteRange(from: key(), count: Int(random.next() % 12), in: database, transaction)
                }
            }
            switch random.next() % 25 {
            case 0: try LMDBFile.check(mdb_drop(transaction, databases[Int(random.next() % 4)], 0))
            case 1: try LMDBFile.check(mdb_drop(transaction, databases[3], 1))
            default: break
            }
        }
    }
}

struct SplitMix64: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
