import EventLog

/// The rules of /shared/model/fold.py for events that a hub has accepted.
extension WorkingSet {
    /// Folds an event in and answers with the key of its conversation and its seq there. A preference takes no seq: 0.
    mutating func fold(_ item: Item, position: Position, now: UInt64) throws -> (key: Int64, seq: Seq) {
        let event = item.event
        let stamp = Stamp(time: min(item.milliseconds, now), position: position)
        let conversation: Conversation
        if case .conversationCreated(let kind, let title, let participants) = event.content {
            let record = ConversationRecord(kind: kind, title: title, titleStamp: title == nil ? nil : stamp, order: position)
            conversation = add(event.conversation, record)
            for user in [event.author] + participants { try set(user, in: conversation, isActive: true) }
        } else {
            guard let known = try self.conversation(event.conversation) else { throw EngineError("an event of no conversation") }
            conversation = known
            if case .preferenceSet(let key, let value) = event.content {
                let member = try member(event.author, of: conversation)
                member.value.write(PreferenceRegister(key: key, value: value, stamp: stamp))
                note(member)
                return (conversation.value.key, 0)
            }
        }
        conversation.value.seq += 1
        note(conversation)
        try fold(item, in: conversation, stamp)
        return (conversation.value.key, conversation.value.seq)
    }

    private mutating func fold(_ item: Item, in conversation: Conversation, _ stamp: Stamp) throws {
        let author = item.event.author
        switch item.event.content {
        case .conversationCreated, .preferenceSet, .custom, .unknown: break
        case .conversationUpdated(let title, _):
            guard let title, stamp.wins(over: conversation.value.titleStamp) else { break }
            (conversation.value.title, conversation.value.titleStamp) = (title, stamp)
        case .participantJoined(let user): try set(user, in: conversation, isActive: true)
        case .participantLeft(let user): try set(user, in: conversation, isActive: false)
        case .messageSent(let message): try send(message, by: author, at: item.milliseconds, in: conversation, stamp)
        case .chunkAppended(let id, _, let text):
            try change(id, in: conversation) { message, last in
                message.text += text
                message.chunks += 1
                if let snippet = last?.snippet, snippet.unicodeScalars.count < LastMessage.snippetCharactersMax {
                    last?.snippet = LastMessage.snippet(of: snippet + text)
                }
            }
        case .messageCompleted(let id, let reason, _):
            try change(id, in: conversation) { message, _ in (message.state, message.finishReason) = (.complete, reason) }
        case .messageInterrupted(let id, let reason):
            try change(id, in: conversation) { message, _ in (message.state, message.interruptedReason) = (.interrupted, reason) }
        case .messageEdited(let id, let text):
            try change(id, in: conversation) { message, last in
                message.isEdited = true
                guard stamp.wins(over: message.textStamp) else { return }
                (message.text, message.textStamp, message.continuesStoredText) = (text, stamp, false)
                last?.snippet = LastMessage.snippet(of: text)
            }
        case .messageDeleted(let id):
            conversation.value.deleted += 1
            try change(id, in: conversation) { message, last in
                (message.state, message.text, message.continuesStoredText) = (.deleted, "", false)
                (message.isEdited, message.hasReactions, message.reactions) = (false, false, [])
                last?.snippet = ""
            }
        case .reactionSet(let id, let emoji, let isOn):
            try change(id, in: conversation) { message, _ in
                message.write(ReactionRegister(emoji: emoji, user: author, isOn: isOn, stamp: stamp))
            }
        case .receiptDelivered(let id): try advance(\.delivered, of: author, to: id, in: conversation)
        case .receiptRead(let id):
            let message = try advance(\.read, of: author, to: id, in: conversation)
            let member = try member(author, of: conversation)
            guard message.seq > member.value.mark else { break }
            (member.value.mark, member.value.ordinal) = (message.seq, message.ordinal)
            note(member)
        }
    }

    private mutating func set(_ user: UserID, in conversation: Conversation, isActive: Bool) throws {
        let member = try member(user, of: conversation)
        member.value.isActive = isActive
        note(member)
    }

    private mutating func send(_ sent: Event.Message, by author: UserID, at time: UInt64, in conversation: Conversation, _ stamp: Stamp)
        throws
    {
        conversation.value.messages += 1
        conversation.value.order = stamp.position
        let record = MessageRecord(
            id: sent.id, seq: conversation.value.seq, ordinal: conversation.value.messages, author: author, role: sent.role,
            text: sent.text, state: sent.isStreaming ? .streaming : .complete, replyTo: sent.replyTo, sentAt: time)
        conversation.value.last = LastMessage(
            id: record.id, seq: record.seq, author: author, role: record.role, state: record.state, sentAt: time,
            snippet: LastMessage.snippet(of: record.text))
        note(add(record, to: conversation))
        let member = try member(author, of: conversation)
        (member.value.mark, member.value.ordinal) = (record.seq, record.ordinal)
        note(member)
    }

    /// Changes a message, and the conversation's last message if it is that.
    private mutating func change(
        _ id: MessageID, in conversation: Conversation, _ body: (inout MessageRecord, inout LastMessage?) -> Void
    ) throws {
        guard let message = try message(id, in: conversation) else { throw EngineError("an event of no message") }
        if conversation.value.last?.seq == message.value.seq {
            body(&message.value, &conversation.value.last)
            conversation.value.last?.state = message.value.state
        } else {
            var none: LastMessage?
            body(&message.value, &none)
        }
        note(message)
    }

    @discardableResult
    private mutating func advance(
        _ mark: WritableKeyPath<ReceiptRecord, Seq>, of user: UserID, to id: MessageID, in conversation: Conversation
    ) throws -> MessageRecord {
        guard let message = try message(id, in: conversation) else { throw EngineError("a receipt of no message") }
        let receipt = try receipt(user, in: conversation)
        receipt.value[keyPath: mark] = max(receipt.value[keyPath: mark], message.value.seq)
        note(receipt)
        conversation.value.hasReceipts = true
        return message.value
    }
}

extension Stamp {
    fileprivate func wins(over other: Stamp?) -> Bool { other.map { self > $0 } ?? true }
}

extension MessageRecord {
    fileprivate mutating func write(_ new: ReactionRegister) {
        hasReactions = true
        guard let at = reactions.firstIndex(where: { $0.user == new.user && $0.emoji.utf8.elementsEqual(new.emoji.utf8) }) else {
            return reactions.append(new)
        }
        if new.stamp > reactions[at].stamp { reactions[at] = new }
    }
}

extension MemberRecord {
    fileprivate mutating func write(_ new: PreferenceRegister) {
        guard let at = preferences.firstIndex(where: { $0.key.utf8.elementsEqual(new.key.utf8) }) else { return preferences.append(new) }
        if new.stamp > preferences[at].stamp { preferences[at] = new }
    }
}
