package import ConversationStore
package import Projections

extension Model {
    /// A message as `fold.py` prints it.
    package struct TimelineRow: Hashable, Sendable {
        package var id: MessageID
        package var seq: Seq
        package var author: UserID
        package var role: String
        package var text: ByteText
        package var state: String
        package var isEdited: Bool
        package var chunks: UInt32
        package var replyTo: MessageID?
        package var sentAt: UInt64
        package var finishReason: ByteText?
        package var interruptedReason: ByteText?
        package var reactions: [ByteText: [UserID]]
        package var deliveredTo: [UserID]
        package var readBy: [UserID]
    }

    package struct LobbyRow: Hashable, Sendable {
        package var conversation: ConversationID
        package var kind: String
        package var title: ByteText?
        package var participants: [UserID]
        package var lastMessage: MessageID?
        package var lastSeq: Seq
        package var lastAuthor: UserID?
        package var lastRole: String?
        package var lastState: String?
        package var lastSentAt: UInt64?
        package var snippet: ByteText?
        package var unread: UInt64
        package var preferences: [ByteText: ByteText]
    }

    /// A conversation's messages, ascending; `nil` if there is none such.
    package func timeline(_ id: ConversationID) -> [TimelineRow]? { conversations[id].map { talk in talk.shown.map { row($0, talk) } } }

    /// The same of a conversation as it was at an earlier seq, with the receipts of this one.
    package func timeline(_ id: ConversationID, before: Model) -> [TimelineRow]? {
        guard let talk = conversations[id], var old = before.conversations[id] else { return nil }
        old.delivered = talk.delivered
        old.read = talk.read
        return old.shown.map { row($0, old) }
    }

    private func row(_ message: Message, _ talk: Conversation) -> TimelineRow {
        let isGone = message.state == "deleted"
        let state = message.shownState
        var reactions: [ByteText: [UserID]] = [:]
        for (emoji, users) in message.reactions where !isGone {
            let on = users.filter { $0.value.value }.keys.sorted()
            if !on.isEmpty { reactions[emoji] = on }
        }
        func reached(_ marks: [UserID: Seq]) -> [UserID] { marks.filter { $0.value >= message.seq && $0.key != message.author }.keys.sorted() }
        return TimelineRow(
            id: message.id, seq: message.seq, author: message.author, role: "\(message.role)",
            text: ByteText(isGone || state == "erased" ? "" : message.text.value),
            state: state, isEdited: message.isEdited && !isGone, chunks: message.chunks, replyTo: message.replyTo, sentAt: message.sentAt,
            finishReason: message.finishReason.map { ByteText($0) }, interruptedReason: message.interruptedReason.map { ByteText($0) },
            reactions: reactions, deliveredTo: reached(talk.delivered), readBy: reached(talk.read))
    }

    /// A user's conversations, newest first.
    package func lobby(_ user: UserID) -> [LobbyRow] {
        conversations.filter { $0.value.participants.contains(user) }
            .sorted { ($0.value.order, $0.key) > ($1.value.order, $1.key) }
            .map { id, talk in
                let last = talk.shown.last.map { row($0, talk) }
                return LobbyRow(
                    conversation: id, kind: "\(talk.kind)", title: talk.title.value.map { ByteText($0) }, participants: talk.participants.sorted(),
                    lastMessage: last?.id, lastSeq: last?.seq ?? 0, lastAuthor: last?.author, lastRole: last?.role, lastState: last?.state,
                    lastSentAt: last?.sentAt, snippet: last.map { ByteText(String(String.UnicodeScalarView("\($0.text)".unicodeScalars.prefix(120)))) },
                    unread: unread(talk, user), preferences: preferences(of: user, in: id))
            }
    }

    private func unread(_ talk: Conversation, _ user: UserID) -> UInt64 {
        let own = talk.messages.last { $0.author == user }?.seq ?? 0
        let mark = max(own, talk.read[user] ?? 0)
        return UInt64(talk.shown.filter { $0.seq > mark && $0.state != "deleted" && $0.author != user }.count)
    }

    private func preferences(of user: UserID, in id: ConversationID) -> [ByteText: ByteText] {
        (preferences[user]?[id] ?? [:]).compactMapValues { $0.value.map { ByteText($0) } }
    }
}

extension Model.TimelineRow {
    /// The same of what a store shows.
    package init(_ message: Projections.Message, _ receipts: Receipts) {
        self.init(
            id: message.id, seq: message.seq, author: message.author, role: "\(message.role)", text: ByteText(message.text), state: "\(message.state.name)",
            isEdited: message.isEdited, chunks: message.chunks, replyTo: message.replyTo, sentAt: message.sentAt,
            finishReason: message.finishReason.map { ByteText($0) }, interruptedReason: message.interruptedReason.map { ByteText($0) },
            reactions: Dictionary(uniqueKeysWithValues: message.reactions.map { (ByteText($0.emoji), $0.users) }),
            deliveredTo: receipts.deliveredTo(message), readBy: receipts.readBy(message))
    }
}

extension Model.LobbyRow {
    /// The same of what a store shows.
    package init(_ row: Projections.LobbyRow) {
        let last = row.lastMessage
        self.init(
            conversation: row.conversation, kind: "\(row.kind)", title: row.title.map { ByteText($0) }, participants: row.participants,
            lastMessage: last?.id, lastSeq: last?.seq ?? 0, lastAuthor: last?.author, lastRole: last.map { "\($0.role)" },
            lastState: last.map { "\($0.state.name)" }, lastSentAt: last?.sentAt, snippet: last.map { ByteText($0.snippet) }, unread: row.unread,
            preferences: Dictionary(uniqueKeysWithValues: row.preferences.map { (ByteText($0.key), ByteText($0.value)) }))
    }
}
