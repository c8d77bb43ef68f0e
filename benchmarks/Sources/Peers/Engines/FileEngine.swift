import EventLog
import Glibc

/// A preallocated file that is written round and round: one pwrite and one fdatasync a commit. It is no store, but what no
/// store on this disk can beat.
final class FileEngine: Engine {
    private static let bytesMax = 64 << 20
    private let file: CInt
    private let options: EngineOptions
    private var sequencer: Sequencer
    private var end = 0
    private var batch: [UInt8] = []
    private var row: [UInt8] = []

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        self.options = options
        sequencer = Sequencer(after: held)
        file = Glibc.open(directory + "/file", O_RDWR | O_CREAT, 0o600)
        guard file >= 0 else { throw EngineError("open: errno \(errno)") }
        // A page at a time: pages that came in one write are one folio, which is counted whole each time it turns dirty.
        let zeros = [UInt8](repeating: 0, count: 4096)
        for offset in stride(from: 0, to: Self.bytesMax, by: zeros.count) { try write(zeros, at: offset) }
        guard fsync(file) == 0 else { throw EngineError("fsync: errno \(errno)") }
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws {
        guard pwrite(file, bytes, bytes.count, off_t(offset)) == bytes.count else { throw EngineError("pwrite: errno \(errno)") }
    }

    func append(_ items: ArraySlice<Item>) throws {
        batch.removeAll(keepingCapacity: true)
        for item in items {
            let (seq, position) = sequencer.next(item.event.conversation)
            try Row.encode(item, position: position, into: &row)
            batch.appendID(item.event.conversation)
            batch.appendVarint(seq)
            batch.appendVarint(UInt64(row.count))
            batch += row
        }
        if end + batch.count > Self.bytesMax { end = 0 }
        try write(batch, at: end)
        end += batch.count
        if options.isDurable, fdatasync(file) != 0 { throw EngineError("fdatasync: errno \(errno)") }
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        throw EngineError("the file engine keeps nothing to scan")
    }

    func close() throws { _ = Glibc.close(file) }
}
