public import ConversationStore
public import EventLog

/// What a replica shows over its log, for whoever reads its store beside its writer: what is on its way to the hub, and what came ahead of the rest.
///
/// It is to be read before the store is opened: an event that is confirmed in between is then in both, and shown once; the other way round it would
/// be in neither.
public struct ReplicaOverlay {
    public var outbox: [OutboxEntry] { own.entries }
    /// Events that a hub had and lost, which the replica kept aside.
    public let lost: [RecordedEvent]
    private let own: Outbox
    private let previews: Previews

    /// `nil` if the store is no replica.
    ///
    /// - Throws: `EventLogError`.
    public init?(of path: String) throws {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        // At one moment: what passes from one to the other meanwhile is in neither, or in both.
        let found = try side.read { transaction in
            let user = try transaction.get(SyncTables.state, ReplicaState.Key.user).flatMap { UserID(String(decoding: $0, as: UTF8.self)) }
            return (user, try Outbox.entries(in: transaction), try Previews(side, transaction), try Lost.read(transaction))
        }
        guard let user = found.0 else { return nil }
        own = Outbox(side, found.1, identity: ReplicaIdentity(user: user, nonce: [UInt8](repeating: 0, count: 16)))
        (previews, lost) = (found.2, found.3)
    }

    /// Shows it in the store that was opened for reading since.
    public func show(in store: ConversationStore) throws {
        previews.show(in: store)
        Replica.show(own, own.table.conversations, in: store)
    }
}
