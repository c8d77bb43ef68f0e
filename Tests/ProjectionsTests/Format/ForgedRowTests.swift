import Testing

@testable import EventLog
@testable import Projections
import StoreTesting

/// Rows whose checksums hold and whose contents were forged: typed errors, never a trap or a huge allocation (I7).
@Suite("Forged rows of projections") struct ForgedRowTests {
    private static let seeds = 20_000

    private static func value(_ bytes: String?) throws -> [UInt8] { Array(try #require(Hex.decode(bytes ?? "")).dropLast(8)) }

    private static func row<Row: TableRow>(_ type: Row.Type, _ bytes: [UInt8]) throws -> Row {
        try bytes.withUnsafeBytes { bytes in
            var reader = RowReader(bytes)
            let row = try Row(decoding: &reader)
            guard reader.isAtEnd else { throw CodecError(.notCanonical) }
            return row
        }
    }

    private static func encode(_ row: some TableRow) {
        var writer = RowWriter(ByteBuffer(capacity: 256))
        (row.packed() ?? row).encode(into: &writer)
    }

    /// All that reducers and readers do with a conversation. What they find is damage, or not; the first that does ends it.
    private static func use(_ row: ConversationRow, _ pages: [PageRow]) throws {
        var tables = ProjectionTables(source: nil)
        let state = Conversations(tables: &tables)
        let id = ConversationID(high: 1, low: 2)
        try state.rows.update(id) { $0 = row }
        for (number, page) in pages.enumerated() { try state.pages.update(PageKey(id, UInt64(number))) { $0 = page } }
        let people = row.people.map(\.user) + [UserID("zoe")!]
        var seq = row.seq
        func apply(_ content: Event.Content, by author: UserID, of target: Seq?) throws {
            seq += 1
            let origin = Origin(replica: ReplicaID(high: 0, low: 1), counter: seq, hlc: HLC(rawValue: seq))
            try state.apply(
                RecordedEvent(
                    log: .conversation(id), seq: seq, position: seq, origin: origin, hlc: HLC(rawValue: seq),
                    event: Event(conversation: id, author: author, content: content), targetSeq: target))
        }
        let message = MessageID(high: 0, low: 9)
        for target in [1, row.last?.seq ?? 1, row.openFirstSeq, row.seq, .max] {
            try? apply(.chunkAppended(message: message, index: 0, text: "more"), by: people[0], of: target)
            try? apply(.reactionSet(message: message, emoji: "x", isOn: true), by: people[0], of: target)
            try? apply(.messageEdited(message: message, text: "new"), by: people[0], of: target)
            try? apply(.messageDeleted(message: message), by: people[0], of: target)
            for person in people { try? apply(.receiptRead(upTo: message), by: person, of: target) }
            try? apply(.participantLeft(people[0]), by: people[0], of: nil)
            for _ in 0..<3 { try? apply(.messageSent(Event.Message(id: message, role: .system, text: "text")), by: people[0], of: nil) }
        }
        for range in [.newest, .before(5), .after(.max), .around(row.openFirstSeq)] + people.map({ TimelineRange.unread($0) }) {
            _ = try? state.timeline(id, range, limit: 5)
        }
        for person in people { _ = try? state.lobby(of: person, after: nil, limit: 5) }
        _ = try? state.message(id, message)
        _ = try? state.encodedBase(of: id)
        if let changed = try state.rows.row(at: id) { encode(changed) }
    }

    @Test("a conversation's row of any bytes is read and used, or refused") func conversations() throws {
        let file = try RowVectors.read()
        let valid = try file.conversations.map { try Self.value($0.bytes) }
        let pages = try file.pages.map { try Self.row(PageRow.self, Self.value($0.bytes)) }
        var taken = 0
        for seed in 0..<UInt64(Self.seeds) {
            var mutation = Mutation(seed)
            do {
                try Self.use(Self.row(ConversationRow.self, mutation.of(valid[Int(seed) % valid.count])), pages)
                taken += 1
            } catch is CodecError {}
        }
        #expect(taken > 100)
    }

    @Test("pages, members and streams of any bytes are read and used, or refused") func others() throws {
        let file = try RowVectors.read()
        let pages = try file.pages.map { try Self.value($0.bytes) }
        // Mutated where they are plain: of what zstd gives back most bytes are no page at all.
        let plain = try pages.map { bytes -> [UInt8] in
            let page = try Self.row(PageRow.self, bytes)
            var writer = RowWriter(ByteBuffer(capacity: 256))
            page.encode(into: &writer, compressedFrom: .max)
            return writer.out.array()
        }
        let members = try file.members.map { try Self.value($0.bytes) }
        let streams = try file.streams.map { try Self.value($0.bytes) }
        for seed in 0..<UInt64(Self.seeds) {
            var mutation = Mutation(seed)
            let valid = seed % 2 == 0 ? plain : pages
            if var page = try? Self.row(PageRow.self, mutation.of(valid[Int(seed / 2) % valid.count])) {
                Self.encode(page)
                var seqs: [Seq] = []
                try? page.forEach { message in
                    seqs.append(message.seq)
                    return true
                }
                for seq in seqs {
                    try? page.edit(seq) { message in
                        message.chunks += 1
                        message.text += "more"
                        return 4
                    }
                }
                _ = try? page.live(through: 7)
                Self.encode(page)
            }
            if var member = try? Self.row(MemberRow.self, mutation.of(members[Int(seed) % members.count])) {
                member.setPreference("colour", "red", Stamp(time: 1, replica: ReplicaID(high: 0, low: 1), counter: 1))
                Self.encode(member)
            }
            if let stream = try? Self.row(StreamRow.self, mutation.of(streams[Int(seed) % streams.count])) { Self.encode(stream) }
        }
    }

    @Test("counts from which nothing can count on are refused") func counts() throws {
        func page(_ textBytes: UInt64, messages: UInt64, padding: Int) throws -> PageRow {
            var out = ByteBuffer()
            out.put(byte: 0)
            out.put(varint: textBytes)
            out.put(varint: messages)
            for _ in 0..<padding { out.put(byte: 2) }
            return try Self.row(PageRow.self, out.array())
        }
        #expect(try page(5, messages: 0, padding: 0).textBytes == 5)
        #expect(throws: CodecError.self) { try page(.max, messages: 0, padding: 0) }
        // As many as there are bytes: each would get its room when the page is unpacked.
        #expect(throws: CodecError.self) { try page(5, messages: 100_000, padding: 100_000) }

        var row = ConversationRow()
        (row.seq, row.messages, row.live) = (9, 4, 4)
        row.addPage(firstSeq: 2)
        func fails(_ change: (inout ConversationRow) -> Void) -> Bool {
            var changed = row
            change(&changed)
            var writer = RowWriter(ByteBuffer(capacity: 256))
            changed.encode(into: &writer)
            return (try? Self.row(ConversationRow.self, writer.out.array())) == nil
        }
        #expect(!fails { _ in })
        #expect(fails { $0.live = 5 } && fails { $0.messages = 10 } && fails { $0.seq = .max } && fails { $0.pages = 2 } && fails { $0.stride = 0 })
        #expect(
            fails { $0.openFirstSeq = 10 } && fails { $0.pages = 1 << 63 } && fails { $0.fences = [] } && fails { $0.systems = [1, 2, 3, 4, 5, 6, 7, 8, 9] })
        let last = ConversationRow.Last(
            id: MessageID(high: 0, low: 1), seq: 9, author: 0, role: .user, state: .complete, sentAt: 0, snippet: "text")
        #expect(fails { $0.last = last })
        #expect(fails { row in row.editPerson(row.addPerson(UserID("ann")!)) { $0.mark = .max } })
    }
}
