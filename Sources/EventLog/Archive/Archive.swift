internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The archive: sealed runs, the logs' rows and the store's own facts in one LMDB environment (docs/FORMAT.md, "Archive").
final class Archive: Sendable {
    let environment: LMDBEnvironment
    let runs: LMDBEnvironment.Table
    let logs: LMDBEnvironment.Table
    let replicas: LMDBEnvironment.Table
    let secrets: LMDBEnvironment.Table
    let meta: LMDBEnvironment.Table
    let heads: LMDBEnvironment.Table
    let path: String

    static let tableNames = ["runs", "logs", "replicas", "secrets", "meta", "heads"]

    static func path(_ directory: String) -> String { directory + "/archive" }

    /// The store's own facts, written with each flush.
    struct State: Sendable {
        var position: Position = 0
        /// The journal's frame whose events the archive holds last.
        var frame: UInt64 = 0
        var hlc: UInt64 = 0
        var nextNumber: UInt64 = 0
        var conversations: UInt64 = 0
        var messages: UInt64 = 0
        var runs: UInt64 = 0
        var rawBytes: UInt64 = 0
        var compressedBytes: UInt64 = 0
        /// Counts the commits of the archive.
        var commit: UInt64 = 0
        var keyGeneration: UInt64 = 1
        var headsEntries: UInt64 = 0

        func encode() -> [UInt8] {
            var out = ByteBuffer(capacity: 256)
            for value in [
                position, frame, hlc, nextNumber, conversations, messages, runs, rawBytes, compressedBytes, commit, keyGeneration,
                headsEntries,
            ] {
                out.put(fixed64: value)
            }
            return out.array()
        }

        init() {}

        init(decoding bytes: UnsafeRawBufferPointer) throws {
            var reader = ByteReader(bytes)
            position = try reader.fixed64()
            frame = try reader.fixed64()
            hlc = try reader.fixed64()
            nextNumber = try reader.fixed64()
            conversations = try reader.fixed64()
            messages = try reader.fixed64()
            runs = try reader.fixed64()
            rawBytes = try reader.fixed64()
            compressedBytes = try reader.fixed64()
            commit = try reader.fixed64()
            keyGeneration = try reader.fixed64()
            headsEntries = try reader.fixed64()
            // Numbers that no store reaches: what follows counts on from them. A clock may stand anywhere.
            let counts = [
                position, frame, nextNumber, conversations, messages, runs, rawBytes, compressedBytes, commit, keyGeneration, headsEntries,
            ]
            guard reader.isAtEnd, counts.allSatisfy({ $0 < 1 << 60 }) else { throw CodecError(.badValue) }
        }
    }

    enum MetaKey {
        static let store = Array("store".utf8)
        static let state = Array("state".utf8)
        static let seeds = Array("seeds".utf8)
        static let headsTree = Array("heads-tree".utf8)
        static let checkpoint = Array("checkpoint".utf8)
    }

    init(directory: String, isReadOnly: Bool, mapBytesMax: Int) throws {
        path = Self.path(directory)
        let (opened, tables) = try Self.openEnvironment(path, isReadOnly: isReadOnly, mapBytesMax: mapBytesMax)
        environment = opened
        runs = tables[0]
        logs = tables[1]
        replicas = tables[2]
        secrets = tables[3]
        meta = tables[4]
        heads = tables[5]
    }

    private static func openEnvironment(_ path: String, isReadOnly: Bool, mapBytesMax: Int) throws -> (
        LMDBEnvironment, [LMDBEnvironment.Table]
    ) {
        do {
            let environment = try LMDBEnvironment.existing(path, isReadOnly: isReadOnly, mapBytesMax: mapBytesMax)
            let tables = try environment.tables(tableNames).compactMap { $0 }
            guard tables.count == tableNames.count else { throw damaged(path, "a table is missing") }
            return (environment, tables)
        } catch let error as LMDBError {
            throw typed(error, path)
        } catch let error as SystemError {
            throw error.isAbsent ? damaged(path, "it is missing") : error.typed
        }
    }

    /// What a message of damage ends in, and what may follow that.
    static let verify = "; run `convstore verify`"
    static let salvage = "and `convstore export --salvage` for what is sound"

    /// The first position and the bytes of the run in which a position lies; of the last run, should the archive end before it.
    func run(containing position: Position, _ transaction: borrowing ReadTransaction) throws -> (position: Position, bytes: UnsafeRawBufferPointer)? {
        guard let (key, value) = try transaction.floor(runs, Self.key(position: position)), key.count == 8 else { return nil }
        return (UInt64(bigEndian: key.loadUnaligned(as: UInt64.self)), value)
    }

    /// Where a run ends, as the next one tells, or the archive's end.
    func lastPosition(ofRun position: Position, _ transaction: borrowing ReadTransaction) throws -> Position {
        var next: Position?
        try transaction.forEach(runs, from: Self.key(position: position + 1)) { key, _ in
            next = key.count == 8 ? UInt64(bigEndian: key.loadUnaligned(as: UInt64.self)) : nil
            return false
        }
        return try (next ?? state(transaction).position + 1) - 1
    }

    /// A hole in the archive (I2).
    func noRun(at position: Position) -> EventLogError { Self.damaged(path, "no run holds position \(position), though the archive reaches beyond it") }

    static func damaged(_ path: String, _ what: String) -> EventLogError {
        // Beside the log lies what is mended, not only saved.
        let rescue = path.hasSuffix("/" + SideStore.fileName) ? SideStore.rescue : salvage
        return EventLogError(.damaged, "\(path): \(what)\(verify), \(rescue)")
    }

    /// What its readers throw, as those who use the store know it.
    func typed(_ error: any Error) -> any Error {
        switch error {
        case let error as LMDBError: Self.typed(error, path)
        case let error as RunError: Self.damaged(path, "\(error)")
        default: error
        }
    }

    static func typed(_ error: LMDBError, _ path: String) -> EventLogError {
        switch error.code {
        case ENOSPC, EDQUOT:
            // What does not fit into the side store was not acknowledged.
            let kept = path.hasSuffix("/" + SideStore.fileName) ? "" : "the archive takes no more, the journal keeps what was acknowledged; "
            return EventLogError(.diskFull, "\(path): \(error): \(kept)free some space")
        case -30796, -30797, -30793, -30794, -30786, -30784: return damaged(path, error.description)
        default: return EventLogError(.inputOutput, "\(path): \(error)")
        }
    }

    // Keys and checked values.

    static func key(position: Position) -> [UInt8] { withUnsafeBytes(of: position.bigEndian) { Array($0) } }

    static func position(_ key: some Sequence<UInt8>) -> Position { key.reduce(0) { $0 << 8 | Position($1) } }

    static func key(log: LogID) -> [UInt8] {
        switch log {
        case .conversation(let id): [0] + id.bytes
        case .user(let user): [1] + Array(user.string.utf8).withUnsafeBytes { Hash256.of($0) }.bytes.prefix(16)
        }
    }

    /// A value and the checksum of its key and itself.
    static func seal(_ key: [UInt8], _ value: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        out.put(value)
        out.put(fixed64: checksum(key, value))
    }

    /// Puts behind a value that lies at the buffer's end the checksum of its key and itself.
    static func seal(_ key: [UInt8], from start: Int, in out: inout ByteBuffer) {
        let sum = checksum(key, UnsafeRawBufferPointer(rebasing: out.bytes[start...]))
        out.put(fixed64: sum)
    }

    static func sealed(_ key: [UInt8], _ value: [UInt8]) -> [UInt8] {
        var out = ByteBuffer(capacity: value.count + 8)
        value.withUnsafeBytes { seal(key, $0, into: &out) }
        return out.array()
    }

    private static func checksum(_ key: [UInt8], _ value: UnsafeRawBufferPointer) -> UInt64 {
        XXH64.hash(value, seed: key.withUnsafeBytes { XXH64.hash($0, seed: 0) })
    }

    static func open(
        _ key: [UInt8], _ bytes: UnsafeRawBufferPointer, _ what: @autoclosure () -> String, in file: String = "archive", mendedBy command: String = "verify"
    ) throws -> UnsafeRawBufferPointer {
        guard bytes.count >= 8 else { throw EventLogError(.damaged, "\(file): \(what()) is cut short; run `convstore \(command)`") }
        guard let value = unsealed(key, bytes) else {
            throw EventLogError(.damaged, "\(file): the checksum of \(what()) does not match; run `convstore \(command)`")
        }
        return value
    }

    /// Whether a record's checksums hold.
    func isSound(_ key: [UInt8], _ value: UnsafeRawBufferPointer, isRun: Bool) -> Bool {
        guard isRun else { return Self.unsealed(key, value) != nil }
        guard key.count == 8 else { return false }
        return DecodedRun.isSound(value, at: Position(key.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) }))
    }

    /// The value without its checksum, if that matches.
    static func unsealed(_ key: [UInt8], _ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard bytes.count >= 8 else { return nil }
        let value = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 8)])
        return UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: value.count, as: UInt64.self)) == checksum(key, value) ? value : nil
    }

    func state(_ transaction: borrowing ReadTransaction) throws -> State {
        guard let bytes = try transaction.get(meta, MetaKey.state) else { throw Self.damaged(path, "its state is missing") }
        do {
            return try State(decoding: try Self.open(MetaKey.state, bytes, "the store's state"))
        } catch is CodecError {
            throw Self.damaged(path, "its state cannot be read")
        }
    }

    func storeID() throws -> StoreID {
        try environment.read { transaction in
            guard let bytes = try transaction.get(meta, MetaKey.store) else { throw Self.damaged(path, "it does not say whose it is") }
            var reader = ByteReader(try Self.open(MetaKey.store, bytes, "the store's identity"))
            do {
                let version = try reader.fixed32()
                guard version <= Format.version else { throw Format.newer(path, version) }
                return try reader.identifier()
            } catch is CodecError {
                throw Self.damaged(path, "its identity cannot be read")
            }
        }
    }

    static func storeRecord(_ id: StoreID) -> [UInt8] {
        var out = ByteBuffer(capacity: 32)
        out.put(fixed32: Format.version)
        out.put(id)
        return sealed(MetaKey.store, out.array())
    }

    /// A fold's table; `nil` if it is absent and not to be made.
    func foldTable(_ name: String, _ generation: UInt32, creates: Bool) throws -> FoldTable? {
        if environment.isPinned {
            let table = try environment.pinnedTable(FoldRecord.tableName(name, generation))
            return table.map { FoldTable(environment: environment, table: $0, name: name) }
        }
        let tables = try environment.tables([FoldRecord.tableName(name, generation)], creates: creates)
        return tables[0].map { FoldTable(environment: environment, table: $0, name: name) }
    }

    func drop(_ table: FoldTable) throws { try environment.write { try $0.drop(table.table) } }

    func row(_ log: LogID, _ transaction: borrowing ReadTransaction) throws -> LogRow? {
        let names = transaction.lent
        return try value(of: log, transaction) { key, value in try row(key, opened: value, names) }
    }

    /// Lends a log's row as it lies, when its checksum holds.
    func value<R>(of log: LogID, _ transaction: borrowing ReadTransaction, _ body: (_ key: [UInt8], UnsafeRawBufferPointer) throws -> R) throws -> R? {
        let key = Self.key(log: log)
        guard let bytes = try transaction.get(logs, key) else {
            try checkAbsence(of: key, transaction)
            return nil
        }
        return try body(key, Self.open(key, bytes, "a log's row"))
    }

    /// Throws `damaged` if a log's row may be there under a key that changed on the disk: it would count as new, and take its first events again. Such a
    /// row lies before or behind the place of the right key, and is sealed with that one; or the keys do not ascend there.
    private func checkAbsence(of key: [UInt8], _ transaction: borrowing ReadTransaction) throws {
        for isReversed in [false, true] {
            try transaction.forEach(logs, from: key, isReversed: isReversed) { found, value in
                let found = Array(found)
                let isInOrder = isReversed ? found.lexicographicallyPrecedes(key) : key.lexicographicallyPrecedes(found)
                guard isInOrder else { throw Self.damaged(path, "the keys of logs' rows are out of order") }
                _ = try Self.open(found, value, "a log's row")
                return false
            }
        }
    }

    func row(_ key: [UInt8], _ bytes: UnsafeRawBufferPointer, _ transaction: borrowing ReadTransaction) throws -> LogRow {
        try row(key, opened: Self.open(key, bytes, "a log's row"), transaction.lent)
    }

    private func row(_ key: [UInt8], opened value: UnsafeRawBufferPointer, _ names: borrowing ReadTransaction) throws -> LogRow {
        do {
            return try LogRow(key: key, decoding: value) { number in
                let key = Self.key(position: number)
                guard let bytes = try names.get(replicas, key) else { throw CodecError(.badValue) }
                var reader = ByteReader(try Self.open(key, bytes, "a replica's name"))
                return try reader.identifier()
            }
        } catch is CodecError {
            throw Self.damaged(path, "a log's row cannot be read")
        }
    }
}
