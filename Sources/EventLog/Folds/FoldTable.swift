/// A fold's table in the archive, for reading. Every value is checked against its checksum.
package final class FoldTable: Sendable {
    let environment: LMDBEnvironment
    let table: LMDBEnvironment.Table
    let name: String
    /// Where it is read; `nil`: where it is newest.
    private let snapshot: LMDBEnvironment.Snapshot?

    init(environment: LMDBEnvironment, table: LMDBEnvironment.Table, name: String, snapshot: LMDBEnvironment.Snapshot? = nil) {
        self.environment = environment
        self.table = table
        self.name = name
        self.snapshot = snapshot
    }

    func at(_ snapshot: LMDBEnvironment.Snapshot) -> FoldTable { FoldTable(environment: environment, table: table, name: name, snapshot: snapshot) }

    private func read<R>(_ body: (borrowing ReadTransaction) throws -> R) throws -> R {
        guard let snapshot else { return try environment.read(body) }
        do { return try snapshot.read(body) } catch let error as LMDBError { throw Archive.typed(error, environment.path) }
    }

    /// Lends a row's value, which lies in the map, for the length of the closure; `nil` if there is no such row.
    package func value<R>(at key: [UInt8], _ body: (UnsafeRawBufferPointer) throws -> R) throws -> R? {
        try read { transaction in
            guard let bytes = try transaction.get(table, key) else { return nil }
            return try readable(key, bytes, body)
        }
    }

    /// Visits the rows whose keys begin with a prefix, ascending, until the closure says false.
    package func forEach(withPrefix prefix: [UInt8], _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Bool) throws {
        try read { transaction in
            try transaction.forEach(table, from: prefix) { key, value in
                guard key.starts(with: prefix) else { return false }
                return try readable(Array(key), value) { try body(key, $0) }
            }
        }
    }

    func isEmpty() throws -> Bool {
        try read { transaction in
            var isEmpty = true
            try transaction.forEach(table, from: []) { _, _ in
                isEmpty = false
                return false
            }
            return isEmpty
        }
    }

    /// How many rows do not match their checksums.
    func damagedRows() throws -> Int { try environment.damagedRecords(in: table) }

    private func readable<R>(_ key: [UInt8], _ value: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> R) throws -> R {
        do {
            return try body(Archive.open(key, value, "a row of the projection \(name)", in: environment.path, mendedBy: "rebuild"))
        } catch is CodecError {
            throw EventLogError(.damaged, "\(environment.path): a row of the projection \(name) cannot be read; run `convstore rebuild`")
        }
    }
}

/// What the archive says of a fold (docs/FORMAT.md, "Projections").
struct FoldRecord: Hashable {
    struct Generation: Hashable {
        var version: UInt32
        /// Which of its tables: the one in use and the one being built take turns.
        var number: UInt32
        /// The rows are the fold of all events up to here.
        var position: Position
    }
    var live: Generation?
    /// A rebuild that is under way, or was cut off.
    var building: Generation?

    static func key(_ name: String) -> [UInt8] { Array("fold.\(name)".utf8) }

    static func tableName(_ name: String, _ generation: UInt32) -> String { "fold.\(name).\(generation)" }

    static func isTableName(_ name: String) -> Bool { name.hasPrefix("fold.") }

    static func name(ofTable table: String) -> String? {
        guard isTableName(table), let dot = table.lastIndex(of: ".") else { return nil }
        return String(table[..<dot].dropFirst(5))
    }

    init() {}

    init(decoding bytes: UnsafeRawBufferPointer) throws(CodecError) {
        var reader = ByteReader(bytes)
        for path in [\FoldRecord.live, \FoldRecord.building] {
            guard try reader.byte() == 1 else { continue }
            self[keyPath: path] = Generation(version: try reader.fixed32(), number: try reader.fixed32(), position: try reader.fixed64())
        }
        guard reader.isAtEnd else { throw CodecError(.badValue) }
    }

    var encoded: [UInt8] {
        var out = ByteBuffer(capacity: 64)
        for generation in [live, building] {
            guard let generation else {
                out.put(byte: 0)
                continue
            }
            out.put(byte: 1)
            out.put(fixed32: generation.version)
            out.put(fixed32: generation.number)
            out.put(fixed64: generation.position)
        }
        return out.array()
    }

    static func read(_ name: String, _ archive: Archive, _ transaction: borrowing ReadTransaction) throws -> FoldRecord {
        guard let bytes = try transaction.get(archive.meta, key(name)) else { return FoldRecord() }
        do {
            return try FoldRecord(decoding: Archive.open(key(name), bytes, "the record of the projection \(name)", in: archive.path, mendedBy: "rebuild"))
        } catch is CodecError {
            throw EventLogError(.damaged, "\(archive.path): the record of the projection \(name) cannot be read; run `convstore rebuild`")
        }
    }

    /// Changes what the archive says, in the transaction in which that becomes true.
    static func update(_ name: String, _ archive: Archive, _ transaction: inout WriteTransaction, _ body: (inout FoldRecord) -> Void) throws {
        var record = FoldRecord()
        do {
            if let bytes = try transaction.get(archive.meta, key(name)) {
                record = try FoldRecord(decoding: Archive.open(key(name), bytes, "the record of the projection \(name)", in: archive.path, mendedBy: "rebuild"))
            }
        } catch is CodecError {
            throw EventLogError(.damaged, "\(archive.path): the record of the projection \(name) cannot be read; run `convstore rebuild`")
        }
        body(&record)
        try record.write(name, archive, &transaction)
    }

    func write(_ name: String, _ archive: Archive, _ transaction: inout WriteTransaction) throws {
        try transaction.put(archive.meta, Self.key(name), Archive.sealed(Self.key(name), encoded))
    }
}
