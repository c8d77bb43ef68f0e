import EventLog

/// When a register was written: the greater wins (fold.py's `Register`).
struct Stamp: Comparable {
    var time: UInt64
    var position: Position

    static func < (left: Self, right: Self) -> Bool { (left.time, left.position) < (right.time, right.position) }
}

/// What is kept of a conversation beside its rows.
struct ConversationRecord {
    /// A short key, for an engine that uses one.
    var key: Int64 = 0
    var kind: Event.ConversationKind
    var title: String?
    var titleStamp: Stamp?
    var seq: Seq = 0
    /// All messages, deleted ones too: a message's ordinal is its place among them, from 1.
    var messages: UInt64 = 0
    var deleted: UInt64 = 0
    /// The position of the last `message.sent`, or of the creation: the lobby's order.
    var order: Position
    var hasReceipts = false
    var last: LastMessage?
}

struct MessageRecord {
    var id: MessageID
    var seq: Seq
    var ordinal: UInt64
    var author: UserID
    var role: Event.Role
    /// The text, or what follows the text that the database holds, where that was not read.
    var text: String
    var continuesStoredText = false
    var textStamp: Stamp?
    var state: MessageState
    var isEdited = false
    var chunks: UInt32 = 0
    var replyTo: MessageID?
    var sentAt: UInt64
    var finishReason: String?
    var interruptedReason: String?
    var hasReactions = false
    /// All of them, those that are off too; or, where the database joins them, those that were written.
    var reactions: [ReactionRegister] = []
}

struct ReactionRegister {
    var emoji: String
    var user: UserID
    var isOn: Bool
    var stamp: Stamp
}

/// What a conversation is to a user who takes part or did.
///
/// Nobody's unread messages are their own: the mark is at or after their last. So unread = the conversation's messages after the mark's
/// ordinal, less those of them that are deleted, and a new message costs no write per participant.
struct MemberRecord {
    var isActive = false
    /// The later of the user's own last message and the furthest message read.
    var mark: Seq = 0
    /// The marked message's place among the conversation's messages.
    var ordinal: UInt64 = 0
    /// All registers; or, where the database joins them, those that were written.
    var preferences: [PreferenceRegister] = []
}

struct PreferenceRegister {
    var key: String
    var value: String?
    var stamp: Stamp
}

struct ReceiptRecord {
    var delivered: Seq = 0
    var read: Seq = 0
}
