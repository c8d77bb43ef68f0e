import ConversationStore
import Interchange

/// What people are shown of a conversation: some of its messages, and what must be known beside them.
struct Chat {
    var conversation: ConversationID
    var messages: [Message]
    var receipts: Receipts
    /// The conversation as one of those who take part sees it; `nil` if nobody does any more.
    var row: LobbyRow?
    /// The messages that are answered here, by id.
    var answered: [MessageID: Message] = [:]

    init(_ conversation: ConversationID, _ messages: [Message], _ receipts: Receipts, in store: ConversationStore) throws {
        self.conversation = conversation
        self.messages = messages
        self.receipts = receipts
        row = try store.participants(of: conversation).first.flatMap { try store.lobbyRow(of: conversation, for: $0) }
        let own = Dictionary(messages.map { ($0.id, $0) }) { first, _ in first }
        for message in messages {
            guard let id = message.replyTo, answered[id] == nil else { continue }
            if let other = own[id] {
                answered[id] = other
            } else if let seq = try store.log.event(in: .conversation(conversation), at: message.seq)?.targetSeq {
                answered[id] = try store.message(in: conversation, at: seq)
            }
        }
    }
}

/// A conversation for people.
struct ChatView {
    let chat: Chat
    init(_ chat: Chat) { self.chat = chat }
    func print() throws {
        for message in chat.messages { try StandardOutput.shared.writeLine(Sanitizer.harmless("\(message.author): \(message.text)")) }
    }
}

/// A chat list for people.
struct LobbyView {
    let rows: [LobbyRow]
    init(_ rows: [LobbyRow], of user: UserID) { self.rows = rows }
    func print() throws {
        for row in rows { try StandardOutput.shared.writeLine(Sanitizer.harmless("\(row.title ?? "") \(row.unread)")) }
    }
}
