/// Encodes segments, one after the other, with the same compressors and buffers. For one thread at a time.
package final class SegmentEncoder {
    private var encoder = RunEncoder(shape: RunShape())
    private var bodies = ByteBuffer(capacity: 1 << 16)
    private var out = ByteBuffer(capacity: 1 << 16)

    package init() {}

    /// One segment of events in commit order, at least one; each log's must follow each other.
    ///
    /// - Parameter position: that its checksums are made for: a segment's, unless another store's copy is to be compared.
    /// - Throws: `SegmentError` with code `malformed`, should a log's seqs have a hole, or an erased event no commitment.
    package func encode(_ events: [RecordedEvent], at position: Position = SegmentCodec.position) throws -> [UInt8] {
        precondition(!events.isEmpty, "a segment holds at least one event")
        bodies.removeAll()
        out.removeAll()
        var ends: [Int] = []
        ends.reserveCapacity(events.count)
        for event in events {
            guard event.isErased == (event.commitment != nil) else {
                throw SegmentError(.malformed, "log \(event.log) seq \(event.seq): an erased event comes with the commitment to its body")
            }
            if !event.isErased { event.encodeBody(into: &bodies) }
            ends.append(bodies.count)
        }
        var start = 0
        let pending = zip(events, ends).map { event, end in
            defer { start = end }
            let body = BodyParts(body: UnsafeRawBufferPointer(rebasing: bodies.bytes[start..<end]))
            return PendingEvent(envelope: Envelope(event), body: body, commitment: event.commitment)
        }
        do {
            _ = try encoder.encode(pending, at: position, into: &out)
        } catch is CodecError {
            throw SegmentError(.malformed, "a log's seqs have a hole (I2)")
        }
        return out.array()
    }
}
