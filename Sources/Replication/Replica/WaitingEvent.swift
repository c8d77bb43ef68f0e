internal import EventLog

/// An event that stands beside its log, in `ahead`: it was saved from damage; or it has come for what damage took, and waits to be judged with the rest.
struct WaitingEvent {
    var event: RecordedEvent
    /// The log's, with its first event.
    var secret: [UInt8] = []
    var hasCome = false

    private static let come: UInt8 = 2

    static func hasCome(_ value: [UInt8]) -> Bool { value.first == come }

    init(come event: RecordedEvent, secret: [UInt8]) { (self.event, self.secret, hasCome) = (event, secret, true) }

    init(decoding bytes: UnsafeRawBufferPointer) throws {
        guard bytes.first == Self.come else {
            event = try RecordedEvent(kept: bytes)
            return
        }
        hasCome = true
        var reader = ByteReader(bytes)
        _ = try reader.byte()
        secret = Array(try reader.lengthPrefixed())
        event = try Array(reader.take(reader.remaining)).withUnsafeBytes { try RecordedEvent(kept: $0) }
    }

    var encoded: [UInt8] {
        guard hasCome else { return event.kept }
        let kept = event.kept
        var out = ByteBuffer(capacity: kept.count + secret.count + 8)
        out.put(byte: Self.come)
        out.put(varint: UInt64(secret.count))
        out.put(secret)
        out.put(kept)
        return out.array()
    }
}
