import EventLog

/// Some messages that follow each other: what is read, compressed and written as one.
struct PageRow: Sendable {
    /// A page is full with so many messages, or so many bytes of text as they were when the next one came.
    static let messagesMax = 16
    static let textBytesMax = 8 << 10

    var messages: ContiguousArray<MessageRow> = []
    var textBytes = 0

    var isFull: Bool { messages.count >= Self.messagesMax || textBytes >= Self.textBytesMax }

    /// The place of the message with just this seq.
    func place(of seq: Seq) -> Int? {
        var low = 0
        var high = messages.count
        while low < high {
            let middle = (low + high) / 2
            if messages[middle].seq < seq { low = middle + 1 } else { high = middle }
        }
        return low < messages.count && messages[low].seq == seq ? low : nil
    }

    /// Messages that are not deleted, up to a seq.
    func live(through seq: Seq) -> UInt64 {
        var count: UInt64 = 0
        for message in messages where message.seq <= seq && message.isLive { count += 1 }
        return count
    }
}

/// A page of a conversation, counted from 0.
struct PageKey: TableKey {
    var conversation: ConversationID
    var number: UInt64

    var keyBytes: [UInt8] {
        var bytes = conversation.bytes
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
        return bytes
    }

    var lockBits: UInt64 { conversation.low }

    init(_ conversation: ConversationID, _ number: UInt64) {
        self.conversation = conversation
        self.number = number
    }

    init?(keyBytes: UnsafeRawBufferPointer) {
        guard keyBytes.count == 24, let conversation = ConversationID(bytes: keyBytes.prefix(16)) else { return nil }
        self.init(conversation, keyBytes.dropFirst(16).reduce(0) { $0 << 8 | UInt64($1) })
    }

    static func isAscending(_ left: Self, _ right: Self) -> Bool {
        left.conversation == right.conversation ? left.number < right.number : left.conversation < right.conversation
    }
}

extension PageRow: TableRow {
    /// Full pages of at least so many bytes are compressed, as they seldom change; the open one is rewritten all the time.
    private static let compressedFrom = 256

    func encode(into writer: inout RowWriter) {
        guard isFull else {
            writer.put(byte: 0)
            encodePlain(into: &writer)
            return
        }
        var plain = RowWriter(ByteBuffer(capacity: 4096))
        encodePlain(into: &plain)
        if plain.out.count >= Self.compressedFrom, let compressed = PageCodec.compress(plain.out.bytes), compressed.count < plain.out.count - 16 {
            writer.put(byte: 1)
            writer.put(UInt64(plain.out.count))
            compressed.withUnsafeBytes { writer.out.put($0) }
        } else {
            writer.put(byte: 0)
            writer.out.put(plain.out.bytes)
        }
    }

    private func encodePlain(into writer: inout RowWriter) {
        let seq = messages.first?.seq ?? 0
        let time = messages.first?.sentAt ?? 0
        writer.put(UInt64(messages.count))
        writer.put(UInt64(textBytes))
        writer.put(seq)
        writer.put(time)
        for message in messages { message.encode(into: &writer, seq: seq, time: time) }
    }

    init(decoding reader: inout RowReader) throws {
        switch try reader.byte() {
        case 0: try self.init(plain: &reader)
        case 1:
            let size = try reader.value()
            let rest = try reader.reader.take(reader.reader.remaining)
            self = try PageCodec.decompress(rest, size: size) { plain in
                var plain = RowReader(plain)
                let page = try PageRow(plain: &plain)
                guard plain.isAtEnd else { throw CodecError(.notCanonical) }
                return page
            }
        default: throw CodecError(.badValue)
        }
    }

    private init(plain reader: inout RowReader) throws {
        let count = try reader.count()
        textBytes = Int(clamping: try reader.value())
        let seq = try reader.value()
        let time = try reader.value()
        messages.reserveCapacity(count)
        for _ in 0..<count { messages.append(try MessageRow(decoding: &reader, seq: seq, time: time)) }
    }

    var memoryBytes: Int { messages.reduce(64) { $0 + $1.memoryBytes } }
}
