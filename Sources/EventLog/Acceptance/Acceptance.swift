/// The hub's decision on one event; nothing is changed by making it.
enum Decision {
    case accept(targetSeq: Seq)
    /// Recorded before, at this seq.
    case duplicate(Seq)
    case refuse(Refusal)
}

/// The rules of DESIGN.md, section 5, as ../shared/model/fold.py states them.
enum Acceptance {
    /// Shape before meaning: limits that hold whatever the event refers to.
    static func checkForm(_ event: Event) -> Refusal? {
        func tooLong(_ text: String?, _ field: String) -> Refusal? {
            (text?.utf8.count ?? 0) > EventLimits.textBytesMax ? Refusal(.tooLarge, field) : nil
        }
        switch event.content {
        case .conversationCreated(_, let title, let participants):
            if participants.count >= EventLimits.participantsMax, Set(participants + [event.author]).count > EventLimits.participantsMax {
                return Refusal(.tooLarge, "participants")
            }
            return tooLong(title, "title")
        case .conversationUpdated(let title, let attributes):
            guard attributes.count <= EventLimits.attributesMax else { return Refusal(.tooLarge, "attributes") }
            for attribute in attributes {
                guard 1...64 ~= attribute.name.utf8.count else { return Refusal(.malformed, "attributes") }
                guard (attribute.value?.utf8.count ?? 0) <= EventLimits.attributeBytesMax else { return Refusal(.tooLarge, "attributes") }
            }
            for (left, right) in zip(attributes, attributes.dropFirst()) where compareBytes(left.name, right.name) >= 0 {
                return Refusal(.malformed, "attributes")
            }
            guard title != nil || !attributes.isEmpty else { return Refusal(.malformed, "title") }
            return tooLong(title, "title")
        case .messageSent(let message):
            if let refusal = tooLong(message.text, "text") { return refusal }
            let bytes = message.text.utf8.count + (message.parts?.utf8.count ?? 0) + (message.requestID?.utf8.count ?? 0)
            return bytes > EventLimits.eventBytesMax ? Refusal(.tooLarge, "parts") : nil
        case .chunkAppended(_, _, let text), .messageEdited(_, let text): return tooLong(text, "text")
        case .messageCompleted(_, let finishReason, _): return tooLong(finishReason, "finish_reason")
        case .messageInterrupted(_, let reason): return tooLong(reason, "reason")
        case .reactionSet(_, let emoji, _): return 1...64 ~= emoji.utf8.count ? nil : Refusal(.malformed, "emoji")
        case .preferenceSet(let key, let value):
            return 1...64 ~= key.utf8.count ? tooLong(value, "value") : Refusal(.malformed, "key")
        case .custom(let name, let payload):
            guard 1...255 ~= name.utf8.count else { return Refusal(.malformed, "name") }
            return payload.count > EventLimits.eventBytesMax ? Refusal(.tooLarge, "payload") : nil
        case .participantJoined, .participantLeft, .messageDeleted, .receiptDelivered, .receiptRead: return nil
        case .unknown: return Refusal(.malformed, "type")
        }
    }

    /// Decides by content. `state` is the conversation's log, `nil` if it has no events.
    static func decide(_ event: Event, _ state: LogState?, _ past: some Past, asksParticipation: Bool = true) throws -> Decision {
        if case .conversationCreated(let kind, let title, let participants) = event.content {
            guard let state, state.row.seq > 0 else { return .accept(targetSeq: 0) }
            // Who made it takes part, or took part once. Of others' nothing is read: what cannot be would tell a stranger that it is there.
            guard let author = state.person(event.author), state.row.people[author].hasTakenPart else { return .refuse(Refusal(.conversationConflict)) }
            guard let first = try past.event(of: state, at: 1), case .conversationCreated(let oldKind, let oldTitle, let old) = first.event.content else {
                return .refuse(Refusal(.conversationConflict))
            }
            let isSame =
                kind == oldKind && equalBytes(title, oldTitle) && event.author == first.event.author && Set(participants) == Set(old)
            return isSame || first.isErased ? .duplicate(1) : .refuse(Refusal(.conversationConflict))
        }
        guard let state, state.row.seq > 0 else { return .refuse(Refusal(.unknownConversation)) }
        let author = state.person(event.author)
        let person = author.map { state.row.people[$0] }
        let isParticipant = !asksParticipation || (person?.joinedSeq ?? 0) != 0
        let mayRepeat = person?.hasTakenPart ?? false

        func known(_ id: MessageID) throws -> LogState.Message? { try state.message(id, past) }
        let notParticipant = Decision.refuse(Refusal(.notParticipant))
        let unknown = Decision.refuse(Refusal(.unknownMessage))

        switch event.content {
        case .participantLeft(let user):
            let other = state.person(user).map { state.row.people[$0] }
            if mayRepeat, let other, other.leftSeq != 0, other.joinedSeq == 0 { return .duplicate(other.leftSeq) }
            guard isParticipant else { return notParticipant }
            return other.map { $0.joinedSeq != 0 } ?? false ? .accept(targetSeq: 0) : .refuse(Refusal(.notParticipant, "user"))
        case .participantJoined(let user):
            guard isParticipant else { return notParticipant }
            if let other = state.person(user), state.row.people[other].joinedSeq != 0 { return .duplicate(state.row.people[other].joinedSeq) }
            return state.row.participants < EventLimits.participantsMax ? .accept(targetSeq: 0) : .refuse(Refusal(.tooLarge, "participants"))
        case .messageSent(let message):
            guard mayRepeat else { return notParticipant }
            let old = try known(message.id)
            if let old, let recorded = try past.event(of: state, at: old.seq), repeats(message, by: event.author, recorded) { return .duplicate(old.seq) }
            guard isParticipant else { return notParticipant }
            guard old == nil else { return .refuse(Refusal(.messageConflict)) }
            guard let target = message.replyTo else { return .accept(targetSeq: 0) }
            guard let replied = try known(target) else { return .refuse(Refusal(.unknownMessage, "reply_to")) }
            return .accept(targetSeq: replied.seq)
        case .chunkAppended(let id, let index, let text):
            guard mayRepeat else { return notParticipant }
            let message = try known(id)
            let isAuthor = message.map { Int($0.author) == author } ?? false
            if let message, isAuthor, index < message.chunks {
                return .duplicate(try past.chunkSeq(of: state, target: message.seq, index: index) ?? message.seq)
            }
            guard isParticipant else { return notParticipant }
            guard let message else { return unknown }
            guard isAuthor else { return .refuse(Refusal(.notAuthor)) }
            guard message.isStreaming, message.closed == .open, message.deletedSeq == 0 else { return .refuse(Refusal(.messageClosed)) }
            guard index == message.chunks else { return .refuse(Refusal(.chunkGap, String(message.chunks))) }
            guard message.joinedBytes + text.utf8.count <= EventLimits.joinedBytesMax else { return .refuse(Refusal(.tooLarge, "joined text")) }
            return .accept(targetSeq: message.seq)
        case .messageCompleted(let id, _, _):
            guard mayRepeat else { return notParticipant }
            let message = try known(id)
            let isAuthor = message.map { Int($0.author) == author } ?? false
            if let message, isAuthor, message.closed == .completed { return .duplicate(message.closedSeq) }
            guard isParticipant else { return notParticipant }
            guard let message else { return unknown }
            guard isAuthor else { return .refuse(Refusal(.notAuthor)) }
            return close(message)
        case .messageInterrupted(let id, _):
            guard mayRepeat else { return notParticipant }
            let message = try known(id)
            if let message, message.closed == .interrupted { return .duplicate(message.closedSeq) }
            guard isParticipant else { return notParticipant }
            guard let message else { return unknown }
            return close(message)
        case .messageEdited(let id, _):
            guard isParticipant else { return notParticipant }
            guard let message = try known(id) else { return unknown }
            guard Int(message.author) == author else { return .refuse(Refusal(.notAuthor)) }
            guard message.deletedSeq == 0 else { return .refuse(Refusal(.messageDeleted)) }
            guard !message.isStreaming || message.closed != .open else { return .refuse(Refusal(.messageStreaming)) }
            return .accept(targetSeq: message.seq)
        case .messageDeleted(let id):
            guard mayRepeat else { return notParticipant }
            let message = try known(id)
            let isAuthor = message.map { Int($0.author) == author } ?? false
            if let message, isAuthor, message.deletedSeq != 0 { return .duplicate(message.deletedSeq) }
            guard isParticipant else { return notParticipant }
            guard let message else { return unknown }
            return isAuthor ? .accept(targetSeq: message.seq) : .refuse(Refusal(.notAuthor))
        case .reactionSet(let id, _, _):
            guard isParticipant else { return notParticipant }
            guard let message = try known(id) else { return unknown }
            return message.deletedSeq == 0 ? .accept(targetSeq: message.seq) : .refuse(Refusal(.messageDeleted))
        case .receiptDelivered(let id):
            guard isParticipant, let person else { return notParticipant }
            guard let message = try known(id) else { return unknown }
            return message.seq <= person.deliveredTo ? .duplicate(person.deliveredSeq) : .accept(targetSeq: message.seq)
        case .receiptRead(let id):
            guard isParticipant, let person else { return notParticipant }
            guard let message = try known(id) else { return unknown }
            return message.seq <= person.readTo ? .duplicate(person.readSeq) : .accept(targetSeq: message.seq)
        case .conversationUpdated, .preferenceSet, .custom:
            return isParticipant ? .accept(targetSeq: 0) : notParticipant
        case .conversationCreated, .unknown:
            return .refuse(Refusal(.malformed, "type"))
        }
    }

    private static func close(_ message: LogState.Message) -> Decision {
        let isOpen = message.isStreaming && message.closed == .open && message.deletedSeq == 0
        return isOpen ? .accept(targetSeq: message.seq) : .refuse(Refusal(.messageClosed))
    }

    /// Whether a message was sent before with just this content. An erased text can no longer tell; its sender's word is taken.
    private static func repeats(_ message: Event.Message, by author: UserID, _ recorded: RecordedEvent) -> Bool {
        guard case .messageSent(let old) = recorded.event.content, recorded.event.author == author else { return false }
        return recorded.isErased || message.repeats(old)
    }
}

extension Event.Message {
    /// Whether it says just what another of its id did, as far as a hub compares them.
    package func repeats(_ old: Self) -> Bool {
        old.role == role && equalBytes(old.text, text) && old.isStreaming == isStreaming && old.replyTo == replyTo && equalBytes(old.parts, parts)
    }
}

func equalBytes(_ left: String?, _ right: String?) -> Bool {
    switch (left, right) {
    case (nil, nil): true
    case (let left?, let right?): left.utf8.count == right.utf8.count && compareBytes(left, right) == 0
    default: false
    }
}
