import EventLog
import Interchange

/// `import --exact`: makes a store the true copy of the one that wrote the file.
struct ExactImport {
    private static let eventsMax = 2048
    /// Events of a log that are read together to be compared, and how many of them are kept.
    private static let comparedTogether: Seq = 64, comparedMax = 16_384
    private let store: ImportStore
    private(set) var count = ImportCount()
    private var records: [RecordedEvent] = []
    /// Where each of them stands in its file.
    private var lineNumbers: [Int] = []
    private var secrets: [LogID: [UInt8]] = [:]
    private var bytes = 0
    /// What the store holds of some logs, to be compared with the lines that come next.
    private var held: [LogID: ArraySlice<RecordedEvent>] = [:]
    private var heldCount = 0

    init(_ store: ImportStore) { self.store = store }

    /// Takes a file's lines. Where the store holds events already, those of the file must be the same: so it can be given again.
    mutating func take(_ path: String, progress: (_ bytesRead: Int, _ bytesTotal: Int, _ lines: Int) -> Void) throws {
        let before = store.opened?.lastPosition ?? 0
        var decoder = EventLineDecoder()
        var lines = try LineReader(ImportInput.open(path), lineBytesMax: EventLineDecoder.exactLineBytesMax)
        while try lines.advance() {
            if lines.isBlank { continue }
            let result = lines.withLine { bytes -> Result<ExactEventLine, Refusal> in
                do throws(Refusal) { return .success(try decoder.decodeExact(bytes)) } catch { return .failure(error) }
            }
            switch result {
            case .success(let line):
                bytes += lines.withLine { $0.count }
                if before > 0, try isKnown(line.record, path, lines.number) {
                    count.duplicates += 1
                    continue
                }
                // No replica would take it from this store.
                if let what = SegmentCodec.objection(to: line.record) {
                    try refuse(Refusal(.malformed, what), path, lines.number, "No store holds such an event, so no export has it")
                }
                // With a secret of our own the log would get other heads than it had.
                if line.record.seq == 1, line.secret == nil {
                    try refuse(
                        Refusal(.malformed, "secret"), path, lines.number,
                        "Log \(line.record.log) begins without its secret, as in an export that is not exact: import that without --exact")
                }
                if let secret = line.secret, PuncturedSeeds(secret: secret) == nil {
                    try refuse(Refusal(.malformed, "secret"), path, lines.number, "The secret of log \(line.record.log) cannot be read")
                }
                records.append(line.record)
                lineNumbers.append(lines.number)
                if let secret = line.secret { secrets[line.record.log] = secret }
            case .failure(let refusal):
                let refusal = lines.isTooLong ? Refusal(.tooLarge, "line") : refusal
                try refuse(refusal, path, lines.number, "Only what `export --exact` wrote can be taken")
            }
            if records.count >= Self.eventsMax || bytes >= 2 << 20 {
                try commit(path)
                progress(lines.bytesRead, lines.bytesTotal, count.lines)
            }
        }
        try commit(path)
    }

    /// Ends the import with what stands before the line kept.
    private mutating func refuse(_ refusal: Refusal, _ path: String, _ line: Int, _ advice: String) throws {
        try commit(path)
        count.take(refusal)
        throw Failure(.data, "\(path): line \(line): \(refusal.code.rawValue) (\(refusal.detail)). \(advice)")
    }

    private mutating func commit(_ path: String) throws {
        bytes = 0
        guard !records.isEmpty else { return }
        let store = try store.open()
        let before = store.lastPosition
        do {
            count.accepted += try store.adoptBlocking(records, secrets: secrets).count
        } catch let error as EventLogError where error.code == .invalidArgument {
            // What stands before the one that cannot follow is kept.
            let taken = Int(store.lastPosition - before)
            count.accepted += taken
            let line = lineNumbers.indices.contains(taken) ? "line \(lineNumbers[taken]): " : ""
            throw Failure(.data, "\(path): \(line)\(error.message). Only what `export --exact` wrote can be taken")
        }
        records.removeAll(keepingCapacity: true)
        lineNumbers.removeAll(keepingCapacity: true)
        secrets.removeAll(keepingCapacity: true)
    }

    private mutating func isKnown(_ record: RecordedEvent, _ path: String, _ line: Int) throws -> Bool {
        guard let held = try heldEvent(in: record.log, at: record.seq) else { return false }
        guard held.origin == record.origin, held.hlc == record.hlc, held.event == record.event else {
            throw Failure(
                .data, "\(path): line \(line): the store holds another event as seq \(record.seq) of log \(record.log); import it into a new store")
        }
        return true
    }

    /// Lines of a log come by seq: those that follow are read with it.
    private mutating func heldEvent(in log: LogID, at seq: Seq) throws -> RecordedEvent? {
        if let found = held[log]?.first, found.seq == seq { return held[log]?.popFirst() }
        heldCount += Int(Self.comparedTogether)
        if heldCount > Self.comparedMax { (held, heldCount) = ([:], Int(Self.comparedTogether)) }
        let last = seq.addingReportingOverflow(Self.comparedTogether - 1)
        held[log] = try store.open().events(in: log, range: seq...(last.overflow ? .max : last.partialValue))[...]
        return held[log]?.popFirst()
    }
}
