import Testing

@testable import EventLog
@testable import Projections

@Suite("A table's rows, frozen and split") struct RowPartsTests {
    private struct Count: TableRow {
        var value: UInt64
        init(_ value: UInt64) { self.value = value }
        init(decoding reader: inout RowReader) throws { value = try reader.value() }
        func encode(into writer: inout RowWriter) { writer.put(value) }
    }

    private static func key(_ number: Int) -> MessageID {
        // Not in their order, as a hash would give them.
        MessageID(high: UInt64(number) &* 0x9E37_79B9_7F4A_7C15, low: UInt64(number))
    }

    private static func rows(_ frozen: [Table<MessageID, Count>.Frozen]) -> [[[UInt8]]] {
        frozen.map { part in
            var batch = RowBatch()
            part.encode(into: &batch)
            return batch.rows.map { row in row.key + (row.value.map { Array(batch.bytes.bytes[$0]) } ?? [0xFF]) }
        }
    }

    @Test("I4: parts hold what the whole holds, each in order and behind the one before; settled one by one all are", arguments: [0, 1, 1023, 2048, 20_000])
    func parts(_ count: Int) throws {
        let table = Table<MessageID, Count>(prefix: 3, source: nil, cacheBytes: 64 << 20)
        for number in 0..<count { try table.put(number % 7 == 3 ? nil : Count(UInt64(number)), at: Self.key(number)) }
        let frozen = table.freeze()
        let whole = Self.rows([frozen])[0]
        #expect(whole.count == count)
        let parts = frozen.split(into: 8)
        #expect(parts.count == max(1, min(8, count / 1024)))
        #expect(Self.rows(parts).flatMap { $0 } == whole)
        // One changes meanwhile: it is not settled.
        if count > 0 { try table.put(Count(99), at: Self.key(0)) }
        for part in parts {
            var place: Int? = 0
            while let next = place { place = table.settle(part, from: next, count: 512) }
        }
        var unsaved: [MessageID] = []
        let again = table.freeze()
        unsaved = again.rows.map(\.key)
        #expect(unsaved == (count > 0 ? [Self.key(0)] : []))
        for number in 0..<count { #expect(try table.row(at: Self.key(number))?.value == (number == 0 ? 99 : number % 7 == 3 ? nil : UInt64(number))) }
    }

    private final class Tableless: Projection {
        static let name = "tableless"
        static let version: UInt32 = 1
        init(tables: inout ProjectionTables) {}
        func apply(_ event: RecordedEvent) {}
    }

    @Test("A projection without a table is one part: its position is saved too") func tableless() {
        #expect(ProjectionState<Tableless>(source: nil).freeze().split(into: 8).count == 1)
    }
}
