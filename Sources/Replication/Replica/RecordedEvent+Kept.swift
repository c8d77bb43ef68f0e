internal import EventLog

extension RecordedEvent {
    /// As the side store keeps it: its canonical bytes, and the commitment of an erased body in the body's place.
    var kept: [UInt8] {
        let (envelope, body) = EventCodec.encode(self)
        var out = ByteBuffer(capacity: envelope.count + body.count + 16)
        out.put(byte: isErased ? 1 : 0)
        out.put(varint: UInt64(envelope.count))
        out.put(envelope)
        out.put(commitment?.bytes ?? body)
        return out.array()
    }

    init(kept bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        let isErased = try reader.byte() == 1
        let envelope = Array(try reader.lengthPrefixed())
        let rest = Array(try reader.take(reader.remaining))
        guard isErased else {
            self = try EventCodec.decode(envelope: envelope, body: rest)
            return
        }
        guard let commitment = Hash256(bytes: rest) else { throw CodecError(.badValue) }
        self = try EventCodec.decode(envelope: envelope, commitment: commitment)
    }
}
