#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Headers of values' first pages, which LMDB needs to find a value, and which follow from the node that names it.
enum ChainMending {
    /// Writes damaged ones anew, if that makes the whole file sound: before anything is written it is judged as it will be. Nobody may write meanwhile.
    ///
    /// - Returns: the keys of the values.
    /// - Throws: `SystemError`; `EventLogError` if it is no file.
    static func mend(file path: String) throws -> [[UInt8]] {
        func isSound(_ report: DataFileReport) -> Bool { !report.problems.contains { ArchiveCheck.isFatal($0.kind) } }
        let data = try DataFile(path: path)
        let report = data.check()
        if isSound(report) || report.doubtfulChains.isEmpty { return [] }
        // One that tells of too many pages is not always found where it lies, but where others' pages are used twice.
        for chains in [report.doubtfulChains.filter(\.isDamaged), report.doubtfulChains] where !chains.isEmpty {
            guard isSound(data.check(assuming: Set(chains.map(\.page)))) else { continue }
            let file = try File(path, O_RDWR)
            for chain in chains { try header(of: chain).withUnsafeBytes { try file.write($0, at: Int(chain.page) * report.pageBytes) } }
            try file.sync()
            return chains.map(\.key)
        }
        return []
    }

    private static func header(of chain: DataFileReport.Chain) -> [UInt8] {
        var out = ByteBuffer(capacity: PageLayout.headerBytes)
        out.put(fixed64: chain.page)
        out.put(fixed32: UInt32(PageLayout.overflowFlag) << 16)
        out.put(fixed32: chain.pages)
        return out.array()
    }
}
