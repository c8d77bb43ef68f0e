internal import ConversationStore

/// The newest parts of logs that are not held whole: what a new device shows before the rest has come. Kept in the side store, shown as an overlay, and
/// dropped when the log is whole.
///
/// For one thread at a time: the replica guards it.
struct Previews {
    fileprivate struct Part {
        var base: [UInt8]
        var baseSeq: Seq
        /// Over all events up to the last of `events`.
        var tree: CompactRange
        var secret: [UInt8]
        var events: [RecordedEvent]
        var lastSeq: Seq { baseSeq + Seq(events.count) }
        var shown: Preview { get throws { try Preview(base: base, baseSeq: baseSeq, events: events) } }
    }

    private let side: SideStore
    private var parts: [ConversationID: Part] = [:]

    init(_ side: SideStore) throws {
        self.side = side
        var found: [ConversationID: Part] = [:]
        try side.read { transaction in
            try transaction.forEach(SyncTables.previews, from: []) { key, value in
                guard key.count == 24, let id = ConversationID(bytes: key.prefix(16)) else { throw CodecError(.badValue) }
                if key.suffix(8).allSatisfy({ $0 == 0 }) {
                    found[id] = try value.withUnsafeBytes { try Part(decoding: $0) }
                } else {
                    found[id]?.events.append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
                }
                return true
            }
        }
        parts = found
        for id in parts.keys { try rebuildTree(id) }
    }

    private mutating func rebuildTree(_ id: ConversationID) throws {
        guard var part = parts[id], !part.events.isEmpty else { return }
        part.tree = try HeadCache.extend(part.tree, with: part.events, seeds: Replica.seeds(part.secret))
        parts[id] = part
    }

    var holes: [(log: LogID, seqs: ClosedRange<Seq>)] {
        parts.compactMap { id, part in part.baseSeq > 0 ? (.conversation(id), 1...part.baseSeq) : nil }
    }

    func has(_ log: LogID) -> Bool {
        guard case .conversation(let id) = log else { return false }
        return parts[id] != nil
    }

    /// The last seq of a log that stands here; 0: none does.
    func lastSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 0 }
        return parts[id]?.lastSeq ?? 0
    }

    func show(in store: ConversationStore) throws {
        for (id, part) in parts { store.setPreview(try part.shown, of: id) }
    }

    /// Takes a BASE: what follows it must lead to the log's head.
    mutating func take(_ base: BaseFrame, in store: ConversationStore) throws {
        guard case .conversation(let id) = base.log else { throw ReplicaError(.badPeer, "a BASE of a user's log") }
        let held = try store.log.lastSeq(of: base.log)
        guard held < base.seq, base.seq > parts[id]?.baseSeq ?? 0 else { return }
        guard let range = CompactRange(end: base.seq, encoded: base.range) else { throw ReplicaError(.badPeer, "a BASE without its compact range") }
        _ = try Replica.seeds(base.secret)
        let part = Part(base: base.base, baseSeq: base.seq, tree: range, secret: base.secret, events: [])
        // What cannot be shown must not be kept: the replica could not be opened any more.
        let shown = try part.shown
        try side.write { transaction in
            var old: [[UInt8]] = []
            try transaction.forEach(SyncTables.previews, from: id.bytes) { key, _ in
                guard key.starts(with: id.bytes) else { return false }
                old.append(key)
                return true
            }
            for key in old { try transaction.delete(SyncTables.previews, key) }
            try transaction.put(SyncTables.previews, Self.key(id, 0), part.encoded())
        }
        parts[id] = part
        store.setPreview(shown, of: id)
    }

    /// Takes events that follow a preview's last; says whether they do.
    mutating func extend(_ log: LogID, with events: [RecordedEvent], head: LogHead?, in store: ConversationStore) throws -> Bool {
        guard case .conversation(let id) = log, var part = parts[id] else { return false }
        let new = events.filter { $0.seq > part.lastSeq }
        if new.isEmpty { return true }
        guard new[0].seq == part.lastSeq + 1 else { return false }
        part.tree = try HeadCache.extend(part.tree, with: new, seeds: Replica.seeds(part.secret))
        if let head, head.size == part.tree.end, head.root != part.tree.root() {
            throw ReplicaError(.forked, "events of \(log) do not lead to the head that came with them")
        }
        part.events += new
        let shown = try part.shown
        try side.write { transaction in
            for event in new { try transaction.put(SyncTables.previews, Self.key(id, event.seq), event.kept) }
        }
        parts[id] = part
        store.setPreview(shown, of: id)
        return true
    }

    /// A log has grown from below: when it has reached the preview, that is checked against what the reducers make of the log itself (I4), and dropped.
    mutating func settle(_ log: LogID, heldSeq: Seq, in store: ConversationStore) throws -> [RecordedEvent] {
        guard case .conversation(let id) = log, let part = parts[id], heldSeq >= part.baseSeq else { return [] }
        // An erasure changes what a state tells, not what is proven: then there is nothing to compare.
        if let own = try store.encodedBase(of: id, at: part.baseSeq), own != part.base, try !store.log.hasErased(log, through: part.baseSeq) {
            throw ReplicaError(.forked, "the state of \(log) at seq \(part.baseSeq) that the hub showed is not what its events make")
        }
        let rest = part.events.filter { $0.seq > heldSeq }
        return rest
    }

    func isReached(_ log: LogID, heldSeq: Seq) -> Bool {
        guard case .conversation(let id) = log, let part = parts[id] else { return false }
        return heldSeq >= part.lastSeq
    }

    /// The log holds all that the preview does.
    mutating func drop(_ log: LogID, in store: ConversationStore) throws {
        guard case .conversation(let id) = log, let part = parts.removeValue(forKey: id) else { return }
        try side.write { transaction in
            try transaction.delete(SyncTables.previews, Self.key(id, 0))
            for event in part.events { try transaction.delete(SyncTables.previews, Self.key(id, event.seq)) }
        }
        store.setPreview(nil, of: id)
    }

    private static func key(_ id: ConversationID, _ seq: Seq) -> [UInt8] { id.bytes + withUnsafeBytes(of: seq.bigEndian) { Array($0) } }
}

extension Previews.Part {
    fileprivate func encoded() -> [UInt8] {
        var out = ByteBuffer(capacity: base.count + 256)
        out.put(varint: baseSeq)
        for bytes in [base, tree.encoded, secret] {
            out.put(varint: UInt64(bytes.count))
            out.put(bytes)
        }
        return out.array()
    }

    fileprivate init(decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        baseSeq = try reader.varint()
        base = Array(try reader.lengthPrefixed())
        guard let tree = CompactRange(end: baseSeq, encoded: Array(try reader.lengthPrefixed())) else { throw CodecError(.badValue) }
        self.tree = tree
        secret = Array(try reader.lengthPrefixed())
        events = []
    }
}

extension RecordedEvent {
    /// As the side store keeps it: its canonical bytes, and the commitment of an erased body in the body's place.
    var kept: [UInt8] {
        let (envelope, body) = EventCodec.encode(self)
        var out = ByteBuffer(capacity: envelope.count + body.count + 16)
        out.put(byte: isErased ? 1 : 0)
        out.put(varint: UInt64(envelope.count))
        out.put(envelope)
        out.put(commitment?.bytes ?? body)
        return out.array()
    }

    init(kept bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        let isErased = try reader.byte() == 1
        let envelope = Array(try reader.lengthPrefixed())
        let rest = Array(try reader.take(reader.remaining))
        guard isErased else {
            self = try EventCodec.decode(envelope: envelope, body: rest)
            return
        }
        guard let commitment = Hash256(bytes: rest) else { throw CodecError(.badValue) }
        self = try EventCodec.decode(envelope: envelope, commitment: commitment)
    }
}
