import CSQLite
import EventLog

/// SQLite in WAL mode with synchronous=FULL: prepared statements, one transaction a commit, a column for each field.
final class SQLiteEngine: Engine {
    /// How the rows lie: both are what a good engineer might choose, and each is better at something.
    enum Layout {
        /// Appended in commit order; (conversation, seq) is an index.
        case byPosition
        /// Clustered by (conversation, seq); commit order is an index.
        case byConversation
    }

    private static let columns = "position, conversation, seq, hlc, kind, author, message, number, reply, text, rest"
    private let database: OpaquePointer
    private let insert, begin, commit: OpaquePointer
    private var sequencer: Sequencer
    private var fields = Fields()

    /// What a kind has beside its envelope. Participants and usage, which no query looks into, are in `rest`.
    struct Fields {
        var message: MessageID?
        var number: UInt64?
        var reply: MessageID?
        var text: String?
        var rest: [UInt8] = []
    }

    convenience init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        try self.init(directory: directory, held: held, options: options, layout: .byPosition)
    }

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions, layout: Layout) throws {
        sequencer = Sequencer(after: held)
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(directory + "/events.db", &opened, flags, nil) == SQLITE_OK, let opened else {
            throw EngineError("sqlite3_open_v2")
        }
        database = opened
        func execute(_ text: String) throws {
            guard sqlite3_exec(opened, text, nil, nil, nil) == SQLITE_OK else { throw Self.error(opened) }
        }
        func prepare(_ text: String) throws -> OpaquePointer {
            var statement: OpaquePointer?
            guard sqlite3_prepare_v3(opened, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil) == SQLITE_OK, let statement
            else {
                throw Self.error(opened)
            }
            return statement
        }
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = \(options.isDurable ? "FULL" : "NORMAL")")
        try execute("PRAGMA cache_size = -262144")
        try execute("PRAGMA mmap_size = 1073741824")
        let fields =
            "seq INTEGER NOT NULL, hlc INTEGER NOT NULL, kind INTEGER NOT NULL, author TEXT NOT NULL, message BLOB, number INTEGER, reply BLOB, text TEXT, rest BLOB"
        switch layout {
        case .byPosition:
            try execute(
                "CREATE TABLE IF NOT EXISTS events (position INTEGER PRIMARY KEY, conversation BLOB NOT NULL, \(fields), UNIQUE (conversation, seq))"
            )
        case .byConversation:
            try execute(
                """
                CREATE TABLE IF NOT EXISTS events (position INTEGER NOT NULL, conversation BLOB NOT NULL, \(fields),
                    PRIMARY KEY (conversation, seq)) WITHOUT ROWID
                """)
            try execute("CREATE UNIQUE INDEX IF NOT EXISTS commit_order ON events (position)")
        }
        if options.keepsIDs {
            try execute("CREATE UNIQUE INDEX IF NOT EXISTS message_ids ON events (conversation, message) WHERE kind = 5")
        }
        insert = try prepare("INSERT INTO events (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        begin = try prepare("BEGIN IMMEDIATE")
        commit = try prepare("COMMIT")
    }

    private static func error(_ database: OpaquePointer) -> EngineError {
        EngineError("sqlite: " + String(cString: sqlite3_errmsg(database)))
    }

    private func run(_ statement: OpaquePointer) throws {
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_DONE else { throw Self.error(database) }
    }

    func append(_ items: ArraySlice<Item>) throws {
        if items.count > 1 { try run(begin) }
        for item in items {
            let event = item.event
            let (seq, position) = sequencer.next(event.conversation)
            try fields.fill(event.content)
            sqlite3_bind_int64(insert, 1, Int64(position))
            sqlite3_bind_int64(insert, 3, Int64(seq))
            sqlite3_bind_int64(insert, 4, Int64(bitPattern: HLC(milliseconds: item.milliseconds).rawValue))
            sqlite3_bind_int64(insert, 5, Int64(event.content.kind?.rawValue ?? 0))
            if let number = fields.number { sqlite3_bind_int64(insert, 8, Int64(bitPattern: number)) } else { sqlite3_bind_null(insert, 8) }
            var author = event.author.string
            var text = fields.text ?? ""
            try withID(event.conversation) { conversation in
                try withID(fields.message) { message in
                    try withID(fields.reply) { reply in
                        try author.withUTF8 { author in
                            try text.withUTF8 { text in
                                try fields.rest.withUnsafeBytes { rest in
                                    bind_static_blob(insert, 2, conversation.baseAddress, 16)
                                    bindText(6, author)
                                    bindBlob(7, fields.message == nil ? nil : message)
                                    bindBlob(9, fields.reply == nil ? nil : reply)
                                    if fields.text == nil { sqlite3_bind_null(insert, 10) } else { bindText(10, text) }
                                    bindBlob(11, rest.isEmpty ? nil : rest)
                                    try run(insert)
                                }
                            }
                        }
                    }
                }
            }
        }
        if items.count > 1 { try run(commit) }
    }

    private func withID<Tag>(_ id: Identifier<Tag>?, _ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
        try withUnsafeBytes(of: (id?.high.bigEndian ?? 0, id?.low.bigEndian ?? 0)) { try body($0) }
    }

    private func bindBlob(_ column: CInt, _ bytes: UnsafeRawBufferPointer?) {
        if let bytes { bind_static_blob(insert, column, bytes.baseAddress, CInt(bytes.count)) } else { sqlite3_bind_null(insert, column) }
    }

    private func bindText(_ column: CInt, _ bytes: UnsafeBufferPointer<UInt8>) {
        // The empty text has no address, and a null pointer would bind NULL.
        if bytes.isEmpty {
            bind_static_text(insert, column, "", 0)
        } else {
            bytes.withMemoryRebound(to: CChar.self) { _ = bind_static_text(insert, column, $0.baseAddress, CInt($0.count)) }
        }
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        var prepared: OpaquePointer?
        let sorted = order == .commit ? "position" : "conversation, seq"
        guard sqlite3_prepare_v2(database, "SELECT \(Self.columns) FROM events ORDER BY \(sorted)", -1, &prepared, nil) == SQLITE_OK,
            let prepared
        else {
            throw Self.error(database)
        }
        defer { sqlite3_finalize(prepared) }
        var count = 0
        while true {
            switch sqlite3_step(prepared) {
            case SQLITE_ROW: body(try Self.recorded(prepared))
            case SQLITE_DONE: return count
            default: throw Self.error(database)
            }
            count += 1
        }
    }

    private static func recorded(_ row: OpaquePointer) throws -> RecordedEvent {
        func bytes(_ column: CInt) -> UnsafeRawBufferPointer {
            let start = sqlite3_column_blob(row, column)
            return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(row, column)))
        }
        func text(_ column: CInt) -> String {
            let start = sqlite3_column_text(row, column)
            return String(decoding: UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(row, column))), as: UTF8.self)
        }
        func id<Tag>(_ column: CInt) throws -> Identifier<Tag> {
            var reader = RowReader(bytes(column))
            return try reader.id()
        }
        let conversation: ConversationID = try id(1)
        guard let author = UserID(text(5)) else { throw EngineError("damaged row") }
        let number = UInt64(bitPattern: sqlite3_column_int64(row, 7))
        let content: Event.Content
        switch Event.Kind(rawValue: UInt32(truncatingIfNeeded: sqlite3_column_int64(row, 4))) {
        case .messageSent:
            let reply: MessageID? = sqlite3_column_type(row, 8) == SQLITE_NULL ? nil : try id(8)
            guard let role = Event.Role(rawValue: UInt8(number & 15)) else { throw EngineError("damaged row") }
            content = .messageSent(.init(id: try id(6), role: role, text: text(9), isStreaming: number & 16 != 0, replyTo: reply))
        case .chunkAppended: content = .chunkAppended(message: try id(6), index: UInt32(truncatingIfNeeded: number), text: text(9))
        case .messageCompleted:
            var usage: Event.Usage?
            if sqlite3_column_type(row, 10) != SQLITE_NULL {
                var reader = RowReader(bytes(10))
                usage = .init(inputTokens: try reader.varint(), outputTokens: try reader.varint())
            }
            content = .messageCompleted(
                message: try id(6), finishReason: sqlite3_column_type(row, 9) == SQLITE_NULL ? nil : text(9), usage: usage)
        case .messageInterrupted: content = .messageInterrupted(message: try id(6), reason: text(9))
        case .receiptDelivered: content = .receiptDelivered(upTo: try id(6))
        case .receiptRead: content = .receiptRead(upTo: try id(6))
        case .conversationCreated:
            guard let kind = Event.ConversationKind(rawValue: UInt8(truncatingIfNeeded: number)) else { throw EngineError("damaged row") }
            var reader = RowReader(bytes(10))
            var participants: [UserID] = []
            for _ in 0..<(try reader.varint()) { participants.append(try reader.user()) }
            content = .conversationCreated(
                kind: kind, title: sqlite3_column_type(row, 9) == SQLITE_NULL ? nil : text(9), participants: participants)
        default: throw EngineError("damaged row")
        }
        let hlc = HLC(rawValue: UInt64(bitPattern: sqlite3_column_int64(row, 3)))
        return RecordedEvent(
            log: .conversation(conversation), seq: UInt64(sqlite3_column_int64(row, 2)), position: UInt64(sqlite3_column_int64(row, 0)),
            origin: .unknown(hlc), hlc: hlc, event: Event(conversation: conversation, author: author, content: content), targetSeq: nil)
    }

    /// The last connection's close writes the WAL into the database and removes it.
    func close() throws {
        for statement in [insert, begin, commit] { sqlite3_finalize(statement) }
        guard sqlite3_close(database) == SQLITE_OK else { throw Self.error(database) }
    }
}

extension SQLiteEngine.Fields {
    fileprivate mutating func fill(_ content: Event.Content) throws {
        (message, number, reply, text) = (nil, nil, nil, nil)
        rest.removeAll(keepingCapacity: true)
        switch content {
        case .messageSent(let sent):
            (message, reply, text) = (sent.id, sent.replyTo, sent.text)
            number = UInt64(sent.role.rawValue | (sent.isStreaming ? 16 : 0))
        case .chunkAppended(let id, let index, let piece): (message, number, text) = (id, UInt64(index), piece)
        case .messageCompleted(let id, let reason, let usage):
            (message, text) = (id, reason)
            guard let usage else { break }
            rest.appendVarint(usage.inputTokens)
            rest.appendVarint(usage.outputTokens)
        case .messageInterrupted(let id, let reason): (message, text) = (id, reason)
        case .receiptDelivered(let id), .receiptRead(let id): message = id
        case .conversationCreated(let kind, let title, let participants):
            (number, text) = (UInt64(kind.rawValue), title)
            rest.appendVarint(UInt64(participants.count))
            for user in participants { rest.appendText(user.string) }
        default: throw EngineError("not part of the benchmark's mix")
        }
    }
}
