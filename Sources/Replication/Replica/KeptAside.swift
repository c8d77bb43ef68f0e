public import EventLog

/// What a replica keeps aside of what its hub had, for whoever reads its store beside its writer.
public struct KeptAside {
    /// Events that a hub had and lost.
    public let lost: [RecordedEvent]
    private let suspects: [RecordedEvent]
    private let previews: Previews

    /// `nil` if the store is no replica.
    ///
    /// - Throws: `EventLogError`.
    public init?(of path: String) throws {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        guard try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.user) }) != nil else { return nil }
        // At one moment: what passes from one to the other meanwhile is in one of them.
        self = try side.read { try Self($0, side) }
    }

    init(_ transaction: borrowing SideStore.Reading, _ side: SideStore) throws {
        lost = try Lost.read(transaction)
        suspects = try Lost.read(transaction, in: SyncTables.suspects)
        previews = suspects.isEmpty ? Previews(empty: side) : try Previews(side, transaction)
    }

    /// Whether some may be lost of which that is not known: a sync that compares what is held with what the hub has is under way, or broke off, or left these out.
    public var hasDoubtful: Bool { !suspects.isEmpty }

    /// Those of them that nothing shows as confirmed; what is this replica's own stands there as pending, unless it lies in a hole. The next sync tells whether
    /// the hub has them, or the one that fills the hole.
    ///
    /// - Parameter log: the store's, opened after this was read.
    /// - Throws: `EventLogError`.
    public func doubtful(in log: EventStore) throws -> [RecordedEvent] {
        try suspects.filter { event in
            if case .held = try previews.fate(of: event, in: log) { false } else { true }
        }
    }
}
