public import ConversationStore

/// What a replica shows over its log, for whoever reads its store beside its writer: what is on its way to the hub, and what came ahead of the rest.
///
/// It is to be read before the store is opened: an event that is confirmed in between is then in both, and shown once; the other way round it would
/// be in neither.
public struct ReplicaOverlay {
    /// With what a hub lost and the next opening puts there.
    public var outbox: [OutboxEntry] { own.entries }
    private let own: Outbox
    private let previews: Previews
    private let suspects: Suspects

    /// `nil` if the store is no replica.
    ///
    /// - Throws: `EventLogError`.
    public init?(of path: String) throws {
        guard let side = try SyncTables.openIfPresent(path) else { return nil }
        defer { side.close() }
        // At one moment: what passes from one to the other meanwhile is in neither, or in both.
        let found = try side.read { transaction -> (Outbox, Previews, Suspects, offers: [RecordedEvent])? in
            guard let user = try transaction.get(SyncTables.state, ReplicaState.Key.user).flatMap({ UserID(String(decoding: $0, as: UTF8.self)) }) else {
                return nil
            }
            let nonce = try transaction.get(SyncTables.state, ReplicaState.Key.nonce) ?? [UInt8](repeating: 0, count: 16)
            let identity = ReplicaIdentity(user: user, nonce: nonce)
            return (
                Outbox(side, try Outbox.entries(in: transaction), lastID: try Outbox.lastID(in: transaction), identity: identity),
                try Previews(side, transaction),
                try Suspects(transaction, Identities.own(transaction, identity), withOffers: false), try Lost.read(transaction, in: SyncTables.offers)
            )
        }
        guard let found else { return nil }
        (own, previews, suspects) = (found.0, found.1, found.2)
        own.assumeFirst(found.offers)
    }

    /// Shows it in the store that was opened for reading since.
    public func show(in store: ConversationStore) throws {
        previews.show(in: store)
        Replica.show(own, suspects, previews, own.table.conversations.union(suspects.conversations), in: store)
    }
}
