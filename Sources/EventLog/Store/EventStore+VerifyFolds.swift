extension EventStore {
    /// Checks what is saved of each projection: how far it is, and the checksum of each row. No event is folded for it.
    func verifyFolds(_ report: inout VerifyReport) throws {
        for name in Set(try archive.environment.tableNames().compactMap(FoldRecord.name(ofTable:))).sorted() {
            do {
                let record = try archive.environment.read { [archive] in try FoldRecord.read(name, archive, $0) }
                // In this order: a writer beside us moves both on, never the archive back.
                let end = try archive.environment.read { [archive] in try archive.state($0).position }
                if let saved = record.live?.position, saved > end {
                    report.add("I4: the projection \(name) is saved through position \(saved), the archive ends at \(end)", in: .log)
                }
                let damaged = try damagedRows(of: name, record)
                if damaged > 0 {
                    report.add("the projection \(name): rows whose checksums do not match: \(damaged); run `convstore rebuild`", in: .projections)
                }
            } catch let error as EventLogError where error.code == .damaged {
                report.add(error.message, in: .projections)
            }
        }
    }

    /// In the tables that are in use. What no record names nobody reads.
    private func damagedRows(of name: String, _ record: FoldRecord) throws -> Int {
        var damaged = 0
        for generation in [record.live, record.building] {
            // A rebuild beside us may have dropped it.
            guard let generation, let table = try archive.foldTable(name, generation.number, creates: false) else { continue }
            damaged += try table.damagedRows()
        }
        return damaged
    }
}
