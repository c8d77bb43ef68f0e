import EventLog

/// Some messages that follow each other: what is read, compressed and written as one.
///
/// As it comes from the archive a page is packed: readers take single messages out of its bytes. It is unpacked when a message changes.
struct PageRow: Sendable {
    /// A page is full with so many messages, or so many bytes of text as they were when the next one came.
    static let messagesMax = 16
    static let textBytesMax = 8 << 10

    private enum Content: Sendable {
        case packed(PackedPage)
        case messages(ContiguousArray<MessageRow>)
    }

    private var content: Content = .messages([])
    /// Bytes of text that were sent, edits apart.
    private(set) var textBytes = 0

    init() {}

    /// A page that nothing is appended to.
    init(closed messages: ContiguousArray<MessageRow>) {
        content = .messages(messages)
        textBytes = Self.textBytesMax
    }

    var count: Int {
        switch content {
        case .packed(let page): page.count
        case .messages(let messages): messages.count
        }
    }

    var isFull: Bool { count >= Self.messagesMax || textBytes >= Self.textBytesMax }

    /// The first message's seq.
    var firstSeq: Seq {
        switch content {
        case .packed(let page): page.firstSeq
        case .messages(let messages): messages.first?.seq ?? .max
        }
    }

    /// Visits the messages ascending, until the closure says false.
    @inline(__always) func forEach(_ body: (LentMessage) throws -> Bool) throws {
        var none = 0
        try forEach(skipping: &none, body)
    }

    /// The same, without the first few, which are not decoded; counts down those that it skipped.
    @inline(__always) func forEach(skipping count: inout Int, _ body: (LentMessage) throws -> Bool) throws {
        let skipped = min(count, self.count)
        count -= skipped
        switch content {
        case .packed(let page): try page.forEach(skipping: skipped, body)
        case .messages(let messages):
            try messages.withUnsafeBufferPointer { messages in
                for place in skipped..<messages.count { if try !body(LentMessage(messages.baseAddress! + place)) { return } }
            }
        }
    }

    /// Lends the message of a seq; `nil` if there is none.
    func read<R>(_ seq: Seq, _ body: (LentMessage) throws -> R) throws -> R? {
        switch content {
        case .packed(let page): try page.read(seq, body)
        case .messages(let messages):
            try messages.withUnsafeBufferPointer { pointer in try Self.place(of: seq, in: messages).map { try body(LentMessage(pointer.baseAddress! + $0)) } }
        }
    }

    func message(at seq: Seq) throws -> MessageRow? { try read(seq) { try $0.row() } }

    /// Messages that are not deleted, and that nobody refused, up to a seq.
    func live(through seq: Seq, _ overlay: OverlayMarks? = nil) throws -> UInt64 {
        var count: UInt64 = 0
        try forEach { message in
            if message.seq > seq { return false }
            if message.isLive, !overlay.isFailed(message.seq) { count += 1 }
            return true
        }
        return count
    }

    private static func place(of seq: Seq, in messages: ContiguousArray<MessageRow>) -> Int? {
        var low = 0
        var high = messages.count
        while low < high {
            let middle = (low + high) / 2
            if messages[middle].seq < seq { low = middle + 1 } else { high = middle }
        }
        return low < messages.count && messages[low].seq == seq ? low : nil
    }

    // Changing.

    private mutating func unpack() throws {
        guard case .packed(let page) = content else { return }
        var messages: ContiguousArray<MessageRow> = []
        messages.reserveCapacity(max(page.count, Self.messagesMax))
        try page.forEach { message in
            messages.append(try message.row())
            return true
        }
        content = .messages(messages)
    }

    /// Lends the messages, which have no other owner meanwhile.
    private mutating func edit<R>(_ body: (inout ContiguousArray<MessageRow>) throws -> R) throws -> R {
        try unpack()
        guard case .messages(var messages) = content else { throw CodecError(.badValue) }
        content = .messages([])
        defer { content = .messages(messages) }
        return try body(&messages)
    }

    mutating func append(_ message: MessageRow) throws {
        textBytes += message.text.utf8.count
        try edit { $0.append(message) }
    }

    /// Lends the message of a seq to be changed; nothing happens if there is none. The closure says by how many bytes its text grew.
    mutating func edit(_ seq: Seq, _ body: (inout MessageRow) throws -> Int) throws {
        textBytes += try edit { messages in
            guard let place = Self.place(of: seq, in: messages) else { return 0 }
            return try body(&messages[place])
        }
    }
}

/// A page of a conversation, counted from 0.
struct PageKey: TableKey {
    var conversation: ConversationID
    var number: UInt64

    var keyBytes: [UInt8] { withUnsafeBytes(of: (conversation.high.bigEndian, conversation.low.bigEndian, number.bigEndian)) { Array($0) } }
    var keyByteCount: Int { 24 }

    var lockBits: UInt64 { conversation.low }
    var sortPrefix: UInt64 { conversation.high }

    /// As that of the conversation, which knows secrets of the process; the number goes where a table's own seed goes.
    func _rawHashValue(seed: Int) -> Int { conversation._rawHashValue(seed: seed &+ Int(truncatingIfNeeded: number)) }

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
    /// How the bytes that follow are to be read.
    private enum Form {
        static let plain: UInt8 = 0
        /// zstd, with the dictionary whose number follows.
        static let compressed: UInt8 = 1
    }
    /// Pages of at least so many bytes are compressed.
    private static let compressedFrom = 256

    func encode(into writer: inout RowWriter) { encode(into: &writer, compressedFrom: Self.compressedFrom) }

    func encode(into writer: inout RowWriter, compressedFrom: Int) {
        var plain = RowWriter(ByteBuffer(capacity: 4096))
        encodePlain(into: &plain)
        if plain.out.count >= compressedFrom, let compressed = PageCodec.compress(plain.out.bytes), compressed.count < plain.out.count - 16 {
            writer.put(byte: Form.compressed)
            writer.put(byte: PageCodec.dictionary)
            writer.put(UInt64(plain.out.count))
            compressed.withUnsafeBytes { writer.out.put($0) }
        } else {
            writer.put(byte: Form.plain)
            writer.out.put(plain.out.bytes)
        }
    }

    private func encodePlain(into writer: inout RowWriter) {
        writer.put(UInt64(textBytes))
        switch content {
        case .packed(let page): page.bytes.withUnsafeBytes { writer.out.put($0) }
        case .messages(let messages): PackedPage.encode(messages, into: &writer)
        }
    }

    init(decoding reader: inout RowReader) throws {
        switch try reader.byte() {
        case Form.plain: try self.init(plain: &reader)
        case Form.compressed:
            let dictionary = try reader.byte()
            let size = try reader.value()
            let rest = reader.rest()
            self = try PageCodec.decompress(rest, size: size, dictionary: dictionary) { plain in
                var plain = RowReader(plain)
                return try PageRow(plain: &plain)
            }
        default: throw CodecError(.badValue)
        }
    }

    private init(plain reader: inout RowReader) throws {
        // So much was never sent to one page; what is sent next is added to it.
        guard let textBytes = Int(exactly: try reader.value()), textBytes < 1 << 60 else { throw CodecError(.badValue) }
        self.textBytes = textBytes
        content = .packed(try PackedPage(Array(reader.rest())))
    }

    /// The same page as bytes: less memory, and readers on several cores do not pass its texts' reference counts to and fro.
    func packed() -> PageRow? {
        guard case .messages(let messages) = content else { return nil }
        var writer = RowWriter(ByteBuffer(capacity: 4096))
        PackedPage.encode(messages, into: &writer)
        guard let page = try? PackedPage(writer.out.array(), isTrusted: true) else { return nil }
        var result = self
        result.content = .packed(page)
        return result
    }

    var memoryBytes: Int {
        switch content {
        case .packed(let page): page.bytes.count + 48
        case .messages(let messages): messages.reduce(64) { $0 + $1.memoryBytes }
        }
    }
}
