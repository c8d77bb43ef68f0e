/// State that is folded from a store's events and kept in its archive beside them (I4).
///
/// The store feeds every committed event to the fold's live state, in commit order; each flush writes the rows that changed in the very
/// transaction that archives the events, so that the archived rows are exactly the fold up to the archived position. A state that is missing,
/// or of another version, is built anew from the archive, beside the live one where there is one.
package protocol EventFold: AnyObject, Sendable {
    /// Names the fold in the archive, for ever: ASCII letters, digits, `-` and `.`.
    var name: String { get }
    /// A fold whose rows mean something else than before takes a higher version, and is built anew.
    var version: UInt32 { get }
    /// Whether any event at all leaves it with rows: then an empty table is one that somebody emptied.
    var leavesRows: Bool { get }
    /// A state over a table; without a table it begins empty and stays in memory.
    func makeState(over source: FoldTable?) -> any FoldState
    /// Puts a state in the place of the one that is shown. Called with the store's fold lock held for writing.
    func install(_ state: any FoldState)
    /// The live state can no longer be trusted: readers get the error instead.
    func fail(_ error: EventLogError)
}

/// One fold's rows, in memory over a table. The store calls it from one thread at a time, with the fold lock held for writing.
package protocol FoldState: AnyObject, Sendable {
    /// Told of events that are folded next, so that what they change can be fetched from memory for all of them at once.
    func prepare(_ events: UnsafeBufferPointer<RecordedEvent>)
    /// Folds one event: total, never refusing. Throws only when a row cannot be read.
    func fold(_ event: borrowing RecordedEvent) throws
    /// Whether events of one log may be folded before those of another that were committed earlier: nothing of the state depends on how logs are interleaved.
    var foldsByLog: Bool { get }
    /// Folds events of a log where they lie, if it folds by log: just as one after the other.
    func fold(_ part: RunPart) throws
    /// About how many bytes of memory the rows hold that the table does not have yet.
    var unsavedBytes: Int { get }
    /// What changed since it was last asked; later changes do not touch it.
    func freeze() -> any FrozenRows
    /// The rows are in the table now. Takes note of some of them, so that readers need not wait for all, and answers where to go on.
    func settle(_ rows: any FrozenRows, from place: FrozenPlace) -> FrozenPlace?
}

/// How far a state has taken note of frozen rows.
package struct FrozenPlace: Sendable {
    package var table: Int
    package var row: Int

    package init(table: Int = 0, row: Int = 0) {
        self.table = table
        self.row = row
    }
}

extension FoldState {
    func prepare(_ events: UnsafeBufferPointer<RecordedEvent>) {}
    var foldsByLog: Bool { false }
    func fold(_ part: RunPart) throws { try part.forEachEvent { try fold($0) } }

    /// The rows are in the table now; for a state that nobody else reads.
    func settle(_ rows: any FrozenRows) {
        var place: FrozenPlace? = FrozenPlace()
        while let next = place { place = settle(rows, from: next) }
    }
}

/// Rows as they were at one moment, to be written by another thread.
package protocol FrozenRows: Sendable {
    /// Hands out the rows in ascending order of their keys; `nil` deletes.
    func encode(into batch: inout RowBatch) throws
    /// The same rows in at most so many parts, which different threads may encode; each is settled by itself.
    func split(into count: Int) -> [any FrozenRows]
}

extension FrozenRows {
    package func split(into count: Int) -> [any FrozenRows] { [self] }
}

/// Encoded rows, ascending by key.
package struct RowBatch: ~Copyable {
    struct Row {
        var key: [UInt8]
        var value: Range<Int>?
    }
    private(set) var rows: [Row] = []
    private(set) var bytes = ByteBuffer(capacity: 1 << 16)

    package init() {}

    /// Keeps its memory.
    mutating func removeAll() {
        rows.removeAll(keepingCapacity: true)
        bytes.removeAll()
    }

    /// Adds a row whose value the closure writes.
    package mutating func put(_ key: [UInt8], _ encode: (inout ByteBuffer) throws -> Void) rethrows {
        let start = bytes.count
        try encode(&bytes)
        Archive.seal(key, from: start, in: &bytes)
        rows.append(Row(key: key, value: start..<bytes.count))
    }

    package mutating func delete(_ key: [UInt8]) { rows.append(Row(key: key, value: nil)) }

    func write(to table: LMDBEnvironment.Table, _ transaction: inout WriteTransaction) throws {
        for row in rows {
            if let value = row.value {
                try transaction.put(table, row.key, UnsafeRawBufferPointer(rebasing: bytes.bytes[value]))
            } else {
                try transaction.delete(table, row.key)
            }
        }
    }
}
