#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

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

    /// Lends each entry of a named database, in key order from `start` on (unless ``isLenient``), until `body` returns false; throws only what `body` throws.
    ///
    /// For salvage: damaged pages are passed over with all that is below them, and returned as problems (no database of that name is one,
    /// too). What is lent lay in sound pages, but LMDB has no checksums: judge its content. Up to one whole value is held in memory.
    package borrowing func forEach(
        database name: String, from start: [UInt8] = [], _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
    ) rethrows -> [DataFileProblem] {
        var buffer: [UInt8] = []
        return try walk(database: name, from: start) { walk, entry in
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

    /// The same without reading the values, and with those that begin on a page whose header is damaged.
    borrowing func forEachPlace(database name: String, _ body: (_ key: RawSpan, ValuePlace) throws -> Bool) rethrows -> [DataFileProblem] {
        try walk(database: name, lendsDamagedChains: true) { walk, entry in
            let bytes = entry.chain == nil ? entry.node.inlineValue.bytes.array : []
            return try body(
                entry.node.key.bytes, ValuePlace(inline: bytes, chain: entry.chain, byteCount: entry.node.valueBytes, pageBytes: walk.pageBytes))
        }
    }

    private borrowing func walk(
        database name: String, from start: [UInt8] = [], lendsDamagedChains: Bool = false, _ body: (TreeWalk, TreeWalk.Entry) throws -> Bool
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
        walk.lendsDamagedChains = lendsDamagedChains
        try start.withUnsafeBytes { start in
            try walk.walk(tree, from: start.isEmpty ? nil : start) { entry in
                if entry.node.flags == PageLayout.databaseNode { return true }
                return try body(walk, entry)
            }
        }
        return problems + walk.problems.list
    }

    /// Visits what databases the root that was found leads to, or else the newest sound meta page. The walk can go on to one of them; it is nil
    /// if there is neither.
    @discardableResult
    private borrowing func salvageDatabases(_ visit: (String, TreeRecord) -> Bool) -> (walk: TreeWalk?, problems: [DataFileProblem]) {
        if let foundRoot {
            let walk = walk(from: foundRoot)
            walk.isLenient = isLenient
            walk.visitDatabases(of: foundRoot.tree, visit)
            return (walk, walk.problems.list)
        }
        let metas = readMetas()
        let newestFirst = [metas.first, metas.second].sorted { $0.transactionID > $1.transactionID }
        var problems = DataFileProblems()
        for meta in newestFirst {
            guard meta.fault() == nil, let pageBytes = meta.pageBytes else {
                problems.add(.meta, page: UInt64(meta.index), meta.fault() ?? "page size \(meta.free.pad)")
                continue
            }
            let walk = TreeWalk(reader: reader, meta: meta, pageBytes: pageBytes, fileBytes: fileBytes)
            walk.problems = problems
            walk.isLenient = isLenient
            walk.visitDatabases(of: meta.main, visit)
            return (walk, walk.problems.list)
        }
        return (nil, problems.list)
    }

    private borrowing func walk(from root: RootPage) -> TreeWalk {
        TreeWalk(reader: reader, lastPage: root.lastPage, pageBytes: root.pageBytes, fileBytes: fileBytes)
    }
}

// Without meta pages.
extension DataFile {
    /// If no meta page leads to a database, looks through all pages for leaves that hold nothing but records of named databases: roots of the main
    /// database, of the last commit and of earlier ones whose pages were not used again. Salvage begins at the one that `rank` says is newest.
    ///
    /// - Parameter rank: how new the content is, read through the file as it is lent; nil if it cannot be what is looked for.
    package mutating func findRoot(rank: (borrowing DataFile) -> UInt64?) {
        guard namedDatabases().isEmpty else { return }
        let told = pageBytes, machine = Int(getpagesize())
        // Where no meta page is sound, what one says of the page size may not be either.
        for pageBytes in told == machine ? [told] : [told, machine] {
            var best: (rank: UInt64, root: RootPage)?
            for root in rootPages(pageBytes: pageBytes) {
                foundRoot = root
                if let rank = rank(self), rank > best?.rank ?? 0 { best = (rank, root) }
            }
            foundRoot = best?.root
            if best != nil { return }
        }
    }

    /// Which of the last two commits' meta pages.
    enum CommitAge { case newer, older }

    /// Has salvage begin where a meta page says that its main database lies, whatever else is wrong with that page: of the newer one, the older one does not
    /// know the last commit.
    ///
    /// - Returns: whether there is a root of a main database. Nothing vouches for the place: whether all that it leads to is sound is for the caller to judge.
    mutating func beginAtRoot(of age: CommitAge) -> Bool {
        let (newer, older) = metasByAge()
        guard let pageBytes = newer.pageBytes ?? older.pageBytes, newer.transactionID == older.transactionID &+ 1 else { return false }
        let meta = age == .newer ? newer : older
        guard meta.failure == nil, fileBytes >= 3 * UInt64(pageBytes), (2..<fileBytes / UInt64(pageBytes)).contains(meta.main.root) else { return false }
        foundRoot = withUnsafeTemporaryAllocation(byteCount: pageBytes, alignment: 8) { buffer in
            let position = meta.main.root * UInt64(pageBytes)
            guard reader.read(pageBytes, at: position, into: buffer.baseAddress!) == nil else { return nil }
            return rootPage(meta.main.root, UnsafeRawPointer(buffer.baseAddress!), pageBytes: pageBytes)
        }
        return foundRoot != nil
    }

    /// Whether the newer of the meta pages says by itself that it is damaged.
    var isNewerMetaDamaged: Bool { metasByAge().newer.fault() != nil }

    /// Where the newer of the meta pages says that its main database lies; nil if it says the same of its free list.
    var newerRoot: UInt64? {
        let newer = metasByAge().newer
        return newer.main.root == newer.free.root ? nil : newer.main.root
    }

    private borrowing func metasByAge() -> (newer: Meta, older: Meta) {
        let metas = readMetas()
        return metas.first.transactionID > metas.second.transactionID ? (metas.first, metas.second) : (metas.second, metas.first)
    }

    private borrowing func rootPages(pageBytes: Int) -> [RootPage] {
        var found: [RootPage] = []
        forEachPage(bytes: pageBytes, pageBytes: pageBytes) { page, bytes in
            guard let bytes else { return }
            if page >= 2, let base = bytes.baseAddress, let root = rootPage(page, base, pageBytes: pageBytes) { found.append(root) }
        }
        return found
    }

    /// A page as the root of a main database, if it may be one.
    private borrowing func rootPage(_ number: UInt64, _ page: UnsafeRawPointer, pageBytes: Int) -> RootPage? {
        // Most leaves are told by their first node: a walk has a bitmap of all pages.
        guard page.loadUnaligned(as: UInt64.self) == number, page.loadUnaligned(fromByteOffset: 10, as: UInt16.self) == PageLayout.leafFlag,
            let node = Page(leaf: page, number: number, pageBytes: pageBytes)?.node(at: 0), node.flags == PageLayout.databaseNode
        else { return nil }
        let root = RootPage(number: number, lastPage: fileBytes / UInt64(pageBytes) - 1, pageBytes: pageBytes)
        let walk = walk(from: root)
        var isRoot = true
        walk.walk(root.tree) { entry in
            if case .failure = entry.databaseRecord(lastPage: root.lastPage) { isRoot = false }
            return isRoot
        }
        return isRoot && walk.problems.list.isEmpty ? root : nil
    }
}

/// A leaf page that may be the root of a main database, in a file that has lost its meta pages.
struct RootPage {
    let number: UInt64
    let lastPage: UInt64
    let pageBytes: Int

    var tree: TreeRecord { TreeRecord(leaf: number, entries: 1) }
}

extension TreeWalk {
    fileprivate func visitDatabases(of main: TreeRecord, _ visit: (String, TreeRecord) -> Bool) {
        walk(main) { entry in
            switch entry.databaseRecord(lastPage: lastPage) {
            case .success(let database): return visit(database.name, database.tree)
            case .failure(let fault):
                problems.add(.databaseRecord, page: entry.page, fault.text)
                return true
            }
        }
    }
}
