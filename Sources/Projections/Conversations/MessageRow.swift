import EventLog

/// What became of a message. The raw values are the names in JSON.
public enum MessageState: UInt8, Sendable, CaseIterable {
    case streaming = 0
    case complete = 1
    case interrupted = 2
    case deleted = 3
    /// Its text was erased for ever, at the request of whom it concerns.
    case erased = 4
    /// A replica's own, on its way to the hub. Never stored, like the next; from the other end, so that there is room for those that are.
    case pending = 14
    /// A replica's own that the hub refused.
    case failed = 15

    public var name: StaticString {
        switch self {
        case .streaming: "streaming"
        case .complete: "complete"
        case .interrupted: "interrupted"
        case .deleted: "deleted"
        case .erased: "erased"
        case .pending: "pending"
        case .failed: "failed"
        }
    }

    /// What a row says; `nil` for what none can.
    init?(stored: UInt8) {
        self.init(rawValue: stored)
        if self == .pending || self == .failed { return nil }
    }
}

/// A message as a page keeps it; people by their numbers in the conversation.
struct MessageRow: Sendable {
    var id: MessageID
    var seq: Seq
    var author: UInt32
    var role: Event.Role
    var state: MessageState
    /// Whether an edit was accepted, be it the one that won or not.
    var isEdited = false
    /// Whether a part of what its author first wrote was erased.
    var isErased = false
    var chunks: UInt32 = 0
    /// By its author's clock, in milliseconds since 1970.
    var sentAt: UInt64
    var text: String
    /// What few messages have.
    var rare: Rare?

    /// `@unchecked Sendable`: changed only where it is referenced once.
    final class Rare: @unchecked Sendable {
        struct Reaction: Sendable {
            var emoji: String
            var author: UInt32
            var isOn: Bool
            var stamp: Stamp
        }
        var replyTo: MessageID?
        var finishReason: String?
        var interruptedReason: String?
        /// The edit that won.
        var edit: Stamp?
        var isEditErased = false
        var parts: String?
        var usage: Event.Usage?
        /// By emoji and author, those that were taken back too.
        var reactions: [Reaction] = []

        init() {}

        func copy() -> Rare {
            let copy = Rare()
            copy.replyTo = replyTo
            copy.finishReason = finishReason
            copy.interruptedReason = interruptedReason
            copy.edit = edit
            copy.isEditErased = isEditErased
            copy.parts = parts
            copy.usage = usage
            copy.reactions = reactions
            return copy
        }
    }

    mutating func editRare(_ body: (Rare) -> Void) {
        if rare == nil {
            rare = Rare()
        } else if !isKnownUniquelyReferenced(&rare) {
            rare = rare!.copy()
        }
        body(rare!)
    }

    var isLive: Bool { state != .deleted }

    /// What a screen shows as its state: the text of one that was erased cannot be shown, unless a later edit gave it a new one.
    var shownState: MessageState { Self.shownState(state, isErased: isErased, rare) }

    static func shownState(_ state: MessageState, isErased: Bool, _ rare: Rare?) -> MessageState {
        if state == .deleted { return .deleted }
        if let rare, rare.edit != nil { return rare.isEditErased ? .erased : state }
        return isErased ? .erased : state
    }

    var shownText: String {
        switch shownState {
        case .deleted, .erased: ""
        default: text
        }
    }

    var memoryBytes: Int { 120 + (text.utf8.count > 15 ? text.utf8.count + 32 : 0) + (rare == nil ? 0 : 160 + rare!.reactions.count * 80) }
}

extension MessageRow {
    fileprivate enum Flag {
        static let edited: UInt8 = 1, erased: UInt8 = 2, reply: UInt8 = 4, finish: UInt8 = 8, interrupted: UInt8 = 16, edit: UInt8 = 32, parts: UInt8 = 64,
            reactions: UInt8 = 128
    }

    /// What it has beyond what every message has.
    fileprivate static func bits(isEdited: Bool, isErased: Bool, _ rare: Rare?) -> UInt8 {
        var flags: UInt8 = (isEdited ? Flag.edited : 0) | (isErased ? Flag.erased : 0)
        guard let rare else { return flags }
        if rare.replyTo != nil { flags |= Flag.reply }
        if rare.finishReason != nil || rare.usage != nil { flags |= Flag.finish }
        if rare.interruptedReason != nil { flags |= Flag.interrupted }
        if rare.edit != nil { flags |= Flag.edit }
        if rare.parts != nil { flags |= Flag.parts }
        if !rare.reactions.isEmpty { flags |= Flag.reactions }
        return flags
    }

    /// `seq` and `time`: those of the message before it on its page.
    func encode(into writer: inout RowWriter, after seq: Seq, time: UInt64) {
        withUnsafePointer(to: self) { Self.encode($0, into: &writer, after: seq, time: time) }
    }

    /// A message where it lies: lent as a value it would be copied, with all that it refers to.
    static func encode(_ message: UnsafePointer<MessageRow>, into writer: inout RowWriter, after seq: Seq, time: UInt64) {
        let rare = message.pointee.rare
        let flags = bits(isEdited: message.pointee.isEdited, isErased: message.pointee.isErased, rare)
        writer.put(message.pointee.seq &- seq)
        writer.out.put(zigzag: Int64(bitPattern: message.pointee.sentAt &- time))
        writer.put(message.pointee.id)
        writer.put(byte: flags)
        writer.put(byte: message.pointee.role.rawValue << 4 | message.pointee.state.rawValue)
        writer.put(UInt64(message.pointee.author))
        writer.put(UInt64(message.pointee.chunks))
        writer.put(message.pointee.text)
        guard let rare else { return }
        if let reply = rare.replyTo { writer.put(reply) }
        if flags & Flag.finish != 0 {
            writer.put(rare.finishReason)
            writer.put(byte: rare.usage == nil ? 0 : 1)
            if let usage = rare.usage {
                writer.put(usage.inputTokens)
                writer.put(usage.outputTokens)
            }
        }
        if let reason = rare.interruptedReason { writer.put(reason) }
        if let edit = rare.edit {
            writer.put(edit)
            writer.put(byte: rare.isEditErased ? 1 : 0)
        }
        if let parts = rare.parts { writer.put(parts) }
        if !rare.reactions.isEmpty {
            writer.put(UInt64(rare.reactions.count))
            for reaction in rare.reactions {
                writer.put(reaction.emoji)
                writer.put(UInt64(reaction.author))
                writer.put(byte: reaction.isOn ? 1 : 0)
                writer.put(reaction.stamp)
            }
        }
    }

    /// A message's first fields: how far its seq and time lie behind the one before it.
    @inline(__always) static func steps(in reader: inout RowReader) throws -> (seq: Seq, time: UInt64) {
        (try reader.value(), UInt64(bitPattern: try reader.signed()))
    }
}

extension MessageRow.Rare {
    /// Reads what a message's flags promise, and nothing else must follow.
    fileprivate convenience init(flags: UInt8, decoding reader: consuming RowReader) throws {
        self.init()
        if flags & MessageRow.Flag.reply != 0 { replyTo = try reader.identifier() }
        if flags & MessageRow.Flag.finish != 0 {
            finishReason = try reader.optionalText()
            if try reader.byte() == 1 { usage = Event.Usage(inputTokens: try reader.value(), outputTokens: try reader.value()) }
        }
        if flags & MessageRow.Flag.interrupted != 0 { interruptedReason = try reader.text() }
        if flags & MessageRow.Flag.edit != 0 {
            edit = try reader.stamp()
            isEditErased = try reader.byte() == 1
        }
        if flags & MessageRow.Flag.parts != 0 { parts = try reader.text() }
        if flags & MessageRow.Flag.reactions != 0 {
            for _ in 0..<(try reader.count()) {
                reactions.append(Reaction(emoji: try reader.text(), author: try reader.value32(), isOn: try reader.byte() == 1, stamp: try reader.stamp()))
            }
        }
        guard reader.isAtEnd else { throw CodecError(.notCanonical) }
    }
}

/// A message that its page lends for the length of a closure: of what it refers to only that is made which is asked for.
struct LentMessage {
    private enum Source {
        /// Its text, and what follows that in the page's bytes.
        case bytes(text: UnsafeRawBufferPointer, rest: RowReader, isValid: Bool)
        case row(UnsafePointer<MessageRow>)
    }
    let id: MessageID
    let seq: Seq
    let author: UInt32
    let role: Event.Role
    let state: MessageState
    private let flags: UInt8
    let chunks: UInt32
    let sentAt: UInt64
    private let source: Source

    init(_ row: UnsafePointer<MessageRow>) {
        id = row.pointee.id
        seq = row.pointee.seq
        author = row.pointee.author
        role = row.pointee.role
        state = row.pointee.state
        flags = MessageRow.bits(isEdited: row.pointee.isEdited, isErased: row.pointee.isErased, row.pointee.rare)
        chunks = row.pointee.chunks
        sentAt = row.pointee.sentAt
        source = .row(row)
    }

    /// Reads what follows the steps that led to `seq` and `sentAt`, to the reader's end.
    ///
    /// - Parameter isValid: whether somebody has seen to it that `hasValidText`: else its text is repaired if need be.
    @inline(__always) init(decoding reader: consuming RowReader, seq: Seq, sentAt: UInt64, isValid: Bool) throws {
        self.seq = seq
        self.sentAt = sentAt
        id = try reader.identifier()
        flags = try reader.byte()
        let roleAndState = try reader.byte()
        guard let role = Event.Role(rawValue: roleAndState >> 4), let state = MessageState(stored: roleAndState & 15) else { throw CodecError(.badValue) }
        self.role = role
        self.state = state
        author = try reader.value32()
        chunks = try reader.value32()
        source = .bytes(text: try reader.lengthPrefixed(), rest: reader, isValid: isValid)
        guard hasRare || reader.isAtEnd else { throw CodecError(.notCanonical) }
    }

    var isEdited: Bool { flags & MessageRow.Flag.edited != 0 }
    var isErased: Bool { flags & MessageRow.Flag.erased != 0 }
    var isLive: Bool { state != .deleted }
    private var hasRare: Bool { flags & ~(MessageRow.Flag.edited | MessageRow.Flag.erased) != 0 }

    var text: String {
        switch source {
        case .bytes(let text, _, let isValid): isValid ? validText(of: text) : trustedText(of: text)
        case .row(let row): row.pointee.text
        }
    }

    var textBytes: Int {
        switch source {
        case .bytes(let text, _, _): text.count
        case .row(let row): row.pointee.text.utf8.count
        }
    }

    /// Whether its text is UTF-8.
    var hasValidText: Bool {
        switch source {
        case .bytes(let text, _, _): isValidText(text)
        case .row: true
        }
    }

    /// What few messages have: read anew each time.
    func rare() throws -> MessageRow.Rare? {
        switch source {
        case .bytes(_, let rest, _): hasRare ? try MessageRow.Rare(flags: flags, decoding: rest) : nil
        case .row(let row): row.pointee.rare
        }
    }

    /// As `MessageRow.shownState`.
    func shownState() throws -> MessageState {
        if state == .deleted || flags & (MessageRow.Flag.erased | MessageRow.Flag.edit) == 0 { return state }
        return MessageRow.shownState(state, isErased: isErased, try rare())
    }

    func row() throws -> MessageRow {
        switch source {
        case .bytes:
            MessageRow(
                id: id, seq: seq, author: author, role: role, state: state, isEdited: isEdited, isErased: isErased, chunks: chunks, sentAt: sentAt,
                text: text, rare: try rare())
        case .row(let row): row.pointee
        }
    }
}
