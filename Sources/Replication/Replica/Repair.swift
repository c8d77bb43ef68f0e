internal import ConversationStore

/// A replica that nobody else has open and of which bytes of archived runs are damaged: puts there what their parity tells, and asks its hub what the
/// others should be.
///
/// Where the hub holds such a run as the same bytes, or encodes the same events to the same bytes, this costs some kilobytes and leaves the store as it was;
/// else the replica must be written anew (``Replica/salvage(at:options:)``) and ask for the events. The hub is not believed: what it sends must lead to
/// the heads that the replica has.
public final class Repair: Sendable {
    public let path: String
    let store: EventStore
    let identity: ReplicaIdentity
    /// Whether the replica is a service account's, of which all is asked for.
    let isService: Bool
    /// Those that parity did not restore.
    let damaged: [DamagedRun]
    /// Runs that were damaged and are as they were, without the hub.
    public let restored: Int
    /// Whether nothing is damaged any more.
    public let isWhole: Bool
    /// Whether the hub may tell more: else this is at its end.
    public var asksHub: Bool { 1...Self.damagedMax ~= damaged.count }
    let options: ReplicaOptions

    /// More is no flipped byte: to ask for so much block by block would take the hub's allowance and little else.
    private static let damagedMax = 64

    /// Looks for damaged runs, and restores those of which the replica's own parity tells the lost bytes. `nil`: nothing can be done so, as there are none, or
    /// too many, or the store cannot even be opened.
    ///
    /// - Throws: `EventLogError`, but not for damage; `ReplicaError` `notReplica`.
    public static func begin(at path: String, options: ReplicaOptions = ReplicaOptions()) throws -> Repair? {
        do {
            let (identity, isService) = try identity(at: path)
            var open = options.store.log
            open.access = .existing
            open.folds = []
            let mended = try EventStore.mendPages(at: path)
            let store = try EventStore.open(at: path, options: open)
            do {
                try StoreReplacement.checkNone(of: store)
                let restored = try store.restoreRuns(mended: mended).count
                let damaged = try store.damagedRuns(spansMax: WireLimits.spansMax)
                func made(isWhole: Bool) -> Repair { Repair(path, store, identity, isService, damaged, restored, isWhole, options) }
                if 1...damagedMax ~= damaged.count { return made(isWhole: false) }
                // What it cannot archive is read from its journal as it lies.
                try? store.close()
                return try restored > 0 || mended.isAny ? made(isWhole: damaged.isEmpty && EventStore.verify(at: path).problems.isEmpty) : nil
            } catch {
                try? store.close()
                throw error
            }
        } catch let error as EventLogError where error.code == .damaged {
            return nil
        }
    }

    private init(
        _ path: String, _ store: EventStore, _ identity: ReplicaIdentity, _ isService: Bool, _ damaged: [DamagedRun], _ restored: Int, _ isWhole: Bool,
        _ options: ReplicaOptions
    ) {
        self.path = path
        self.store = store
        self.identity = identity
        self.isService = isService
        self.damaged = damaged
        self.restored = restored
        self.isWhole = isWhole
        self.options = options
    }

    private static func identity(at path: String) throws -> (ReplicaIdentity, isService: Bool) {
        let facts = try SyncTables.openIfPresent(path).map { side in
            defer { side.close() }
            return try side.read {
                (
                    try $0.get(SyncTables.state, ReplicaState.Key.user), try $0.get(SyncTables.state, ReplicaState.Key.nonce),
                    try $0.get(SyncTables.state, ReplicaState.Key.service) != nil
                )
            }
        }
        guard let facts, let name = facts.0, let nonce = facts.1, nonce.count == 16, let user = UserID(String(decoding: name, as: UTF8.self)) else {
            throw ReplicaError(.notReplica, "\(path) is no replica")
        }
        return (ReplicaIdentity(user: user, nonce: nonce), facts.2)
    }

    /// Begins a session over a transport, as ``Replica/connect(token:scope:send:close:observe:)`` does; just one.
    public func connect(
        token: String, scope: Scope = .mine, send: @escaping @Sendable ([UInt8]) -> Void, close: @escaping @Sendable (Bye) -> Void,
        observe: @escaping @Sendable (RepairEvent) -> Void
    ) -> RepairConnection {
        RepairConnection(self, token: token, scope: scope, send: send, close: close, observe: observe)
    }

    /// Ends it: the replica may be opened again.
    public func close() { try? store.close() }

    func hello(token: String, scope: Scope) -> Hello {
        // All that is the user's, whatever is synced else; and a cursor that cannot hold, as then nothing is sent before heads are.
        Hello(
            versions: WireLimits.versions, replica: identity.replica, nonce: identity.nonce, user: identity.user, token: token,
            cursor: Cursor(store: store.id, incarnation: 0, position: 0), scope: isService || scope == .everything ? .everything : .mine,
            credit: ReplicaSession.window, pushed: [], checkpointSize: 0, wantsFirstScreen: false)
    }

    /// Keeps what of the hub's blocks makes a run sound, and reads the whole store then.
    func finish(_ blocks: [Position: [RunBlock]]) throws -> RepairEvent {
        let repaired = try blocks.isEmpty ? [] : store.repairRuns(blocks)
        try? store.close()
        let isWhole = try repaired.count == damaged.count && EventStore.verify(at: path).problems.isEmpty
        return .done(repaired: repaired.count, isWhole: isWhole)
    }
}

/// What became of a ``Repair``; the last thing that its session tells.
public enum RepairEvent: Sendable {
    /// The hub has answered: so many runs are as they were, beside those that parity had restored. `isWhole`: nothing else is damaged. The repair is closed.
    case done(repaired: Int, isWhole: Bool)
    /// The session ended before the hub had answered.
    case ended(Bye)
    /// The replica's own store fails.
    case failed(any Error)
}
