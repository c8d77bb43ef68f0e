import ConversationStore

/// What people are shown of a conversation: some of its messages, and what must be known beside them.
struct Chat {
    var conversation: ConversationID
    var messages: [Message]
    var receipts: Receipts
    var hasBefore = false
    var hasAfter = false
    /// Seqs that a replica does not hold, between or next to the messages.
    var hole: ClosedRange<Seq>?
    /// The conversation as one of those who take part sees it; `nil` if nobody does any more.
    var row: LobbyRow?
    /// The messages that are answered here, by id.
    var answered: [MessageID: Message] = [:]

    init(_ page: TimelinePage, in store: ConversationStore) throws {
        try self.init(page.conversation, page.messages, page.receipts, in: store)
        hasBefore = page.hasBefore
        hasAfter = page.hasAfter
        hole = page.hole
    }

    init(_ conversation: ConversationID, _ messages: [Message], _ receipts: Receipts, in store: ConversationStore) throws {
        self.conversation = conversation
        self.messages = messages
        self.receipts = receipts
        row = try store.participants(of: conversation).first.flatMap { try store.lobbyRow(of: conversation, for: $0) }
        let own = Dictionary(messages.map { ($0.id, $0) }) { first, _ in first }
        for message in messages {
            guard let id = message.replyTo, answered[id] == nil else { continue }
            answered[id] = try own[id] ?? Self.answered(by: message, in: conversation, store)
        }
    }

    /// The message that another one answers.
    static func answered(by message: Message, in conversation: ConversationID, _ store: ConversationStore) throws -> Message? {
        guard let id = message.replyTo else { return nil }
        if message.unconfirmed == nil, let seq = try store.log.event(in: .conversation(conversation), at: message.seq)?.targetSeq {
            return try store.message(in: conversation, at: seq)
        }
        // It is in no log that is here.
        return try store.overlaidConversations.contains(conversation) ? store.message(in: conversation, id: id) : nil
    }
}
