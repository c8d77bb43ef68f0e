/// The state of one `check`: the free list first, as a page that is free and in use is then found where it is used.
final class StructureCheck {
    private let walk: TreeWalk
    private let meta: Meta
    private let older: Meta
    private var lastFreeing: UInt64 = 0
    private var report: DataFileReport
    private var databases: [(name: String, tree: TreeRecord)] = []
    private var chunk: [UInt64] = []
    private let watched: Set<UInt64>

    init(walk: TreeWalk, meta: Meta, older: Meta, report: DataFileReport, watched: Set<UInt64>) {
        self.watched = watched
        self.walk = walk
        self.meta = meta
        self.older = older
        self.report = report
    }

    func run() -> DataFileReport {
        judge(meta.free, name: "the free list", order: .integer, isFreeList: true) { self.judgeFreeRecord($0) }
        judgeOrder()
        judge(meta.main, name: "the main database") { self.judgeDatabaseRecord($0) }
        for (name, tree) in databases {
            report.entries[name] = judge(tree, name: name) { entry in
                if entry.node.flags == PageLayout.databaseNode {
                    self.walk.problems.add(.node, page: entry.page, "a database within \(name)")
                }
            }
        }
        if walk.problems.total == 0, walk.met.count + 2 != meta.lastPage + 1 {
            let first = (2..<(meta.lastPage + 1)).first { !walk.met.contains($0) } ?? 0
            walk.problems.add(.unaccountedPages, page: first, "\(meta.lastPage - 1 - walk.met.count) pages are neither used nor free")
        }
        report.problems = walk.problems.list
        report.doubtfulChains = walk.doubtful
        return report
    }

    /// A transaction number with one bit changed can make the older meta page the newer one, and the last commit vanish. The free list
    /// tells: what a transaction let go stands there under its number, and the next transaction cannot yet have used it up.
    private func judgeOrder() {
        guard walk.problems.total == 0, older.transactionID > 0 else { return }
        let olderFreeing = walk.lastFreeingTransaction(older.free) ?? 0
        func fail(_ detail: String) { walk.problems.add(.metaOrder, page: UInt64(older.index), detail) }
        if olderFreeing > older.transactionID {
            fail("of transaction \(older.transactionID), with pages let go by \(olderFreeing)")
        } else if olderFreeing == older.transactionID, lastFreeing < olderFreeing {
            fail("of transaction \(older.transactionID), which let pages go, and \(meta.transactionID) does not know")
        } else if older.mapBytes > meta.mapBytes {
            fail("its map has \(older.mapBytes) bytes, the newer one's \(meta.mapBytes)")
        }
    }

    /// Walks one tree and compares its counts; returns its entries.
    @discardableResult
    private func judge(
        _ tree: TreeRecord,
        name: String,
        order: KeyOrder = .bytes,
        isFreeList: Bool = false,
        _ visit: (TreeWalk.Entry) -> Void
    ) -> UInt64 {
        let problemsBefore = walk.problems.total
        walk.walk(tree, order: order, isFreeList: isFreeList, stopsWhenFull: true) { entry in
            visit(entry)
            return !walk.problems.isFull
        }
        let found = walk.counts
        report.pages.branch += found.pages.branch
        report.pages.leaf += found.pages.leaf
        report.pages.overflow += found.pages.overflow
        guard walk.problems.total == problemsBefore, !walk.problems.isFull else { return found.entries }
        for (what, found, recorded) in [
            ("branch pages", found.pages.branch, tree.branchPages), ("leaf pages", found.pages.leaf, tree.leafPages),
            ("overflow pages", found.pages.overflow, tree.overflowPages), ("entries", found.entries, tree.entries),
        ] where found != recorded {
            walk.problems.add(.counts, page: tree.root, "\(name) has \(found) \(what), its record says \(recorded)")
        }
        return found.entries
    }

    private func judgeDatabaseRecord(_ entry: TreeWalk.Entry) {
        switch entry.databaseRecord(lastPage: meta.lastPage) {
        case .success(let database): databases.append(database)
        case .failure(let fault): walk.problems.add(.databaseRecord, page: entry.page, fault.text)
        }
    }

    /// A record of the free list: the pages that the transaction in its key let go, as a count and that many numbers, descending.
    /// LMDB may leave room behind them, whose content means nothing.
    private func judgeFreeRecord(_ entry: TreeWalk.Entry) {
        let transaction = entry.node.key.loadUnaligned(as: UInt64.self)
        func fail(_ detail: String) { walk.problems.add(.freeList, page: entry.page, "transaction \(transaction): \(detail)") }

        guard entry.node.flags != PageLayout.databaseNode, transaction >= 1, transaction <= meta.transactionID else {
            return fail("not one of \(meta.transactionID)")
        }
        lastFreeing = transaction
        let valueBytes = entry.node.valueBytes
        guard valueBytes >= 8, valueBytes % 8 == 0 else { return fail("\(valueBytes) bytes") }
        var remaining: UInt64?
        var previous = UInt64.max
        var offset = 0
        while offset < valueBytes, remaining != 0 {
            let words = min((valueBytes - offset) / 8, 1 << 13)
            guard read(words, of: entry, at: offset) else { return fail("its record cannot be read") }
            offset += words * 8
            var start = 0
            if remaining == nil {
                guard chunk[0] < UInt64(valueBytes / 8) else { return fail("\(chunk[0]) pages in \(valueBytes) bytes") }
                remaining = chunk[0]
                start = 1
            }
            let count = min(words - start, Int(remaining!))
            for index in start..<(start + count) {
                let page = chunk[index]
                guard page >= 2, page <= meta.lastPage, page < previous else { return fail("page \(page) after \(previous)") }
                walk.markFree(page, listedBy: entry.page)
                report.freePages += 1
                if watched.contains(page) { report.watchedFree.insert(page) }
                previous = page
            }
            remaining! -= UInt64(count)
        }
    }

    /// Reads words of an entry's value into `chunk`.
    private func read(_ words: Int, of entry: TreeWalk.Entry, at offset: Int) -> Bool {
        if chunk.count < words { chunk = Array(repeating: 0, count: words) }
        return chunk.withUnsafeMutableBytes { target in
            guard let chain = entry.chain else {
                let part = UnsafeRawBufferPointer(rebasing: entry.node.inlineValue[offset..<(offset + words * 8)])
                target.copyMemory(from: part)
                return true
            }
            let position = chain * UInt64(walk.pageBytes) + UInt64(PageLayout.headerBytes + offset)
            return walk.reader.read(words * 8, at: position, into: target.baseAddress!) == nil
        }
    }
}
