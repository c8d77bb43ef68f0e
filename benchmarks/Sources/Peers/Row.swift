import EventLog

/// An event as a compact binary row, as an engineer would put it into a key-value store.
///
/// Position, hlc, kind, author, then the kind's own fields: ids as 16 bytes, numbers as varints, texts with their lengths.
/// Conversation and seq are in the key.
enum Row {
    static func encode(_ item: Item, position: Position, into row: inout [UInt8]) throws {
        row.removeAll(keepingCapacity: true)
        let event = item.event
        guard let kind = event.content.kind else { throw EngineError("a kind without a name is not part of the mix") }
        row.appendVarint(position)
        row.appendFixed(HLC(milliseconds: item.milliseconds).rawValue)
        row.append(UInt8(kind.rawValue))
        row.appendText(event.author.string)
        switch event.content {
        case .messageSent(let message):
            row.appendID(message.id)
            row.append(message.role.rawValue | (message.isStreaming ? 16 : 0) | (message.replyTo == nil ? 0 : 32))
            if let reply = message.replyTo { row.appendID(reply) }
            row.appendText(message.text)
        case .chunkAppended(let message, let index, let text):
            row.appendID(message)
            row.appendVarint(UInt64(index))
            row.appendText(text)
        case .messageCompleted(let message, let reason, let usage):
            row.appendID(message)
            row.appendText(reason ?? "")
            row.appendVarint(usage.map { $0.inputTokens + 1 } ?? 0)
            row.appendVarint(usage.map { $0.outputTokens + 1 } ?? 0)
        case .messageInterrupted(let message, let reason):
            row.appendID(message)
            row.appendText(reason)
        case .receiptDelivered(let message), .receiptRead(let message):
            row.appendID(message)
        case .conversationCreated(let kind, let title, let participants):
            row.append(kind.rawValue)
            row.appendText(title ?? "")
            row.appendVarint(UInt64(participants.count))
            for user in participants { row.appendText(user.string) }
        default:
            throw EngineError("\(kind.name) is not part of the benchmark's mix")
        }
    }

    static func decode(_ bytes: UnsafeRawBufferPointer, conversation: ConversationID, seq: Seq) throws -> RecordedEvent {
        var reader = RowReader(bytes)
        let position = try reader.varint()
        let hlc = HLC(rawValue: try reader.fixed())
        let number = try reader.byte()
        let author = try reader.user()
        let content: Event.Content
        switch Event.Kind(rawValue: UInt32(number)) {
        case .messageSent:
            let id: MessageID = try reader.id()
            let flags = try reader.byte()
            let reply: MessageID? = flags & 32 != 0 ? try reader.id() : nil
            guard let role = Event.Role(rawValue: flags & 15) else { throw EngineError("damaged row") }
            content = .messageSent(.init(id: id, role: role, text: try reader.text(), isStreaming: flags & 16 != 0, replyTo: reply))
        case .chunkAppended:
            content = .chunkAppended(
                message: try reader.id(), index: UInt32(truncatingIfNeeded: try reader.varint()), text: try reader.text())
        case .messageCompleted:
            let id: MessageID = try reader.id()
            let reason = try reader.text()
            let (input, output) = (try reader.varint(), try reader.varint())
            let usage = input == 0 ? nil : Event.Usage(inputTokens: input - 1, outputTokens: output - 1)
            content = .messageCompleted(message: id, finishReason: reason.isEmpty ? nil : reason, usage: usage)
        case .messageInterrupted: content = .messageInterrupted(message: try reader.id(), reason: try reader.text())
        case .receiptDelivered: content = .receiptDelivered(upTo: try reader.id())
        case .receiptRead: content = .receiptRead(upTo: try reader.id())
        case .conversationCreated:
            guard let kind = Event.ConversationKind(rawValue: try reader.byte()) else { throw EngineError("damaged row") }
            let title = try reader.text()
            var participants: [UserID] = []
            for _ in 0..<(try reader.varint()) { participants.append(try reader.user()) }
            content = .conversationCreated(kind: kind, title: title, participants: participants)
        default: throw EngineError("damaged row")
        }
        return RecordedEvent(
            log: .conversation(conversation), seq: seq, position: position, origin: .unknown(hlc), hlc: hlc,
            event: Event(conversation: conversation, author: author, content: content), targetSeq: nil)
    }
}

extension Origin {
    /// The peers keep no origin: their clients' retries are told apart by message ids alone.
    static func unknown(_ hlc: HLC) -> Origin { Origin(replica: ReplicaID(high: 0, low: 0), counter: 0, hlc: hlc) }
}

extension Event.Content {
    /// The id that must be new, for an event that opens a message.
    var newMessageID: MessageID? {
        if case .messageSent(let message) = self { message.id } else { nil }
    }
}

extension [UInt8] {
    mutating func appendFixed(_ value: UInt64) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }

    mutating func appendID<Tag>(_ id: Identifier<Tag>) {
        appendFixed(id.high)
        appendFixed(id.low)
    }

    mutating func appendVarint(_ value: UInt64) {
        var value = value
        while value >= 0x80 {
            append(UInt8(truncatingIfNeeded: value) | 0x80)
            value >>= 7
        }
        append(UInt8(value))
    }

    mutating func appendText(_ text: String) {
        appendVarint(UInt64(text.utf8.count))
        append(contentsOf: text.utf8)
    }
}

struct RowReader {
    private let bytes: UnsafeRawBufferPointer
    private var at = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { at == bytes.count }

    private mutating func take(_ count: Int) throws -> Int {
        guard count <= bytes.count - at else { throw EngineError("damaged row") }
        defer { at += count }
        return at
    }

    mutating func byte() throws -> UInt8 { bytes[try take(1)] }

    mutating func fixed() throws -> UInt64 {
        UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: try take(8), as: UInt64.self))
    }

    mutating func id<Tag>() throws -> Identifier<Tag> { Identifier(high: try fixed(), low: try fixed()) }

    mutating func varint() throws -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            let byte = try byte()
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        throw EngineError("damaged row")
    }

    mutating func text() throws -> String {
        let count = Int(truncatingIfNeeded: try varint())
        guard count >= 0 else { throw EngineError("damaged row") }
        let start = try take(count)
        return String(decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]), as: UTF8.self)
    }

    /// All that was not read yet.
    mutating func rest() -> UnsafeRawBufferPointer {
        defer { at = bytes.count }
        return UnsafeRawBufferPointer(rebasing: bytes[at...])
    }

    mutating func user() throws -> UserID {
        guard let user = UserID(try text()) else { throw EngineError("damaged row") }
        return user
    }
}
