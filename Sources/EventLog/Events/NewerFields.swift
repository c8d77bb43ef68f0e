/// What a newer version says in an event, beside the fields that this one reads: kept, hashed and given on byte for byte by one that does not know them.
///
/// An object, as hardly any event has it: those that have not pay for one reference.
package final class NewerFields: Hashable, Sendable {
    /// Behind the envelope's known fields.
    let envelope: [UInt8]
    /// Behind the body's known fields; empty once the body is erased.
    let body: [UInt8]

    /// References of an event whose kind is not known, so that its content does not have them.
    let message: MessageID?
    let chunkIndex: UInt32
    let replyTo: MessageID?

    private init(_ parsed: Envelope, _ body: [UInt8], hasReferences: Bool) {
        envelope = parsed.extra
        self.body = body
        message = hasReferences ? parsed.message : nil
        chunkIndex = hasReferences ? parsed.chunkIndex : 0
        replyTo = hasReferences ? parsed.replyTo : nil
    }

    /// `nil`, as of nearly every event: there is nothing. Of an erased event there is no body.
    static func of(_ envelope: Envelope, _ body: BodyParts?) -> NewerFields? {
        let isUnknown = Event.Kind(rawValue: envelope.kind) == nil
        let hasReferences = isUnknown && (envelope.message != nil || envelope.chunkIndex != 0 || envelope.replyTo != nil)
        let rest = isUnknown ? [] : body?.newerFields ?? []
        return hasReferences || !envelope.extra.isEmpty || !rest.isEmpty ? NewerFields(envelope, rest, hasReferences: hasReferences) : nil
    }

    var byteCount: Int { envelope.count + body.count }

    package static func == (left: NewerFields, right: NewerFields) -> Bool { left.body == right.body && left.isSameEnvelope(right) }

    func isSameEnvelope(_ other: NewerFields) -> Bool {
        envelope == other.envelope && message == other.message && chunkIndex == other.chunkIndex && replyTo == other.replyTo
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(envelope)
        hasher.combine(body)
    }
}

extension BodyParts {
    /// The greatest field of a body of a known kind; those behind it are a newer version's.
    static let knownFieldMax: UInt64 = 5

    /// The fields of a newer version, in the body of a known kind. (One that is not known keeps its whole body as it is.)
    var newerFields: [UInt8] {
        if rest.isEmpty { return [] }
        var reader = ByteReader(rest)
        while !reader.isAtEnd {
            let start = reader.offset
            guard let tag = try? reader.varint() else { return [] }
            if tag >> 3 > Self.knownFieldMax { return Array(rest[start...]) }
            guard (try? reader.skip(tag: tag)) != nil else { return [] }
        }
        return []
    }
}

extension RecordedEvent {
    /// Appends the body's canonical bytes.
    package func encodeBody(into out: inout ByteBuffer) {
        event.encodeBody(into: &out)
        if let newer { out.put(newer.body) }
    }
}
