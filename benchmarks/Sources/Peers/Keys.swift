import EventLog

/// The keys of the key-value engines, in buffers that are used again. A table each:
///
///     events: conversation seq      -> row
///     order:  position              -> conversation seq
///     ids:    conversation message  -> seq
struct Keys {
    private(set) var event: [UInt8] = []
    private(set) var position: [UInt8] = []
    private(set) var message: [UInt8] = []
    private(set) var seq: [UInt8] = []

    mutating func set(_ conversation: ConversationID, seq: Seq, position at: Position) {
        event.removeAll(keepingCapacity: true)
        event.appendID(conversation)
        event.appendFixed(seq)
        position.removeAll(keepingCapacity: true)
        position.appendFixed(at)
    }

    mutating func set(_ conversation: ConversationID, message id: MessageID, seq at: Seq) {
        message.removeAll(keepingCapacity: true)
        message.appendID(conversation)
        message.appendID(id)
        seq.removeAll(keepingCapacity: true)
        seq.appendFixed(at)
    }

    /// Conversation and seq out of an event's key.
    static func parse(_ key: UnsafeRawBufferPointer) throws -> (ConversationID, Seq) {
        var reader = RowReader(key)
        return (try reader.id(), try reader.fixed())
    }
}
