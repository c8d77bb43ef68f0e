public import EventLog

/// Reads lines of the JSONL contract (docs/EVENTS.md), with fold.py's checks in fold.py's order. Any bytes give an event or
/// a refusal, never a trap. One decoder serves one thread at a time and reuses its memory.
public struct EventLineDecoder: ~Copyable {
    private let values: UnsafeMutableBufferPointer<JSONValue>
    private let lineBytesMax: Int

    /// The log of the line read last, also of a refused one: `nil` if its type, conversation and author did not tell.
    public private(set) var log: LogID?

    /// Bytes that an exact line may hold: an escaped text of 1 MiB grows to six, so it is more than ``EventLimits/eventBytesMax``.
    public static let exactLineBytesMax = 32 << 20

    /// A longer line than `lineBytesMax` is refused as `too_large`.
    public init(lineBytesMax: Int = EventLimits.eventBytesMax) {
        self.lineBytesMax = lineBytesMax
        values = .allocate(capacity: EventField.allCases.count)
        values.initialize(repeating: .absent)
    }

    deinit { values.deallocate() }

    /// Reads one line, with or without its line end.
    ///
    /// Throws `malformed` or `too_large` with the field's name as detail (`JSON` and `line` for the line itself).
    public mutating func decode(_ line: UnsafeRawBufferPointer) throws(Refusal) -> EventLine {
        let fields = try fields(of: line, bytesMax: lineBytesMax)
        let type = fields[.type]
        guard let kind = kind(fields, type) else { throw fields.malformed("type") }
        let conversation: ConversationID = try fields.identifier(.conversationID)
        let author = try fields.user(fields[.author], "author")
        log = kind == .preferenceSet ? .user(author) : .conversation(conversation)
        guard let at = fields.withText(fields[.at], Timestamp.parse) else { throw fields.malformed("at") }
        let content = try fields.content(kind, author: author)
        return EventLine(event: Event(conversation: conversation, author: author, content: content), at: at, origin: try fields.origin())
    }

    /// Reads one line from an array; see ``decode(_:)-(UnsafeRawBufferPointer)``.
    public mutating func decode(_ line: [UInt8]) throws(Refusal) -> EventLine {
        var result: Result<EventLine, Refusal> = .failure(Refusal(.malformed, "JSON"))
        line.withUnsafeBytes { bytes in
            do throws(Refusal) { result = .success(try decode(bytes)) } catch { result = .failure(error) }
        }
        return try result.get()
    }

    /// Reads one line of `export --exact`. `seq`, `position`, `hlc` and `origin` must be there; kinds unknown here and erased events
    /// are taken, and texts are kept byte for byte, whatever their size up to ``exactLineBytesMax``.
    ///
    /// Throws `malformed` or `too_large` with the field's name as detail.
    public mutating func decodeExact(_ line: UnsafeRawBufferPointer) throws(Refusal) -> ExactEventLine {
        var fields = try fields(of: line, bytesMax: Self.exactLineBytesMax)
        fields.isExact = true
        let isUnknown = fields.line.spells(fields[.type], "unknown")
        let kind = kind(fields, fields[.type])
        guard isUnknown || kind != nil else { throw fields.malformed("type") }
        let conversation: ConversationID = try fields.identifier(.conversationID)
        let author = try fields.user(fields[.author], "author")
        var log = kind == .preferenceSet ? LogID.user(author) : .conversation(conversation)
        if fields[.log].kind != .absent {
            guard isUnknown, fields.line.spells(fields[.log], "user") else { throw fields.malformed("log") }
            log = .user(author)
        }
        self.log = log
        guard fields.withText(fields[.at], Timestamp.parse) != nil else { throw fields.malformed("at") }
        let content: Event.Content
        if let kind {
            content = try fields.content(kind, author: author)
        } else {
            guard let number = fields.line.unsigned(fields[.kind]).flatMap({ UInt32(exactly: $0) }), Event.Kind(rawValue: number) == nil
            else { throw fields.malformed("kind") }
            content = .unknown(kind: number, body: try fields.base64(.bytes))
        }
        guard let seq = fields.line.unsigned(fields[.seq]), seq > 0 else { throw fields.malformed("seq") }
        guard let position = fields.line.unsigned(fields[.position]), position > 0 else { throw fields.malformed("position") }
        guard let hlc = fields.hlc(fields[.hlc]) else { throw fields.malformed("hlc") }
        guard let origin = try fields.origin() else { throw fields.malformed("origin") }
        let target = fields[.targetSeq].isNone ? nil : fields.line.unsigned(fields[.targetSeq])
        guard fields[.targetSeq].isNone || target != nil else { throw fields.malformed("target_seq") }
        let isErased = fields[.erased].kind == .absent ? false : try fields.boolean(.erased)
        let commitment = fields[.commitment].isNone ? nil : Hash256(bytes: try fields.base64(.commitment))
        guard fields[.commitment].isNone || commitment != nil else { throw fields.malformed("commitment") }
        let secret = fields[.secret].isNone ? nil : try fields.base64(.secret)
        let event = Event(conversation: conversation, author: author, content: content)
        let record = RecordedEvent(
            log: log, seq: seq, position: position, origin: origin, hlc: hlc, event: event, targetSeq: target, isErased: isErased,
            commitment: commitment)
        return ExactEventLine(record: try fields.canonical(like: record), secret: secret)
    }

    /// Reads one exact line from an array; see ``decodeExact(_:)-(UnsafeRawBufferPointer)``.
    public mutating func decodeExact(_ line: [UInt8]) throws(Refusal) -> ExactEventLine {
        var result: Result<ExactEventLine, Refusal> = .failure(Refusal(.malformed, "JSON"))
        line.withUnsafeBytes { bytes in
            do throws(Refusal) { result = .success(try decodeExact(bytes)) } catch { result = .failure(error) }
        }
        return try result.get()
    }

    /// Scans the line and notes where the members that matter stand; of several of one name the last.
    private mutating func fields(of line: UnsafeRawBufferPointer, bytesMax: Int) throws(Refusal) -> EventFields {
        log = nil
        var bytes = line.assumingMemoryBound(to: UInt8.self)[...]
        if bytes.last == UInt8(ascii: "\n") { bytes = bytes.dropLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes = bytes.dropLast() }
        guard bytes.count <= bytesMax else { throw Refusal(.tooLarge, "line") }
        guard !bytes.isEmpty else { throw Refusal(.malformed, "JSON") }
        let text = JSONText(UnsafeBufferPointer(rebasing: bytes))
        values.update(repeating: .absent)
        let table = EventField.table
        let values = values
        let isObject = text.rootObject { name, value in
            if let field = Self.find(name, in: table, of: text) { values[field] = value }
        }
        guard isObject else { throw Refusal(.malformed, "JSON") }
        return EventFields(line: text, values: values)
    }

    private func kind(_ fields: EventFields, _ type: JSONValue) -> Event.Kind? {
        guard type.kind == .string, let number = Self.find(type, in: EventField.kinds, of: fields.line) else { return nil }
        return Event.Kind(rawValue: UInt32(number))
    }

    @inline(__always)
    private static func find(_ name: JSONValue, in table: NameTable, of text: JSONText) -> Int? {
        if !name.isEscaped { return table.find(text.base + name.start, count: name.end - name.start, readable: text.count - name.start) }
        var bytes: [UInt8] = []
        _ = text.appendText(of: name, to: &bytes)
        guard !bytes.isEmpty else { return nil }
        return bytes.withUnsafeBufferPointer { table.find($0.baseAddress!, count: $0.count, readable: $0.count) }
    }
}
