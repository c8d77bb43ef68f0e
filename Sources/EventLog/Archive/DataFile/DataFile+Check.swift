extension DataFile {
    /// Judges the whole structure: both meta pages, each branch and leaf page, the head of each value's overflow pages, the free list, and
    /// that every page is used once or free. A file without problems can be mapped: liblmdb then reads and writes it without a signal.
    ///
    /// Not judged, as LMDB has nothing to compare it with: the content of keys (beyond their order) and values, a value's size within its
    /// last two bytes (or its last overflow page), and whether a page is an older, equally sound state of itself. For that our own
    /// checksums exist.
    package borrowing func check() -> DataFileReport { check(assuming: [], watching: []) }

    /// As if the headers of some values' first pages were what they should be.
    ///
    /// - Parameter watched: pages of which it is told whether they are free.
    borrowing func check(assuming assumed: Set<UInt64> = [], watching watched: Set<UInt64> = []) -> DataFileReport {
        var report = DataFileReport(fileBytes: fileBytes)
        var problems = DataFileProblems()
        let metas = readMetas()
        // As LMDB chooses.
        let isSecondNewer = metas.first.transactionID < metas.second.transactionID
        let (newer, older) = isSecondNewer ? (metas.second, metas.first) : (metas.first, metas.second)
        if let fault = older.fault() { problems.add(.olderMeta, page: UInt64(older.index), fault) }
        let fault = newer.fault()
        if let fault = fault ?? newer.fault(beside: older) { problems.add(.meta, page: UInt64(newer.index), fault) }
        guard fault == nil, let pageBytes = newer.pageBytes else {
            report.problems = problems.list
            return report
        }
        report.pageBytes = pageBytes
        report.transactionID = newer.transactionID
        report.lastPage = newer.lastPage
        if fileBytes < 2 * UInt64(pageBytes) { problems.add(.fileTooShort, page: 1, "the file has \(fileBytes) bytes") }

        let walk = TreeWalk(reader: reader, meta: newer, pageBytes: pageBytes, fileBytes: fileBytes)
        walk.problems = problems
        walk.assumed = assumed
        return StructureCheck(walk: walk, meta: newer, older: older, report: report, watched: watched).run()
    }

    /// The pages in use that the system refuses to read: who maps the file dies of them by a signal. Reads the whole file.
    borrowing func unreadablePages() -> [UInt64] {
        let unreadable = Set(allUnreadablePages())
        if unreadable.isEmpty { return [] }
        let report = check(watching: unreadable)
        // Behind the last one lies what a commit left that failed.
        return unreadable.subtracting(report.watchedFree).filter { report.lastPage == 0 || $0 <= report.lastPage }.sorted()
    }
}
