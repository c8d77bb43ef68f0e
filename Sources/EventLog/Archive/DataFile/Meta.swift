/// One of the file's first two pages (`MDB_meta`): transaction N commits by writing page N & 1.
struct Meta {
    static let byteCount = 152
    private static let magic: UInt32 = 0xBEEF_C0DE
    private static let version: UInt32 = 1
    private static let integerKey: UInt16 = 0x08
    private static let noSubdirectory: UInt16 = 0x4000

    let index: Int
    let number: UInt64
    let pageFlags: UInt16
    let magic: UInt32
    let version: UInt32
    let address: UInt64
    let mapBytes: UInt64
    let free: TreeRecord
    let main: TreeRecord
    let lastPage: UInt64
    let transactionID: UInt64
    let failure: PageReader.Failure?
    /// What the file's pages are known to have, whatever this one says.
    var knownPageBytes: Int?

    init(index: Int, bytes: UnsafeRawPointer, failure: PageReader.Failure?) {
        self.index = index
        self.failure = failure
        number = bytes.loadUnaligned(as: UInt64.self)
        pageFlags = bytes.loadUnaligned(fromByteOffset: 10, as: UInt16.self)
        magic = bytes.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
        version = bytes.loadUnaligned(fromByteOffset: 20, as: UInt32.self)
        address = bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
        mapBytes = bytes.loadUnaligned(fromByteOffset: 32, as: UInt64.self)
        free = TreeRecord(bytes + 40)
        main = TreeRecord(bytes + 88)
        lastPage = bytes.loadUnaligned(fromByteOffset: 136, as: UInt64.self)
        transactionID = bytes.loadUnaligned(fromByteOffset: 144, as: UInt64.self)
    }

    /// Nil unless it is one that LMDB writes: a machine's page size, at most 32 KiB.
    var pageBytes: Int? {
        guard failure == nil, magic == Self.magic, knownPageBytes.map({ $0 == Int(free.pad) }) ?? true else { return nil }
        return (12...15).contains(free.pad.trailingZeroBitCount) && free.pad.nonzeroBitCount == 1 ? Int(free.pad) : nil
    }

    /// What is wrong with it by itself; nil if nothing.
    func fault() -> String? {
        if let failure { return failure.description }
        guard number == UInt64(index), pageFlags == PageLayout.metaFlag else { return "number \(number), flags \(pageFlags) in its header" }
        guard magic == Self.magic else { return "not LMDB's magic number" }
        guard version == Self.version else { return "version \(version)" }
        guard address == 0 else { return "it asks for a fixed address" }
        guard let pageBytes else { return "page size \(free.pad)" }
        // A file made with MDB_NOSUBDIR keeps that flag for ever; LMDB does not read it again.
        guard free.flags & ~Self.noSubdirectory == Self.integerKey else { return "free list flags \(free.flags)" }
        guard main.flags == 0, main.pad == 0 else { return "main database flags \(main.flags), pad \(main.pad)" }
        guard mapBytes <= 1 << 46, lastPage >= 1, lastPage < mapBytes / UInt64(pageBytes) else {
            return "last page \(lastPage) in a map of \(mapBytes) bytes"
        }
        // The second meta page holds 0 only as it was created, beside a first that does.
        guard transactionID & 1 == UInt64(index) || transactionID == 0 else { return "transaction \(transactionID)" }
        if transactionID == 0 {
            guard free.isEmpty, main.isEmpty, lastPage == 1 else { return "content in transaction 0" }
        }
        if let fault = free.fault(lastPage: lastPage) { return "free list: \(fault)" }
        if let fault = main.fault(lastPage: lastPage) { return "main database: \(fault)" }
        return nil
    }

    /// What is wrong between the newer (`self`) and the older one; nil if nothing.
    func fault(beside older: Meta) -> String? {
        let isInitial = transactionID == 0 && older.transactionID == 0
        guard isInitial || transactionID == older.transactionID &+ 1 else {
            return "transactions \(older.transactionID) and \(transactionID) do not follow each other"
        }
        guard free.pad == older.free.pad, free.flags == older.free.flags else { return "the meta pages disagree on page size or flags" }
        guard lastPage >= older.lastPage else { return "the last page went back from \(older.lastPage) to \(lastPage)" }
        return nil
    }
}
