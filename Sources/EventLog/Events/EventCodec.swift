/// The canonical encoding of an event: Protocol Buffers wire format, as docs/convstore.proto describes it, in one form only.
public enum EventCodec {
    /// Encodes both parts: the envelope, which stays for ever, and the body, which can be erased.
    public static func encode(_ recorded: RecordedEvent) -> (envelope: [UInt8], body: [UInt8]) {
        var envelope = ByteBuffer()
        var body = ByteBuffer()
        Envelope(recorded).encode(into: &envelope)
        recorded.encodeBody(into: &body)
        return (envelope.array(), body.array())
    }

    /// Decodes both parts, and refuses bytes that are not the canonical form of what they say. Position is the store's own: it comes from outside.
    public static func decode(envelope: [UInt8], body: [UInt8], position: Position = 0) throws -> RecordedEvent {
        guard envelope.count + body.count <= EventLimits.eventBytesMax + 4096 else { throw CodecError(.tooLarge) }
        return try decode(envelope: envelope, body: body, position: position, commitment: nil)
    }

    /// The same for an event whose body was erased: what is left of it, and the commitment to what it was.
    package static func decode(envelope: [UInt8], commitment: Hash256) throws -> RecordedEvent {
        try decode(envelope: envelope, body: [], position: 0, commitment: commitment)
    }

    private static func decode(envelope: [UInt8], body: [UInt8], position: Position, commitment: Hash256?) throws -> RecordedEvent {
        let isErased = commitment != nil
        return try envelope.withUnsafeBytes { envelopeBytes in
            try body.withUnsafeBytes { bodyBytes in
                let parsed = try Envelope(canonical: envelopeBytes)
                var copy = ByteBuffer()
                parsed.encode(into: &copy)
                guard copy.count == envelopeBytes.count, copy.bytes.isEqual(to: envelopeBytes) else { throw CodecError(.notCanonical) }
                let event = try Event(envelope: parsed, body: BodyParts(body: bodyBytes), isErased: isErased)
                let references = event.references
                guard Event.Kind(rawValue: parsed.kind) == nil || references == (parsed.message, parsed.chunkIndex, parsed.replyTo) else {
                    throw CodecError(.badField)
                }
                guard event.log == parsed.log || event.content.kind == nil else { throw CodecError(.badField) }
                if !isErased {
                    copy.removeAll()
                    event.encodeBody(into: &copy)
                    try checkCanonical(body: bodyBytes, known: copy.bytes)
                }
                return RecordedEvent(
                    log: parsed.log, seq: parsed.seq, position: position, origin: parsed.origin, hlc: parsed.hlc, event: event,
                    targetSeq: parsed.targetSeq == 0 ? nil : parsed.targetSeq, isErased: isErased, commitment: commitment,
                    newer: .of(parsed, isErased ? nil : BodyParts(body: bodyBytes)))
            }
        }
    }

    /// The body must be just the known fields, then whole fields of newer versions, ascending.
    static func checkCanonical(body: UnsafeRawBufferPointer, known: UnsafeRawBufferPointer) throws {
        guard body.count >= known.count, known.isEqual(to: body) else {
            throw CodecError(.notCanonical)
        }
        var reader = ByteReader(body)
        reader.offset = known.count
        var last = BodyParts.knownFieldMax
        while !reader.isAtEnd {
            let tag = try reader.varint()
            guard tag >> 3 > last else { throw CodecError(.notCanonical) }
            last = tag >> 3
            try reader.skip(tag: tag)
        }
    }
}

extension Envelope {
    package init(_ recorded: RecordedEvent) {
        var references = recorded.event.references
        if let newer = recorded.newer, recorded.event.content.kind == nil { references = (newer.message, newer.chunkIndex, newer.replyTo) }
        self.init(
            log: recorded.log, seq: recorded.seq, origin: recorded.origin, hlc: recorded.hlc, author: recorded.event.author,
            kind: recorded.event.kindNumber, message: references.message, chunkIndex: references.chunkIndex, targetSeq: recorded.targetSeq ?? 0,
            replyTo: references.replyTo, extra: recorded.newer?.envelope ?? [])
    }
}
