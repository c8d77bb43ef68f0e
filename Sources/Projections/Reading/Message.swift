public import EventLog

/// What a replica made and the hub has not accepted.
public enum Unconfirmed: Sendable, Hashable {
    case pending
    /// Refused; its author may try again, or discard it.
    case failed(Refusal)

    public var state: MessageState {
        switch self {
        case .pending: .pending
        case .failed: .failed
        }
    }
}

/// What a replica's user did to a message and the hub refused; its author may try again, or discard it.
public struct FailedWrite: Sendable, Hashable {
    public var kind: Event.Kind
    public var refusal: Refusal
}

/// A message as a screen shows it; the fields of `fold.py`'s rows.
public struct Message: Sendable, Hashable, Identifiable {
    public var id: MessageID
    /// Its place in the conversation: the seq of its `message.sent`.
    public var seq: Seq
    public var author: UserID
    public var role: Event.Role
    /// Chunks joined, or the edit that won; empty for one that was deleted or erased.
    public var text: String
    public var state: MessageState
    public var isEdited: Bool
    /// Chunks that were appended.
    public var chunks: UInt32
    /// By its author's clock, in milliseconds since 1970.
    public var sentAt: UInt64
    /// What only few messages have. Apart, as a page is mostly made of those that have none.
    private var box: Box?

    /// What only few messages have.
    public var details: Details? {
        get { box?.details }
        set { box = newValue.map { Box($0) } }
    }

    private final class Box: Sendable, Hashable {
        let details: Details
        init(_ details: Details) { self.details = details }
        static func == (left: Box, right: Box) -> Bool { left === right || left.details == right.details }
        func hash(into hasher: inout Hasher) { hasher.combine(details) }
    }

    public struct Details: Sendable, Hashable {
        public var replyTo: MessageID?
        public var finishReason: String?
        public var interruptedReason: String?
        /// Attachments and opaque parts: a JSON array in canonical form.
        public var parts: String?
        public var usage: Event.Usage?
        /// Ascending by emoji, each with who set it, ascending.
        public var reactions: [Reaction] = []
        /// What became of a replica's own message that the hub has not accepted.
        public var unconfirmed: Unconfirmed?
        /// Edits, deletions, reactions, receipts … of a replica's own to it that the hub refused: it is shown without them.
        public var failedWrites: [FailedWrite] = []
        /// Edits, deletions, reactions … of a replica's own to a message that the hub has accepted, which it has not accepted itself yet: it is shown with
        /// them. Each kind once, in the order made.
        public var pendingWrites: [Event.Kind] = []
        /// Whether it lies below a hole: it is shown as it was when the replica last held all that came before the hole.
        public var isStale = false
    }

    public struct Reaction: Sendable, Hashable {
        public var emoji: String
        public var users: [UserID]
    }

    public var replyTo: MessageID? { details?.replyTo }
    public var finishReason: String? { details?.finishReason }
    public var interruptedReason: String? { details?.interruptedReason }
    public var reactions: [Reaction] { details?.reactions ?? [] }
    /// `nil` for a message that the hub has accepted; the seq of any other is provisional: it orders, and is not to be kept.
    public var unconfirmed: Unconfirmed? { details?.unconfirmed }
    public var failedWrites: [FailedWrite] { details?.failedWrites ?? [] }
    public var pendingWrites: [Event.Kind] { details?.pendingWrites ?? [] }
    public var isStale: Bool { details?.isStale ?? false }
}

extension Message {
    /// A message as its row says. Throws `damaged` if the row names a person by a number that the conversation does not have: of a page the checksum holds by
    /// itself.
    ///
    /// No initializer: one that may throw makes the message aside and copies it, with the reference counts of its texts.
    @inline(__always) static func made(of row: LentMessage, _ conversation: LentRow) throws -> Message {
        let author = try person(row.author, row.seq, conversation)
        let shown = try row.shownState()
        let box = try row.rare().flatMap { try details($0, row.seq, conversation) }.map { Box($0) }
        return Message(
            id: row.id, seq: row.seq, author: author, role: row.role, text: shown == .deleted || shown == .erased ? "" : row.text, state: shown,
            isEdited: row.isEdited && row.state != .deleted, chunks: row.chunks, sentAt: row.sentAt, box: box)
    }

    private static func person(_ number: UInt32, _ seq: Seq, _ conversation: LentRow) throws -> UserID {
        guard let user = conversation.pointee.user(number) else {
            throw EventLogError(.damaged, "a message of seq \(seq) names a person whom its conversation does not know; run `convstore rebuild`")
        }
        return user
    }

    /// A row keeps what it once had: gone, it is as if it had never been.
    private static func details(_ rare: MessageRow.Rare, _ seq: Seq, _ conversation: LentRow) throws -> Details? {
        var details = Details(
            replyTo: rare.replyTo, finishReason: rare.finishReason, interruptedReason: rare.interruptedReason, parts: rare.parts, usage: rare.usage)
        for reaction in rare.reactions where reaction.isOn {
            let user = try person(reaction.author, seq, conversation)
            if let last = details.reactions.last, compareBytes(last.emoji, reaction.emoji) == 0 {
                details.reactions[details.reactions.count - 1].users.append(user)
            } else {
                details.reactions.append(Reaction(emoji: reaction.emoji, users: [user]))
            }
        }
        for place in details.reactions.indices { details.reactions[place].users.sort() }
        return details == Details() ? nil : details
    }
}

/// How far each participant has got.
public struct Receipts: Sendable, Hashable {
    public struct Mark: Sendable, Hashable {
        public var user: UserID
        /// The furthest seq that was delivered to the user, and the furthest that was read; 0: none.
        public var deliveredTo: Seq
        public var readTo: Seq
    }
    /// Those who have any, ascending by name; former participants too.
    public var marks: [Mark]

    /// To whom a message was delivered, but for its author, ascending.
    public func deliveredTo(_ message: Message) -> [UserID] { marks.filter { $0.deliveredTo >= message.seq && $0.user != message.author }.map(\.user) }

    /// Who has read a message, but for its author, ascending.
    public func readBy(_ message: Message) -> [UserID] { marks.filter { $0.readTo >= message.seq && $0.user != message.author }.map(\.user) }
}

/// Some messages of a conversation that follow each other, ascending.
public struct TimelinePage: Sendable, Hashable {
    public var conversation: ConversationID
    public var messages: [Message]
    /// As of the same moment.
    public var receipts: Receipts
    /// Whether there are messages before the first of these, and after the last.
    public var hasBefore: Bool
    public var hasAfter: Bool
    /// The conversation's last confirmed seq when the page was read: what it shows is the fold of the log through it, and of what is pending.
    public var seq: Seq
    /// Seqs that a replica does not hold and that lie between, or next to, these messages: to be asked for.
    public var hole: ClosedRange<Seq>?
}

/// A conversation as a user's lobby shows it.
public struct LobbyRow: Sendable, Hashable {
    public struct LastMessage: Sendable, Hashable {
        public var id: MessageID
        public var seq: Seq
        public var author: UserID
        public var role: Event.Role
        public var state: MessageState
        /// By its author's clock, in milliseconds since 1970.
        public var sentAt: UInt64
        /// The first 120 characters (Unicode scalars) of its text.
        public var snippet: String
        /// As `Message.unconfirmed`.
        public var unconfirmed: Unconfirmed?
        /// As `Message.pendingWrites`.
        public var pendingWrites: [Event.Kind] = []
    }
    public var conversation: ConversationID
    public var kind: Event.ConversationKind
    public var title: String?
    /// Ascending.
    public var participants: [UserID]
    public var lastMessage: LastMessage?
    /// Messages after the user's read marker and own last message, not deleted.
    public var unread: UInt64
    /// The user's own, of this conversation; empty for most.
    public var preferences: Preferences
    /// The hub's clock at the last message, or at the creation: what the lobby is ordered by.
    public var order: HLC
    /// Of a conversation that a replica created and the hub has not accepted; failed while anything that the user did in it is refused, too.
    public var unconfirmed: Unconfirmed?

    public var cursor: LobbyCursor { LobbyCursor(order: order, conversation: conversation) }
}

/// A place in a lobby, after which the next page begins. Its text is for handing around, not for reading.
public struct LobbyCursor: Sendable, Hashable, CustomStringConvertible {
    public var order: HLC
    public var conversation: ConversationID

    public init(order: HLC, conversation: ConversationID) {
        self.order = order
        self.conversation = conversation
    }

    /// Reads what `description` wrote; `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count == 16, let order = UInt64(parts[0], radix: 16), let conversation = ConversationID(parts[1]) else {
            return nil
        }
        self.init(order: HLC(rawValue: order), conversation: conversation)
    }

    public var description: String {
        let hex = String(order.rawValue, radix: 16)
        return String(repeating: "0", count: 16 - hex.utf8.count) + hex + "_" + conversation.description
    }
}

/// A page of a user's lobby, newest first.
public struct LobbyPage: Sendable, Hashable {
    public var rows: [LobbyRow]
    /// Where the next page begins; `nil` after the last.
    public var next: LobbyCursor?
}
