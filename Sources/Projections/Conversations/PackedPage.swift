import EventLog

/// A page's messages as bytes: their count, and for each its length and its fields (docs/FORMAT.md, "Page, plain form").
struct PackedPage: Sendable {
    let bytes: [UInt8]
    let count: Int
    let firstSeq: Seq
    private let start: Int

    init(_ bytes: [UInt8]) throws {
        self.bytes = bytes
        (count, firstSeq, start) = try bytes.withUnsafeBytes { bytes in
            var reader = RowReader(bytes)
            let count = try reader.count()
            // More than any page holds; a page that is unpacked makes room for all of them.
            guard count <= max(PageRow.messagesMax, ConversationBase.seqsMax + 1) else { throw CodecError(.tooLarge) }
            let start = reader.reader.offset
            if count == 0 { return (0, .max, start) }
            _ = try reader.value()
            return (count, try MessageRow.steps(in: &reader).seq, start)
        }
    }

    static func encode(_ messages: ContiguousArray<MessageRow>, into writer: inout RowWriter) {
        writer.put(UInt64(messages.count))
        var one = RowWriter(ByteBuffer(capacity: 512))
        var seq: Seq = 0
        var time: UInt64 = 0
        // Through a pointer: each message is lent, not copied with all that it refers to.
        messages.withUnsafeBufferPointer { messages in
            for place in messages.indices {
                one.out.removeAll()
                messages[place].encode(into: &one, after: seq, time: time)
                writer.put(UInt64(one.out.count))
                writer.out.put(one.out.bytes)
                seq = messages[place].seq
                time = messages[place].sentAt
            }
        }
    }

    /// Visits the messages ascending, until the closure says false; the first few are skipped, not decoded.
    func forEach(skipping skipped: Int = 0, _ body: (borrowing MessageRow) throws -> Bool) throws {
        try walk { number, seq, sentAt, reader in
            if number < skipped { return .next }
            return try body(MessageRow(decoding: &reader, seq: seq, sentAt: sentAt)) ? .read : .end
        }
    }

    /// Decodes the one message only.
    func message(at seq: Seq) throws -> MessageRow? {
        var result: MessageRow?
        try walk { _, found, sentAt, reader in
            if found < seq { return .next }
            if found == seq { result = try MessageRow(decoding: &reader, seq: found, sentAt: sentAt) }
            return .end
        }
        return result
    }

    private enum Step {
        /// The message was not read; it was; or nothing more is wanted.
        case next, read, end
    }

    @inline(__always)
    private func walk(_ body: (_ number: Int, _ seq: Seq, _ sentAt: UInt64, _ reader: inout RowReader) throws -> Step) throws {
        try bytes.withUnsafeBytes { bytes in
            var reader = RowReader(bytes)
            reader.reader.offset = start
            var seq: Seq = 0
            var time: UInt64 = 0
            for number in 0..<count {
                let length = try reader.value()
                guard length <= UInt64(reader.reader.remaining) else { throw CodecError(.truncated) }
                let end = reader.reader.offset + Int(length)
                let steps = try MessageRow.steps(in: &reader)
                seq &+= steps.seq
                time &+= steps.time
                switch try body(number, seq, time, &reader) {
                case .next: reader.reader.offset = end
                case .read: guard reader.reader.offset == end else { throw CodecError(.notCanonical) }
                case .end: return
                }
            }
            guard reader.isAtEnd else { throw CodecError(.notCanonical) }
        }
    }
}
