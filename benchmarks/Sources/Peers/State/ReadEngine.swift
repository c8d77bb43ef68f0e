public import EventLog

/// A store that keeps its events and, in the same commit, all that a chat screen shows. Driven from one thread.
///
/// This is all that ``StateComparison`` asks of an engine: to add one, implement it and add a case to ``StateEngineKind``.
public protocol ReadEngine: AnyObject {
    /// Opens or creates in an existing directory of its own.
    init(directory: String, isDurable: Bool) throws
    /// Appends in one commit: events and state. The events are valid and new, as a hub has decided.
    func append(_ items: ArraySlice<Item>) throws
    /// A reader for one more thread, which sees all that was appended before each read. It must be closed before the engine.
    func reader() throws -> any StateReader
    /// Removes the state and keeps the events; not timed.
    func dropState() throws
    /// Builds the state anew from the kept events and makes it durable.
    func buildState() throws
    /// Leaves the store as small as it gets by itself, before its size is taken; not timed.
    func compact() throws
    func close() throws
}

/// Reads state into Swift values of the engine's own types, from one thread.
///
/// Each call must make the values whole (every text a String) and let them go; what it answers with shows that it read the same as the
/// others.
public protocol StateReader: AnyObject {
    /// The newest messages of a conversation, ascending, with all fields of fold.py's row. Bytes: UTF-8 of the texts, one a reaction that
    /// is on, one a user with a receipt in the conversation.
    func readPage(of conversation: ConversationID, limit: Int) throws -> ReadSum
    /// The newest rows of a user's lobby. Bytes: UTF-8 of the titles and snippets, the unread counts, one a preference that is set.
    func readLobby(of user: UserID, limit: Int) throws -> ReadSum
    /// The message whose `message.sent` has this seq. Bytes as for a page of this one row.
    func readMessage(in conversation: ConversationID, seq: Seq) throws -> ReadSum
    func close() throws
}

/// What was read: engines that keep the same state have the same sums over the same reads.
public struct ReadSum: Hashable, Sendable {
    public var rows: Int
    public var bytes: Int

    public init(rows: Int = 0, bytes: Int = 0) {
        self.rows = rows
        self.bytes = bytes
    }

    static func += (left: inout Self, right: Self) {
        left.rows += right.rows
        left.bytes += right.bytes
    }
}

/// The engines of the state benchmark by their names on the command line.
public enum StateEngineKind: String, Sendable, CaseIterable, Encodable {
    case sqlite
    case rocksdb
    case convstore
    /// With caches as large as those that the others are given; the usual ones are less than half of it.
    case convstoreWide = "convstore-256m"

    /// What is measured if nothing is named.
    public static let usual: [Self] = [.sqlite, .rocksdb, .convstore]

    public func open(directory: String, isDurable: Bool = true) throws -> any ReadEngine {
        switch self {
        case .sqlite: try SQLiteState(directory: directory, isDurable: isDurable)
        case .rocksdb: try RocksDBState(directory: directory, isDurable: isDurable)
        case .convstore: try ConvstoreState(directory: directory, isDurable: isDurable)
        case .convstoreWide: try ConvstoreState(directory: directory, isDurable: isDurable, cacheBytes: RocksTuning.cacheBytes)
        }
    }
}

/// An engine with a second, simpler way to build its state: what ``ReadEngine/buildState()`` gains over it is shown beside.
protocol ReplayEngine: ReadEngine {
    /// Builds the state anew, event by event, in commit order.
    func replayState() throws
}

/// A reader that can choose what a model may be given: measured beside the page of as many messages.
protocol WindowReader: StateReader {
    /// The newest messages within so many tokens.
    func readWindow(of conversation: ConversationID, budget: Int) throws -> ReadSum
}

/// A reader whose values can be looked into: the peers', which `peers dump` compares with fold.py.
protocol PeerReader: StateReader {
    func page(of conversation: ConversationID, limit: Int) throws -> TimelinePage
    func message(in conversation: ConversationID, seq: Seq) throws -> TimelinePage
    func lobby(of user: UserID, limit: Int) throws -> [LobbyRow]
    func participants(of conversation: ConversationID) throws -> [UserID]
}

extension PeerReader {
    public func readPage(of conversation: ConversationID, limit: Int) throws -> ReadSum { try page(of: conversation, limit: limit).sum }

    public func readLobby(of user: UserID, limit: Int) throws -> ReadSum { try lobby(of: user, limit: limit).sum }

    public func readMessage(in conversation: ConversationID, seq: Seq) throws -> ReadSum { try message(in: conversation, seq: seq).sum }
}
