import EventLog

/// Builds all state in one pass over the events, in the order of conversations.
final class SQLiteStateBuild {
    static let columns = "position, conversation, at, kind, author, message, number, reply, text, rest"

    private let database: SQLiteDatabase
    private let writer: SQLiteStateWriter
    private let key = ConversationKey()
    private var changes: WorkingSet

    /// Everything is new in a build, but a conversation has the key that its events have.
    private final class ConversationKey: StateSource {
        var current: Int64 = 0

        func nextKey() -> Int64 { current }
        func conversation(_ id: ConversationID) throws -> ConversationRecord? { nil }
        func message(_ id: MessageID, in conversation: WorkingSet.Conversation) throws -> MessageRecord? { nil }
        func member(_ user: UserID, of conversation: WorkingSet.Conversation) throws -> MemberRecord? { nil }
        func receipt(_ user: UserID, in conversation: WorkingSet.Conversation) throws -> ReceiptRecord? { nil }
    }

    init(_ database: SQLiteDatabase) throws {
        self.database = database
        writer = try SQLiteStateWriter(database)
        changes = WorkingSet(key)
    }

    func run() throws {
        let events = try database.prepare("SELECT \(Self.columns) FROM events WHERE kind <> 14 ORDER BY conversation, seq")
        let preferences = try database.prepare("SELECT \(Self.columns) FROM events WHERE kind = 14 ORDER BY conversation, position")
        let now = wallMilliseconds()
        var fields = EventFields()
        var conversation = ConversationID(high: 0, low: 0)
        var hasPreferences = try preferences.step()
        while try events.step() {
            if events.int(1) != key.current {
                try addPreferences(preferences, of: conversation, &hasPreferences, now)
                try writer.write(&changes)
                changes.removeAll()
                (key.current, conversation) = (events.int(1), try events.id(5))
            }
            let item = try events.item(in: conversation, &fields)
            _ = try changes.fold(item, position: events.number(0), now: now)
        }
        try addPreferences(preferences, of: conversation, &hasPreferences, now)
        try writer.write(&changes)
    }

    /// Folds in a conversation's preferences, which lie in their users' logs.
    private func addPreferences(
        _ row: SQLiteStatement, of conversation: ConversationID, _ isAtRow: inout Bool, _ now: UInt64
    ) throws {
        var fields = EventFields()
        while isAtRow, row.int(1) == key.current {
            _ = try changes.fold(try row.item(in: conversation, &fields), position: row.number(0), now: now)
            isAtRow = try row.step()
        }
    }
}

extension SQLiteStatement {
    /// The event in ``SQLiteStateBuild/columns``.
    func item(in conversation: ConversationID, _ fields: inout EventFields) throws -> Item {
        let kind: Event.Kind = try choice(3)
        fields.message = try idIfAny(5)
        fields.number = isNull(6) ? nil : number(6)
        fields.reply = try idIfAny(7)
        fields.text = textIfAny(8)
        fields.rest.removeAll(keepingCapacity: true)
        fields.rest.append(contentsOf: bytes(9))
        let event = Event(conversation: conversation, author: try user(4), content: try fields.content(kind))
        return Item(event: event, milliseconds: number(2))
    }
}
