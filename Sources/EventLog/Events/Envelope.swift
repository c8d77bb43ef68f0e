/// What stays of an event if its text is erased (docs/FORMAT.md, "Event").
package struct Envelope: Hashable, Sendable {
    package var log: LogID
    package var seq: Seq
    package var origin: Origin
    package var hlc: HLC
    package var author: UserID
    package var kind: UInt32
    package var message: MessageID?
    package var chunkIndex: UInt32
    /// 0 if the event points at nothing.
    package var targetSeq: Seq
    package var replyTo: MessageID?
    /// Fields that a newer version added, byte for byte.
    package var extra: [UInt8] = []

    package init(
        log: LogID, seq: Seq, origin: Origin, hlc: HLC, author: UserID, kind: UInt32, message: MessageID? = nil, chunkIndex: UInt32 = 0,
        targetSeq: Seq = 0, replyTo: MessageID? = nil, extra: [UInt8] = []
    ) {
        self.log = log
        self.seq = seq
        self.origin = origin
        self.hlc = hlc
        self.author = author
        self.kind = kind
        self.message = message
        self.chunkIndex = chunkIndex
        self.targetSeq = targetSeq
        self.replyTo = replyTo
        self.extra = extra
    }
}

extension Envelope {
    /// Field numbers in docs/convstore.proto.
    enum Field {
        static let conversation = 1, user = 2, seq = 3, replica = 4, counter = 5, originHLC = 6, hlc = 7, author = 8, kind = 9,
            message = 10, chunkIndex = 11
        static let targetSeq = 12, replyTo = 13
    }

    /// Appends the canonical bytes: fields ascending, minimal varints, defaults left out.
    package func encode(into out: inout ByteBuffer) {
        Self.encode(
            log: log, seq: seq, origin: origin, hlc: hlc, author: author, kind: kind, message: message, chunkIndex: chunkIndex, targetSeq: targetSeq,
            replyTo: replyTo, into: &out)
        out.put(extra)
    }

    /// The same of fields that are no envelope yet, and of none that a newer version added: making one of each event of a run is dear.
    static func encode(
        log: borrowing LogID, seq: Seq, origin: Origin, hlc: HLC, author: borrowing UserID, kind: UInt32, message: MessageID?, chunkIndex: UInt32,
        targetSeq: Seq, replyTo: MessageID?, into out: inout ByteBuffer
    ) {
        out.reserve(160)
        switch log {
        case .conversation(let id):
            out.put(byte: 1 << 3 | 2)
            out.put(byte: 16)
            out.put(id)
        case .user(let user):
            out.put(byte: 2 << 3 | 2)
            out.put(lengthOf: user.string)
        }
        if seq != 0 {
            out.put(byte: 3 << 3)
            out.put(varint: seq)
        }
        out.put(byte: 4 << 3 | 2)
        out.put(byte: 16)
        out.put(origin.replica)
        if origin.counter != 0 {
            out.put(byte: 5 << 3)
            out.put(varint: origin.counter)
        }
        if origin.hlc.rawValue != 0 {
            out.put(byte: 6 << 3 | 1)
            out.put(fixed64: origin.hlc.rawValue)
        }
        if hlc.rawValue != 0 {
            out.put(byte: 7 << 3 | 1)
            out.put(fixed64: hlc.rawValue)
        }
        out.put(byte: 8 << 3 | 2)
        out.put(lengthOf: author.string)
        if kind != 0 {
            out.put(byte: 9 << 3)
            out.put(varint: UInt64(kind))
        }
        if let message {
            out.put(byte: 10 << 3 | 2)
            out.put(byte: 16)
            out.put(message)
        }
        if chunkIndex != 0 {
            out.put(byte: 11 << 3)
            out.put(varint: UInt64(chunkIndex))
        }
        if targetSeq != 0 {
            out.put(byte: 12 << 3)
            out.put(varint: targetSeq)
        }
        if let replyTo {
            out.put(byte: 13 << 3 | 2)
            out.put(byte: 16)
            out.put(replyTo)
        }
    }

    /// Reads canonical bytes; anything else is refused.
    package init(canonical bytes: UnsafeRawBufferPointer) throws(CodecError) {
        try self.init(canonical: bytes) { bytes throws(CodecError) in
            guard let user = UserID(try text(of: bytes)) else { throw CodecError(.badValue) }
            return user
        }
    }

    /// Reads canonical bytes; the author is whom the closure makes of the name's bytes.
    @inline(__always)
    init(
        canonical bytes: UnsafeRawBufferPointer, authorOf makeAuthor: (UnsafeRawBufferPointer) throws(CodecError) -> UserID
    ) throws(CodecError) {
        var reader = ByteReader(bytes)
        var log: LogID?
        var seq: UInt64 = 0
        var replica: ReplicaID?
        var counter: UInt64 = 0
        var originHLC: UInt64 = 0
        var hlc: UInt64 = 0
        var author: UserID?
        var kind: UInt32 = 0
        var message: MessageID?
        var chunkIndex: UInt32 = 0
        var targetSeq: UInt64 = 0
        var replyTo: MessageID?
        var extra: [UInt8] = []
        var last = 0
        func nonzero(_ value: UInt64) throws(CodecError) -> UInt64 {
            guard value != 0 else { throw CodecError(.notCanonical) }
            return value
        }
        while !reader.isAtEnd {
            let start = reader.offset
            let tag = try reader.varint()
            let field = Int(clamping: tag >> 3)
            guard field > last else { throw CodecError(.notCanonical) }
            last = field
            switch tag {
            case UInt64(Field.conversation) << 3 | 2:
                log = .conversation(try reader.lengthPrefixedIdentifier())
            case UInt64(Field.user) << 3 | 2:
                guard log == nil else { throw CodecError(.badField) }
                log = .user(try reader.user())
            case UInt64(Field.seq) << 3: seq = try nonzero(reader.varint())
            case UInt64(Field.replica) << 3 | 2: replica = try reader.lengthPrefixedIdentifier()
            case UInt64(Field.counter) << 3: counter = try nonzero(reader.varint())
            case UInt64(Field.originHLC) << 3 | 1: originHLC = try nonzero(reader.fixed64())
            case UInt64(Field.hlc) << 3 | 1: hlc = try nonzero(reader.fixed64())
            case UInt64(Field.author) << 3 | 2: author = try makeAuthor(reader.lengthPrefixed())
            case UInt64(Field.kind) << 3:
                guard let value = UInt32(exactly: try nonzero(reader.varint())) else { throw CodecError(.badValue) }
                kind = value
            case UInt64(Field.message) << 3 | 2: message = try reader.lengthPrefixedIdentifier()
            case UInt64(Field.chunkIndex) << 3:
                guard let value = UInt32(exactly: try nonzero(reader.varint())) else { throw CodecError(.badValue) }
                chunkIndex = value
            case UInt64(Field.targetSeq) << 3: targetSeq = try nonzero(reader.varint())
            case UInt64(Field.replyTo) << 3 | 2: replyTo = try reader.lengthPrefixedIdentifier()
            default:
                guard field > Field.replyTo else { throw CodecError(.badField) }
                try reader.skip(tag: tag)
                extra.append(contentsOf: bytes[start..<reader.offset])
            }
        }
        guard let log, let replica, let author, kind != 0 else { throw CodecError(.badField) }
        self.init(
            log: log, seq: seq, origin: Origin(replica: replica, counter: counter, hlc: HLC(rawValue: originHLC)), hlc: HLC(rawValue: hlc),
            author: author,
            kind: kind, message: message, chunkIndex: chunkIndex, targetSeq: targetSeq, replyTo: replyTo, extra: extra)
    }
}

extension ByteReader {
    package mutating func lengthPrefixedIdentifier<Tag>() throws(CodecError) -> Identifier<Tag> {
        guard try varint() == 16 else { throw CodecError(.badValue) }
        return try identifier()
    }

    /// Skips a field of a newer version.
    package mutating func skip(tag: UInt64) throws(CodecError) {
        guard tag >> 3 >= 1, tag >> 3 < 1 << 29 else { throw CodecError(.badField) }
        switch tag & 7 {
        case 0: _ = try varint()
        case 1: _ = try fixed64()
        case 2: _ = try lengthPrefixed()
        case 5: _ = try fixed32()
        default: throw CodecError(.badField)
        }
    }
}
