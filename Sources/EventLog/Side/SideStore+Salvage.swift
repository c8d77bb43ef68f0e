extension SideStore {
    package typealias Record = (key: [UInt8], value: [UInt8])

    /// What can be read of a damaged file.
    package struct Salvaged {
        package struct Table {
            /// Those that match their checksums, in the order of their keys.
            package fileprivate(set) var records: [Record] = []
            /// How many others there were, as far as that can be told.
            package fileprivate(set) var lost = 0
            /// Whether these were all.
            package fileprivate(set) var isWhole = true
        }

        /// What is wrong with the file's structure.
        package fileprivate(set) var problems: [String] = []
        fileprivate var tables: [TableName: Table] = [:]
        /// Whether a table that is not found may have been there.
        fileprivate var mayHideTables = false
        /// Whether the last commit may not be in it: LMDB keeps the state before it too, and that one was read.
        fileprivate var mayBeBehind = false

        fileprivate func telling(_ problems: [String], mayBeBehind: Bool) -> Self {
            var told = self
            told.problems = problems + told.problems
            told.mayBeBehind = mayBeBehind
            return told
        }

        package var names: [TableName] { tables.keys.sorted() }
        package var isSound: Bool { problems.isEmpty && tables.values.allSatisfy(\.isWhole) }

        package subscript(name: TableName) -> Table {
            var absent = Table()
            absent.isWhole = !mayHideTables
            return tables[name] ?? absent
        }

        /// What is missing of these tables, for people.
        package func losses(of names: [TableName]) -> [String] {
            if tables.isEmpty, mayHideTables { return ["\(fileName): nothing of it can be read; what it held is not known"] }
            return (mayBeBehind ? ["\(fileName): its last commit"] : []) + names.compactMap(loss)
        }

        private func loss(of name: TableName) -> String? {
            let table = self[name]
            if table.isWhole { return nil }
            let lost = table.lost > 0 ? "\(table.lost)" : "not known"
            return "\(fileName): records of the table \(name) that cannot be read: \(lost); sound: \(table.records.count)"
        }
    }

    /// Reads the file without LMDB, and without trusting anything but the checksums. Nobody may write it meanwhile.
    ///
    /// - Parameter names: the tables that it was made with: their own names have no checksum.
    package static func salvage(directory: String, tables names: [TableName] = []) throws -> Salvaged {
        var file = try DataFile(path: path(directory))
        let problems = file.check().problems
        file.isLenient = true
        let told = problems.map { "\(fileName): \($0)" }
        // What the damaged page says of its root is not what is wrong with it, if all is there that it leads to.
        let isNewerDamaged = file.isNewerMetaDamaged
        if isNewerDamaged, let whole = salvage(&file, at: .newer, names), whole.isSound { return whole.telling(told, mayBeBehind: false) }
        // Its root was given up, as the list of free pages says: it is that of an earlier commit.
        let isGivenUp = !isNewerDamaged && problems.contains { $0.kind == .pageUsedTwice && $0.page == file.newerRoot }
        if isGivenUp, let older = salvage(&file, at: .older, names), older.isSound { return older.telling(told, mayBeBehind: true) }
        let result = salvage(file, names)
        if !isNewerDamaged, !problems.isEmpty, !result.isSound {
            // The page may be wrong in how far the file goes; or in its root, and lead to one that was given up before.
            if let whole = salvage(&file, at: .newer, names), whole.isSound { return whole.telling(told, mayBeBehind: true) }
            if result.tables.isEmpty, let older = salvage(&file, at: .older, names) { return older.telling(told, mayBeBehind: true) }
        }
        var found = result.telling(told, mayBeBehind: isGivenUp || problems.contains { $0.kind == .meta || $0.kind == .metaOrder })
        found.mayHideTables = result.mayHideTables || problems.contains { ArchiveCheck.isFatal($0.kind) }
        return found
    }

    private static func salvage(_ file: inout DataFile, at age: DataFile.CommitAge, _ names: [TableName]) -> Salvaged? {
        guard file.beginAtRoot(of: age) else { return nil }
        defer { file.foundRoot = nil }
        return salvage(file, names)
    }

    private static func salvage(_ file: borrowing DataFile, _ names: [TableName]) -> Salvaged {
        var result = Salvaged()
        for (name, entries) in file.namedEntries() {
            var table = Salvaged.Table()
            // What leads to a record may be damaged, and lead to another one: then that is met twice, and this only where pages are read through.
            var found: [[UInt8]: [UInt8]] = [:]
            var unsound = 0
            _ = file.forEach(database: name) { key, value in
                let key = key.withUnsafeBytes { Array($0) }
                if let value = value.withUnsafeBytes({ Archive.unsealed(key, $0).map { Array($0) } }) {
                    found[key] = found[key] ?? value
                } else {
                    unsound += 1
                }
                return true
            }
            table.records = found.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { ($0.key, $0.value) }
            let read = UInt64(table.records.count)
            table.isWhole = read == entries
            // The number is not sealed either: one that the file has no room for tells nothing.
            if !table.isWhole { table.lost = entries > read && entries < file.fileBytes / 16 ? Int(entries - read) : unsound }
            result.tables[name] = table
        }
        for name in names where result.tables[name] == nil {
            result.problems.append("\(fileName): there is no table \(name)")
            result.mayHideTables = true
        }
        return result
    }

    /// Puts a new file with these records in the place of what is there. The caller holds the store open for writing, and nobody the file.
    package static func replace(directory: String, tables names: [TableName], with records: [TableName: [Record]]) throws {
        do {
            for name in [path(directory) + ".new", path(directory) + ".new-lock"] { try Directory.remove(name) }
            try create(directory, names, records)
        } catch let error as LMDBError {
            throw Archive.typed(error, path(directory))
        } catch let error as SystemError {
            throw error.typed
        }
    }
}
