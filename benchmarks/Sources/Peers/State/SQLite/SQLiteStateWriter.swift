import EventLog

/// Writes events and changed rows, within a transaction of the caller's.
struct SQLiteStateWriter {
    private let event, conversation, message, extendedMessage, member, receipt, reaction, noReactions, preference: SQLiteStatement
    private var fields = EventFields()

    init(_ database: SQLiteDatabase) throws {
        event = try database.prepare(
            """
            INSERT INTO events (position, conversation, seq, at, kind, author, message, number, reply, text, rest)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
            """)
        conversation = try database.prepare(
            """
            INSERT INTO conversations (key, id, kind, title, title_time, title_position, seq, messages, deleted, ordered, has_receipts,
                last_id, last_seq, last_author, last_role, last_state, last_sent_at, last_snippet)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
            ON CONFLICT (key) DO UPDATE SET title = ?4, title_time = ?5, title_position = ?6, seq = ?7, messages = ?8, deleted = ?9, ordered = ?10,
                has_receipts = ?11, last_id = ?12, last_seq = ?13, last_author = ?14, last_role = ?15, last_state = ?16, last_sent_at = ?17,
                last_snippet = ?18
            """)
        message = try database.prepare(
            """
            INSERT INTO messages (key, id, ordinal, author, role, state, is_edited, chunks, reply_to, sent_at, finish_reason, interrupted_reason,
                has_reactions, text_time, text_position, text)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
            ON CONFLICT (key) DO UPDATE SET state = ?6, is_edited = ?7, chunks = ?8, finish_reason = ?11, interrupted_reason = ?12,
                has_reactions = ?13, text_time = ?14, text_position = ?15, text = ?16
            """)
        extendedMessage = try database.prepare(
            """
            UPDATE messages SET state = ?2, is_edited = ?3, chunks = ?4, finish_reason = ?5, interrupted_reason = ?6, has_reactions = ?7,
                text = text || ?8 WHERE key = ?1
            """)
        member = try database.prepare(
            """
            INSERT INTO members (user, conversation, is_active, mark, ordinal) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (user, conversation) DO UPDATE SET is_active = ?3, mark = ?4, ordinal = ?5
            """)
        receipt = try database.prepare(
            """
            INSERT INTO receipts (conversation, user, delivered, read) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (conversation, user) DO UPDATE SET delivered = ?3, read = ?4
            """)
        reaction = try database.prepare(
            """
            INSERT INTO reactions (message, emoji, user, is_on, time, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (message, emoji, user) DO UPDATE SET is_on = ?4, time = ?5, position = ?6 WHERE (?5, ?6) > (time, position)
            """)
        noReactions = try database.prepare("DELETE FROM reactions WHERE message = ?1")
        preference = try database.prepare(
            """
            INSERT INTO preferences (user, conversation, key, value, time, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (user, conversation, key) DO UPDATE SET value = ?4, time = ?5, position = ?6 WHERE (?5, ?6) > (time, position)
            """)
    }

    mutating func write(_ item: Item, position: Position, key: Int64, seq: Seq) throws {
        try fields.fill(item.event.content)
        event.bind(1, position)
        event.bind(2, key)
        event.bind(3, seq)
        event.bind(4, item.milliseconds)
        event.bind(5, UInt64(item.event.content.kind?.rawValue ?? 0))
        event.bind(6, item.event.author.string)
        if case .conversationCreated = item.event.content {
            // The events alone must tell all: here is the only place for the key's meaning.
            event.bind(7, item.event.conversation)
        } else {
            event.bind(7, fields.message)
        }
        event.bind(8, fields.number)
        event.bind(9, fields.reply)
        event.bind(10, fields.text)
        event.bind(11, fields.rest)
        try event.run()
    }

    func write(_ changes: inout WorkingSet) throws {
        for row in changes.changedConversations { try write(row) }
        for row in changes.changedMessages { try write(row, try changes.key(row.conversation)) }
        for row in changes.changedMembers { try write(row, try changes.key(row.conversation)) }
        for row in changes.changedReceipts {
            receipt.bind(1, try changes.key(row.conversation))
            receipt.bind(2, row.id.string)
            receipt.bind(3, row.value.delivered)
            receipt.bind(4, row.value.read)
            try receipt.run()
        }
    }

    private func write(_ row: WorkingSet.Conversation) throws {
        let record = row.value
        conversation.bind(1, record.key)
        conversation.bind(2, row.id)
        conversation.bind(3, UInt64(record.kind.rawValue))
        conversation.bind(4, record.title)
        conversation.bind(5, record.titleStamp?.time)
        conversation.bind(6, record.titleStamp?.position)
        conversation.bind(7, record.seq)
        conversation.bind(8, record.messages)
        conversation.bind(9, record.deleted)
        conversation.bind(10, record.order)
        conversation.bind(11, record.hasReceipts)
        conversation.bind(12, record.last?.id)
        conversation.bind(13, record.last?.seq)
        conversation.bind(14, record.last?.author.string)
        conversation.bind(15, (record.last?.role.rawValue).map(UInt64.init))
        conversation.bind(16, (record.last?.state.rawValue).map(UInt64.init))
        conversation.bind(17, record.last?.sentAt)
        conversation.bind(18, record.last?.snippet)
        try conversation.run()
    }

    private func write(_ row: WorkingSet.Message, _ conversation: Int64) throws {
        let record = row.value
        let key = conversation << 32 | Int64(record.seq)
        if row.isStored, record.continuesStoredText {
            extendedMessage.bind(1, key)
            extendedMessage.bind(2, UInt64(record.state.rawValue))
            extendedMessage.bind(3, record.isEdited)
            extendedMessage.bind(4, UInt64(record.chunks))
            extendedMessage.bind(5, record.finishReason)
            extendedMessage.bind(6, record.interruptedReason)
            extendedMessage.bind(7, record.hasReactions)
            extendedMessage.bind(8, record.text)
            try extendedMessage.run()
        } else {
            message.bind(1, key)
            message.bind(2, record.id)
            message.bind(3, record.ordinal)
            message.bind(4, record.author.string)
            message.bind(5, UInt64(record.role.rawValue))
            message.bind(6, UInt64(record.state.rawValue))
            message.bind(7, record.isEdited)
            message.bind(8, UInt64(record.chunks))
            message.bind(9, record.replyTo)
            message.bind(10, record.sentAt)
            message.bind(11, record.finishReason)
            message.bind(12, record.interruptedReason)
            message.bind(13, record.hasReactions)
            message.bind(14, record.textStamp?.time)
            message.bind(15, record.textStamp?.position)
            message.bind(16, record.text)
            try message.run()
        }
        if record.state == .deleted, row.isStored {
            noReactions.bind(1, key)
            try noReactions.run()
        }
        for register in record.reactions {
            reaction.bind(1, key)
            reaction.bind(2, register.emoji)
            reaction.bind(3, register.user.string)
            reaction.bind(4, register.isOn)
            reaction.bind(5, register.stamp.time)
            reaction.bind(6, register.stamp.position)
            try reaction.run()
        }
    }

    private func write(_ row: WorkingSet.Member, _ conversation: Int64) throws {
        member.bind(1, row.id.string)
        member.bind(2, conversation)
        member.bind(3, row.value.isActive)
        member.bind(4, row.value.mark)
        member.bind(5, row.value.ordinal)
        try member.run()
        for register in row.value.preferences {
            preference.bind(1, row.id.string)
            preference.bind(2, conversation)
            preference.bind(3, register.key)
            preference.bind(4, register.value)
            preference.bind(5, register.stamp.time)
            preference.bind(6, register.stamp.position)
            try preference.run()
        }
    }
}
