/// A fact about a conversation, as its author states it: what is to be appended, before the store gives it a seq.
public struct Event: Hashable, Sendable {
    /// The conversation that it concerns (also for `preference.set`, which is kept in the author's own log).
    public var conversation: ConversationID
    public var author: UserID
    public var content: Content

    public init(conversation: ConversationID, author: UserID, content: Content) {
        self.conversation = conversation
        self.author = author
        self.content = content
    }

    /// The log that it belongs to.
    public var log: LogID {
        if case .preferenceSet = content { .user(author) } else { .conversation(conversation) }
    }
}

/// An event as a store keeps it.
public struct RecordedEvent: Hashable, Sendable {
    public var log: LogID
    public var seq: Seq
    public var position: Position
    public var origin: Origin
    /// The hub's clock when it accepted the event.
    public var hlc: HLC
    public var event: Event
    /// The seq in the same log that a chunk, an end, an edit, a deletion, a reaction, a receipt or a reply points at.
    public var targetSeq: Seq?
    /// Whether the text was erased: then `event.content` holds what the envelope still tells, with empty texts.
    public var isErased: Bool
    /// What hardly any event has: those that have not pay for one reference. `nil` if there is none of it, so that equal events are.
    private var rare: Rare?

    public init(
        log: LogID, seq: Seq, position: Position, origin: Origin, hlc: HLC, event: Event, targetSeq: Seq?, isErased: Bool = false,
        commitment: Hash256? = nil
    ) {
        self.init(
            log: log, seq: seq, position: position, origin: origin, hlc: hlc, event: event, targetSeq: targetSeq, isErased: isErased, commitment: commitment,
            newer: nil)
    }

    /// The same with what a newer version says; set at once, as an event that is changed afterwards is copied with all that it refers to.
    @inline(__always) init(
        log: LogID, seq: Seq, position: Position, origin: Origin, hlc: HLC, event: Event, targetSeq: Seq?, isErased: Bool, commitment: Hash256?,
        newer: NewerFields?
    ) {
        self.log = log
        self.seq = seq
        self.position = position
        self.origin = origin
        self.hlc = hlc
        self.event = event
        self.targetSeq = targetSeq
        self.isErased = isErased
        rare = Rare.of(commitment, newer)
    }

    private final class Rare: Hashable, Sendable {
        let commitment: Hash256?
        let newer: NewerFields?

        private init(_ commitment: Hash256?, _ newer: NewerFields?) { (self.commitment, self.newer) = (commitment, newer) }

        @inline(__always) static func of(_ commitment: Hash256?, _ newer: NewerFields?) -> Rare? {
            commitment == nil && newer == nil ? nil : Rare(commitment, newer)
        }

        static func == (left: Rare, right: Rare) -> Bool { left.commitment == right.commitment && left.newer == right.newer }
        func hash(into hasher: inout Hasher) { hasher.combine(commitment) }
    }

    /// SHA-256(salt ‖ body) of an erased body, by which the log's head is still checked.
    public var commitment: Hash256? {
        get { rare?.commitment }
        set { rare = Rare.of(newValue, newer) }
    }

    /// What a newer version says of it beside that.
    package var newer: NewerFields? {
        get { rare?.newer }
        set { rare = Rare.of(commitment, newValue) }
    }
}

extension Envelope {
    /// See `RecordedEvent.times`.
    var times: [HLC] { Self.times(made: origin.hlc, recorded: hlc) }

    fileprivate static func times(made: HLC, recorded: HLC) -> [HLC] { timeHeldBack(made: made, recorded: recorded).map { [made, $0] } ?? [made] }

    /// The time that a hub let an event have whose maker's clock was ahead of its own; `nil`: it was not, or no hub has it.
    static func timeHeldBack(made: HLC, recorded: HLC) -> HLC? { recorded.rawValue > 0 && recorded < made ? recorded : nil }
}

extension RecordedEvent {
    /// The time by which last-write-wins judges it: its maker's clock, but no later than the hub's when it accepted it (DESIGN.md, section 8).
    package var effectiveTime: HLC { Envelope.timeHeldBack(made: origin.hlc, recorded: hlc) ?? origin.hlc }

    /// The times by which it is known under other origins: what decides by its time may be offered, to a hub that lost it, with the one by which it counted.
    package var times: [HLC] { Envelope.times(made: origin.hlc, recorded: hlc) }

    package func isOfTime(_ time: HLC) -> Bool { time == origin.hlc || time == effectiveTime }
}

extension Event {
    public enum ConversationKind: UInt8, Sendable, CaseIterable {
        case direct = 1
        case group = 2
        case assistant = 3
    }

    public enum Role: UInt8, Sendable, CaseIterable {
        case user = 0
        case assistant = 1
        case system = 2
        case tool = 3
    }

    /// The numbers of the kinds on disk and on the wire.
    public enum Kind: UInt32, Sendable, CaseIterable {
        case conversationCreated = 1
        case conversationUpdated = 2
        case participantJoined = 3
        case participantLeft = 4
        case messageSent = 5
        case chunkAppended = 6
        case messageCompleted = 7
        case messageInterrupted = 8
        case messageEdited = 9
        case messageDeleted = 10
        case reactionSet = 11
        case receiptDelivered = 12
        case receiptRead = 13
        case preferenceSet = 14
        case custom = 15

        /// The name in JSONL.
        public var name: StaticString {
            switch self {
            case .conversationCreated: "conversation.created"
            case .conversationUpdated: "conversation.updated"
            case .participantJoined: "participant.joined"
            case .participantLeft: "participant.left"
            case .messageSent: "message.sent"
            case .chunkAppended: "chunk.appended"
            case .messageCompleted: "message.completed"
            case .messageInterrupted: "message.interrupted"
            case .messageEdited: "message.edited"
            case .messageDeleted: "message.deleted"
            case .reactionSet: "reaction.set"
            case .receiptDelivered: "receipt.delivered"
            case .receiptRead: "receipt.read"
            case .preferenceSet: "preference.set"
            case .custom: "custom"
            }
        }
    }

    /// The attribute of a conversation that says what somebody who joins it may see of what was said before.
    public static let historyAttribute = "history"

    /// An attribute's change: its new value, or `nil` to remove it.
    public struct Attribute: Hashable, Sendable {
        public var name: String
        public var value: String?
        public init(name: String, value: String?) {
            self.name = name
            self.value = value
        }
    }

    public struct Usage: Hashable, Sendable {
        public var inputTokens: UInt64
        public var outputTokens: UInt64
        public init(inputTokens: UInt64, outputTokens: UInt64) {
            self.inputTokens = inputTokens
            self.outputTokens = outputTokens
        }
    }

    public struct Message: Hashable, Sendable {
        public var id: MessageID
        public var role: Role
        public var text: String
        public var isStreaming: Bool
        /// What few messages have: those that have not pay for one reference. `nil` if there is none of it, so that equal messages are.
        private var rare: Rare?

        public init(
            id: MessageID, role: Role, text: String, isStreaming: Bool = false, replyTo: MessageID? = nil, parts: String? = nil,
            requestID: String? = nil
        ) {
            self.id = id
            self.role = role
            self.text = text
            self.isStreaming = isStreaming
            rare = Rare.of(replyTo, parts, requestID)
        }

        private final class Rare: Hashable, Sendable {
            let replyTo: MessageID?
            let parts: String?
            let requestID: String?

            private init(_ replyTo: MessageID?, _ parts: String?, _ requestID: String?) {
                (self.replyTo, self.parts, self.requestID) = (replyTo, parts, requestID)
            }

            static func of(_ replyTo: MessageID?, _ parts: String?, _ requestID: String?) -> Rare? {
                replyTo == nil && parts == nil && requestID == nil ? nil : Rare(replyTo, parts, requestID)
            }

            static func == (left: Rare, right: Rare) -> Bool {
                left.replyTo == right.replyTo && left.parts == right.parts && left.requestID == right.requestID
            }

            func hash(into hasher: inout Hasher) {
                hasher.combine(replyTo)
                hasher.combine(parts)
                hasher.combine(requestID)
            }
        }

        public var replyTo: MessageID? {
            get { rare?.replyTo }
            set { rare = Rare.of(newValue, parts, requestID) }
        }

        /// Attachments and opaque parts: a JSON array in canonical form (keys sorted, no spaces, ASCII), or `nil`.
        public var parts: String? {
            get { rare?.parts }
            set { rare = Rare.of(replyTo, newValue, requestID) }
        }

        public var requestID: String? {
            get { rare?.requestID }
            set { rare = Rare.of(replyTo, parts, newValue) }
        }
    }

    public enum Content: Hashable, Sendable {
        case conversationCreated(kind: ConversationKind, title: String?, participants: [UserID])
        /// Attributes in ascending order of their names' bytes, no name twice.
        case conversationUpdated(title: String?, attributes: [Attribute])
        case participantJoined(UserID)
        case participantLeft(UserID)
        case messageSent(Message)
        case chunkAppended(message: MessageID, index: UInt32, text: String)
        case messageCompleted(message: MessageID, finishReason: String?, usage: Usage?)
        case messageInterrupted(message: MessageID, reason: String)
        case messageEdited(message: MessageID, text: String)
        case messageDeleted(message: MessageID)
        case reactionSet(message: MessageID, emoji: String, isOn: Bool)
        case receiptDelivered(upTo: MessageID)
        case receiptRead(upTo: MessageID)
        case preferenceSet(key: String, value: String?)
        case custom(name: String, payload: [UInt8])
        /// A kind that a newer version wrote: kept, hashed, shipped and replayed byte for byte. `envelope` holds the
        /// canonical envelope's fields that this version does not read, usually none.
        case unknown(kind: UInt32, body: [UInt8])

        public var kind: Kind? {
            switch self {
            case .conversationCreated: .conversationCreated
            case .conversationUpdated: .conversationUpdated
            case .participantJoined: .participantJoined
            case .participantLeft: .participantLeft
            case .messageSent: .messageSent
            case .chunkAppended: .chunkAppended
            case .messageCompleted: .messageCompleted
            case .messageInterrupted: .messageInterrupted
            case .messageEdited: .messageEdited
            case .messageDeleted: .messageDeleted
            case .reactionSet: .reactionSet
            case .receiptDelivered: .receiptDelivered
            case .receiptRead: .receiptRead
            case .preferenceSet: .preferenceSet
            case .custom: .custom
            case .unknown: nil
            }
        }
    }
}

/// Limits on what an event may hold; beyond them it is refused as `too_large`.
public enum EventLimits {
    /// Bytes of UTF-8 in one text or value.
    public static let textBytesMax = 1 << 20
    /// Bytes of UTF-8 in one attribute's value.
    public static let attributeBytesMax = 4096
    public static let attributesMax = 64
    public static let participantsMax = 1024
    /// Bytes of UTF-8 in a streamed message's chunks together.
    public static let joinedBytesMax = 16 << 20
    /// Bytes of one event (and of one line of JSONL).
    public static let eventBytesMax = 4 << 20
}

/// Why an event was refused. The raw values are contracts of JSONL, CLI and protocol.
public enum RefusalCode: String, Sendable, CaseIterable {
    case malformed
    case tooLarge = "too_large"
    case unknownConversation = "unknown_conversation"
    case conversationConflict = "conversation_conflict"
    case notParticipant = "not_participant"
    case unknownMessage = "unknown_message"
    case messageConflict = "message_conflict"
    case chunkGap = "chunk_gap"
    case messageClosed = "message_closed"
    case messageStreaming = "message_streaming"
    case messageDeleted = "message_deleted"
    case notAuthor = "not_author"
    case originConflict = "origin_conflict"
    // A hub's own, to a replica. New ones come last: lanes keep a code by its place.
    /// The author or the origin is not the token's, or (detail `history`) who sees a conversation from its joining on would change that.
    case forbidden
    /// A kind that this hub does not know.
    case unknownKind = "unknown_kind"
}

/// A refusal: its code, and the detail that helps (a field's name, the chunk index that is expected).
public struct Refusal: Error, Hashable, Sendable {
    public var code: RefusalCode
    public var detail: String

    public init(_ code: RefusalCode, _ detail: String = "") {
        self.code = code
        self.detail = detail
    }
}
