internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Small durable facts of a store that are no events: an outbox, a cursor, a role. One LMDB environment, the file `sync` in the store's directory.
///
/// Safe to use from any thread. Whoever holds the store open for writing may open it for writing; others read beside it. It is written after the
/// events that it speaks of are durable: being behind is always safe.
package final class SideStore: Sendable {
    package static let fileName = "sync"
    package static let keyBytesMax = 480
    static let rescue = "and, on a device, `convstore sync --verify`; a hub's is made anew by `convstore serve`"

    /// A table that was named at the opening.
    package typealias TableName = String

    let environment: LMDBEnvironment
    private let tables: [TableName: LMDBEnvironment.Table]
    /// The names that may be asked for: in a file that is only read, a table may be absent, and is empty.
    private let names: Set<TableName>
    private let isReadOnly: Bool
    /// LMDB's map may not grow beside a writer.
    private let writing = Monitor(())

    package static func path(_ directory: String) -> String { directory + "/" + fileName }

    /// Opens the file; for writing, makes it if it is absent.
    ///
    /// - Throws: `EventLogError`: `noSuchStore` (read-only and absent), `damaged`, `diskFull`, `inputOutput`.
    package init(directory: String, tables names: [TableName], isReadOnly: Bool = false, mapBytesMax: Int = .max / 2) throws {
        let path = Self.path(directory)
        do {
            if !isReadOnly {
                for name in [path + ".new", path + ".new-lock"] { try Directory.remove(name) }
                if !Directory.exists(path) { try Self.create(directory, names, [:]) }
            }
            guard Directory.exists(path) else { throw EventLogError(.noSuchStore, "\(path): no such file") }
            try ArchiveCheck.beforeMapping(file: path, isBesideWriter: isReadOnly && EventStore.isBesideWriter(directory))
            let opened = try LMDBEnvironment.existing(path, isReadOnly: isReadOnly, mapBytesMax: mapBytesMax)
            environment = opened
            tables = Dictionary(uniqueKeysWithValues: zip(names, try opened.tables(names)).compactMap { name, table in table.map { (name, $0) } })
        } catch let error as LMDBError {
            throw Archive.typed(error, path)
        } catch let error as SystemError {
            throw error.typed
        }
        self.names = Set(names)
        self.isReadOnly = isReadOnly
    }

    /// The file for reading; `nil` if there is none.
    package static func openIfPresent(directory: String, tables: [TableName]) throws -> SideStore? {
        guard Directory.exists(path(directory)) else { return nil }
        return try SideStore(directory: directory, tables: tables, isReadOnly: true)
    }

    /// The tables that Replication makes a file with, all at once: where there is one of them, there are all. Their names have no checksum.
    package static let syncTables = [
        "state", "outbox", "lanes", "previews", "lost", "suspects", "ahead", "offers", "incarnations",
    ]

    static func lacksTables(_ names: [TableName]) -> Bool { !Set(names).isDisjoint(with: syncTables) && !Set(names).isSuperset(of: syncTables) }

    /// Fails if a table of those is missing.
    package func checkTables() throws {
        if tables.count < names.count { throw Archive.damaged(environment.path, "a table is missing") }
    }

    /// Built aside, synced, renamed: a crash leaves the file or what was there before.
    static func create(_ directory: String, _ names: [TableName], _ records: [TableName: [Record]]) throws {
        let new = path(directory) + ".new"
        do {
            let environment = try LMDBEnvironment(path: new, isReadOnly: false, mapBytes: 1 << 20, mapBytesMax: 1 << 40)
            defer { environment.close() }
            let all = names + records.keys.filter { !names.contains($0) }.sorted()
            for (name, table) in zip(all, try environment.tables(all)) {
                guard let table, let records = records[name] else { continue }
                try environment.write { transaction in
                    for (key, value) in records { try transaction.put(table, key, Archive.sealed(key, value)) }
                }
            }
        }
        try File(new, O_RDONLY).syncAll()
        try Directory.rename(new, to: path(directory))
        for name in [path(directory) + "-lock", new + "-lock"] { try Directory.remove(name) }
        try Directory.sync(directory)
    }

    /// Idempotent. Readings and writings after it throw `closed`.
    package func close() { environment.close() }

    // Transactions.

    /// A snapshot, lent for the length of a closure.
    package struct Reading: ~Copyable {
        fileprivate let transaction: ReadTransaction
        fileprivate let store: SideStore

        package func get(_ table: TableName, _ key: [UInt8]) throws -> [UInt8]? {
            guard let table = try store.table(table, key) else { return nil }
            return try transaction.get(table, key).map { try store.value($0, key) }
        }

        /// Visits records in the order of their keys from a key on, until the closure says false.
        package func forEach(_ table: TableName, from key: [UInt8] = [], _ body: (_ key: [UInt8], _ value: [UInt8]) throws -> Bool) throws {
            guard let table = try store.table(table, nil) else { return }
            try transaction.forEach(table, from: key) { key, value in
                let key = Array(key)
                return try body(key, store.value(value, key))
            }
        }
    }

    /// A transaction, lent for the length of a closure: all of it becomes durable, or nothing.
    package struct Writing: ~Copyable {
        fileprivate var transaction: WriteTransaction
        fileprivate let store: SideStore

        private var reading: Reading { Reading(transaction: transaction.reading, store: store) }

        package func get(_ table: TableName, _ key: [UInt8]) throws -> [UInt8]? { try reading.get(table, key) }

        /// Visits records as `Reading` does. What the closure itself writes meanwhile may or may not be seen.
        package func forEach(_ table: TableName, from key: [UInt8] = [], _ body: (_ key: [UInt8], _ value: [UInt8]) throws -> Bool) throws {
            try reading.forEach(table, from: key, body)
        }

        package mutating func put(_ table: TableName, _ key: [UInt8], _ value: [UInt8]) throws {
            guard let table = try store.table(table, key) else { return }
            try transaction.put(table, key, Archive.sealed(key, value))
        }

        /// Does nothing if there is no such record.
        package mutating func delete(_ table: TableName, _ key: [UInt8]) throws {
            guard let table = try store.table(table, key) else { return }
            try transaction.delete(table, key)
        }
    }

    /// Reads one snapshot. The closure must be short: while it runs, the file cannot give room back.
    package func read<R>(_ body: (borrowing Reading) throws -> R) throws -> R {
        do {
            return try environment.read { try body(Reading(transaction: $0.lent, store: self)) }
        } catch let error as LMDBError {
            throw Archive.typed(error, environment.path)
        }
    }

    /// Commits what the closure writes, synced when this returns; nothing if it throws. The closure runs again when the file's map has to grow: it must
    /// have no effect but its writings. A nested call traps or waits for ever.
    package func write<R>(_ body: (inout Writing) throws -> R) throws -> R {
        if isReadOnly { throw EventLogError(.readOnly, "\(environment.path) is open for reading only") }
        return try writing.withLock { _ in
            do {
                return try environment.write { transaction in
                    var lent = Writing(transaction: transaction.lent, store: self)
                    return try body(&lent)
                }
            } catch let error as LMDBError {
                throw Archive.typed(error, environment.path)
            }
        }
    }

    private func table(_ name: TableName, _ key: [UInt8]?) throws -> LMDBEnvironment.Table? {
        precondition(names.contains(name), "the table \(name) was not named when the side store was opened")
        if let key, !(1...Self.keyBytesMax ~= key.count) {
            throw EventLogError(.invalidArgument, "\(environment.path): a key of \(key.count) bytes; one has 1 to \(Self.keyBytesMax)")
        }
        return tables[name]
    }

    private func value(_ bytes: UnsafeRawBufferPointer, _ key: [UInt8]) throws -> [UInt8] {
        Array(try Archive.open(key, bytes, "a record", in: environment.path))
    }

    // Copying.

    /// The file with its records of this moment kept; `nil` if there is none.
    static func snapshot(directory: String) throws -> SideStore? {
        guard let store = try openIfPresent(directory: directory, tables: []) else { return nil }
        do {
            try store.environment.pin()
        } catch let error as LMDBError {
            throw Archive.typed(error, store.environment.path)
        }
        return store
    }

    func copyRecords(toDirectory directory: String) throws {
        let path = Self.path(directory)
        try EventStore.copyRecords(of: environment, tables: environment.tableNames(), to: path)
        try Directory.remove(path + "-lock")
    }

    /// Writes the file anew, record by record: pages that are free now, and the room between records, hold what was deleted. Nothing, if it is absent.
    /// Nobody else may hold the file open for writing.
    ///
    /// - Throws: `EventLogError`: `damaged`, and the file stays as it was; `diskFull`, `inputOutput`.
    static func rewrite(directory: String) throws {
        let path = path(directory)
        let new = path + ".new"
        do {
            for name in [new, new + "-lock"] { try Directory.remove(name) }
            guard let store = try openIfPresent(directory: directory, tables: []) else { return }
            defer { store.close() }
            let names = try store.environment.tableNames()
            if lacksTables(names) { throw Archive.damaged(path, "a table is missing") }
            let check = { (_: Int, key: [UInt8], value: UnsafeRawBufferPointer) throws in _ = try store.value(value, key) }
            try EventStore.copyRecords(of: store.environment, tables: names, to: new, check: check, finish: secondMeta)
            try Directory.rename(new, to: path)
            for name in [path + "-lock", new + "-lock"] { try Directory.remove(name) }
            try Directory.sync(directory)
        } catch {
            for name in [new, new + "-lock"] { try? Directory.remove(name) }
            switch error {
            case let error as LMDBError: throw Archive.typed(error, path)
            case let error as SystemError: throw error.typed
            default: throw error
            }
        }
    }

    /// Has both of LMDB's meta pages describe the whole: whichever a reader falls back on.
    private static func secondMeta(_ target: LMDBEnvironment, _ tables: [LMDBEnvironment.Table]) throws {
        for _ in 0..<2 {
            try target.write { transaction in
                for table in tables {
                    var first: Record?
                    try transaction.reading.forEach(table) { key, value in
                        first = (Array(key), Array(value))
                        return false
                    }
                    if let first { return try transaction.put(table, first.key, first.value) }
                }
            }
        }
    }
}
