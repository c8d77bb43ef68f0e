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
        addOptional("seq", message.unconfirmed == nil ? message.seq : nil)
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
        addFailure(message.unconfirmed)
        if !message.failedWrites.isEmpty { add("failed_writes", message.failedWrites.map(Self.line)) }
        if !message.pendingWrites.isEmpty { add("pending_writes", message.pendingWrites.map(Self.line)) }
        if message.isStale { add("stale", true) }
    }

    private static func line(_ write: FailedWrite) -> JSONLine {
        var line = JSONLine()
        line.add("type", "\(write.kind.name)")
        line.add("code", write.refusal.code.rawValue)
        line.add("detail", write.refusal.detail)
        return line
    }

    private static func line(_ pending: Event.Kind) -> JSONLine {
        var line = JSONLine()
        line.add("type", "\(pending.name)")
        return line
    }

    /// Why the hub refused it, if it did.
    private mutating func addFailure(_ unconfirmed: Unconfirmed?) {
        guard case .failed(let refusal)? = unconfirmed else { return }
        add("code", refusal.code.rawValue)
        add("detail", refusal.detail)
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
            line.addOptional("seq", last.unconfirmed == nil ? last.seq : nil)
            line.add("author", last.author.string)
            line.add("role", last.role.jsonName)
            line.add("state", "\(last.state.name)")
            line.add("sent_at", Timestamp.string(last.sentAt))
            line.add("snippet", last.snippet)
            line.addFailure(last.unconfirmed)
            if !last.pendingWrites.isEmpty { line.add("pending_writes", last.pendingWrites.map(Self.line)) }
            add("last_message", line)
        } else {
            addNull("last_message")
        }
        add("unread", row.unread)
        var preferences = JSONLine()
        for preference in row.preferences { preferences.add(preference.key, preference.value) }
        add("preferences", preferences)
        guard let unconfirmed = row.unconfirmed else { return }
        add("state", "\(unconfirmed.state.name)")
        addFailure(unconfirmed)
    }

    /// A page's rows; then its hole, if it has one; then, where there is more, the place from which the same option goes on.
    static func lines(of page: TimelinePage, goesForwards: Bool) -> [JSONLine] {
        var lines = page.messages.map { JSONLine($0, page) }
        if let hole = page.hole {
            var line = JSONLine()
            line.add("hole", [hole.lowerBound, hole.upperBound])
            lines.append(line)
        }
        if let next = goesForwards ? (page.hasAfter ? page.messages.last : nil) : (page.hasBefore ? page.messages.first : nil) {
            var line = JSONLine()
            line.add("next", next.seq)
            lines.append(line)
        }
        return lines
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
