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
        guard let name = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.user) }), let user = UserID(String(decoding: name, as: UTF8.self)) else {
            return nil
        }
        // First: a conversation that comes in between is not taken for one that is not here.
        own = try Outbox(side, identity: ReplicaIdentity(user: user, nonce: [UInt8](repeating: 0, count: 16)))
        previews = try Previews(side)
        lost = try Lost.read(side)
    }

    /// Shows it in the store that was opened for reading since.
    public func show(in store: ConversationStore) throws {
        previews.show(in: store)
        Replica.show(own, own.table.conversations, in: store)
    }
}
