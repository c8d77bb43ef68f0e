/// A frame's payload in memory: events that the archive does not hold yet, as canonical bytes.
///
/// `@unchecked Sendable`: the bytes are never written after `init`.
final class TailFrame: @unchecked Sendable {
    /// What stands in a payload.
    enum Record {
        static let event: UInt8 = 1
        /// A refusal that its replica must get again.
        static let refusal: UInt8 = 2
        /// A log's secret that came from elsewhere, wrapped by the store key.
        static let secret: UInt8 = 3
        /// An event whose body was erased where it came from: in the body's place stands its commitment.
        static let erased: UInt8 = 4
    }

    struct Item: Sendable {
        var envelope: Range<Int>
        var body: Range<Int>
        /// Whether `body` is the commitment to an erased body.
        var isErased = false
    }

    /// Valid as long as the frame is.
    let bytes: UnsafeRawBufferPointer
    /// The frame's number in the journal.
    let number: UInt64
    let firstPosition: Position
    let items: [Item]
    /// Where the records lie that are no events, and before how many events.
    let others: [(kind: UInt8, range: Range<Int>, before: Int)]

    init(_ source: UnsafeRawBufferPointer, number: UInt64, firstPosition: Position, events: Int) throws {
        // Each record takes three bytes or more: a bad count cannot make us allocate.
        guard events <= source.count / 3 else { throw CodecError(.badValue) }
        var items: [Item] = []
        items.reserveCapacity(events)
        var others: [(kind: UInt8, range: Range<Int>, before: Int)] = []
        var reader = ByteReader(source)
        while !reader.isAtEnd {
            let kind = try reader.byte()
            if kind == Record.event || kind == Record.erased {
                let envelope = Int(clamping: try reader.varint())
                let start = reader.offset
                _ = try reader.take(envelope)
                let body = Int(clamping: try reader.varint())
                let middle = reader.offset
                _ = try reader.take(body)
                guard kind == Record.event || body == Hash256.byteCount else { throw CodecError(.badValue) }
                items.append(Item(envelope: start..<start + envelope, body: middle..<middle + body, isErased: kind == Record.erased))
            } else {
                let length = Int(clamping: try reader.varint())
                let start = reader.offset
                _ = try reader.take(length)
                others.append((kind, start..<start + length, items.count))
            }
        }
        guard items.count == events else { throw CodecError(.badValue) }
        // Copied once it is known to be sound: of a value whose making fails nobody would free the bytes.
        bytes = Self.copy(source)
        self.number = number
        self.firstPosition = firstPosition
        self.items = items
        self.others = others
    }

    /// A frame that the writer has just made, whose places it knows.
    init(
        _ source: UnsafeRawBufferPointer, number: UInt64, firstPosition: Position, items: [Item], others: [(kind: UInt8, range: Range<Int>, before: Int)]
    ) {
        bytes = Self.copy(source)
        self.number = number
        self.firstPosition = firstPosition
        self.items = items
        self.others = others
    }

    /// The last event's position; the one before the first if there are none.
    var lastPosition: Position { firstPosition + Position(items.count) - 1 }

    deinit { bytes.deallocate() }

    private static func copy(_ source: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: max(source.count, 1), alignment: 16)
        target.copyMemory(from: source)
        return UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(target)[..<source.count])
    }

    /// An event's canonical envelope.
    func envelopeBytes(_ index: Int) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[items[index].envelope]) }

    /// An event's canonical body.
    func bodyBytes(_ index: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: items[index].isErased ? bytes[..<0] : bytes[items[index].body])
    }

    /// The commitment to an erased body; `nil` if the body is there.
    func commitment(_ index: Int) -> Hash256? {
        items[index].isErased ? Hash256(UnsafeRawBufferPointer(rebasing: bytes[items[index].body])) : nil
    }

    func other(_ range: Range<Int>) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[range]) }

    func recorded(_ index: Int) throws -> RecordedEvent {
        let envelope = try envelope(index)
        let body = BodyParts(body: bodyBytes(index))
        return RecordedEvent(
            log: envelope.log, seq: envelope.seq, position: firstPosition + Position(index), origin: envelope.origin, hlc: envelope.hlc,
            event: try Event(envelope: envelope, body: body, isErased: items[index].isErased),
            targetSeq: envelope.targetSeq == 0 ? nil : envelope.targetSeq, isErased: items[index].isErased, commitment: commitment(index),
            newer: .of(envelope, items[index].isErased ? nil : body))
    }

    func envelope(_ index: Int) throws -> Envelope { try Envelope(canonical: envelopeBytes(index)) }
}
