/// The second part of an event: what its author wrote.
///
/// Canonical bytes are field 1, where the text lies, and then the rest; storage keeps the two apart.
package struct BodyParts {
    /// The content of field 1, if it is there and not empty.
    package var text: UnsafeRawBufferPointer
    /// All other fields (and field 1 if it is present but empty), as they are.
    package var rest: UnsafeRawBufferPointer

    package init(text: UnsafeRawBufferPointer, rest: UnsafeRawBufferPointer) {
        self.text = text
        self.rest = rest
    }

    /// Splits canonical bytes; what does not begin with a text is all rest.
    package init(body: UnsafeRawBufferPointer) {
        var reader = ByteReader(body)
        if body.count > 2, body[0] == 1 << 3 | 2, body[1] != 0 {
            reader.offset = 1
            if let text = try? reader.lengthPrefixed() {
                self.init(text: text, rest: UnsafeRawBufferPointer(rebasing: body[reader.offset...]))
                return
            }
        }
        self.init(text: UnsafeRawBufferPointer(rebasing: body[..<0]), rest: body)
    }

    /// Appends the body's canonical bytes.
    package func encode(into out: inout ByteBuffer) {
        if !text.isEmpty {
            out.put(byte: 1 << 3 | 2)
            out.put(varint: UInt64(text.count))
            out.put(text)
        }
        out.put(rest)
    }
}

extension Event {
    /// The number of the kind.
    package var kindNumber: UInt32 {
        if case .unknown(let kind, _) = content { kind } else { content.kind!.rawValue }
    }

    /// The message that the event is about, the chunk's index, and what it replies to: the envelope's part of the content.
    package var references: (message: MessageID?, chunkIndex: UInt32, replyTo: MessageID?) {
        switch content {
        case .messageSent(let message): (message.id, 0, message.replyTo)
        case .chunkAppended(let message, let index, _): (message, index, nil)
        case .messageCompleted(let message, _, _), .messageInterrupted(let message, _), .messageEdited(let message, _), .messageDeleted(let message),
            .reactionSet(let message, _, _):
            (message, 0, nil)
        case .receiptDelivered(let upTo), .receiptRead(let upTo): (upTo, 0, nil)
        default: (nil, 0, nil)
        }
    }

    /// Whether the envelope tells this event from all others of its author in its log: it names what is made, or what is done but once.
    package var isNamedByEnvelope: Bool {
        switch content {
        case .conversationUpdated, .messageEdited, .reactionSet, .preferenceSet, .custom, .unknown: false
        default: true
        }
    }

    /// Whether a log that has it knows a repeat of it by what it says, under whatever origin that comes.
    package var isKnownByContent: Bool { content.kind?.isKnownByContent ?? false }

    /// Appends the body's canonical bytes.
    package func encodeBody(into out: inout ByteBuffer) {
        func put(_ field: UInt8, _ text: String, into out: inout ByteBuffer) {
            guard !text.isEmpty else { return }
            putOptional(field, text, into: &out)
        }
        func putOptional(_ field: UInt8, _ text: String?, into out: inout ByteBuffer) {
            guard let text else { return }
            out.put(byte: field << 3 | 2)
            out.put(lengthOf: text)
        }
        func put(_ field: UInt8, _ value: UInt64, into out: inout ByteBuffer) {
            guard value != 0 else { return }
            out.put(byte: field << 3)
            out.put(varint: value)
        }
        switch content {
        case .conversationCreated(let kind, let title, let participants):
            putOptional(1, title, into: &out)
            put(2, UInt64(kind.rawValue), into: &out)
            for user in participants { putOptional(3, user.string, into: &out) }
        case .conversationUpdated(let title, let attributes):
            putOptional(1, title, into: &out)
            for attribute in attributes {
                var length = 1 + varintLength(attribute.name.utf8.count) + attribute.name.utf8.count
                if let value = attribute.value { length += 1 + varintLength(value.utf8.count) + value.utf8.count }
                out.put(byte: 2 << 3 | 2)
                out.put(varint: UInt64(length))
                putOptional(1, attribute.name, into: &out)
                putOptional(2, attribute.value, into: &out)
            }
        case .participantJoined(let user), .participantLeft(let user):
            putOptional(1, user.string, into: &out)
        case .messageSent(let message):
            put(1, message.text, into: &out)
            put(2, UInt64(message.role.rawValue), into: &out)
            put(3, message.isStreaming ? 1 : 0, into: &out)
            putOptional(4, message.parts, into: &out)
            putOptional(5, message.requestID, into: &out)
        case .chunkAppended(_, _, let text), .messageEdited(_, let text):
            put(1, text, into: &out)
        case .messageCompleted(_, let finishReason, let usage):
            putOptional(1, finishReason, into: &out)
            if let usage {
                var length = 0
                if usage.inputTokens != 0 { length += 1 + varintLength(usage.inputTokens) }
                if usage.outputTokens != 0 { length += 1 + varintLength(usage.outputTokens) }
                out.put(byte: 2 << 3 | 2)
                out.put(varint: UInt64(length))
                put(1, usage.inputTokens, into: &out)
                put(2, usage.outputTokens, into: &out)
            }
        case .messageInterrupted(_, let reason):
            put(1, reason, into: &out)
        case .messageDeleted, .receiptDelivered, .receiptRead:
            break
        case .reactionSet(_, let emoji, let isOn):
            put(1, emoji, into: &out)
            put(2, isOn ? 1 : 0, into: &out)
        case .preferenceSet(let key, let value):
            put(1, key, into: &out)
            putOptional(2, value, into: &out)
            out.put(byte: 3 << 3 | 2)
            out.put(byte: 16)
            out.put(conversation)
        case .custom(let name, let payload):
            put(1, name, into: &out)
            if !payload.isEmpty {
                out.put(byte: 2 << 3 | 2)
                out.put(varint: UInt64(payload.count))
                out.put(payload)
            }
        case .unknown(_, let body):
            out.put(body)
        }
    }

    /// Puts an event together again from its two parts.
    ///
    /// Bytes are trusted to be canonical (they were written by `encode`, and their checksum held); what is not there reads as empty.
    package init(envelope: Envelope, body: BodyParts, isErased: Bool = false) throws(CodecError) {
        var conversation = ConversationID(high: 0, low: 0)
        if case .conversation(let id) = envelope.log { conversation = id }
        let content = try Content(
            kind: envelope.kind, message: envelope.message, chunkIndex: envelope.chunkIndex, replyTo: envelope.replyTo, body: body, isErased: isErased,
            conversation: &conversation)
        self.init(conversation: conversation, author: envelope.author, content: content)
    }
}

func varintLength(_ value: some BinaryInteger) -> Int {
    var value = UInt64(value)
    var length = 1
    while value >= 0x80 {
        length += 1
        value >>= 7
    }
    return length
}

extension Event.Content {
    init(
        kind: UInt32, message: MessageID?, chunkIndex: UInt32, replyTo: MessageID?, body: BodyParts, isErased: Bool, conversation: inout ConversationID
    ) throws(CodecError) {
        guard let known = Event.Kind(rawValue: kind) else {
            var out = ByteBuffer(capacity: body.text.count + body.rest.count + 16)
            body.encode(into: &out)
            self = .unknown(kind: kind, body: out.array())
            return
        }
        func target() throws(CodecError) -> MessageID {
            guard let message else { throw CodecError(.badField) }
            return message
        }
        // The common kinds first, without a reader.
        switch known {
        case .chunkAppended:
            self = .chunkAppended(message: try target(), index: chunkIndex, text: trustedText(of: body.text))
            return
        case .messageEdited:
            self = .messageEdited(message: try target(), text: trustedText(of: body.text))
            return
        case .receiptDelivered:
            self = .receiptDelivered(upTo: try target())
            return
        case .receiptRead:
            self = .receiptRead(upTo: try target())
            return
        case .messageDeleted:
            self = .messageDeleted(message: try target())
            return
        case .messageInterrupted:
            self = .messageInterrupted(message: try target(), reason: trustedText(of: body.text))
            return
        case .messageSent where body.rest.isEmpty:
            self = .messageSent(Event.Message(id: try target(), role: .user, text: trustedText(of: body.text), replyTo: replyTo))
            return
        default: break
        }
        var reader = ByteReader(body.rest)
        var first: String? = body.text.isEmpty ? nil : trustedText(of: body.text)
        var number: UInt64 = 0
        var flag = false
        var second: String?
        var third: String?
        var users: [UserID] = []
        var attributes: [Event.Attribute] = []
        var usage: Event.Usage?
        var payload: [UInt8] = []
        while !reader.isAtEnd {
            let tag = try reader.varint()
            switch (known, tag) {
            case (_, 1 << 3 | 2): first = try reader.string()
            case (.conversationCreated, 2 << 3), (.messageSent, 2 << 3): number = try reader.varint()
            case (.reactionSet, 2 << 3), (.messageSent, 3 << 3): flag = try reader.varint() == 1
            case (.conversationCreated, 3 << 3 | 2): users.append(try reader.user())
            case (.conversationUpdated, 2 << 3 | 2):
                var inner = ByteReader(try reader.lengthPrefixed())
                var attribute = Event.Attribute(name: "", value: nil)
                while !inner.isAtEnd {
                    switch try inner.varint() {
                    case 1 << 3 | 2: attribute.name = try inner.string()
                    case 2 << 3 | 2: attribute.value = try inner.string()
                    case let tag: try inner.skip(tag: tag)
                    }
                }
                attributes.append(attribute)
            case (.messageSent, 4 << 3 | 2), (.preferenceSet, 2 << 3 | 2): second = try reader.string()
            case (.messageSent, 5 << 3 | 2): third = try reader.string()
            case (.messageCompleted, 2 << 3 | 2):
                var inner = ByteReader(try reader.lengthPrefixed())
                var value = Event.Usage(inputTokens: 0, outputTokens: 0)
                while !inner.isAtEnd {
                    switch try inner.varint() {
                    case 1 << 3: value.inputTokens = try inner.varint()
                    case 2 << 3: value.outputTokens = try inner.varint()
                    case let tag: try inner.skip(tag: tag)
                    }
                }
                usage = value
            case (.preferenceSet, 3 << 3 | 2): conversation = try reader.lengthPrefixedIdentifier()
            case (.custom, 2 << 3 | 2): payload = Array(try reader.lengthPrefixed())
            default: try reader.skip(tag: tag)
            }
        }
        switch known {
        case .conversationCreated:
            guard isErased || number <= 255, let kind = Event.ConversationKind(rawValue: isErased && number == 0 ? 1 : UInt8(truncatingIfNeeded: number)) else {
                throw CodecError(.badValue)
            }
            self = .conversationCreated(kind: kind, title: first, participants: users)
        case .conversationUpdated: self = .conversationUpdated(title: first, attributes: attributes)
        case .participantJoined, .participantLeft:
            guard let user = UserID(first ?? (isErased ? "?" : "")) else { throw CodecError(.badValue) }
            self = known == .participantJoined ? .participantJoined(user) : .participantLeft(user)
        case .messageSent:
            guard number <= 255, let role = Event.Role(rawValue: UInt8(truncatingIfNeeded: number)) else { throw CodecError(.badValue) }
            self = .messageSent(
                Event.Message(id: try target(), role: role, text: first ?? "", isStreaming: flag, replyTo: replyTo, parts: second, requestID: third))
        case .messageCompleted: self = .messageCompleted(message: try target(), finishReason: first, usage: usage)
        case .reactionSet: self = .reactionSet(message: try target(), emoji: first ?? "", isOn: flag)
        case .preferenceSet: self = .preferenceSet(key: first ?? "", value: second)
        case .custom: self = .custom(name: first ?? "", payload: payload)
        default: throw CodecError(.badField)
        }
    }
}

extension Event.Kind {
    /// Whether a log knows a repeat of such an event by what it says. Who left may have come back since, and leave again.
    var isKnownByContent: Bool {
        switch self {
        case .conversationUpdated, .participantJoined, .participantLeft, .messageEdited, .reactionSet, .preferenceSet, .custom: false
        default: true
        }
    }
}
