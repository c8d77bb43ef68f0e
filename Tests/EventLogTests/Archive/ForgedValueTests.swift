import Testing

@testable import EventLog
import StoreTesting

/// Values of the archive whose checksums hold and whose contents were forged: typed errors, never a trap or a huge allocation (I7).
@Suite("Forged values of the archive") struct ForgedValueTests {
    private static let seeds = 30_000

    private static func rows() throws -> [(key: [UInt8], value: [UInt8])] {
        try FormatVectors.read("row.json", as: FormatVectors.Rows.self).rows.map { (try bytes($0.key), Array(try bytes($0.bytes).dropLast(8))) }
    }

    private static func row(_ key: [UInt8], _ value: [UInt8]) throws -> LogRow {
        try value.withUnsafeBytes { try LogRow(key: key, decoding: $0) { ReplicaID(high: 0, low: $0) } }
    }

    /// What is read of a row where no more than that is needed.
    private static func places(_ key: [UInt8], _ value: [UInt8]) throws -> LogPlaces {
        try value.withUnsafeBytes { try LogPlaces(of: key[0] == 0 ? .conversation(conversation(1)) : .user(user("ann")), decoding: $0) }
    }

    private static func effect(_ kind: Event.Kind, _ seq: Seq, of target: Seq) throws -> Effect {
        let content: Event.Content =
            switch kind {
            case .chunkAppended: .chunkAppended(message: message(1), index: 0, text: "text")
            case .receiptRead: .receiptRead(upTo: message(1))
            default: .messageSent(Event.Message(id: message(seq), role: .user, text: "text", isStreaming: true))
            }
        return Effect(
            seq: seq, event: Event(conversation: conversation(1), author: user("ann"), content: content), targetSeq: target,
            replica: ReplicaID(high: 0, low: 1), counter: seq)
    }

    /// All that the writer, the flush and readers do with a row.
    private static func use(_ row: LogRow) throws {
        let state = LogState(row: row, tailFirstSeq: row.seq + 1)
        for stream in row.open { state.apply(try effect(.chunkAppended, state.row.seq + 1, of: stream.seq), at: 1) }
        state.apply(try effect(.messageSent, state.row.seq + 1, of: 0), at: 2)
        state.apply(try effect(.receiptRead, state.row.seq + 1, of: state.row.seq), at: 3)
        for lane in row.lanes { state.row.mark(lane.replica, lane.mark, answered: .refused(Refusal(.malformed))) }
        state.row.tree.append(Hash256())
        #expect(row.archivedSeq == row.seq)
        var out = ByteBuffer()
        state.row.encode(into: &out)
        state.row.encodeLanes(into: &out) { $0.low }
    }

    @Test("a log's row of any bytes is read and used, or refused") func mutatedRows() throws {
        let valid = try Self.rows()
        var taken = 0
        for seed in 0..<UInt64(Self.seeds) {
            var mutation = Mutation(seed)
            let (key, value) = valid[Int(seed) % valid.count]
            let mutated = mutation.of(value)
            let places = try? Self.places(key, mutated)
            do {
                let row = try Self.row(key, mutated)
                #expect(places?.number == row.number && places?.tree == row.tree && places?.archivedSeq == row.seq)
                #expect(places?.slices.map(\.run) == row.slices.map(\.run) && places?.slices.map(\.index) == row.slices.map(\.index))
                try Self.use(row)
                taken += 1
            } catch is CodecError {}
        }
        // A mutation that is never taken would show nothing.
        #expect(taken > 100)
    }

    /// A conversation's row of one event with what follows its people.
    private static func forged(seq: UInt64 = 1, open: [UInt64]? = nil, slices: [[UInt64]] = [[1, 0, 0, 1, 1]], lane: [UInt64]? = nil) -> [UInt8] {
        var out = ByteBuffer()
        for value in [1, seq, 1, 1] { out.put(varint: value) }
        out.put(lengthOf: "ann")
        out.put(byte: 0)
        out.put(varint: open == nil ? 0 : 1)
        if let open {
            out.put(message(1))
            for value in open { out.put(varint: value) }
        }
        out.put(varint: UInt64(slices.count))
        for value in slices.joined() { out.put(varint: value) }
        let events = slices.reduce(UInt64(0)) { $0 &+ $1[2] &+ $1[3] }
        for _ in 0..<events.nonzeroBitCount { for _ in 0..<32 { out.put(byte: 7) } }
        out.put(varint: lane == nil ? 0 : 1)
        if let lane {
            for value in [3, 9, UInt64(lane.count)] { out.put(varint: value) }
            for step in lane {
                out.put(varint: step)
                out.put(byte: 0)
                out.put(byte: 0)
            }
        }
        return out.array()
    }

    @Test(
        "numbers from which nothing can count on are refused",
        arguments: [
            ("chunks", forged(open: [1, 0, 1 << 32, 5])), ("joined bytes", forged(open: [1, 0, 1, .max])), ("a stream's seq", forged(open: [2, 0, 1, 5])),
            ("an empty slice", forged(slices: [[1, 0, 0, 0, 0]])), ("a seq before the first", forged(slices: [[1, 0, .max, 0, 0]])),
            ("runs that go back", forged(seq: 2, slices: [[9, 0, 0, 1, 0], [.max, 0, 0, 1, 0]])), ("more events than seqs", forged(slices: [[1, 0, 0, 2, 0]])),
            ("more seqs than events", forged(seq: 1 << 59)), ("more messages than events", forged(slices: [[1, 0, 0, 1, 2]])),
            ("counters that go back", forged(lane: [5, .max])),
        ] as [(String, [UInt8])])
    func numbers(_ what: String, _ value: [UInt8]) throws {
        let key = Archive.key(log: .conversation(conversation(1)))
        #expect(try Self.row(key, Self.forged(open: [1, 0, 3, 5], lane: [5, 1])).seq == 1)
        #expect(throws: CodecError.self, "\(what)") { try Self.row(key, value) }
    }

    @Test("a store's state that counts beyond all stores is refused", arguments: 0..<12) func state(_ field: Int) throws {
        func state(_ value: UInt64) throws -> Archive.State {
            var out = ByteBuffer()
            for index in 0..<12 { out.put(fixed64: index == field ? value : 1) }
            return try out.array().withUnsafeBytes { try Archive.State(decoding: $0) }
        }
        #expect(try state(1 << 59).encode().count == 96)
        // The third is a clock, which may stand anywhere.
        if field == 2 { #expect(try state(.max).hlc == .max) } else { #expect(throws: CodecError.self) { try state(.max) } }
    }

    @Test("seeds, trees, marks, frames and records of any bytes are read, or refused") func mutatedOthers() throws {
        var seeds = PuncturedSeeds(root: Hash256(bytes: [UInt8](repeating: 5, count: 32))!)
        for index in [3, 70, 71, 1000] as [UInt64] { seeds.forget(index) }
        var tree = CompactRange()
        for number in 0..<45 as Range<UInt8> { tree.append(Hash256(bytes: [UInt8](repeating: number, count: 32))!) }
        var frame = FrameBuilder()
        frame.put(MarkRecord(log: .user(user("ann")), replica: ReplicaID(high: 1, low: 2), counter: 300, answer: .refused(Refusal(.chunkGap, "3"))))
        frame.put(MarkRecord(log: .user(user("ann")), replica: ReplicaID(high: 1, low: 2), counter: 301, answer: .duplicate(7)))
        frame.put(SecretRecord(log: .conversation(conversation(1)), wrapped: [UInt8](repeating: 9, count: 60)))
        let payload = Array(frame.bytes.bytes.dropFirst(Frame.headerBytes))
        var record = FoldRecord()
        record.live = FoldRecord.Generation(version: 1, number: 0, position: 77)
        for seed in 0..<UInt64(Self.seeds / 3) {
            var mutation = Mutation(seed)
            if var found = PuncturedSeeds(encoded: mutation.of(seeds.encoded)) {
                var cursor = found.cursor()
                for index in [0, 3, 64, 1 << 40, SeedTree.indexMax] as [UInt64] {
                    #expect(cursor.leaf(at: index) == found.leaf(at: index))
                    found.forget(index)
                }
            }
            if var found = CompactRange(end: seed % 3 == 0 ? 45 : seed << 40 | 45, encoded: mutation.of(tree.encoded)) {
                found.append(Hash256())
                _ = found.root()
            }
            mutation.of(payload).withUnsafeBytes { bytes in
                guard let frame = try? TailFrame(bytes, number: 1, firstPosition: 1, events: Int(seed % 3)) else { return }
                for other in frame.others {
                    _ = try? MarkRecord(decoding: frame.other(other.range))
                    _ = try? SecretRecord(decoding: frame.other(other.range))
                }
                for index in frame.items.indices { _ = try? frame.recorded(index) }
            }
            _ = mutation.of(record.encoded).withUnsafeBytes { try? FoldRecord(decoding: $0).encoded }
        }
    }

    @Test("columns of nothing but zeros are refused before a hundred million events are made of them") func bomb() throws {
        var out = ByteBuffer()
        for value in [RunEncoder.magic, 0, 100_000_000, 1, 0, 0, 256 << 20, 0] as [UInt32] { out.put(fixed32: value) }
        for _ in 0..<2 { out.put(fixed64: 0) }
        out.put(fixed64: XXH64.hash(out.bytes, seed: 1))
        #expect(throws: CodecError.self) { try out.array().withUnsafeBytes { try DecodedRun.Header($0, at: 1) } }
    }
}
