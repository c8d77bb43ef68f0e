import Synchronization

@testable import EventLog

/// A fold that counts each log's events: one that is folded twice, or not at all, shows.
final class Tally: EventFold {
    let name = "tally"
    let version: UInt32 = 1
    let leavesRows = false
    /// What a row that changed counts as in memory: when rows are saved follows from that.
    let rowBytes: Int
    let failures = Failures()
    private let state = Mutex<TallyState?>(nil)
    private let failure = Mutex<EventLogError?>(nil)

    /// Whether savings fail.
    final class Failures: Sendable {
        private let areDue = Mutex(false)

        func set(_ due: Bool) { areDue.withLock { $0 = due } }

        func failIfDue() throws { if areDue.withLock({ $0 }) { throw EventLogError(.diskFull, "as the test wants it") } }
    }

    init(rowBytes: Int) { self.rowBytes = rowBytes }
    /// Whether rows are saved as soon as they may be, or only when the store is closed.
    convenience init(savesSoon: Bool) { self.init(rowBytes: savesSoon ? 1 << 20 : 0) }

    func makeState(over source: FoldTable?) -> any FoldState { TallyState(source, failures, rowBytes: rowBytes) }
    func install(_ new: any FoldState) { state.withLock { $0 = new as? TallyState } }
    func fail(_ error: EventLogError) { failure.withLock { $0 = error } }

    /// Events counted in each log, their positions' sum, and the last seq.
    func row(of log: LogID, in store: EventStore) throws -> [UInt64] {
        if let failure = failure.withLock({ $0 }) { throw failure }
        return try store.foldLock.read { try state.withLock { $0 }!.row(Archive.key(log: log)) }
    }
}

/// `@unchecked Sendable`: the store's fold lock guards it.
final class TallyState: FoldState, @unchecked Sendable {
    private let source: FoldTable?
    private let rowBytes: Int
    private let failures: Tally.Failures
    private var rows: [[UInt8]: [UInt64]] = [:]
    private var dirty: Set<[UInt8]> = []

    init(_ source: FoldTable?, _ failures: Tally.Failures, rowBytes: Int) {
        self.source = source
        self.failures = failures
        self.rowBytes = rowBytes
    }

    func row(_ key: [UInt8]) throws -> [UInt64] {
        if let known = rows[key] { return known }
        return try source?.value(at: key) { bytes in
            var reader = ByteReader(bytes)
            return [try reader.fixed64(), try reader.fixed64(), try reader.fixed64()]
        } ?? [0, 0, 0]
    }

    func fold(_ event: RecordedEvent) throws {
        let key = Archive.key(log: event.log)
        let old = try row(key)
        rows[key] = [old[0] + 1, old[1] &+ event.position, event.seq]
        dirty.insert(key)
    }

    var unsavedBytes: Int { dirty.count * rowBytes }

    private struct Frozen: FrozenRows {
        let rows: [(key: [UInt8], row: [UInt64])]
        let failures: Tally.Failures

        func encode(into batch: inout RowBatch) throws {
            try failures.failIfDue()
            for (key, row) in rows { batch.put(key) { out in for number in row { out.put(fixed64: number) } } }
        }

        func split(into count: Int) -> [any FrozenRows] { rows.count < 2 || count < 2 ? [self] : rows.map { Frozen(rows: [$0], failures: failures) } }
    }

    func freeze() -> any FrozenRows {
        defer { dirty = [] }
        return Frozen(rows: dirty.sorted { $0.lexicographicallyPrecedes($1) }.map { ($0, rows[$0]!) }, failures: failures)
    }

    func settle(_ frozen: any FrozenRows, from place: FrozenPlace) -> FrozenPlace? { nil }
}
