import EventLog

/// A message as a chat screen shows it: fold.py's timeline row. Whom it reached is told by its page's receipts.
struct TimelineRow: Sendable {
    var id: MessageID
    var seq: Seq
    var author: UserID
    var role: Event.Role
    var text: String
    var state: MessageState
    var isEdited: Bool
    var chunks: UInt32
    var replyTo: MessageID?
    var sentAt: UInt64
    var finishReason: String?
    var interruptedReason: String?
    /// By emoji, then by user.
    var reactions: [Reaction]
}

/// A reaction that is on.
struct Reaction: Sendable {
    var emoji: String
    var user: UserID
}

enum MessageState: UInt8, Sendable {
    case complete = 0
    case streaming = 1
    case interrupted = 2
    case deleted = 3
}

/// How far a user has received and read a conversation.
struct Receipt: Sendable {
    var user: UserID
    var delivered: Seq
    var read: Seq
}

/// Some messages of a conversation, ascending, and its receipts.
struct TimelinePage: Sendable {
    var rows: [TimelineRow]
    var receipts: [Receipt]

    /// Those whom a row was delivered to, or by whom it was read, in order of their names' bytes.
    func users(_ mark: KeyPath<Receipt, Seq>, reached row: TimelineRow) -> [UserID] {
        receipts.filter { $0[keyPath: mark] >= row.seq && $0.user != row.author }.map(\.user).sorted()
    }

    var sum: ReadSum {
        var sum = ReadSum(rows: rows.count, bytes: receipts.count)
        for row in rows { sum.bytes += row.text.utf8.count + row.reactions.count }
        return sum
    }
}
