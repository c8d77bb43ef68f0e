import EventLog

/// An event as a compact binary value; conversation and seq are in the key.
enum RocksEvent {
    static func encode(_ item: Item, _ position: Position, _ fields: inout EventFields, into value: inout [UInt8]) throws {
        try fields.fill(item.event.content)
        value.appendVarint(position)
        value.appendVarint(item.milliseconds)
        value.append(UInt8(truncatingIfNeeded: item.event.content.kind?.rawValue ?? 0))
        value.append(
            (fields.message == nil ? 0 : 1) | (fields.number == nil ? 0 : 2) | (fields.reply == nil ? 0 : 4) | (fields.text == nil ? 0 : 8))
        value.appendText(item.event.author.string)
        if let message = fields.message { value.appendID(message) }
        if let number = fields.number { value.appendVarint(number) }
        if let reply = fields.reply { value.appendID(reply) }
        if let text = fields.text { value.appendText(text) }
        value.append(contentsOf: fields.rest)
    }

    static func decode(
        _ reader: RowReader, in conversation: ConversationID, _ fields: inout EventFields
    ) throws -> (position: Position, item: Item) {
        var reader = reader
        let (position, milliseconds) = (try reader.varint(), try reader.varint())
        guard let kind = Event.Kind(rawValue: UInt32(try reader.byte())) else { throw EngineError("damaged row") }
        let flags = try reader.byte()
        let author = try reader.user()
        fields.message = flags & 1 != 0 ? try reader.id() : nil
        fields.number = flags & 2 != 0 ? try reader.varint() : nil
        fields.reply = flags & 4 != 0 ? try reader.id() : nil
        fields.text = flags & 8 != 0 ? try reader.text() : nil
        fields.rest.removeAll(keepingCapacity: true)
        fields.rest.append(contentsOf: reader.rest())
        let event = Event(conversation: conversation, author: author, content: try fields.content(kind))
        return (position, Item(event: event, milliseconds: milliseconds))
    }
}
