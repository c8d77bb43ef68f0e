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
        /// What is before it is not for this user.
        var isFirst: Bool
        /// With the events, checked.
        var shown: Preview
        /// No cursor vouches for it: it is shown until what the hub has there has come.
        var isSuspect = false
        var events: [RecordedEvent] { shown.events }
        var lastSeq: Seq { baseSeq + Seq(shown.events.count) }
    }

    private let side: SideStore
    private var parts: [ConversationID: Part] = [:]

    init(_ side: SideStore) throws {
        self.side = side
        var found: [ConversationID: Part] = [:]
        var events: [ConversationID: [RecordedEvent]] = [:]
        try side.read { transaction in
            try transaction.forEach(SyncTables.previews, from: []) { key, value in
                guard key.count == 24, let id = ConversationID(bytes: key.prefix(16)) else { throw CodecError(.badValue) }
                if key.suffix(8).allSatisfy({ $0 == 0 }) {
                    found[id] = try value.withUnsafeBytes { try Part(decoding: $0) }
                } else {
                    events[id, default: []].append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
                }
                return true
            }
        }
        for (id, events) in events {
            guard let part = found[id] else { continue }
            found[id]!.tree = try HeadCache.extend(part.tree, with: events, seeds: Replica.seeds(part.secret))
            try found[id]!.shown.append(events)
        }
        parts = found
    }

    var holes: [(log: LogID, seqs: ClosedRange<Seq>)] {
        parts.compactMap { id, part in part.baseSeq > 0 && !part.isFirst ? (.conversation(id), 1...part.baseSeq) : nil }
    }

    /// Whether the rest of a log is not for this user.
    func isFirst(_ log: LogID) -> Bool {
        guard case .conversation(let id) = log else { return false }
        return parts[id]?.isFirst ?? false
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

    /// The event at a seq of a log's newest part.
    func event(in log: LogID, at seq: Seq) -> RecordedEvent? {
        guard case .conversation(let id) = log, let part = parts[id], seq > part.baseSeq, seq <= part.lastSeq else { return nil }
        return part.events[Int(seq - part.baseSeq) - 1]
    }

    /// The seq from which on a log's newest part stands here; 0: none does.
    func baseSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 0 }
        return parts[id]?.baseSeq ?? 0
    }

    /// The newest event by the hub's clock of those in a scope.
    func newest(in names: Set<ConversationID>?) -> RecordedEvent? {
        parts.filter { Scope.covers(.conversation($0.key), names) }.values.compactMap(\.events.last).max { ($0.hlc, $0.log.sortKey) < ($1.hlc, $1.log.sortKey) }
    }

    var isEmpty: Bool { parts.isEmpty }

    func show(in store: ConversationStore) {
        for (id, part) in parts { store.setPreview(part.shown, of: id) }
    }

    // Comparing.

    /// Nothing vouches any more for what is held of a scope's logs. Answers which those are, and their events.
    mutating func suspect(in names: Set<ConversationID>?) -> (logs: [LogID], events: [RecordedEvent]) {
        let ids = parts.keys.filter { Scope.covers(.conversation($0), names) }.sorted { $0.description < $1.description }
        for id in ids { parts[id]!.isSuspect = true }
        return (ids.map { .conversation($0) }, ids.flatMap { parts[$0]!.events })
    }

    /// All that the hub has in a scope has come: what it did not show anew goes.
    mutating func dropSuspects(in names: Set<ConversationID>?, of store: ConversationStore) throws {
        for (id, part) in parts where part.isSuspect && Scope.covers(.conversation(id), names) { try drop(.conversation(id), in: store) }
    }

    /// Takes a BASE: what follows it must lead to the log's head.
    mutating func take(_ base: BaseFrame, in store: ConversationStore) throws {
        guard case .conversation(let id) = base.log else { throw ReplicaError(.badPeer, "a BASE of a user's log") }
        let held = try store.log.lastSeq(of: base.log)
        let known = parts[id].flatMap { $0.isSuspect ? nil : $0.baseSeq } ?? 0
        // Where the user's history begins is the last word on it, whatever part was shown before.
        guard held < base.seq, base.seq > known || base.isFirst && !(parts[id]?.isFirst ?? false) else { return }
        guard let range = CompactRange(end: base.seq, encoded: base.range) else { throw ReplicaError(.badPeer, "a BASE without its compact range") }
        _ = try Replica.seeds(base.secret)
        // What cannot be shown must not be kept: the replica could not be opened any more.
        let shown: Preview
        do {
            shown = try Preview(base: base.base, baseSeq: base.seq, isFirst: base.isFirst, events: [])
        } catch let error as EventLogError where error.code == .newerFormat {
            // The protocol's version says which states there are.
            throw ReplicaError(.badPeer, error.message)
        }
        let part = Part(base: base.base, baseSeq: base.seq, tree: range, secret: base.secret, isFirst: base.isFirst, shown: shown)
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
        store.setPreview(part.shown, of: id)
    }

    /// Takes events that follow a preview's last; says whether they do.
    mutating func extend(_ log: LogID, with events: [RecordedEvent], head: LogHead?, in store: ConversationStore) throws -> Bool {
        guard case .conversation(let id) = log, var part = parts[id], !part.isSuspect else { return false }
        let new = events.filter { $0.seq > part.lastSeq }
        if new.isEmpty { return true }
        guard new[0].seq == part.lastSeq + 1 else { return false }
        let tree = try HeadCache.extend(part.tree, with: new, seeds: Replica.seeds(part.secret))
        if let head, head.size == tree.end, head.root != tree.root() {
            throw ReplicaError(.forked, "events of \(log) do not lead to the head that came with them")
        }
        // This copy must be the only one, or all events are copied.
        parts[id] = nil
        defer { parts[id] = part }
        let end = part.events.count
        try part.shown.append(new)
        var isKept = false
        defer { if !isKept { part.shown.removeLast(part.events.count - end) } }
        try side.write { transaction in
            for event in new { try transaction.put(SyncTables.previews, Self.key(id, event.seq), event.kept) }
        }
        isKept = true
        part.tree = tree
        store.extendPreview(by: new, of: id)
        return true
    }

    /// A log has grown from below: when it has reached the preview, that is checked against what the reducers make of the log itself (I4), and dropped.
    mutating func settle(_ log: LogID, heldSeq: Seq, in store: ConversationStore) throws -> [RecordedEvent] {
        guard case .conversation(let id) = log, let part = parts[id], !part.isSuspect, heldSeq >= part.baseSeq else { return [] }
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
        if isFirst { out.put(byte: 1) }
        return out.array()
    }

    fileprivate init(decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        let baseSeq = try reader.varint()
        let base = Array(try reader.lengthPrefixed())
        guard let tree = CompactRange(end: baseSeq, encoded: Array(try reader.lengthPrefixed())) else { throw CodecError(.badValue) }
        self.tree = tree
        secret = Array(try reader.lengthPrefixed())
        isFirst = try !reader.isAtEnd && reader.byte() == 1
        self.baseSeq = baseSeq
        self.base = base
        shown = try Preview(base: base, baseSeq: baseSeq, isFirst: isFirst, events: [])
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
