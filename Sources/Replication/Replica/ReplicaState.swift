internal import EventLog

/// Who a replica is to its hub.
struct ReplicaIdentity {
    var user: UserID
    var nonce: [UInt8]
    var replica: ReplicaID

    init(user: UserID, nonce: [UInt8]) {
        self.user = user
        self.nonce = nonce
        replica = Replicas.id(user: user, nonce: nonce)
    }
}

/// A replica's own facts in its side store.
enum ReplicaState {
    enum Key {
        static let user = Array("user".utf8), nonce = Array("nonce".utf8), cursor = Array("cursor".utf8), scope = Array("scope".utf8)
        /// In the cursor's place: how far a session came that had not sent everything.
        static let progress = Array("progress".utf8)
        /// Beside it, the newest event by the hub's clock that has come: what happened while it was sent may lie before `place`, and the cursor in it is older.
        /// Beside a cursor the newest that this covers.
        static let newest = Array("newest".utf8)
        /// The hub's position behind which it may have what waits in the outbox, beside a cursor.
        static let outboxPosition = Array("outbox-position".utf8)
        /// Logs that the hub could not read when it gave the cursor: coded as those to be cut back, each with the last seq for which a head vouches.
        static let unread = Array("unread".utf8)
        /// The last time that an own event was given.
        static let clock = Array("clock".utf8)
        /// The greatest number that an entry of the outbox was given.
        static let outboxID = Array("outbox-id".utf8)
        /// This store's own last position when the cursor was given: what came since lies behind it.
        static let place = Array("place".utf8)
        /// The ids that this replica had before, 16 bytes each.
        static let former = Array("former".utf8)
        /// The nonce of the first id, of which the others are made.
        static let family = Array("family".utf8)
        /// Origins of other ids under which events of this replica's own stand.
        static let own = Array("own".utf8)
        /// There: it is a service account's.
        static let service = Array("service".utf8)
        /// The hub's store id.
        static let hub = Array("hub".utf8)
        /// The last checkpoint's signed note, and the key that signed the first.
        static let checkpoint = Array("checkpoint".utf8), checkpointKey = Array("checkpoint-key".utf8)
        /// Logs to be cut back before the store is opened again.
        static let rewind = Array("rewind".utf8)
        /// Logs to be let go of before the store is opened again, as the hub has all of them: coded as those.
        static let anew = Array("anew".utf8)
        /// Logs to be cut back to what heads vouch for before the store is opened again: coded as those.
        static let retract = Array("retract".utf8)
        /// There: of a newest part something came that no head had vouched for when this was written.
        static let unvouched = Array("unvouched".utf8)
        /// The ends of logs of which something was lost to damage.
        static let damaged = Array("damaged".utf8)
        /// Logs that have come to the heads that they had before the damage, and for which the cursor vouches so far: coded as those to be cut back.
        static let healed = Array("healed".utf8)
        /// All logs whose gaps were filled since the cursor, also those whose old heads were not known: coded as those.
        static let filled = Array("filled".utf8)
        /// So many sessions in a row the line cut before anything came of them: as many bytes.
        static let breaks = Array("breaks".utf8)
        /// What a hub did that it must not: for people and for whoever judges.
        static let evidence = Array("evidence".utf8)
    }

    /// What makes a store a replica.
    static func facts(of identity: ReplicaIdentity) -> [SideStore.Record] {
        [(Key.user, Array(identity.user.string.utf8)), (Key.nonce, identity.nonce)]
    }

    /// The side store of a replica that holds nothing.
    static func side(of identity: ReplicaIdentity) -> [SideStore.TableName: [SideStore.Record]] {
        Dictionary(uniqueKeysWithValues: SyncTables.names.map { ($0, $0 == SyncTables.state ? facts(of: identity) : []) })
    }

    static func encode(_ cursor: Cursor) -> [UInt8] {
        var out = ByteBuffer(capacity: 64)
        cursor.encode(into: &out)
        return out.array()
    }

    /// Behind which of the hub's positions what waits in the outbox may stand, with the opening of the hub in which its cursor was given: a version before
    /// keeps other cursors, and this as it is.
    static func encode(outboxPosition position: Position, beside cursor: Cursor) -> [UInt8] {
        var out = ByteBuffer(capacity: 16)
        out.put(fixed64: position)
        out.put(fixed64: cursor.incarnation)
        return out.array()
    }

    /// 0: it is not that of this cursor.
    static func outboxPosition(_ bytes: [UInt8], beside cursor: Cursor) -> Position {
        guard bytes.count == 16 else { return 0 }
        let (position, incarnation) = (bytes.prefix(8), bytes.suffix(8))
        func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) } }
        return number(incarnation) == cursor.incarnation && number(position) <= cursor.position ? number(position) : 0
    }

    static func cursor(_ bytes: [UInt8]) throws -> Cursor { try bytes.withUnsafeBytes { try Cursor(Fields($0)) } }

    /// How far a session came, and of the logs that it had sent up to somewhere the last seqs for which heads vouch.
    struct Part {
        var progress: PartialCursor
        var unvouched: [LogID: Seq]

        init(_ progress: PartialCursor, unvouched: [LogID: Seq]) { (self.progress, self.unvouched) = (progress, unvouched) }

        func encoded() -> [UInt8] {
            var out = ByteBuffer(capacity: 64)
            progress.encode(into: &out)
            let said = out.array()
            out = ByteBuffer(capacity: 64 + said.count)
            out.put(varint: UInt64(said.count))
            out.put(said)
            out.put(ReplicaState.encode(unvouched))
            return out.array()
        }

        init(decoding bytes: [UInt8]) throws {
            (progress, unvouched) = try bytes.withUnsafeBytes { bytes in
                var reader = ByteReader(bytes)
                let progress = try PartialCursor(Fields(reader.lengthPrefixed()))
                return (progress, try ReplicaState.rewind(Array(try reader.take(reader.remaining))))
            }
        }
    }

    /// Nothing vouches any more for what is held.
    static func forgetCursor(_ transaction: inout SideStore.Writing) throws {
        try transaction.delete(SyncTables.state, Key.cursor)
        try transaction.delete(SyncTables.state, Key.outboxPosition)
        try transaction.delete(SyncTables.state, Key.progress)
        try transaction.delete(SyncTables.state, Key.newest)
        try transaction.delete(SyncTables.state, Key.unread)
        try transaction.delete(SyncTables.state, Key.healed)
        try transaction.delete(SyncTables.state, Key.filled)
    }

    static func encode(_ event: HeldEvent) -> [UInt8] {
        var out = ByteBuffer(capacity: 64)
        out.put(varint: UInt64(event.log.key.count))
        out.put(event.log.key)
        out.put(varint: event.seq)
        out.put(varint: event.hlc.rawValue)
        out.put(event.replica.bytes)
        out.put(varint: event.counter)
        return out.array()
    }

    static func heldEvent(_ bytes: [UInt8]) throws -> HeldEvent {
        try bytes.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            guard let log = LogID(key: Array(try reader.lengthPrefixed())) else { throw CodecError(.badValue) }
            let seq = try reader.varint(), hlc = HLC(rawValue: try reader.varint())
            guard let replica = ReplicaID(bytes: Array(try reader.take(16))) else { throw CodecError(.badValue) }
            let counter = try reader.varint()
            guard reader.isAtEnd else { throw CodecError(.badValue) }
            return HeldEvent(log: log, seq: seq, hlc: hlc, replica: replica, counter: counter)
        }
    }

    static func encode(_ rewind: [LogID: Seq]) -> [UInt8] {
        var out = ByteBuffer(capacity: 64)
        for (log, seq) in rewind.sorted(by: { $0.key < $1.key }) {
            let key = log.key
            out.put(varint: UInt64(key.count))
            out.put(key)
            out.put(varint: seq)
        }
        return out.array()
    }

    static func rewind(_ bytes: [UInt8]) throws -> [LogID: Seq] {
        try bytes.withUnsafeBytes { bytes in
            var result: [LogID: Seq] = [:]
            var reader = ByteReader(bytes)
            while !reader.isAtEnd {
                guard let log = LogID(key: Array(try reader.lengthPrefixed())) else { throw CodecError(.badValue) }
                result[log] = try reader.varint()
            }
            return result
        }
    }
}
