import ConversationStore
import Interchange

extension JSONLine {
    /// A timeline's row: the fields of `fold.py`.
    init(_ message: Message, _ page: TimelinePage) {
        self.init(message, in: page.conversation, page.receipts)
    }

    init(_ message: Message, in conversation: ConversationID, _ receipts: Receipts) {
        self.init()
        add("conversation_id", conversation.description)
        add("message_id", message.id.description)
        add("seq", message.seq)
        add("author", message.author.string)
        add("role", message.role.jsonName)
        add("text", message.text)
        add("state", "\(message.state.name)")
        add("edited", message.isEdited)
        add("chunks", message.chunks)
        addOptional("reply_to", message.replyTo?.description)
        add("sent_at", Timestamp.string(message.sentAt))
        addOptional("finish_reason", message.finishReason)
        addOptional("interrupted_reason", message.interruptedReason)
        var reactions = JSONLine()
        for reaction in message.reactions { reactions.add(reaction.emoji, reaction.users.map(\.string)) }
        add("reactions", reactions)
        add("delivered_to", receipts.deliveredTo(message).map(\.string))
        add("read_by", receipts.readBy(message).map(\.string))
    }

    /// A lobby's row: the fields of `fold.py`.
    init(_ row: LobbyRow) {
        self.init()
        add("conversation_id", row.conversation.description)
        add("kind", row.kind.jsonName)
        addOptional("title", row.title)
        add("participants", row.participants.map(\.string))
        if let last = row.lastMessage {
            var line = JSONLine()
            line.add("message_id", last.id.description)
            line.add("seq", last.seq)
            line.add("author", last.author.string)
            line.add("role", last.role.jsonName)
            line.add("state", "\(last.state.name)")
            line.add("sent_at", Timestamp.string(last.sentAt))
            line.add("snippet", last.snippet)
            add("last_message", line)
        } else {
            addNull("last_message")
        }
        add("unread", row.unread)
        var preferences = JSONLine()
        for (key, value) in row.preferences.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) { preferences.add(key, value) }
        add("preferences", preferences)
    }
}

extension Event.Role {
    var jsonName: String {
        switch self {
        case .user: "user"
        case .assistant: "assistant"
        case .system: "system"
        case .tool: "tool"
        }
    }
}

extension Event.ConversationKind {
    var jsonName: String {
        switch self {
        case .direct: "direct"
        case .group: "group"
        case .assistant: "assistant"
        }
    }
}
