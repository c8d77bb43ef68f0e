internal import Crypto
public import EventLog

/// A fold of a store's events into rows, kept by the store: exactly once for every event, in commit order, saved with each flush as of just the
/// events that are archived, and built anew when its version changes (I4).
///
/// ```swift
/// final class MessageCounts: Projection {
///     static let name = "message-counts"
///     static let version: UInt32 = 1
///     let counts: Table<ConversationID, Count>
///     init(tables: inout ProjectionTables) { counts = tables.table() }
///     func apply(_ event: RecordedEvent) throws {
///         guard case .messageSent = event.event.content else { return }
///         try counts.update(event.event.conversation) { $0 = Count(($0?.value ?? 0) + 1) }
///     }
/// }
/// ```
public protocol Projection: AnyObject, Sendable {
    /// Names it in the store, for ever: ASCII letters, digits, `-` and `.`.
    static var name: String { get }
    /// To be raised when rows mean something else than before: then they are built anew.
    static var version: UInt32 { get }
    /// Takes its tables; the same number of the same types each time. Called once for each state of it that is built.
    init(tables: inout ProjectionTables)
    /// Folds one confirmed event: pure (nothing but the event and the tables counts), synchronous and total (what cannot apply changes
    /// nothing). Throws only what the tables throw.
    func apply(_ event: RecordedEvent) throws
}

/// Hands a projection its tables.
public struct ProjectionTables: ~Copyable {
    private let source: FoldTable?
    private let cacheShare: Double
    private(set) var tables: [AnyTable] = []

    init(source: FoldTable?, cacheShare: Double = 1) {
        self.source = source
        self.cacheShare = cacheShare
    }

    /// The next of the projection's tables.
    ///
    /// - Parameter cacheBytes: how much memory rows may take that are kept for reading only, in a store of the usual `cacheBytes`;
    ///   with another it is as much more or less.
    @inline(__always) public mutating func table<Key, Row>(of type: (Key, Row).Type = (Key, Row).self, cacheBytes: Int = 4 << 20) -> Table<Key, Row> {
        let table = Table<Key, Row>(prefix: UInt8(tables.count), source: source, cacheBytes: Int(Double(cacheBytes) * cacheShare))
        tables.append(AnyTable(table))
        return table
    }
}

/// Who is told of each event that a state took, before readers see its effect.
package struct FoldListener: Sendable {
    /// Whether it would do anything with an event now.
    var isListening: @Sendable () -> Bool
    var told: @Sendable (RecordedEvent) -> Void

    package init(isListening: @escaping @Sendable () -> Bool, told: @escaping @Sendable (RecordedEvent) -> Void) {
        self.isListening = isListening
        self.told = told
    }
}

/// One state of a projection: its reducer and its tables.
final class ProjectionState<P: Projection>: FoldState {
    let projection: P
    private let tables: [AnyTable]
    private let conversations: Conversations?
    private let folded: FoldListener?

    init(source: FoldTable?, cacheShare: Double = 1, folded: FoldListener? = nil) {
        var tables = ProjectionTables(source: source, cacheShare: cacheShare)
        projection = P(tables: &tables)
        conversations = projection as? Conversations
        self.tables = tables.tables
        self.folded = folded
    }

    func prepare(_ events: UnsafeBufferPointer<RecordedEvent>) { conversations?.prepare(events) }

    func fold(_ event: borrowing RecordedEvent) throws {
        try projection.apply(event)
        folded?.told(event)
    }

    /// A projection of others may depend on the order of commits.
    var foldsByLog: Bool { conversations != nil }

    func fold(_ part: RunPart) throws {
        guard let conversations else { return try part.forEachEvent { try fold($0) } }
        try conversations.fold(part)
        // Nobody reads what was folded before the lock is let go of: who listens by then is told in time.
        if let folded, folded.isListening() { try part.forEachEvent { folded.told($0) } }
    }

    /// SHA-256 of the whole state.
    func digest() throws -> [UInt8] {
        if let conversations { return try conversations.digest() }
        var hash = SHA256()
        for table in tables {
            try table.forEachEncoded { row in
                withUnsafeBytes(of: UInt64(row.out.count).littleEndian) { hash.update(bufferPointer: $0) }
                hash.update(bufferPointer: row.out.bytes)
            }
        }
        return Array(hash.finalize())
    }

    /// Takes over the rows that another state's table does not have yet, as they are now: that one's are frozen.
    func takeUnsaved(of live: ProjectionState) { for (table, other) in zip(tables, live.tables) { table.take(other.unsaved()) } }

    var unsavedBytes: Int { tables.reduce(0) { $0 + $1.unsavedBytes() } }

    func freeze() -> any FrozenRows { Frozen(parts: tables.map { $0.freeze() }) }

    func settle(_ rows: any FrozenRows, from place: FrozenPlace) -> FrozenPlace? {
        guard let rows = rows as? Frozen, place.table < tables.count else { return nil }
        if let next = tables[place.table].settle(rows.parts[place.table], place.row, Self.rowsSettledAtOnce) {
            return FrozenPlace(table: place.table, row: next)
        }
        return place.table + 1 < tables.count ? FrozenPlace(table: place.table + 1, row: 0) : nil
    }

    private static var rowsSettledAtOnce: Int { 512 }

    private struct Frozen: FrozenRows {
        /// One for each table.
        let parts: [any FrozenRows]

        func encode(into batch: inout RowBatch) throws { for part in parts { try part.encode(into: &batch) } }

        func split(into count: Int) -> [any FrozenRows] {
            let tables = parts.map { $0.split(into: count) }
            // Without a row, or a table, it is one all the same: its position is written with it.
            return (0..<(tables.map(\.count).max() ?? 1)).map { number in Frozen(parts: tables.map { number < $0.count ? $0[number] : NoRows() }) }
        }
    }

    private struct NoRows: FrozenRows {
        func encode(into batch: inout RowBatch) {}
    }
}

/// A projection as the store sees it, and as its readers do.
///
/// `@unchecked Sendable`: what changes does so with the store's fold lock held for writing, and is read with it held for reading.
package final class ProjectionFold<P: Projection>: EventFold, @unchecked Sendable {
    private var state: ProjectionState<P>?
    private var failure: EventLogError?
    private let cacheShare: Double
    private let folded: FoldListener?
    private let installed: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - cacheShare: how much of the memory for reading that its tables ask for they get.
    ///   - folded: told of each event that a state took, before readers see its effect; of those that a rebuild folds anew, too.
    ///   - installed: told when another state is the one that is shown. No reader is let in meanwhile.
    package init(
        cacheShare: Double = 1, folded: FoldListener? = nil, installed: (@Sendable () -> Void)? = nil
    ) {
        self.cacheShare = cacheShare
        self.folded = folded
        self.installed = installed
    }

    package var name: String { P.name }
    package var version: UInt32 { P.version }
    package var leavesRows: Bool { P.self == Conversations.self }

    package func makeState(over source: FoldTable?) -> any FoldState {
        ProjectionState<P>(source: source, cacheShare: cacheShare, folded: folded)
    }

    package func install(_ state: any FoldState) {
        self.state = state as? ProjectionState<P>
        failure = nil
        installed?()
    }

    package func fail(_ error: EventLogError) { failure = error }

    /// Lends the live state; nothing folds meanwhile, so keep it short.
    package func read<R>(in store: EventStore, _ body: (P) throws -> R) throws -> R {
        try store.foldLock.read { try body(liveState(store).projection) }
    }

    /// The same for a closure that may read the store itself.
    package func readNesting<R>(in store: EventStore, _ body: (P) throws -> R) throws -> R {
        try store.foldLock.readNesting { try body(liveState(store).projection) }
    }

    private func liveState(_ store: EventStore) throws -> ProjectionState<P> {
        if let failure { throw failure }
        guard let state else { throw EventLogError(.projectionMissing, "\(store.path): the projection \(P.name) is not there yet") }
        return state
    }

    package func digest(in store: EventStore) throws -> (digest: [UInt8], position: Position) {
        try store.foldLock.read { _ = try liveState(store) }
        return try store.withSnapshot(of: self) { snapshot in
            (snapshot as? ProjectionState<P>)?.takeUnsaved(of: try liveState(store))
        } _: { state, position in
            (try (state as? ProjectionState<P>)?.digest() ?? [], position)
        }
    }

    package func digestAnew(
        of store: EventStore, through position: Position, progress: ((UInt64, UInt64) throws -> Void)?
    ) throws -> [UInt8] {
        try store.foldAnew(self, through: position, progress: progress) { state in
            guard let state = state as? ProjectionState<P> else { return [] }
            return try state.digest()
        }
    }
}

/// A projection whatever its type, for those who compare its states.
package protocol ComparableFold: EventFold {
    /// A digest of what is shown, and the position that it is the fold of. Others fold and read meanwhile.
    func digest(in store: EventStore) throws -> (digest: [UInt8], position: Position)
    /// A digest of a new fold of the log through a position.
    func digestAnew(of store: EventStore, through position: Position, progress: ((UInt64, UInt64) throws -> Void)?) throws -> [UInt8]
}

extension ProjectionFold: ComparableFold {}
