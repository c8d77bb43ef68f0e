internal import ConversationStore
internal import EventLog

extension Previews {
    /// A newest part: a state, and the events behind it.
    struct Part {
        var base: [UInt8]
        var baseSeq: Seq
        /// The compact range over what is up to `baseSeq`.
        var range: [UInt8]
        /// Over all events up to the last of `events`.
        var tree: CompactRange
        var secret: [UInt8]
        /// What is before it is not for this user.
        var isFirst: Bool
        /// Something of the log, or an older part, was held when the base came, of which the hub may have erased some by then: then they are not compared.
        var isBesideOlder: Bool
        /// With the events, checked.
        var shown: Preview
        /// No cursor vouches for it: it is shown until what the hub has there has come.
        var isSuspect = false
        /// A part that begins further down is coming: this one is shown until that reaches as far.
        var isOutgrown = false
        var events: [RecordedEvent] { shown.events }
        var lastSeq: Seq { baseSeq + Seq(shown.events.count) }
    }
}

extension Previews.Part {
    /// What a BASE begins.
    ///
    /// - Throws: `ReplicaError` `badPeer` for what no hub of this protocol's versions sends.
    init(_ base: BaseFrame, isBesideOlder: Bool) throws {
        guard let tree = CompactRange(end: base.seq, encoded: base.range) else { throw ReplicaError(.badPeer, "a BASE without its compact range") }
        _ = try Replica.seeds(base.secret)
        // What cannot be shown must not be kept: the replica could not be opened any more.
        do {
            shown = try Preview(base: base.base, baseSeq: base.seq, isFirst: base.isFirst, events: [])
        } catch let error as EventLogError where error.code == .newerFormat {
            // The protocol's version says which states there are.
            throw ReplicaError(.badPeer, error.message)
        }
        (self.base, baseSeq, range, secret) = (base.base, base.seq, base.range, base.secret)
        (self.tree, isFirst, self.isBesideOlder) = (tree, base.isFirst, isBesideOlder && !base.isFirst)
    }

    /// Of some events those behind the last, if they follow it.
    func following(_ events: [RecordedEvent]) -> [RecordedEvent]? {
        let new = events.filter { $0.seq > lastSeq }
        return new.first.map { $0.seq == lastSeq + 1 } ?? true ? new : nil
    }

    mutating func append(_ new: [RecordedEvent], head: LogHead?) throws {
        let tree = try HeadCache.extend(tree, with: new, seeds: Replica.seeds(secret))
        if let head, head.size == tree.end, head.root != tree.root() {
            throw ReplicaError(.forked, "events of \(new[0].log) do not lead to the head that came with them")
        }
        try shown.append(new)
        self.tree = tree
    }

    /// Of some events those that lie before this part and follow a seq; none if the first of them is missing.
    func before(_ events: [RecordedEvent], behind seq: Seq) -> [RecordedEvent] {
        let between = events.filter { seq < $0.seq && $0.seq <= baseSeq }
        return between.first?.seq == seq + 1 ? between : []
    }

    /// The same under another copy of the log's secret: without the bodies whose salts are gone there. `nil`: it is another secret.
    func under(_ secret: [UInt8]) throws -> Self? {
        if secret == self.secret { return self }
        guard let base = CompactRange(end: baseSeq, encoded: range) else { return nil }
        let seeds = try Replica.seeds(secret)
        let events = try Salts.move(events, from: Replica.seeds(self.secret), to: seeds)
        guard Salts.hasAll(of: events, seeds), try HeadCache.extend(base, with: events, seeds: seeds).root() == tree.root() else { return nil }
        var part = self
        part.secret = secret
        part.shown = try Preview(base: self.base, baseSeq: baseSeq, isFirst: isFirst, events: events)
        return part
    }

    /// A part that begins as this one, and goes on as another with the same secret: if what stands before that leads there from this base.
    func going(on new: Self, over before: [RecordedEvent]) throws -> Self? {
        guard let base = CompactRange(end: baseSeq, encoded: range), let end = CompactRange(end: new.baseSeq, encoded: new.range) else { return nil }
        guard try HeadCache.extend(base, with: before, seeds: Replica.seeds(secret)).root() == end.root() else { return nil }
        var whole = new
        (whole.base, whole.baseSeq, whole.range) = (self.base, baseSeq, range)
        // Events prove no state: of what is told of those before the base, something may have been erased then that is not any more.
        whole.isBesideOlder = true
        whole.shown = try Preview(base: self.base, baseSeq: baseSeq, isFirst: false, events: before + new.events)
        return whole
    }

    /// Takes over what is held already behind this base.
    mutating func goOn(with known: Self, _ log: LogID) throws {
        let events = try Salts.move(known.events.filter { $0.seq > baseSeq }, from: Replica.seeds(known.secret), to: Replica.seeds(secret))
        if events.isEmpty { return }
        try append(events, head: nil)
        guard tree.root() == known.tree.root() else {
            throw ReplicaError(.forked, "the BASE of \(log) at seq \(baseSeq) and the events behind it that are held do not lead to the head that is held")
        }
    }

    func encoded() -> [UInt8] {
        var out = ByteBuffer(capacity: base.count + 256)
        out.put(varint: baseSeq)
        for bytes in [base, range, secret] {
            out.put(varint: UInt64(bytes.count))
            out.put(bytes)
        }
        if isFirst || isBesideOlder { out.put(byte: isFirst ? 1 : 2) }
        return out.array()
    }

    init(decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        let baseSeq = try reader.varint()
        let base = Array(try reader.lengthPrefixed())
        range = Array(try reader.lengthPrefixed())
        guard let tree = CompactRange(end: baseSeq, encoded: range) else { throw CodecError(.badValue) }
        self.tree = tree
        secret = Array(try reader.lengthPrefixed())
        let kind = try reader.isAtEnd ? 0 : reader.byte()
        isFirst = kind == 1
        isBesideOlder = kind == 2
        self.baseSeq = baseSeq
        self.base = base
        shown = try Preview(base: base, baseSeq: baseSeq, isFirst: isFirst, events: [])
    }
}
