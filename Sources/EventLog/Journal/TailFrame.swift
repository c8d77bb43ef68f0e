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

    /// Where an event lies in the payload, of which the frame's header says in 32 bits how long it is.
    struct Item: Sendable {
        private let envelopeStart, envelopeEnd, bodyStart, bodyEnd: UInt32
        /// Whether `body` is the commitment to an erased body.
        let isErased: Bool

        init(envelope: Range<Int>, body: Range<Int>, isErased: Bool) {
            envelopeStart = UInt32(envelope.lowerBound)
            envelopeEnd = UInt32(envelope.upperBound)
            bodyStart = UInt32(body.lowerBound)
            bodyEnd = UInt32(body.upperBound)
            self.isErased = isErased
        }

        var envelope: Range<Int> { Int(envelopeStart)..<Int(envelopeEnd) }
        var body: Range<Int> { Int(bodyStart)..<Int(bodyEnd) }
    }

    /// Valid as long as the frame is.
    let bytes: UnsafeRawBufferPointer
    /// The memory that they lie in, and where it came from.
    private let block: UnsafeMutableRawBufferPointer
    private let memory: FrameMemory?
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
        (block, memory) = (.allocate(byteCount: max(source.count, 1), alignment: 16), nil)
        bytes = Self.copy(source, to: block)
        self.number = number
        self.firstPosition = firstPosition
        self.items = items
        self.others = others
    }

    /// A frame that the writer has just made, whose places it knows.
    init(
        _ source: UnsafeRawBufferPointer, number: UInt64, firstPosition: Position, items: [Item],
        others: [(kind: UInt8, range: Range<Int>, before: Int)], memory: FrameMemory?
    ) {
        block = memory?.take(source.count) ?? .allocate(byteCount: max(source.count, 1), alignment: 16)
        self.memory = memory
        bytes = Self.copy(source, to: block)
        self.number = number
        self.firstPosition = firstPosition
        self.items = items
        self.others = others
    }

    /// The last event's position; the one before the first if there are none.
    var lastPosition: Position { firstPosition + Position(items.count) - 1 }

    deinit { if let memory { memory.giveBack(block) } else { block.deallocate() } }

    private static func copy(_ source: UnsafeRawBufferPointer, to target: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
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
