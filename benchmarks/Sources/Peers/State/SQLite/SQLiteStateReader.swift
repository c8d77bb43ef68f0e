import EventLog

/// A read-only connection with its statements. What one read answers comes from one snapshot: that of its first statement, which stays open
/// while the others run, so that there is no need for a transaction around them.
final class SQLiteStateReader: PeerReader {
    private static let messageColumns = """
        m.key, m.id, m.author, m.role, m.text, m.state, m.is_edited, m.chunks, m.reply_to, m.sent_at, m.finish_reason, m.interrupted_reason,
            m.has_reactions
        """
    private let database: SQLiteDatabase
    private let conversation, rows, row, reactions, receipts, lobbyRows, preferences, people: SQLiteStatement

    init(_ path: String) throws {
        database = try SQLiteDatabase(path, isReadOnly: true)
        conversation = try database.prepare("SELECT key, has_receipts FROM conversations WHERE id = ?1")
        rows = try database.prepare(
            "SELECT \(Self.messageColumns) FROM messages m WHERE m.key > ?1 << 32 AND m.key < (?1 + 1) << 32 ORDER BY m.key DESC LIMIT ?2")
        row = try database.prepare(
            """
            SELECT \(Self.messageColumns), c.key, c.has_receipts FROM conversations c CROSS JOIN messages m ON m.key = (c.key << 32) + ?2
            WHERE c.id = ?1
            """)
        reactions = try database.prepare("SELECT emoji, user FROM reactions WHERE message = ?1 AND is_on")
        receipts = try database.prepare("SELECT user, delivered, read FROM receipts WHERE conversation = ?1")
        // Sorts keys and fetches the rest of a page's rows only. A subquery's order outlives a join in which it comes first.
        lobbyRows = try database.prepare(
            """
            SELECT c.key, c.id, c.kind, c.title, c.messages - m.ordinal - CASE WHEN c.deleted = 0 THEN 0 ELSE
                (SELECT count(*) FROM messages d WHERE d.state = 3 AND d.key > (c.key << 32) + m.mark AND d.key < (c.key + 1) << 32) END,
                c.last_id, c.last_seq, c.last_author, c.last_role, c.last_state, c.last_sent_at, c.last_snippet
            FROM (SELECT o.conversation, o.mark, o.ordinal FROM members o CROSS JOIN conversations s ON s.key = o.conversation
                WHERE o.user = ?1 AND o.is_active ORDER BY s.ordered DESC LIMIT ?2) m
            CROSS JOIN conversations c ON c.key = m.conversation
            """)
        preferences = try database.prepare(
            "SELECT conversation, key, value FROM preferences WHERE user = ?1 AND value IS NOT NULL ORDER BY conversation, key")
        people = try database.prepare(
            "SELECT m.user FROM conversations c CROSS JOIN members m ON m.conversation = c.key WHERE c.id = ?1 AND m.is_active ORDER BY m.user")
    }

    func page(of id: ConversationID, limit: Int) throws -> TimelinePage {
        conversation.bind(1, id)
        let page = try conversation.first { found in
            let key = found.int(0)
            rows.bind(1, key)
            rows.bind(2, Int64(limit))
            var page = TimelinePage(rows: [], receipts: [])
            while try rows.step() { page.rows.append(try timelineRow(rows)) }
            page.rows.reverse()
            if found.isTrue(1) { page.receipts = try receipts(of: key) }
            return page
        }
        guard let page else { throw EngineError("no conversation") }
        return page
    }

    func message(in id: ConversationID, seq: Seq) throws -> TimelinePage {
        row.bind(1, id)
        row.bind(2, seq)
        let page = try row.first { row in
            TimelinePage(rows: [try timelineRow(row)], receipts: row.isTrue(14) ? try receipts(of: row.int(13)) : [])
        }
        guard let page else { throw EngineError("no message") }
        return page
    }

    private func timelineRow(_ row: SQLiteStatement) throws -> TimelineRow {
        let key = row.int(0)
        var result = TimelineRow(
            id: try row.id(1), seq: UInt64(key & 0xFFFF_FFFF), author: try row.user(2), role: try row.choice(3), text: row.text(4),
            state: try row.choice(5), isEdited: row.isTrue(6), chunks: UInt32(truncatingIfNeeded: row.int(7)), replyTo: try row.idIfAny(8),
            sentAt: row.number(9), finishReason: row.textIfAny(10), interruptedReason: row.textIfAny(11), reactions: [])
        guard row.isTrue(12) else { return result }
        reactions.bind(1, key)
        while try reactions.step() { result.reactions.append(Reaction(emoji: reactions.text(0), user: try reactions.user(1))) }
        return result
    }

    private func receipts(of key: Int64) throws -> [Receipt] {
        receipts.bind(1, key)
        var result: [Receipt] = []
        while try receipts.step() {
            result.append(Receipt(user: try receipts.user(0), delivered: receipts.number(1), read: receipts.number(2)))
        }
        return result
    }

    func lobby(of user: UserID, limit: Int) throws -> [LobbyRow] {
        lobbyRows.bind(1, user.string)
        lobbyRows.bind(2, Int64(limit))
        var (result, set): ([LobbyRow], [Int64: [Preference]]) = ([], [:])
        while try lobbyRows.step() {
            if result.isEmpty { set = try preferences(of: user) }
            result.append(
                LobbyRow(
                    conversation: try lobbyRows.id(1), kind: try lobbyRows.choice(2), title: lobbyRows.textIfAny(3),
                    last: try lobbyRows.lastMessage(5), unread: lobbyRows.number(4), preferences: set[lobbyRows.int(0)] ?? []))
        }
        return result
    }

    /// All of the user's by conversation, in one run of the table: fewer look-ups than one a row.
    private func preferences(of user: UserID) throws -> [Int64: [Preference]] {
        var set: [Int64: [Preference]] = [:]
        preferences.bind(1, user.string)
        while try preferences.step() {
            set[preferences.int(0), default: []].append(Preference(key: preferences.text(1), value: preferences.text(2)))
        }
        return set
    }

    func participants(of conversation: ConversationID) throws -> [UserID] {
        people.bind(1, conversation)
        var result: [UserID] = []
        while try people.step() { result.append(try people.user(0)) }
        return result
    }

    func close() throws { try database.close() }
}
