public import EventLog

/// How an engine is opened for a trial.
public struct EngineOptions: Sendable {
    /// Whether an append is synced before it returns.
    public var isDurable: Bool
    /// Whether message ids are looked up and kept, so that a repeated id cannot be stored twice.
    public var keepsIDs: Bool

    public init(isDurable: Bool = true, keepsIDs: Bool = true) {
        self.isDurable = isDurable
        self.keepsIDs = keepsIDs
    }
}

public enum ScanOrder: String, Sendable, CaseIterable {
    /// The order in which events were appended.
    case commit
    /// By conversation and seq.
    case conversation
}

/// A store of events in one directory, driven from one thread.
public protocol Engine: AnyObject {
    /// Opens or creates. `held` are the events that the directory already holds, in their order.
    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws
    /// Appends in one commit.
    func append(_ items: ArraySlice<Item>) throws
    /// Reads every event into a Swift value; answers how many there were.
    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int
    func close() throws
}

public struct EngineError: Error, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}

/// The engines by their names on the command line.
public enum EngineKind: String, Sendable, CaseIterable {
    /// A preallocated file, one write and one fdatasync a commit: what the disk allows. It can neither find nor scan.
    case file
    case rocksdb
    /// Rows in commit order, (conversation, seq) as an index.
    case sqlite
    /// Rows clustered by (conversation, seq), commit order as an index.
    case sqliteClustered = "sqlite-clustered"
    case lmdb
    case convstore

    public var canScan: Bool {
        return self != .file
    }

    public func open(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws -> any Engine {
        switch self {
        case .file: try FileEngine(directory: directory, held: held, options: options)
        case .rocksdb: try RocksDBEngine(directory: directory, held: held, options: options)
        case .sqlite: try SQLiteEngine(directory: directory, held: held, options: options)
        case .sqliteClustered: try SQLiteEngine(directory: directory, held: held, options: options, layout: .byConversation)
        case .lmdb: try LMDBEngine(directory: directory, held: held, options: options)
        case .convstore: try ConvstoreEngine(directory: directory, held: held, options: options)
        }
    }
}
