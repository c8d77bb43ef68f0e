import EventLog

extension EventFields {
    /// What the event says, checked in fold.py's order (`Hub.parse` and `Hub.create`).
    func content(_ kind: Event.Kind, author: UserID) throws(Refusal) -> Event.Content {
        switch kind {
        case .conversationCreated: return try created(author: author)
        case .conversationUpdated: return try updated()
        case .participantJoined: return .participantJoined(try user(self[.user], "user"))
        case .participantLeft: return .participantLeft(try user(self[.user], "user"))
        case .messageSent: return .messageSent(try message())
        case .chunkAppended:
            let id: MessageID = try identifier(.messageID)
            guard let index = line.unsigned(self[.index]).flatMap({ UInt32(exactly: $0) }) else { throw malformed("index") }
            return .chunkAppended(message: id, index: index, text: try text(.text))
        case .messageCompleted:
            let id: MessageID = try identifier(.messageID)
            let reason = self[.finishReason].kind == .absent ? nil : try text(.finishReason)
            return .messageCompleted(message: id, finishReason: reason == "" && !isExact ? nil : reason, usage: usage())
        case .messageInterrupted: return .messageInterrupted(message: try identifier(.messageID), reason: try text(.reason))
        case .messageEdited: return .messageEdited(message: try identifier(.messageID), text: try text(.text))
        case .messageDeleted: return .messageDeleted(message: try identifier(.messageID))
        case .reactionSet:
            let id: MessageID = try identifier(.messageID)
            let emoji = try name(self[.emoji], "emoji", bytesMax: 64)
            return .reactionSet(message: id, emoji: emoji, isOn: try boolean(.on))
        case .receiptDelivered: return .receiptDelivered(upTo: try identifier(.upTo))
        case .receiptRead: return .receiptRead(upTo: try identifier(.upTo))
        case .preferenceSet: return .preferenceSet(key: try name(self[.key], "key", bytesMax: 64), value: try optionalText(.value))
        case .custom: return .custom(name: try name(self[.name], "name", bytesMax: 255), payload: try base64(.payload))
        }
    }

    private func created(author: UserID) throws(Refusal) -> Event.Content {
        let kind: Event.ConversationKind
        let value = self[.kind]
        if line.spells(value, "direct") {
            kind = .direct
        } else if line.spells(value, "group") {
            kind = .group
        } else if line.spells(value, "assistant") {
            kind = .assistant
        } else {
            throw malformed("kind")
        }
        guard self[.participants].kind == .array else { throw malformed("participants") }
        var people: [UserID] = []
        var isSound = true
        line.forEachElement(of: self[.participants]) { element in
            guard isSound, let user = withText(element, { UserID(String(decoding: $0, as: UTF8.self)) }) else { return isSound = false }
            people.append(user)
        }
        guard isSound else { throw malformed("participants") }
        if !isExact, people.count >= EventLimits.participantsMax, Set(people).union([author]).count > EventLimits.participantsMax {
            throw Refusal(.tooLarge, "participants")
        }
        return .conversationCreated(kind: kind, title: try optionalText(.title), participants: people)
    }

    private func updated() throws(Refusal) -> Event.Content {
        let attributes = try attributes()
        guard isExact || self[.title].kind != .absent || !attributes.isEmpty else { throw malformed("title") }
        let title = self[.title].kind == .absent ? nil : try text(.title)
        return .conversationUpdated(title: title, attributes: attributes)
    }

    /// Of a name given twice the last value counts, at the place of the first, as in a Python dictionary; then sorted by name.
    private func attributes() throws(Refusal) -> [Event.Attribute] {
        let object = self[.attributes]
        guard object.kind != .absent else { return [] }
        guard object.kind == .object else { throw malformed("attributes") }
        var places: [[UInt8]: Int] = [:]
        var members: [(name: [UInt8], isText: Bool, value: JSONValue)] = []
        _ = line.members(at: object.start) { key, value in
            var name: [UInt8] = []
            let isText = line.appendText(of: key, to: &name)
            if let place = places[name] {
                members[place].value = value
            } else {
                places[name] = members.count
                members.append((name, isText, value))
            }
        }
        guard isExact || members.count <= EventLimits.attributesMax else { throw Refusal(.tooLarge, "attributes") }
        var attributes: [Event.Attribute] = []
        for member in members {
            guard member.isText, isExact || 1...64 ~= member.name.count else { throw malformed("attributes") }
            let value: String? =
                member.value.kind == .null
                ? nil : try text(member.value, "attributes", bytesMax: EventLimits.attributeBytesMax)
            attributes.append(Event.Attribute(name: String(decoding: member.name, as: UTF8.self), value: value))
        }
        return attributes.sorted { compareBytes($0.name, $1.name) < 0 }
    }

    private func message() throws(Refusal) -> Event.Message {
        let id: MessageID = try identifier(.messageID)
        let isStreaming = self[.streaming].kind == .absent ? false : try boolean(.streaming)
        guard self[.parts].isNone || self[.parts].kind == .array || (isExact && self[.parts].kind == .string) else {
            throw malformed("parts")
        }
        let role = try role()
        let text = self[.text].kind == .absent ? "" : try text(.text)
        let replyTo: MessageID? = self[.replyTo].isNone ? nil : try identifier(.replyTo)
        return Event.Message(
            id: id, role: role, text: text, isStreaming: isStreaming, replyTo: replyTo, parts: try parts(),
            requestID: try? self.text(.requestID)
        )
    }

    private func role() throws(Refusal) -> Event.Role {
        let value = self[.role]
        if line.spells(value, "user") { return .user }
        if line.spells(value, "assistant") { return .assistant }
        if line.spells(value, "system") { return .system }
        if line.spells(value, "tool") { return .tool }
        throw malformed("role")
    }

    /// A true copy takes them byte for byte: as they stand, or, if they were not canonical, out of a string.
    private func parts() throws(Refusal) -> String? {
        let value = self[.parts]
        guard !value.isNone else { return nil }
        if isExact { return value.kind == .string ? try text(.parts) : line.plainText(value) }
        return CanonicalJSON.write(value, of: line)
    }

    /// Both counts, or nothing: of any other shape it is ignored.
    private func usage() -> Event.Usage? {
        guard let input = line.unsigned(line.member("input_tokens", of: self[.usage])),
            let output = line.unsigned(line.member("output_tokens", of: self[.usage]))
        else { return nil }
        return Event.Usage(inputTokens: input, outputTokens: output)
    }
}
