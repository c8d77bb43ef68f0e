import EventLog

/// One line's members, and fold.py's ways of asking for them: each refuses with the code and the field's name.
struct EventFields {
    let line: JSONText
    let values: UnsafeMutableBufferPointer<JSONValue>
    /// Whether what only a true copy may hold is taken: texts of any size, and none where one is needed (an erased event's).
    var isExact = false

    @inline(__always)
    subscript(field: EventField) -> JSONValue { values[field.rawValue] }

    /// Lends the UTF-8 of a string's text; `nil` if it is no string or holds half a surrogate pair.
    @inline(__always)
    func withText<Result>(_ value: JSONValue, _ body: (UnsafeBufferPointer<UInt8>) -> Result?) -> Result? {
        guard value.kind == .string else { return nil }
        if !value.isEscaped { return body(UnsafeBufferPointer(start: line.base + value.start, count: value.end - value.start)) }
        var text: [UInt8] = []
        text.reserveCapacity(value.end - value.start)
        guard line.appendText(of: value, to: &text) else { return nil }
        return text.withUnsafeBufferPointer(body)
    }

    /// A text of at most `bytesMax` bytes, else `too_large`; anything but a text is `malformed`.
    @inline(__always)
    func text(_ value: JSONValue, _ name: StaticString, bytesMax: Int = EventLimits.textBytesMax) throws(Refusal) -> String {
        guard value.kind == .string else { throw malformed(name) }
        let limit = isExact ? Int.max : bytesMax
        if !value.isEscaped {
            guard value.end - value.start <= limit else { throw Refusal(.tooLarge, name.description) }
            return line.plainText(value)
        }
        guard let text = withText(value, { String(decoding: $0, as: UTF8.self) }) else { throw malformed(name) }
        guard text.utf8.count <= limit else { throw Refusal(.tooLarge, name.description) }
        return text
    }

    @inline(__always)
    func text(_ field: EventField) throws(Refusal) -> String { try text(self[field], field.name) }

    /// The text, or `nil` for a member that is missing or `null`.
    func optionalText(_ field: EventField) throws(Refusal) -> String? { self[field].isNone ? nil : try text(field) }

    /// A text of 1 to `bytesMax` bytes; any other is `malformed`.
    func name(_ value: JSONValue, _ name: StaticString, bytesMax: Int) throws(Refusal) -> String {
        guard let text = withText(value, { String(decoding: $0, as: UTF8.self) }), isExact || 1...bytesMax ~= text.utf8.count else {
            throw malformed(name)
        }
        return text
    }

    @inline(__always)
    func user(_ value: JSONValue, _ name: StaticString) throws(Refusal) -> UserID {
        guard let user = withText(value, { UserID(String(decoding: $0, as: UTF8.self)) }) else { throw malformed(name) }
        return user
    }

    @inline(__always)
    func identifier<Tag>(_ field: EventField) throws(Refusal) -> Identifier<Tag> {
        guard let id = withText(self[field], { Identifier<Tag>(utf8: UnsafeRawBufferPointer($0)) }) else { throw malformed(field.name) }
        return id
    }

    func boolean(_ field: EventField) throws(Refusal) -> Bool {
        switch self[field].kind {
        case .true: true
        case .false: false
        default: throw malformed(field.name)
        }
    }

    func hlc(_ value: JSONValue) -> HLC? {
        withText(value) { text in
            guard text.count == 16 else { return nil }
            var raw: UInt64 = 0
            for byte in text {
                guard let digit = hexValue(byte) else { return nil }
                raw = raw << 4 | UInt64(digit)
            }
            return HLC(rawValue: raw)
        }
    }

    func base64(_ field: EventField) throws(Refusal) -> [UInt8] {
        guard let bytes = withText(self[field], Base64.decode) else { throw malformed(field.name) }
        return bytes
    }

    /// The `origin` of the line; `nil` if it is missing or `null`.
    func origin() throws(Refusal) -> Origin? {
        let value = self[.origin]
        guard !value.isNone else { return nil }
        let replica = withText(line.member("replica", of: value)) { ReplicaID(utf8: UnsafeRawBufferPointer($0)) }
        guard let replica, let counter = line.unsigned(line.member("counter", of: value)), counter > 0,
            let hlc = hlc(line.member("hlc", of: value))
        else { throw malformed("origin") }
        return Origin(replica: replica, counter: counter, hlc: hlc)
    }

    @inline(never)
    func malformed(_ name: StaticString) -> Refusal { Refusal(.malformed, name.description) }
}

extension EventFields {
    /// The event of the canonical bytes that a line has where a newer version says more in it; they must say the same as the other members.
    func canonical(like record: RecordedEvent) throws(Refusal) -> RecordedEvent {
        if self[.envelope].isNone { return record }
        let envelope = try base64(.envelope)
        var exact: RecordedEvent
        do {
            if let commitment = record.commitment, record.isErased {
                exact = try EventCodec.decode(envelope: envelope, commitment: commitment)
            } else {
                exact = try EventCodec.decode(envelope: envelope, body: base64(.body))
            }
        } catch let refusal as Refusal { throw refusal } catch { throw malformed("envelope") }
        exact.position = record.position
        guard exact.saysTheSame(as: record) else { throw malformed("envelope") }
        return exact
    }
}

extension RecordedEvent {
    /// But for what a newer version says beside it.
    fileprivate func saysTheSame(as other: RecordedEvent) -> Bool {
        log == other.log && seq == other.seq && position == other.position && origin == other.origin && hlc == other.hlc && targetSeq == other.targetSeq
            && isErased == other.isErased && event == other.event
    }
}
