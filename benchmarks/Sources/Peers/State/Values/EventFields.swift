import EventLog

/// An event's content as the few columns that both peers keep of it. What no query looks into is in `rest`.
struct EventFields {
    var message: MessageID?
    var number: UInt64?
    var reply: MessageID?
    var text: String?
    var rest: [UInt8] = []

    mutating func fill(_ content: Event.Content) throws {
        (message, number, reply, text) = (nil, nil, nil, nil)
        rest.removeAll(keepingCapacity: true)
        switch content {
        case .messageSent(let sent):
            (message, reply, text) = (sent.id, sent.replyTo, sent.text)
            number = UInt64(sent.role.rawValue | (sent.isStreaming ? 16 : 0) | (sent.parts == nil ? 0 : 32) | (sent.requestID == nil ? 0 : 64))
            if let parts = sent.parts { rest.appendText(parts) }
            if let request = sent.requestID { rest.appendText(request) }
        case .chunkAppended(let id, let index, let piece): (message, number, text) = (id, UInt64(index), piece)
        case .messageCompleted(let id, let reason, let usage):
            (message, text) = (id, reason)
            guard let usage else { break }
            rest.appendVarint(usage.inputTokens)
            rest.appendVarint(usage.outputTokens)
        case .messageInterrupted(let id, let reason): (message, text) = (id, reason)
        case .messageEdited(let id, let new): (message, text) = (id, new)
        case .messageDeleted(let id), .receiptDelivered(let id), .receiptRead(let id): message = id
        case .reactionSet(let id, let emoji, let isOn): (message, number, text) = (id, isOn ? 1 : 0, emoji)
        case .conversationCreated(let kind, let title, let participants):
            (number, text) = (UInt64(kind.rawValue), title)
            for user in participants { rest.appendText(user.string) }
        case .conversationUpdated(let title, let attributes):
            text = title
            for attribute in attributes {
                rest.appendText(attribute.name)
                rest.append(attribute.value == nil ? 0 : 1)
                if let value = attribute.value { rest.appendText(value) }
            }
        case .participantJoined(let user), .participantLeft(let user): text = user.string
        case .preferenceSet(let key, let value):
            text = value
            rest.appendText(key)
        case .custom(let name, let payload): (text, rest) = (name, payload)
        case .unknown: throw EngineError("a kind without a name")
        }
    }

    func content(_ kind: Event.Kind) throws -> Event.Content {
        try rest.withUnsafeBytes { try content(kind, RowReader($0)) }
    }

    private func content(_ kind: Event.Kind, _ reader: RowReader) throws -> Event.Content {
        var reader = reader
        let text = text ?? ""
        return switch kind {
        case .messageSent: .messageSent(try sent(&reader))
        case .chunkAppended: .chunkAppended(message: try target, index: UInt32(truncatingIfNeeded: number ?? 0), text: text)
        case .messageCompleted:
            .messageCompleted(
                message: try target, finishReason: self.text,
                usage: reader.isAtEnd ? nil : .init(inputTokens: try reader.varint(), outputTokens: try reader.varint()))
        case .messageInterrupted: .messageInterrupted(message: try target, reason: text)
        case .messageEdited: .messageEdited(message: try target, text: text)
        case .messageDeleted: .messageDeleted(message: try target)
        case .receiptDelivered: .receiptDelivered(upTo: try target)
        case .receiptRead: .receiptRead(upTo: try target)
        case .reactionSet: .reactionSet(message: try target, emoji: text, isOn: number == 1)
        case .conversationCreated: try created(&reader)
        case .conversationUpdated: .conversationUpdated(title: self.text, attributes: try attributes(&reader))
        case .participantJoined: .participantJoined(try user(text))
        case .participantLeft: .participantLeft(try user(text))
        case .preferenceSet: .preferenceSet(key: try reader.text(), value: self.text)
        case .custom: .custom(name: text, payload: rest)
        }
    }

    private var target: MessageID {
        get throws {
            guard let message else { throw EngineError("damaged row") }
            return message
        }
    }

    private func user(_ name: String) throws -> UserID {
        guard let user = UserID(name) else { throw EngineError("damaged row") }
        return user
    }

    private func sent(_ reader: inout RowReader) throws -> Event.Message {
        let flags = UInt8(truncatingIfNeeded: number ?? 0)
        guard let role = Event.Role(rawValue: flags & 15) else { throw EngineError("damaged row") }
        var sent = Event.Message(id: try target, role: role, text: text ?? "", isStreaming: flags & 16 != 0, replyTo: reply)
        if flags & 32 != 0 { sent.parts = try reader.text() }
        if flags & 64 != 0 { sent.requestID = try reader.text() }
        return sent
    }

    private func created(_ reader: inout RowReader) throws -> Event.Content {
        guard let kind = Event.ConversationKind(rawValue: UInt8(truncatingIfNeeded: number ?? 0)) else { throw EngineError("damaged row") }
        var participants: [UserID] = []
        while !reader.isAtEnd { participants.append(try reader.user()) }
        return .conversationCreated(kind: kind, title: text, participants: participants)
    }

    private func attributes(_ reader: inout RowReader) throws -> [Event.Attribute] {
        var attributes: [Event.Attribute] = []
        while !reader.isAtEnd {
            let name = try reader.text()
            attributes.append(.init(name: name, value: try reader.byte() == 0 ? nil : try reader.text()))
        }
        return attributes
    }
}
