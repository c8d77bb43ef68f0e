import EventLog

/// A page's messages as bytes: their count, and for each its length and its fields (docs/FORMAT.md, "Page, plain form").
///
/// They are read once when they come, whatever checksum they passed, and never change: so reading them again can rely on their texts being UTF-8.
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
            let start = reader.offset
            if count == 0 { return (0, .max, start) }
            _ = try reader.value()
            return (count, try MessageRow.steps(in: &reader).seq, start)
        }
        try forEach { message in
            guard message.hasValidText else { throw CodecError(.badUTF8) }
            return true
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
                MessageRow.encode(messages.baseAddress! + place, into: &one, after: seq, time: time)
                writer.put(UInt64(one.out.count))
                writer.out.put(one.out.bytes)
                seq = messages[place].seq
                time = messages[place].sentAt
            }
        }
    }

    /// Visits the messages ascending, until the closure says false; the first few are skipped, not decoded.
    @inline(__always) func forEach(skipping skipped: Int = 0, _ body: (LentMessage) throws -> Bool) throws {
        try walk { number, seq, sentAt, reader in
            if number < skipped { return true }
            return try body(LentMessage(decoding: reader, seq: seq, sentAt: sentAt, isValid: true))
        }
    }

    /// Decodes the one message only.
    func read<R>(_ seq: Seq, _ body: (LentMessage) throws -> R) throws -> R? {
        var result: R?
        try walk { _, found, sentAt, reader in
            if found < seq { return true }
            if found == seq { result = try body(LentMessage(decoding: reader, seq: found, sentAt: sentAt, isValid: true)) }
            return false
        }
        return result
    }

    /// Hands out of each message its number on the page, its seq, its time and a reader of just the rest of its bytes, until the closure says false.
    @inline(__always) private func walk(_ body: (_ number: Int, _ seq: Seq, _ sentAt: UInt64, _ reader: RowReader) throws -> Bool) throws {
        try bytes.withUnsafeBytes { bytes in
            var reader = RowReader(bytes, from: start)
            var seq: Seq = 0
            var time: UInt64 = 0
            for number in 0..<count {
                var message = RowReader(try reader.lengthPrefixed())
                let steps = try MessageRow.steps(in: &message)
                seq &+= steps.seq
                time &+= steps.time
                if try !body(number, seq, time, message) { return }
            }
            guard reader.isAtEnd else { throw CodecError(.notCanonical) }
        }
    }
}
