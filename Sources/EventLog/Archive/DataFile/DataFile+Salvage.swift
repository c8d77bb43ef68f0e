extension DataFile {
    /// The names of the databases that can be found, in order.
    package borrowing func namedDatabases() -> [String] {
        var names: [String] = []
        salvageDatabases { name, _ in
            names.append(name)
            return true
        }
        return names
    }

    /// The databases that can be found, each with the number of entries that its record tells.
    package borrowing func namedEntries() -> [String: UInt64] {
        var entries: [String: UInt64] = [:]
        salvageDatabases { name, tree in
            entries[name] = tree.entries
            return true
        }
        return entries
    }

    /// Lends each entry of a named database, in key order from `start` on, until `body` returns false; throws only what `body` throws.
    ///
    /// For salvage: damaged pages are passed over with all that is below them, and returned as problems (no database of that name is one,
    /// too). What is lent lay in sound pages, but LMDB has no checksums: judge its content. Up to one whole value is held in memory.
    package borrowing func forEach(
        database name: String,
        from start: [UInt8] = [],
        _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
    ) rethrows -> [DataFileProblem] {
        var tree: TreeRecord?
        let (salvage, problems) = salvageDatabases { found, record in
            if found == name { tree = record }
            return tree == nil
        }
        guard let tree, let walk = salvage else {
            let missing = DataFileProblem(kind: .databaseRecord, page: 0, detail: "there is no database \(name), or its record is damaged")
            return problems + [missing]
        }
        walk.problems = DataFileProblems()
        var buffer: [UInt8] = []
        try start.withUnsafeBytes { start in
            try walk.walk(tree, from: start.isEmpty ? nil : start) { entry in
                guard entry.node.flags != PageLayout.databaseNode else { return true }
                guard let chain = entry.chain else { return try body(entry.node.key.bytes, entry.node.inlineValue.bytes) }
                let count = entry.node.valueBytes
                if buffer.count < count { buffer = Array(repeating: 0, count: count) }
                return try buffer.withUnsafeMutableBytes { target in
                    let position = chain * UInt64(walk.pageBytes) + UInt64(PageLayout.headerBytes)
                    if count > 0, let failure = walk.reader.read(count, at: position, into: target.baseAddress!) {
                        walk.problems.add(.unreadable, page: chain, failure.description)
                        return true
                    }
                    return try body(entry.node.key.bytes, UnsafeRawBufferPointer(rebasing: target[..<count]).bytes)
                }
            }
        }
        return problems + walk.problems.list
    }

    /// Visits what databases the newest sound meta page leads to. The walk can go on to one of them; it is nil if no meta page is sound.
    @discardableResult
    private borrowing func salvageDatabases(_ visit: (String, TreeRecord) -> Bool) -> (walk: TreeWalk?, problems: [DataFileProblem]) {
        let metas = readMetas()
        let newestFirst = [metas.first, metas.second].sorted { $0.transactionID > $1.transactionID }
        var problems = DataFileProblems()
        for meta in newestFirst {
            guard meta.fault() == nil, let pageBytes = meta.pageBytes else {
                problems.add(.meta, page: UInt64(meta.index), meta.fault() ?? "page size \(meta.free.pad)")
                continue
            }
            let walk = TreeWalk(reader: PageReader(descriptor: descriptor), meta: meta, pageBytes: pageBytes, fileBytes: fileBytes)
            walk.problems = problems
            walk.walk(meta.main) { entry in
                switch entry.databaseRecord(lastPage: meta.lastPage) {
                case .success(let database): return visit(database.name, database.tree)
                case .failure(let fault):
                    walk.problems.add(.databaseRecord, page: entry.page, fault.text)
                    return true
                }
            }
            return (walk, walk.problems.list)
        }
        return (nil, problems.list)
    }
}
