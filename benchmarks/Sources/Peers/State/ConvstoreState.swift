internal import ConversationStore
internal import EventLog
internal import Projections

/// The store itself, with all its projections.
final class ConvstoreState: ReadEngine {
    private let path: String
    private let options: ConversationStoreOptions
    private var store: ConversationStore

    convenience init(directory: String, isDurable: Bool) throws { try self.init(directory: directory, isDurable: isDurable, cacheBytes: nil) }

    /// - Parameter cacheBytes: `nil`: as usual.
    init(directory: String, isDurable: Bool, cacheBytes: Int?) throws {
        // The trial's directory exists; the store makes its own inside, crash-safely.
        path = directory + "/store"
        options = ConversationStoreOptions(
            durability: isDurable ? .full : .relaxed(interval: .seconds(1)), cacheBytes: cacheBytes ?? ConversationStoreOptions.cacheBytesUsual)
        store = try ConversationStore.open(at: path, options: options)
    }

    func append(_ items: ArraySlice<Item>) throws {
        let submissions = items.map { item in
            Submission(item.event)
        }
        for outcome in try store.log.appendBlocking(submissions) {
            guard case .accepted = outcome else { throw EngineError("convstore: not accepted: \(outcome)") }
        }
    }

    func reader() throws -> any StateReader { ConvstoreReader(store: store) }

    /// A rebuild goes beside what is shown, and puts itself in its place: there is nothing to drop.
    func dropState() throws { try store.log.flush() }

    func buildState() throws { try store.rebuild() }

    /// RocksDB is compacted too.
    func compact() throws {
        try store.close()
        _ = try EventStore.compact(at: path)
        store = try ConversationStore.open(at: path, options: options)
    }

    func close() throws { try store.close() }
}

/// Any number of threads read the store; this one reads it as they would.
private final class ConvstoreReader: StateReader, WindowReader {
    private let store: ConversationStore

    init(store: ConversationStore) { self.store = store }

    func readPage(of conversation: ConversationID, limit: Int) throws -> ReadSum {
        guard let page = try store.timeline(of: conversation, .newest, limit: limit) else { return ReadSum() }
        return ReadSum(rows: page.messages.count, bytes: page.messages.reduce(page.receipts.marks.count) { $0 + Self.bytes(of: $1) })
    }

    private static func bytes(of message: Message) -> Int {
        message.text.utf8.count + (message.details?.reactions.reduce(0) { $0 + $1.users.count } ?? 0)
    }

    func readLobby(of user: UserID, limit: Int) throws -> ReadSum {
        let page = try store.lobby(of: user, limit: limit)
        let bytes = page.rows.reduce(0) { sum, row in
            sum + (row.title?.utf8.count ?? 0) + (row.lastMessage?.snippet.utf8.count ?? 0) + Int(row.unread) + row.preferences.count
        }
        return ReadSum(rows: page.rows.count, bytes: bytes)
    }

    func readMessage(in conversation: ConversationID, seq: Seq) throws -> ReadSum {
        guard let found = try store.messageAndReceipts(in: conversation, at: seq) else { return ReadSum() }
        return ReadSum(rows: 1, bytes: Self.bytes(of: found.message) + found.receipts.marks.count)
    }

    func readWindow(of conversation: ConversationID, budget: Int) throws -> ReadSum {
        guard let window = try store.contextWindow(of: conversation, budget: budget) else { return ReadSum() }
        return ReadSum(rows: window.messages.count, bytes: window.messages.reduce(0) { $0 + Self.bytes(of: $1) })
    }

    func close() {}
}
