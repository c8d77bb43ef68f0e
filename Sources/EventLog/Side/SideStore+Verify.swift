extension SideStore {
    /// What is wrong with the file, a line each: LMDB's structure, and records that do not match their checksums. Nothing, if it is absent.
    static func verify(directory: String) throws -> [String] {
        guard Directory.exists(path(directory)) else { return [] }
        var problems: [String] = []
        // A writer's commit beside us looks like damage for a moment; the opening below looks again then.
        if try !EventStore.isBesideWriter(directory) { problems = try DataFile(path: path(directory)).check().problems.map { "\(fileName): \($0)" } }
        do {
            let side = try SideStore(directory: directory, tables: [], isReadOnly: true)
            defer { side.close() }
            problems += try side.damagedTables()
        } catch let error as EventLogError where error.code == .damaged {
            if problems.isEmpty { problems.append(error.message) }
        }
        return problems
    }

    private func damagedTables() throws -> [String] {
        let names = try environment.tableNames()
        let missing = Self.lacksTables(names) ? ["\(Self.fileName): a table is missing"] : []
        return try missing
            + zip(names, environment.tables(names, creates: false)).compactMap { name, table in
                let damaged = try table.map { try environment.damagedRecords(in: $0) } ?? 0
                return damaged == 0 ? nil : "\(Self.fileName): records of the table \(name) whose checksums do not match: \(damaged)"
            }
    }
}
