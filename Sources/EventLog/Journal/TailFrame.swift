/// A frame's payload in memory: events that the archive does not hold yet, as canonical bytes.
final class TailFrame: Sendable {
    /// What stands in a payload.
    enum Record {
        static let event: UInt8 = 1
        /// A refusal that its replica must get again.
        static let refusal: UInt8 = 2
        /// A log's secret that came from elsewhere, wrapped by the store key.
        static let secret: UInt8 = 3
    }

    struct Item: Sendable {
        var envelope: Range<Int>
        var body: Range<Int>
    }

    let bytes: [UInt8]
    /// The frame's number in the journal.
    let number: UInt64
    let firstPosition: Position
    let items: [Item]
    /// Where the records lie that are no events, and before how many events.
    let others: [(kind: UInt8, range: Range<Int>, before: Int)]

    init(_ bytes: [UInt8], number: UInt64, firstPosition: Position, events: Int) throws {
        self.bytes = bytes
        self.number = number
        self.firstPosition = firstPosition
        var items: [Item] = []
        items.reserveCapacity(events)
        var others: [(kind: UInt8, range: Range<Int>, before: Int)] = []
        try bytes.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            while !reader.isAtEnd {
                let kind = try reader.byte()
                if kind == Record.event {
                    let envelope = Int(clamping: try reader.varint())
                    let start = reader.offset
                    _ = try reader.take(envelope)
                    let body = Int(clamping: try reader.varint())
                    let middle = reader.offset
                    _ = try reader.take(body)
                    items.append(Item(envelope: start..<start + envelope, body: middle..<middle + body))
                } else {
                    let length = Int(clamping: try reader.varint())
                    let start = reader.offset
                    _ = try reader.take(length)
                    others.append((kind, start..<start + length, items.count))
                }
            }
        }
        guard items.count == events else { throw CodecError(.badValue) }
        self.items = items
        self.others = others
    }

    /// A frame that the writer has just made, whose places it knows.
    init(_ bytes: [UInt8], number: UInt64, firstPosition: Position, items: [Item], others: [(kind: UInt8, range: Range<Int>, before: Int)]) {
        self.bytes = bytes
        self.number = number
        self.firstPosition = firstPosition
        self.items = items
        self.others = others
    }

    /// The last event's position; the one before the first if there are none.
    var lastPosition: Position { firstPosition + Position(items.count) - 1 }

    func withEvent<R>(_ index: Int, _ body: (UnsafeRawBufferPointer, BodyParts) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes { bytes in
            let item = items[index]
            return try body(
                UnsafeRawBufferPointer(rebasing: bytes[item.envelope]), BodyParts(body: UnsafeRawBufferPointer(rebasing: bytes[item.body])))
        }
    }

    func recorded(_ index: Int) throws -> RecordedEvent {
        try withEvent(index) { bytes, body in
            let envelope = try Envelope(canonical: bytes)
            return RecordedEvent(
                log: envelope.log, seq: envelope.seq, position: firstPosition + Position(index), origin: envelope.origin, hlc: envelope.hlc,
                event: try Event(envelope: envelope, body: body), targetSeq: envelope.targetSeq == 0 ? nil : envelope.targetSeq)
        }
    }

    func envelope(_ index: Int) throws -> Envelope {
        try withEvent(index) { bytes, _ in try Envelope(canonical: bytes) }
    }
}
