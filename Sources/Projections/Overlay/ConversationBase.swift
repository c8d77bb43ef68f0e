package import EventLog

/// The reducers' state of a conversation at one seq, for a peer that holds none of the events up to it: all that later events change and a lobby shows,
/// without the messages.
///
/// Version 1: a byte of version; the seqs of the newest live messages but the last (count, the first, then steps): whoever reads up to one of them,
/// what is unread is counted exactly, and up to an older one as if all before these were read; the last message (length, and its row; length 0: none),
/// its text cut as the lobby shows it; the conversation's row without its pages. Preferences are their users' own, and are not in it.
struct ConversationBase: Sendable {
    static let version: UInt8 = 1
    /// So many seqs of messages are told at most.
    static let seqsMax = 256
    /// People, title and attributes of nearly every conversation take less by far. One with more has no base that could be sent.
    static let bytesMax = 4 << 20

    /// Its one page holds what stands for the messages.
    let row: ConversationRow
    private let seqs: [Seq]
    private let last: MessageRow?

    var seq: Seq { row.seq }
    /// The greatest time with which last-write-wins compares a later write of what it tells.
    var clock: HLC {
        let stamps = [row.title.stamp, last?.rare?.edit] + row.attributes.map(\.value.stamp)
        return HLC(rawValue: stamps.reduce(row.order.rawValue) { max($0, $1?.time ?? 0) })
    }
    /// Pages that count and are not to be shown.
    var pages: UInt64 { row.pages }

    /// `seqs`: of live messages, ascending, without the last message's.
    init(_ summary: ConversationRow, seqs: [Seq], last: MessageRow?) {
        self.seqs = seqs
        self.last = last
        var row = summary
        if let last {
            var messages = ContiguousArray(seqs.map(Self.standIn))
            messages.append(last)
            let held = UInt64(seqs.count) + (last.isLive ? 1 : 0)
            row.fences = [ConversationRow.Fence(firstSeq: messages[0].seq, liveBefore: row.live - min(held, row.live))]
            row.pages = 1
            row.openFirstSeq = messages[0].seq
            row.open = PageRow(closed: messages)
        }
        self.row = row
    }

    private static func standIn(_ seq: Seq) -> MessageRow {
        MessageRow(id: MessageID(high: 0, low: 0), seq: seq, author: 0, role: .user, state: .complete, sentAt: 0, text: "")
    }

    /// What later events need of the last message: they may change what the lobby shows of it.
    static func cut(_ message: MessageRow) -> MessageRow {
        var cut = message
        let snippet = message.shownState == .erased ? "" : ConversationRow.snippet(message.text)
        // A text that is longer than its snippet must stay so: the snippet of one that is not grows with its chunks.
        cut.text = snippet.utf8.count == message.text.utf8.count || snippet.isEmpty ? snippet : snippet + "…"
        cut.rare = nil
        if let edit = message.rare?.edit {
            cut.editRare {
                $0.edit = edit
                $0.isEditErased = message.rare!.isEditErased
            }
        }
        return cut
    }

    var encoded: [UInt8] {
        var writer = RowWriter(ByteBuffer(capacity: 1024))
        writer.put(byte: Self.version)
        writer.put(UInt64(seqs.count))
        var before: Seq = 0
        for seq in seqs {
            writer.put(seq &- before)
            before = seq
        }
        var message = RowWriter(ByteBuffer(capacity: 512))
        last?.encode(into: &message, after: 0, time: 0)
        writer.put(UInt64(message.out.count))
        writer.out.put(message.out.bytes)
        row.summary.encodeSummary(into: &writer)
        return writer.out.array()
    }

    /// Reads what a peer sent: nothing of it is trusted.
    init(decoding bytes: [UInt8]) throws {
        guard bytes.count <= Self.bytesMax else { throw Self.bad("it has \(bytes.count) bytes") }
        if let version = bytes.first, version > Self.version { throw EventLogError(.newerFormat, "a conversation's base is of version \(version)") }
        do {
            self = try bytes.withUnsafeBytes { try Self(reading: RowReader($0)) }
        } catch is CodecError {
            throw Self.bad("it cannot be read")
        }
        // One form for each state; and a text that was no UTF-8 was repaired, which shows here.
        guard encoded == bytes else { throw Self.bad("it is not canonical") }
    }

    private static func bad(_ what: String) -> EventLogError { EventLogError(.invalidArgument, "a conversation's base is damaged: \(what)") }

    private init(reading reader: consuming RowReader) throws {
        guard try reader.byte() == Self.version else { throw CodecError(.badValue) }
        var seqs: [Seq] = []
        let count = try reader.count()
        guard count <= Self.seqsMax else { throw CodecError(.tooLarge) }
        for _ in 0..<count {
            let (seq, overflows) = (seqs.last ?? 0).addingReportingOverflow(try reader.value())
            guard !overflows, seq > seqs.last ?? 0 else { throw CodecError(.badValue) }
            seqs.append(seq)
        }
        let length = try reader.count()
        var last: MessageRow?
        if length > 0 {
            var one = RowReader(try reader.take(UInt64(length)))
            let steps = try MessageRow.steps(in: &one)
            last = try LentMessage(decoding: one, seq: steps.seq, sentAt: steps.time, isValid: false).row()
        }
        let row = try ConversationRow(summary: &reader)
        guard reader.isAtEnd, Self.isSound(row, seqs, last) else { throw CodecError(.badValue) }
        self.init(row, seqs: seqs, last: last)
    }

    /// Whether no count or number in it can lead the reducers out of bounds.
    private static func isSound(_ row: ConversationRow, _ seqs: [Seq], _ last: MessageRow?) -> Bool {
        guard 1...seqMax ~= row.seq, row.messages < row.seq, row.live <= row.messages, row.pages == 0, row.fences.isEmpty,
            Set(row.people.map(\.user)).count == row.people.count, row.systems.count <= ConversationRow.systemsMax, row.systems.allSatisfy({ $0 <= row.seq })
        else { return false }
        for person in row.people {
            guard max(person.deliveredTo, person.readTo, person.mark) <= row.seq, person.liveToMark <= row.live else { return false }
        }
        guard let shown = row.last, let last else { return row.last == nil && last == nil && seqs.isEmpty && row.messages == 0 }
        guard shown.seq == last.seq, shown.seq <= row.seq, shown.id == last.id, shown.author == last.author, shown.state == last.shownState else {
            return false
        }
        guard shown.snippet.unicodeScalars.count <= ConversationRow.snippetScalars, last.text.unicodeScalars.count <= ConversationRow.snippetScalars + 1 else {
            return false
        }
        return Int(last.author) < row.people.count && seqs.last ?? 0 < last.seq && UInt64(seqs.count) + (last.isLive ? 1 : 0) <= row.live
            && last.rare?.reactions.isEmpty ?? true
    }

    /// No log comes near it, and sums of a few such numbers overflow nowhere.
    static let seqMax: Seq = 1 << 48
}

extension Conversations {
    /// A conversation's base as of its last folded event; `nil` if there is no such conversation.
    package func encodedBase(of id: ConversationID) throws -> (base: [UInt8], seq: Seq)? {
        try rows.lend(id) { row in
            let summary = row.pointee.summary
            let seq = row.pointee.seq
            guard let shown = row.pointee.last else { return (ConversationBase(summary, seqs: [], last: nil).encoded, seq) }
            guard let last = try row.pointee.open.message(at: shown.seq) else { throw Self.missing(row.pointee.pages, id) }
            return (ConversationBase(summary, seqs: try newestSeqs(id, row), last: ConversationBase.cut(last)).encoded, seq)
        }
    }

    /// The newest live messages but the last.
    private func newestSeqs(_ id: ConversationID, _ row: LentRow) throws -> [Seq] {
        let last = row.pointee.last?.seq ?? 0
        var found: [Seq] = []
        var number = row.pointee.pages
        while number > firstPage, found.count < ConversationBase.seqsMax {
            number -= 1
            try readPage(number, id, row) { page in
                var some: [Seq] = []
                try page.forEach { message in
                    if message.isLive, message.seq < last { some.append(message.seq) }
                    return true
                }
                found += some.reversed()
            }
        }
        return found.prefix(ConversationBase.seqsMax).reversed()
    }
}

/// A conversation that is folded from its first events for a while, in memory.
package struct PartialFold: ~Copyable {
    private let conversations: Conversations
    private let hidesMessages: Bool

    /// - Parameter hidesMessages: as if none had been sent, and nothing been said about any.
    package init(hidesMessages: Bool = false) {
        var tables = ProjectionTables(source: nil)
        conversations = Conversations(tables: &tables)
        self.hidesMessages = hidesMessages
    }

    package func fold(_ event: RecordedEvent) throws {
        if hidesMessages, event.event.content.isAboutMessage { try conversations.pass(event) } else { try conversations.apply(event) }
    }

    package func encodedBase(of id: ConversationID) throws -> (base: [UInt8], seq: Seq)? { try conversations.encodedBase(of: id) }
}

extension Event.Content {
    /// Whether it is a message, or tells something of one.
    fileprivate var isAboutMessage: Bool {
        switch self {
        case .messageSent, .chunkAppended, .messageCompleted, .messageInterrupted, .messageEdited, .messageDeleted, .reactionSet, .receiptDelivered,
            .receiptRead:
            true
        case .conversationCreated, .conversationUpdated, .participantJoined, .participantLeft, .preferenceSet, .custom, .unknown: false
        }
    }
}
