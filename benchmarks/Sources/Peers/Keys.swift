import EventLog

/// The keys of the key-value engines, in buffers that are used again. One byte tells the tables apart.
///
///     e conversation seq      -> row
///     o position              -> conversation seq
///     i conversation message  -> seq
struct Keys {
    static let events = UInt8(ascii: "e")
    static let order = UInt8(ascii: "o")
    static let ids = UInt8(ascii: "i")

    private(set) var event: [UInt8] = []
    private(set) var position: [UInt8] = []
    private(set) var message: [UInt8] = []

    mutating func set(_ conversation: ConversationID, seq: Seq, position at: Position, message id: MessageID?) {
        event.removeAll(keepingCapacity: true)
        event.append(Self.events)
        event.appendID(conversation)
        event.appendFixed(seq)
        position.removeAll(keepingCapacity: true)
        position.append(Self.order)
        position.appendFixed(at)
        guard let id else { return }
        message.removeAll(keepingCapacity: true)
        message.append(Self.ids)
        message.appendID(conversation)
        message.appendID(id)
    }

    /// Conversation and seq out of an event's key without its first byte.
    static func parse(_ key: UnsafeRawBufferPointer) throws -> (ConversationID, Seq) {
        var reader = RowReader(key)
        return (try reader.id(), try reader.fixed())
    }
}
