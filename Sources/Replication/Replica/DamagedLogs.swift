internal import ConversationStore

/// Logs of which damage took something: what is asked of the hub for them, and what stands behind the gaps until it has come.
///
/// For one thread at a time: the replica guards it.
struct DamagedLogs {
    private let side: SideStore
    /// What each had before, which it must have again. Where that went with the damage, the size alone is known, of the events that were saved.
    private var heads: [LogID: LogHead] = [:]
    /// Logs that have come to their old heads since the last cursor, with the sizes of those: the cursor that vouched for them does so still, though their
    /// events lie behind its place.
    private(set) var healed: [LogID: Seq] = [:]
    /// Of these the hub was asked for its head, and keeping what it sends compares that with what is held.
    private var comparing: Set<LogID> = []
    /// How far each log went when the hub was asked for what follows: it is asked once, or frames that fill nothing would be answered by ever more.
    private var asked: [LogID: Seq] = [:]
    /// The root of a head of which the size alone is known: no tree has it.
    static let unknownRoot = Hash256(bytes: [UInt8](repeating: 0, count: Hash256.byteCount))!

    init(_ side: SideStore) throws {
        self.side = side
        if let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.damaged) }) { heads = try Self.decode(bytes) }
        if let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.healed) }) { healed = try ReplicaState.rewind(bytes) }
    }

    /// A newer cursor vouches for them, or none for anything; the disk follows with what is written of that.
    mutating func forgetHealed() { healed = [:] }

    var isEmpty: Bool { heads.isEmpty }

    func has(_ log: LogID) -> Bool { heads[log] != nil }

    func hasAny(in scope: Scope) -> Bool {
        if isEmpty { return false }
        let names = scope.names
        return heads.keys.contains { Scope.covers($0, names) }
    }

    /// A log's end before the damage, and what of it stands beside the log.
    struct Rest {
        var log: LogID
        var size: Seq
        var seqs: [Seq]
    }

    func rests() throws -> [Rest] {
        try heads.sorted { $0.key < $1.key }.map { log, head in
            var rest = Rest(log: log, size: head.size, seqs: [])
            try side.read { transaction in
                try transaction.forEach(SyncTables.ahead, from: log.key) { key, _ in
                    guard key.starts(with: log.key), key.count == log.key.count + 8 else { return false }
                    rest.seqs.append(Self.seq(key))
                    return true
                }
            }
            return rest
        }
    }

    /// The next gap of each log: what a session begins with. A gap may have been filled before a crash, and what stands behind it not been taken.
    mutating func wishes(in store: EventStore, _ trees: HeadCache, beside previews: Previews) throws -> [Fetch] {
        (comparing, asked) = ([], [:])
        return try heads.keys.sorted().compactMap { try settle($0, in: store, trees, beside: previews) }
    }

    private mutating func wish(for log: LogID, in store: EventStore) throws -> Fetch? {
        guard let head = heads[log] else { return nil }
        let held = try store.lastSeq(of: log)
        guard held < head.size else {
            // Its last event comes with the hub's head there.
            guard head.root == Self.unknownRoot, comparing.insert(log).inserted else { return nil }
            return Fetch(log: log, from: head.size, through: head.size)
        }
        let next = try firstAhead(of: log, behind: held)
        return Fetch(log: log, from: held + 1, through: next.map { $0 - 1 } ?? head.size)
    }

    private func firstAhead(of log: LogID, behind seq: Seq) throws -> Seq? {
        var found: Seq?
        try side.read { transaction in
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq + 1)) { key, _ in
                if key.starts(with: log.key), key.count == log.key.count + 8 { found = Self.seq(key) }
                return false
            }
        }
        return found
    }

    /// The hub has filled a gap: what stands behind it is taken too. Answers what to ask for next.
    mutating func settle(_ log: LogID, in store: EventStore, _ trees: HeadCache, beside previews: Previews) throws -> Fetch? {
        guard let head = heads[log] else { return nil }
        if previews.lastSeqOfFirst(log) >= head.size {
            // What is before that is not for this user any more, and never comes.
            let root = try previews.root(of: log, at: head.size) ?? head.root
            guard root == head.root || head.root == Self.unknownRoot else { throw Self.forked(log, head) }
            try end(log)
            return nil
        }
        while let batch = try nextAhead(of: log, behind: store.lastSeq(of: log)) {
            // What the hub has erased since comes without its body.
            let seeds = try store.knownSeeds(of: log)
            let sound = batch.prefix { event in seeds.map { Salts.hasAll(of: [event], $0) } ?? true }
            if !sound.isEmpty { _ = try store.adoptBlocking(Array(sound), secrets: [:]) }
            guard sound.count == batch.count else {
                try side.write { try $0.delete(SyncTables.ahead, Self.key(log, batch[sound.count].seq)) }
                break
            }
        }
        if let wish = try wish(for: log, in: store) {
            let held = try store.lastSeq(of: log)
            return asked.updateValue(held, forKey: log) == held ? nil : wish
        }
        let aside = try head.root == Self.unknownRoot ? [] : aside(log, through: head.size)
        guard try head.root == Self.unknownRoot || isAsBefore(log, head, aside, in: store, trees) else { throw Self.forked(log, head) }
        if head.root != Self.unknownRoot { healed[log] = head.size }
        try end(log, aside)
        return nil
    }

    /// A log comes to what its head said; or to what its own events did, which were set aside as they did not lead there.
    private func isAsBefore(_ log: LogID, _ head: LogHead, _ aside: [RecordedEvent], in store: EventStore, _ trees: HeadCache) throws -> Bool {
        guard let root = try trees.tree(of: log, through: head.size)?.root() else { return false }
        if root == head.root { return true }
        guard !aside.isEmpty, let seeds = try store.knownSeeds(of: log) else { return false }
        // Where the hub has erased one of them since, nothing can be told.
        return (try? HeadCache.extend(CompactRange(), with: aside, seeds: seeds))?.root() == root
    }

    /// The events of a log that were set aside, if that were all.
    private func aside(_ log: LogID, through size: Seq) throws -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        try side.read { transaction in
            try transaction.forEach(SyncTables.suspects, from: log.key) { key, value in
                guard key.starts(with: log.key), key.count == log.key.count + 16 else { return false }
                events.append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
                return true
            }
        }
        return events.last?.seq == size && events.map(\.seq).elementsEqual(1...size) ? events : []
    }

    private static func forked(_ log: LogID, _ head: LogHead) -> ReplicaError {
        ReplicaError(.forked, "for the damaged events of \(log) the hub sent others: they do not lead to its head at seq \(head.size), \(head.root)")
    }

    /// Nothing of a log is missing any more, and what was set aside of all of it has done its service.
    private mutating func end(_ log: LogID, _ aside: [RecordedEvent] = []) throws {
        heads[log] = nil
        let (left, healed) = (heads, healed)
        try side.write { transaction in
            var old: [[UInt8]] = []
            try transaction.forEach(SyncTables.ahead, from: log.key) { key, _ in
                guard key.starts(with: log.key), key.count == log.key.count + 8 else { return false }
                old.append(key)
                return true
            }
            for key in old { try transaction.delete(SyncTables.ahead, key) }
            try Lost.delete(aside, in: SyncTables.suspects, &transaction)
            try Self.save(left, &transaction)
            if !healed.isEmpty { try transaction.put(SyncTables.state, ReplicaState.Key.healed, ReplicaState.encode(healed)) }
        }
    }

    /// The events that follow what is held, without a gap, some at a time.
    private func nextAhead(of log: LogID, behind seq: Seq) throws -> [RecordedEvent]? {
        var events: [RecordedEvent] = []
        try side.read { transaction in
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq + 1)) { key, value in
                guard key == Self.key(log, seq + 1 + Seq(events.count)) else { return false }
                events.append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
                return events.count < 4096
            }
        }
        return events.isEmpty ? nil : events
    }

    /// Nothing vouches any more for what the logs of a scope had: they are filled like any others. Answers what stands behind their gaps, to be
    /// compared when that has come.
    mutating func giveUp(in names: Set<ConversationID>?, _ transaction: inout SideStore.Writing) throws -> [RecordedEvent] {
        heads = heads.filter { !Scope.covers($0.key, names) }
        var events: [RecordedEvent] = []
        var old: [[UInt8]] = []
        try transaction.forEach(SyncTables.ahead, from: []) { key, value in
            let event = try value.withUnsafeBytes { try RecordedEvent(kept: $0) }
            guard Scope.covers(event.log, names) else { return true }
            events.append(event)
            old.append(key)
            return true
        }
        for key in old { try transaction.delete(SyncTables.ahead, key) }
        try Self.save(heads, &transaction)
        return events
    }

    private static func save(_ heads: [LogID: LogHead], _ transaction: inout SideStore.Writing) throws {
        if heads.isEmpty {
            try transaction.delete(SyncTables.state, ReplicaState.Key.damaged)
        } else {
            try transaction.put(SyncTables.state, ReplicaState.Key.damaged, encode(heads))
        }
    }

    // Bytes.

    static func heads(_ transaction: borrowing SideStore.Writing) throws -> [LogID: LogHead] {
        try transaction.get(SyncTables.state, ReplicaState.Key.damaged).map { try decode($0) } ?? [:]
    }

    static func put(_ heads: [LogID: LogHead], ahead: [RecordedEvent], _ transaction: inout SideStore.Writing) throws {
        for event in ahead { try transaction.put(SyncTables.ahead, key(event.log, event.seq), event.kept) }
        try transaction.put(SyncTables.state, ReplicaState.Key.damaged, encode(heads))
    }

    private static func key(_ log: LogID, _ seq: Seq) -> [UInt8] { log.key + withUnsafeBytes(of: seq.bigEndian) { Array($0) } }
    private static func seq(_ key: [UInt8]) -> Seq { key.suffix(8).reduce(0) { $0 << 8 | UInt64($1) } }

    private static func encode(_ heads: [LogID: LogHead]) -> [UInt8] {
        var out = ByteBuffer(capacity: 64)
        for (log, head) in heads.sorted(by: { $0.key < $1.key }) {
            out.put(varint: UInt64(log.key.count))
            out.put(log.key)
            out.put(varint: head.size)
            out.put(head.root.bytes)
        }
        return out.array()
    }

    private static func decode(_ bytes: [UInt8]) throws -> [LogID: LogHead] {
        try bytes.withUnsafeBytes { bytes in
            var result: [LogID: LogHead] = [:]
            var reader = ByteReader(bytes)
            while !reader.isAtEnd {
                guard let log = LogID(key: Array(try reader.lengthPrefixed())) else { throw CodecError(.badValue) }
                let size = try reader.varint()
                guard let root = Hash256(bytes: Array(try reader.take(Hash256.byteCount))) else { throw CodecError(.badValue) }
                result[log] = LogHead(size: size, root: root)
            }
            return result
        }
    }
}
