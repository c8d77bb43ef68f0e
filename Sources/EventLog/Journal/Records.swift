/// A submission that appended nothing, but must get the same answer again: a refusal, or a duplicate (`refusal` is `nil`).
struct MarkRecord {
    var log: LogID
    var replica: ReplicaID
    var counter: UInt64
    /// `nil`: a duplicate of which the event's content tells of what.
    var answer: LogRow.Answer?

    init(log: LogID, replica: ReplicaID, counter: UInt64, answer: LogRow.Answer?) {
        self.log = log
        self.replica = replica
        self.counter = counter
        self.answer = answer
    }

    init(decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        log = try reader.log()
        replica = try reader.identifier()
        counter = try reader.varint()
        answer = try LogRow.Answer.decode(&reader)
        guard reader.isAtEnd else { throw CodecError(.badValue) }
    }

    func encode(into out: inout ByteBuffer) {
        out.put(log)
        out.put(replica)
        out.put(varint: counter)
        guard let answer else {
            out.put(byte: LogRow.Answer.duplicateCode)
            return out.put(lengthOf: "")
        }
        answer.encode(into: &out)
    }
}

/// The secret of a log that came from elsewhere, wrapped by the store key.
struct SecretRecord {
    var log: LogID
    var wrapped: [UInt8]

    init(log: LogID, wrapped: [UInt8]) {
        self.log = log
        self.wrapped = wrapped
    }

    init(decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        log = try reader.log()
        wrapped = Array(try reader.take(reader.remaining))
    }

    func encode(into out: inout ByteBuffer) {
        out.put(log)
        out.put(wrapped)
    }
}

extension ByteBuffer {
    mutating func put(_ log: LogID) {
        switch log {
        case .conversation(let id):
            put(byte: 0)
            put(id)
        case .user(let user):
            put(byte: 1)
            put(lengthOf: user.string)
        }
    }
}

extension ByteReader {
    mutating func log() throws(CodecError) -> LogID {
        switch try byte() {
        case 0: return .conversation(try identifier())
        case 1: return .user(try user())
        default: throw CodecError(.badValue)
        }
    }
}

/// A frame in the making: its bytes, and where its events lie.
struct FrameBuilder: ~Copyable {
    struct Mark {
        fileprivate var bytes: Int
        fileprivate var items: Int
        fileprivate var others: Int
    }

    var bytes: ByteBuffer
    private(set) var items: [TailFrame.Item] = []
    private(set) var others: [(kind: UInt8, range: Range<Int>, before: Int)] = []
    private var envelope = ByteBuffer(capacity: 512)
    private var body = ByteBuffer(capacity: 4096)

    init() {
        bytes = ByteBuffer(capacity: 1 << 16)
        begin()
    }

    mutating func begin() {
        bytes.removeAll()
        for _ in 0..<Frame.headerBytes { bytes.put(byte: 0) }
        items.removeAll(keepingCapacity: true)
        others.removeAll(keepingCapacity: true)
    }

    var isEmpty: Bool { items.isEmpty && others.isEmpty }
    var payloadBytes: Int { bytes.count - Frame.headerBytes }
    var mark: Mark { Mark(bytes: bytes.count, items: items.count, others: others.count) }

    mutating func reset(to mark: Mark) {
        bytes.truncate(to: mark.bytes)
        items.removeLast(items.count - mark.items)
        others.removeLast(others.count - mark.others)
    }

    /// Puts an event, or what is left of one whose body was erased.
    mutating func put(_ envelope: Envelope, _ event: Event, _ newer: NewerFields? = nil, erased commitment: Hash256? = nil) {
        self.envelope.removeAll()
        body.removeAll()
        envelope.encode(into: &self.envelope)
        if let commitment {
            commitment.withUnsafeBytes { body.put($0) }
        } else {
            event.encodeBody(into: &body)
            if let newer { body.put(newer.body) }
        }
        bytes.put(byte: commitment == nil ? TailFrame.Record.event : TailFrame.Record.erased)
        bytes.put(varint: UInt64(self.envelope.count))
        let start = payloadBytes
        bytes.put(self.envelope.bytes)
        let middle = payloadBytes
        bytes.put(varint: UInt64(body.count))
        let bodyStart = payloadBytes
        bytes.put(body.bytes)
        items.append(TailFrame.Item(envelope: start..<middle, body: bodyStart..<payloadBytes, isErased: commitment != nil))
    }

    mutating func put(_ mark: MarkRecord) {
        body.removeAll()
        mark.encode(into: &body)
        putOther(TailFrame.Record.refusal)
    }

    mutating func put(_ secret: SecretRecord) {
        body.removeAll()
        secret.encode(into: &body)
        putOther(TailFrame.Record.secret)
    }

    private mutating func putOther(_ kind: UInt8) {
        bytes.put(byte: kind)
        bytes.put(varint: UInt64(body.count))
        let start = payloadBytes
        bytes.put(body.bytes)
        others.append((kind, start..<payloadBytes, items.count))
    }

    /// The events from the so-many-eth on as they stand, for readers. Those before are not copied again.
    func tailPiece(from first: Int, firstPosition: Position) -> TailFrame {
        let start = items[first].envelope.lowerBound
        let rest = items[first...].map { item in
            TailFrame.Item(
                envelope: item.envelope.lowerBound - start..<item.envelope.upperBound - start,
                body: item.body.lowerBound - start..<item.body.upperBound - start,
                isErased: item.isErased)
        }
        return TailFrame(
            UnsafeRawBufferPointer(rebasing: bytes.bytes[(Frame.headerBytes + start)..<bytes.count]), number: 0, firstPosition: firstPosition, items: rest,
            others: [],
            memory: nil)
    }

    /// The payload as it stands, for readers.
    func tailFrame(number: UInt64, firstPosition: Position, in memory: FrameMemory? = nil) -> TailFrame {
        TailFrame(
            UnsafeRawBufferPointer(rebasing: bytes.bytes[Frame.headerBytes..<bytes.count]), number: number, firstPosition: firstPosition, items: items,
            others: others, memory: memory)
    }
}
