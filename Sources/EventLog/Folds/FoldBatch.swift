/// One fold's rows on their way into the archive.
///
/// `@unchecked Sendable`: nothing of it changes after `init`.
final class FoldBatch: @unchecked Sendable {
    private let slot: FoldSlot
    private let table: FoldTable
    private let position: Position
    private let rows: RowBatch

    private init(_ slot: FoldSlot, _ table: FoldTable, _ position: Position, _ rows: consuming RowBatch) {
        self.slot = slot
        self.table = table
        self.position = position
        self.rows = rows
    }

    var isEmpty: Bool { rows.rows.isEmpty }

    /// With the position up to which the rows are the fold.
    static func encode(_ rows: [(slot: FoldSlot, rows: any FrozenRows)], position: Position) throws -> [FoldBatch] {
        var batches: [FoldBatch] = []
        for (slot, rows) in rows {
            guard let table = slot.table else { continue }
            var batch = RowBatch()
            try rows.encode(into: &batch)
            batches.append(FoldBatch(slot, table, position, batch))
        }
        return batches
    }

    func write(_ archive: Archive, _ transaction: inout WriteTransaction) throws {
        try rows.write(to: table.table, &transaction)
        try FoldRecord.update(slot.fold.name, archive, &transaction) { $0.live?.position = position }
    }
}
