import EventLog

/// A record as a compact binary value: flags for what it has, then numbers as varints and texts with their lengths.
protocol RecordCodec {
    func encode(into value: inout [UInt8])
    init(from reader: inout RowReader) throws
}

extension RecordCodec {
    init(_ bytes: UnsafeRawBufferPointer) throws {
        var reader = RowReader(bytes)
        try self.init(from: &reader)
    }
}

extension ConversationRecord: RecordCodec {
    /// The order stands first: a lobby reads it of all conversations and the rest of a page's.
    func encode(into value: inout [UInt8]) {
        value.appendVarint(order)
        value.append((title == nil ? 0 : 1) | (titleStamp == nil ? 0 : 2) | (hasReceipts ? 4 : 0) | (last == nil ? 0 : 8))
        value.append(kind.rawValue)
        if let title { value.appendText(title) }
        if let titleStamp { value.append(titleStamp) }
        value.appendVarint(seq)
        value.appendVarint(messages)
        value.appendVarint(deleted)
        guard let last else { return }
        value.appendID(last.id)
        value.appendVarint(last.seq)
        value.appendText(last.author.string)
        value.append(last.role.rawValue | last.state.rawValue << 4)
        value.appendVarint(last.sentAt)
        value.appendText(last.snippet)
    }

    init(from reader: inout RowReader) throws {
        let order = try reader.varint()
        let flags = try reader.byte()
        guard let kind = Event.ConversationKind(rawValue: try reader.byte()) else { throw EngineError("damaged row") }
        let title = flags & 1 != 0 ? try reader.text() : nil
        let stamp = flags & 2 != 0 ? try reader.stamp() : nil
        self.init(
            kind: kind, title: title, titleStamp: stamp, seq: try reader.varint(), messages: try reader.varint(), deleted: try reader.varint(),
            order: order, hasReceipts: flags & 4 != 0)
        guard flags & 8 != 0 else { return }
        let (id, seq, author): (MessageID, Seq, UserID) = (try reader.id(), try reader.varint(), try reader.user())
        let (role, state) = try reader.roleAndState()
        last = LastMessage(
            id: id, seq: seq, author: author, role: role, state: state, sentAt: try reader.varint(), snippet: try reader.text())
    }
}

extension MessageRecord: RecordCodec {
    /// The seq is in the key.
    func encode(into value: inout [UInt8]) {
        value.append(
            (isEdited ? 1 : 0) | (replyTo == nil ? 0 : 2) | (finishReason == nil ? 0 : 4) | (interruptedReason == nil ? 0 : 8)
                | (textStamp == nil ? 0 : 16) | (reactions.isEmpty ? 0 : 32) | (chunks == 0 ? 0 : 64))
        value.append(role.rawValue | state.rawValue << 4)
        value.appendID(id)
        value.appendVarint(ordinal)
        value.appendText(author.string)
        value.appendVarint(sentAt)
        value.appendText(text)
        if chunks > 0 { value.appendVarint(UInt64(chunks)) }
        if let replyTo { value.appendID(replyTo) }
        if let finishReason { value.appendText(finishReason) }
        if let interruptedReason { value.appendText(interruptedReason) }
        if let textStamp { value.append(textStamp) }
        guard !reactions.isEmpty else { return }
        value.appendVarint(UInt64(reactions.count))
        for register in reactions {
            value.appendText(register.emoji)
            value.appendText(register.user.string)
            value.append(register.isOn ? 1 : 0)
            value.append(register.stamp)
        }
    }

    init(from reader: inout RowReader) throws {
        let flags = try reader.byte()
        let (role, state) = try reader.roleAndState()
        let (id, ordinal, author): (MessageID, UInt64, UserID) = (try reader.id(), try reader.varint(), try reader.user())
        let (sentAt, text) = (try reader.varint(), try reader.text())
        self.init(id: id, seq: 0, ordinal: ordinal, author: author, role: role, text: text, state: state, sentAt: sentAt)
        isEdited = flags & 1 != 0
        if flags & 64 != 0 { chunks = UInt32(truncatingIfNeeded: try reader.varint()) }
        if flags & 2 != 0 { replyTo = try reader.id() }
        if flags & 4 != 0 { finishReason = try reader.text() }
        if flags & 8 != 0 { interruptedReason = try reader.text() }
        if flags & 16 != 0 { textStamp = try reader.stamp() }
        guard flags & 32 != 0 else { return }
        hasReactions = true
        for _ in 0..<(try reader.varint()) {
            let (emoji, user, isOn) = (try reader.text(), try reader.user(), try reader.byte() == 1)
            reactions.append(ReactionRegister(emoji: emoji, user: user, isOn: isOn, stamp: try reader.stamp()))
        }
    }
}

extension MemberRecord: RecordCodec {
    func encode(into value: inout [UInt8]) {
        value.append(isActive ? 1 : 0)
        value.appendVarint(mark)
        value.appendVarint(ordinal)
        for register in preferences {
            value.appendText(register.key)
            value.append(register.value == nil ? 0 : 1)
            if let set = register.value { value.appendText(set) }
            value.append(register.stamp)
        }
    }

    init(from reader: inout RowReader) throws {
        self.init(isActive: try reader.byte() == 1, mark: try reader.varint(), ordinal: try reader.varint())
        while !reader.isAtEnd {
            let key = try reader.text()
            let value = try reader.byte() == 1 ? try reader.text() : nil
            preferences.append(PreferenceRegister(key: key, value: value, stamp: try reader.stamp()))
        }
    }
}

extension ReceiptRecord: RecordCodec {
    func encode(into value: inout [UInt8]) {
        value.appendVarint(delivered)
        value.appendVarint(read)
    }

    init(from reader: inout RowReader) throws { self.init(delivered: try reader.varint(), read: try reader.varint()) }
}

extension [UInt8] {
    fileprivate mutating func append(_ stamp: Stamp) {
        appendVarint(stamp.time)
        appendVarint(stamp.position)
    }
}

extension RowReader {
    fileprivate mutating func stamp() throws -> Stamp { Stamp(time: try varint(), position: try varint()) }

    fileprivate mutating func roleAndState() throws -> (Event.Role, MessageState) {
        let byte = try byte()
        guard let role = Event.Role(rawValue: byte & 15), let state = MessageState(rawValue: byte >> 4) else { throw EngineError("damaged row") }
        return (role, state)
    }
}
