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
        let file = try DataFile(path: path(directory))
        let found = file.check().problems
        var result = Salvaged()
        result.problems = found.map { "\(fileName): \($0)" }
        result.mayHideTables = found.contains { ArchiveCheck.isFatal($0.kind) }
        result.mayBeBehind = found.contains { $0.kind == .meta || $0.kind == .metaOrder }
        for (name, entries) in file.namedEntries(isLenient: true) {
            var table = Salvaged.Table()
            // What leads to a record may be damaged, and lead to another one: then that is met twice, and this only where pages are read through.
            var found: [[UInt8]: [UInt8]] = [:]
            var unsound = 0
            _ = file.forEach(database: name, isLenient: true) { key, value in
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
