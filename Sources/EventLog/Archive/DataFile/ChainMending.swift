#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Headers of values' first pages, which LMDB needs to find a value, and which follow from the node that names it.
enum ChainMending {
    /// Writes damaged ones anew, if that makes the whole file sound: before anything is written it is judged as it will be. Nobody may write meanwhile.
    ///
    /// - Returns: the pages that were written.
    /// - Throws: `SystemError`; `EventLogError` if it is no file.
    static func mend(file path: String) throws -> Set<UInt64> {
        let data = try DataFile(path: path)
        let report = data.check()
        guard report.problems.contains(where: { ArchiveCheck.isFatal($0.kind) }) else { return [] }
        let damaged = report.doubtfulChains.filter(\.isDamaged)
        // One that tells of too many pages is not found where it lies, but where others' pages are used twice; and it may be right.
        let ways = (damaged.isEmpty ? [] : [damaged]) + report.doubtfulChains.lazy.filter { !$0.isDamaged }.prefix(triedMax).map { damaged + [$0] }
        for chains in ways {
            // Nothing else may be wrong: not even a page lost, or what names the chain could be what is damaged.
            guard data.check(assuming: Set(chains.map(\.page))).problems.allSatisfy({ $0.kind == .olderMeta }) else { continue }
            let file = try File(path, O_RDWR)
            for chain in chains { try header(of: chain).withUnsafeBytes { try file.write($0, at: Int(chain.page) * report.pageBytes) } }
            try file.sync()
            return Set(chains.map(\.page))
        }
        return []
    }

    /// Each try walks the whole file.
    private static let triedMax = 32

    private static func header(of chain: DataFileReport.Chain) -> [UInt8] { PageLayout.chainHeader(page: chain.page, pages: UInt64(chain.pages)) }
}
