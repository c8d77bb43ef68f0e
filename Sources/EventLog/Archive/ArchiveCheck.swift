#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What is checked before LMDB may map a file: it dies of damaged or truncated ones.
enum ArchiveCheck {
    /// Walks the file's structure with `pread`, so that nothing that LMDB will follow leads astray.
    ///
    /// A writer in another process may commit while we look: then we look again.
    static func beforeMapping(_ directory: String, isBesideWriter: Bool) throws {
        try beforeMapping(file: Archive.path(directory), isBesideWriter: isBesideWriter)
    }

    static func beforeMapping(file path: String, isBesideWriter: Bool) throws {
        guard Directory.exists(path) else { throw Archive.damaged(path, "it is missing") }
        var tries = 0
        while true {
            let report = try DataFile(path: path).check()
            guard let problem = report.problems.first(where: { isFatal($0.kind) }) else { return }
            guard isBesideWriter, tries < 8 else { throw Archive.damaged(path, "\(problem)") }
            tries += 1
            usleep(5_000 << UInt32(tries))
        }
    }

    /// A lost page costs space only; two meta pages in a strange order are also what LMDB leaves behind a failed write, and a rollback shows
    /// where the journal's last frame and the archive's state are compared.
    static func isFatal(_ kind: DataFileProblem.Kind) -> Bool {
        switch kind {
        case .unaccountedPages, .metaOrder, .olderMeta: false
        default: true
        }
    }
}
