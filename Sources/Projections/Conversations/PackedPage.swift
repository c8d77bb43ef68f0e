import EventLog

/// A page's messages as bytes: their count, and for each its length and its fields (docs/FORMAT.md, "Page, plain form").
///
/// They are read once when they come, whatever checksum they passed, and never change: so reading them again can rely on their texts being UTF-8.
struct PackedPage: Sendable {
    let bytes: [UInt8]
    let count: Int
    let firstSeq: Seq
    private let start: Int

    /// - Parameter isTrusted: they were just written here, out of strings.
    init(_ bytes: [UInt8], isTrusted: Bool = false) throws {
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
        if isTrusted { return }
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
        try bytes.withUnsafeBytes { bytes in
            var walk = Walk(bytes, from: start, count)
            while let message = try walk.next() {
                if walk.passed <= skipped { continue }
                if try !body(LentMessage(decoding: message, seq: walk.seq, sentAt: walk.sentAt, isValid: true)) { return }
            }
        }
    }

    /// Decodes the one message only.
    func read<R>(_ seq: Seq, _ body: (LentMessage) throws -> R) throws -> R? {
        try bytes.withUnsafeBytes { bytes in
            var walk = Walk(bytes, from: start, count)
            while let message = try walk.next(), walk.seq <= seq {
                if walk.seq == seq { return try body(LentMessage(decoding: message, seq: seq, sentAt: walk.sentAt, isValid: true)) }
            }
            return nil
        }
    }

    /// From message to message. No closure: what one captures would be retained for every message, by readers on all cores.
    private struct Walk {
        private var reader: RowReader
        private let count: Int
        private(set) var passed = 0
        private(set) var seq: Seq = 0
        private(set) var sentAt: UInt64 = 0

        @inline(__always) init(_ bytes: UnsafeRawBufferPointer, from start: Int, _ count: Int) {
            reader = RowReader(bytes, from: start)
            self.count = count
        }

        /// A reader of what follows the steps to the message's seq and time; `nil` behind the last.
        @inline(__always) mutating func next() throws -> RowReader? {
            guard passed < count else {
                guard reader.isAtEnd else { throw CodecError(.notCanonical) }
                return nil
            }
            passed += 1
            var message = RowReader(try reader.lengthPrefixed())
            let steps = try MessageRow.steps(in: &message)
            seq &+= steps.seq
            sentAt &+= steps.time
            return message
        }
    }
}
