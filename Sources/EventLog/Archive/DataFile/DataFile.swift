#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The archive's LMDB file read with `pread`, without liblmdb and never mapped: to judge it before it is mapped, and to salvage it.
///
/// LMDB 0.9 trusts its file: a page number out of range, a bad offset or a truncated file ends the process by a signal. `check` finds all
/// of that beforehand. The file must not be written meanwhile: the caller holds the store's lock.
package struct DataFile: ~Copyable {
    let descriptor: CInt
    /// As it was when the file was opened.
    package let fileBytes: UInt64
    /// Where salvage begins when no meta page leads to a database; see `findRoot`.
    var foundRoot: RootPage?
    /// Whether salvage reads what it can of a damaged page, in any order, and perhaps what was deleted or an older state of it: for who judges each record by
    /// a checksum, and takes the newest.
    var isLenient = false
    private let faults: (any DiskFaults)?
    private let path: String

    /// Opens the file for reading; throws `noSuchStore` or `inputOutput`. What the file holds is judged later.
    package init(path: String) throws(EventLogError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)  // A pipe in its place would wait for its other end.
        guard descriptor >= 0 else {
            let code = errno
            let reason = String(cString: strerror(code))
            throw EventLogError(code == ENOENT ? .noSuchStore : .inputOutput, "\(path) cannot be opened: \(reason)")
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw EventLogError(.inputOutput, "\(path) is not a file that can be read")
        }
        self.descriptor = descriptor
        self.fileBytes = UInt64(status.st_size)
        self.path = path
        faults = FaultyDisks.disk(of: path)
    }

    var reader: PageReader { PageReader(descriptor: descriptor, path: path, faults: faults) }

    deinit { close(descriptor) }

    /// The two meta pages. Where the second lies is what the first says of the page size, as for LMDB; if none lies there, where one without fault does, as what
    /// the first says may be damaged; else this machine's.
    func readMetas() -> (first: Meta, second: Meta) {
        var first = readMeta(at: 0)
        let told = first.pageBytes ?? Int(getpagesize())
        let second = readMeta(at: UInt64(told))
        if second.fault() == nil, second.pageBytes == told { return (first, second) }
        for pageBytes in [Int(getpagesize()), 1 << 12, 1 << 13, 1 << 14, 1 << 15] where pageBytes != told {
            let other = readMeta(at: UInt64(pageBytes))
            guard other.fault() == nil, other.pageBytes == pageBytes else { continue }
            first.knownPageBytes = pageBytes
            return (first, other)
        }
        return (first, second)
    }

    private func readMeta(at offset: UInt64) -> Meta {
        withUnsafeTemporaryAllocation(byteCount: Meta.byteCount, alignment: 8) { buffer in
            let failure = reader.read(Meta.byteCount, at: offset, into: buffer.baseAddress!)
            return Meta(index: offset == 0 ? 0 : 1, bytes: UnsafeRawPointer(buffer.baseAddress!), failure: failure)
        }
    }
}
