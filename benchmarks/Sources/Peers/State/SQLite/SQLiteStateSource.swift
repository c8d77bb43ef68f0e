import EventLog

/// Loads what a commit touches. Texts, reactions and preferences stay where they are: SQL appends to them.
final class SQLiteStateSource: StateSource {
    private let conversation, message, member, receipt: SQLiteStatement
    private var key: Int64

    init(_ database: SQLiteDatabase) throws {
        conversation = try database.prepare(
            """
            SELECT key, kind, title, title_time, title_position, seq, messages, deleted, ordered, has_receipts,
                last_id, last_seq, last_author, last_role, last_state, last_sent_at, last_snippet FROM conversations WHERE id = ?1
            """)
        message = try database.prepare(
            """
            SELECT key & 0xFFFFFFFF, ordinal, author, role, state, is_edited, chunks, reply_to, sent_at, finish_reason, interrupted_reason,
                has_reactions, text_time, text_position FROM messages WHERE key >> 32 = ?1 AND id = ?2
            """)
        member = try database.prepare("SELECT is_active, mark, ordinal FROM members WHERE user = ?1 AND conversation = ?2")
        receipt = try database.prepare("SELECT delivered, read FROM receipts WHERE conversation = ?1 AND user = ?2")
        key = try database.prepare("SELECT max(key) FROM conversations").first { $0.int(0) } ?? 0
    }

    func nextKey() -> Int64 {
        key += 1
        return key
    }

    func conversation(_ id: ConversationID) throws -> ConversationRecord? {
        conversation.bind(1, id)
        return try conversation.first { row in
            ConversationRecord(
                key: row.int(0), kind: try row.choice(1), title: row.textIfAny(2), titleStamp: row.stamp(3), seq: row.number(5),
                messages: row.number(6), deleted: row.number(7), order: row.number(8), hasReceipts: row.isTrue(9), last: try row.lastMessage(10))
        }
    }

    func message(_ id: MessageID, in conversation: WorkingSet.Conversation) throws -> MessageRecord? {
        message.bind(1, conversation.value.key)
        message.bind(2, id)
        return try message.first { row in
            MessageRecord(
                id: id, seq: row.number(0), ordinal: row.number(1), author: try row.user(2), role: try row.choice(3), text: "",
                continuesStoredText: true, textStamp: row.stamp(12), state: try row.choice(4), isEdited: row.isTrue(5),
                chunks: UInt32(truncatingIfNeeded: row.int(6)), replyTo: try row.idIfAny(7), sentAt: row.number(8),
                finishReason: row.textIfAny(9), interruptedReason: row.textIfAny(10), hasReactions: row.isTrue(11))
        }
    }

    func member(_ user: UserID, of conversation: WorkingSet.Conversation) throws -> MemberRecord? {
        member.bind(1, user.string)
        member.bind(2, conversation.value.key)
        return try member.first { MemberRecord(isActive: $0.isTrue(0), mark: $0.number(1), ordinal: $0.number(2)) }
    }

    func receipt(_ user: UserID, in conversation: WorkingSet.Conversation) throws -> ReceiptRecord? {
        receipt.bind(1, conversation.value.key)
        receipt.bind(2, user.string)
        return try receipt.first { ReceiptRecord(delivered: $0.number(0), read: $0.number(1)) }
    }
}

extension SQLiteStatement {
    /// A register's stamp in two columns.
    func stamp(_ column: CInt) -> Stamp? {
        isNull(column) ? nil : Stamp(time: number(column), position: number(column + 1))
    }

    /// A conversation's last message in seven columns.
    func lastMessage(_ column: CInt) throws -> LastMessage? {
        guard !isNull(column) else { return nil }
        return LastMessage(
            id: try id(column), seq: number(column + 1), author: try user(column + 2), role: try choice(column + 3),
            state: try choice(column + 4), sentAt: number(column + 5), snippet: text(column + 6))
    }
}
