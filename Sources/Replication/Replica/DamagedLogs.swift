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
    /// All logs whose gaps were filled since the last cursor, with the sizes that they came to. The cursor vouches for that much of them, which its place does
    /// not tell: a journal's end that is lost behind it may be theirs.
    private var filled: [LogID: Seq] = [:]
    /// Of these the hub was asked for its head, and keeping what it sends compares that with what is held.
    private var comparing: Set<LogID> = []
    /// How far each log went when the hub was asked for what follows: it is asked once, or frames that fill nothing would be answered by ever more.
    private var asked: [LogID: Seq] = [:]
    /// Up to where each log is here without a gap, in itself and beside it, as far as was looked.
    private var reached: [LogID: Seq] = [:]
    /// Logs of which something that waits came in an earlier session: it may have been another hub's.
    private var isMixed: Set<LogID> = []
    /// The root of a head of which the size alone is known: no tree has it.
    static let unknownRoot = Hash256(bytes: [UInt8](repeating: 0, count: Hash256.byteCount))!

    init(_ side: SideStore) throws {
        self.side = side
        if let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.damaged) }) { heads = try Self.decode(bytes) }
        if let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.healed) }) { healed = try ReplicaState.rewind(bytes) }
        if let bytes = try side.read({ try $0.get(SyncTables.state, ReplicaState.Key.filled) }) { filled = try ReplicaState.rewind(bytes) }
    }

    /// A newer cursor vouches for them, or none for anything; the disk follows with what is written of that.
    mutating func forgetHealed() { (healed, filled) = ([:], [:]) }

    var hasHealed: Bool { !filled.isEmpty }

    /// A newest part went into its log, which has come to it: what the part held lies behind the cursor's place now.
    mutating func fill(_ log: LogID, through seq: Seq) { filled[log] = seq }

    /// Whether a log had come to its old size since the last cursor, and is shorter now.
    func hasLostAgain(in store: EventStore) throws -> Bool { try filled.contains { try heads[$0] == nil && store.lastSeq(of: $0) < $1 } }

    var isEmpty: Bool { heads.isEmpty }

    func has(_ log: LogID) -> Bool { heads[log] != nil }

    func hasAny(in scope: Scope, but left: Set<LogID> = []) -> Bool {
        if isEmpty { return false }
        let names = scope.names
        return heads.keys.contains { Scope.covers($0, names) && !left.contains($0) }
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
                try transaction.forEach(SyncTables.ahead, from: log.key) { key, value in
                    guard Self.isKey(key, of: log) else { return false }
                    if !WaitingEvent.hasCome(value) { rest.seqs.append(Self.seq(key)) }
                    return true
                }
            }
            return rest
        }
    }

    /// A session begins. Answers the logs, to be settled: a gap may have been filled before a crash, and what stands behind it not been taken.
    mutating func begin() throws -> [LogID] {
        (comparing, asked, reached, isMixed) = ([], [:], [:], [])
        if heads.isEmpty { return [] }
        var isMixed: Set<LogID> = []
        try side.read { transaction in
            for log in heads.keys {
                try transaction.forEach(SyncTables.ahead, from: log.key) { key, value in
                    guard Self.isKey(key, of: log) else { return false }
                    if WaitingEvent.hasCome(value) { isMixed.insert(log) }
                    return !isMixed.contains(log)
                }
            }
        }
        self.isMixed = isMixed
        return heads.keys.sorted()
    }

    /// Up to where what comes of a log waits beside it, until all of it can be judged by the head that it had. 0: it goes into the log at once.
    func waitsThrough(_ log: LogID) -> Seq {
        guard let head = heads[log], head.root != Self.unknownRoot else { return 0 }
        return head.size
    }

    /// Puts beside their logs what came of them up to there.
    ///
    /// - Parameter secrets: of logs that have nothing yet; they came with the first events.
    /// - Returns: how many of the events were not here.
    func wait(for events: [RecordedEvent], secrets: [LogID: [UInt8]]) throws -> Int {
        if events.isEmpty { return 0 }
        return try side.write { transaction in
            var count = 0
            for event in events {
                let key = Self.key(event.log, event.seq)
                // What was saved is as good: the head judges both.
                guard try transaction.get(SyncTables.ahead, key) == nil else { continue }
                try transaction.put(SyncTables.ahead, key, WaitingEvent(come: event, secret: event.seq == 1 ? secrets[event.log] ?? [] : []).encoded)
                count += 1
            }
            return count
        }
    }

    /// What became of a log.
    struct Settled {
        /// What to ask for next.
        var wish: Fetch?
        /// What went into the log.
        var taken: ClosedRange<Seq>?
    }

    /// What goes into logs together: a commit waits for the disk, however much it brings.
    private struct Taking {
        var events: [RecordedEvent] = []
        var secrets: [LogID: [UInt8]] = [:]
        var bytes = 0
        /// Logs of which nothing is missing any more, then.
        var ended: [Ended] = []
    }

    private struct Ended {
        var log: LogID
        /// To which seq its gaps were filled; 0: what is missing is not for this user any more.
        var filled: Seq = 0
        /// Whether it has come to the head that it had.
        var isHealed = false
        /// The events that were set aside of all of it, and have done their service.
        var aside: [RecordedEvent] = []
    }

    /// The hub has filled gaps, or parts of them: of each log of which nothing is missing any more, what stands beside it is judged and taken.
    ///
    /// - Returns: what became of the logs; and what one of them failed for, first of all a hub that must be refused for it: that keeps none of the others
    ///   from being whole.
    mutating func settle(_ logs: [LogID], in store: EventStore, _ trees: HeadCache, beside previews: Previews) throws -> (
        settled: [(log: LogID, Settled)], failure: (any Error)?
    ) {
        var taking = Taking()
        var settled: [(log: LogID, Settled)] = []
        var failure: (any Error)?
        for log in logs where heads[log] != nil {
            do {
                settled.append((log, try settle(log, in: store, trees, beside: previews, &taking)))
            } catch {
                failure = failure ?? error
                guard let error = error as? ReplicaError, error.code == .forked else { break }
            }
        }
        do {
            try take(&taking, store)
            try end(taking.ended)
        } catch {
            // What was to be asked for nobody hears.
            (comparing, asked, reached) = ([], [:], [:])
            throw failure ?? error
        }
        return (settled, failure)
    }

    private mutating func settle(_ log: LogID, in store: EventStore, _ trees: HeadCache, beside previews: Previews, _ taking: inout Taking) throws -> Settled {
        guard let head = heads[log] else { return Settled() }
        if previews.lastSeqOfFirst(log) >= head.size {
            // What is before that is not for this user any more, and never comes.
            let root = try previews.root(of: log, at: head.size) ?? head.root
            guard root == head.root || head.root == Self.unknownRoot else { throw Self.forked(log, head) }
            taking.ended.append(Ended(log: log))
            return Settled()
        }
        let held = try store.lastSeq(of: log)
        if head.root == Self.unknownRoot {
            let end = try takeUnjudged(log, behind: held, in: store, &taking)
            let taken = end > held ? held + 1...end : nil
            return Settled(wish: try wish(for: log, head, behind: end, &taking), taken: taken)
        }
        let reached = try reach(log, from: held)
        if reached >= head.size, try judge(log, head, held, in: store, trees, &taking) {
            return Settled(taken: held < head.size ? held + 1...head.size : nil)
        }
        return Settled(wish: try wish(for: log, head, behind: self.reached[log] ?? held, &taking))
    }

    /// Puts into their logs what goes there.
    private func take(_ taking: inout Taking, _ store: EventStore) throws {
        if !taking.events.isEmpty { _ = try store.adoptBlocking(taking.events, secrets: taking.secrets) }
        let ended = taking.ended
        taking = Taking()
        taking.ended = ended
    }

    /// Takes what follows a log's last event and waits beside it; some at a time, as it may be all of a log.
    ///
    /// - Parameter secret: of a log that begins.
    private func take(_ batch: [RecordedEvent], _ secret: [UInt8]?, _ taking: inout Taking, _ store: EventStore) throws {
        let bytes = batch.reduce(0) { $0 + $1.event.approximateBytes }
        // A disk with little room takes little at once.
        if taking.events.count + batch.count > Self.takenEventsMax || taking.bytes + bytes > Self.takenBytesMax { try take(&taking, store) }
        if let secret { taking.secrets[batch[0].log] = secret }
        taking.events += batch
        taking.bytes += bytes
    }

    private static let takenEventsMax = 1024, takenBytesMax = 1 << 20

    /// Of a log of which not even the head is left: the hub's own is compared with what that leads to.
    private func takeUnjudged(_ log: LogID, behind held: Seq, in store: EventStore, _ taking: inout Taking) throws -> Seq {
        let seeds = try store.knownSeeds(of: log)
        var end = held
        while let batch = try nextAhead(of: log, behind: end) {
            // What the hub has erased since comes without its body.
            let sound = batch.map(\.event).prefix { event in seeds.map { Salts.hasAll(of: [event], $0) } ?? true }
            if !sound.isEmpty { try take(Array(sound), nil, &taking, store) }
            end += Seq(sound.count)
            guard sound.count == batch.count else {
                try side.write { try $0.delete(SyncTables.ahead, Self.key(log, batch[sound.count].event.seq)) }
                break
            }
        }
        return end
    }

    private mutating func wish(for log: LogID, _ head: LogHead, behind seq: Seq, _ taking: inout Taking) throws -> Fetch? {
        if seq < head.size {
            let next = try firstAhead(of: log, behind: seq)
            return asked.updateValue(seq, forKey: log) == seq ? nil : Fetch(log: log, from: seq + 1, through: next.map { $0 - 1 } ?? head.size)
        }
        guard head.root == Self.unknownRoot else { return nil }
        // Its last event comes with the hub's head there.
        if comparing.insert(log).inserted { return Fetch(log: log, from: head.size, through: head.size) }
        taking.ended.append(Ended(log: log, filled: head.size))
        return nil
    }

    private func firstAhead(of log: LogID, behind seq: Seq) throws -> Seq? {
        var found: Seq?
        try side.read { transaction in
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq + 1)) { key, _ in
                if Self.isKey(key, of: log) { found = Self.seq(key) }
                return false
            }
        }
        return found
    }

    /// Up to where a log is here without a gap, in itself and beside it.
    private mutating func reach(_ log: LogID, from held: Seq) throws -> Seq {
        var seq = max(held, reached[log] ?? 0)
        try side.read { transaction in
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq + 1)) { key, _ in
                guard key == Self.key(log, seq + 1) else { return false }
                seq += 1
                return true
            }
        }
        reached[log] = seq
        return seq
    }

    /// All of a log is here. It is taken if it leads to the head that the log had; or if it is just the events that were set aside, as they did not.
    ///
    /// Before that nothing of it may be shown: what does not lead there may be a fork, and could not be told from the log's own events once it is in it.
    ///
    /// - Returns: `false`: something of it must be asked for again.
    private mutating func judge(
        _ log: LogID, _ head: LogHead, _ held: Seq, in store: EventStore, _ trees: HeadCache, _ taking: inout Taking
    ) throws -> Bool {
        // A log that was taken goes on, also where a full disk keeps what says so from being written.
        let held = min(held, head.size)
        guard var tree = try trees.tree(of: log, through: held) else {
            throw EventLogError(.damaged, "\(store.path): the tree of \(log) at seq \(held) cannot be made")
        }
        var seeds = held == 0 ? nil : try store.knownSeeds(of: log)
        var secret: [UInt8]?
        while tree.size < head.size, let batch = try nextAhead(of: log, behind: tree.size) {
            if seeds == nil {
                secret = batch[0].secret
                seeds = try Replica.seeds(batch[0].secret)
            }
            // What the hub has erased since comes without its body: all such at once, or each would cost a round trip.
            if let first = batch.first(where: { !Salts.hasAll(of: [$0.event], seeds!) }) {
                try dropUnsalted(log, from: first.event.seq, seeds!)
                reached[log] = first.event.seq - 1
                return false
            }
            tree = try HeadCache.extend(tree, with: batch.map(\.event), seeds: seeds!)
        }
        let aside = try aside(log, through: head.size)
        guard let seeds, tree.size == head.size, Self.isAsBefore(tree.root(), head, aside, seeds) else {
            try letGo(of: log)
            reached[log] = held
            asked[log] = nil
            // Two hubs may have sent it: this one is asked for all of it.
            if isMixed.remove(log) != nil { return false }
            throw Self.forked(log, head)
        }
        var end = held
        while end < head.size, let batch = try nextAhead(of: log, behind: end) {
            try take(batch.map(\.event), end == 0 ? secret : nil, &taking, store)
            end += Seq(batch.count)
        }
        taking.ended.append(Ended(log: log, filled: head.size, isHealed: true, aside: aside))
        return true
    }

    /// Lets go of what stands beside a log from a seq on and cannot be checked.
    private func dropUnsalted(_ log: LogID, from seq: Seq, _ seeds: PuncturedSeeds) throws {
        try side.write { transaction in
            var gone: [[UInt8]] = []
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq)) { key, value in
                guard Self.isKey(key, of: log) else { return false }
                if !Salts.hasAll(of: [try value.withUnsafeBytes { try WaitingEvent(decoding: $0) }.event], seeds) { gone.append(key) }
                return true
            }
            for key in gone { try transaction.delete(SyncTables.ahead, key) }
        }
    }

    /// A log comes to what its head said; or to what its own events did, which were set aside as they did not lead there.
    private static func isAsBefore(_ root: Hash256, _ head: LogHead, _ aside: [RecordedEvent], _ seeds: PuncturedSeeds) -> Bool {
        if root == head.root { return true }
        // Where the hub has erased one of them since, nothing can be told.
        return !aside.isEmpty && (try? HeadCache.extend(CompactRange(), with: aside, seeds: seeds))?.root() == root
    }

    /// What came of a log is not its own.
    private func letGo(of log: LogID) throws {
        try side.write { transaction in
            var come: [[UInt8]] = []
            try transaction.forEach(SyncTables.ahead, from: log.key) { key, value in
                guard Self.isKey(key, of: log) else { return false }
                if WaitingEvent.hasCome(value) { come.append(key) }
                return true
            }
            for key in come { try transaction.delete(SyncTables.ahead, key) }
        }
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

    /// Nothing of some logs is missing any more.
    private mutating func end(_ ended: [Ended]) throws {
        if ended.isEmpty { return }
        // It counts here when it does on the disk.
        var new = self
        for entry in ended {
            new.heads[entry.log] = nil
            new.reached[entry.log] = nil
            if entry.filled > 0 { new.filled[entry.log] = entry.filled }
            if entry.isHealed { new.healed[entry.log] = entry.filled }
        }
        try side.write { transaction in
            var old: [[UInt8]] = []
            for log in ended.map(\.log) {
                try transaction.forEach(SyncTables.ahead, from: log.key) { key, _ in
                    guard Self.isKey(key, of: log) else { return false }
                    old.append(key)
                    return true
                }
            }
            for key in old { try transaction.delete(SyncTables.ahead, key) }
            try Lost.delete(ended.flatMap(\.aside), in: SyncTables.suspects, &transaction)
            try Self.save(new.heads, &transaction)
            try new.keepHealed(&transaction)
        }
        self = new
    }

    /// Writes what the cursor vouches for beside its place.
    func keepHealed(_ transaction: inout SideStore.Writing) throws {
        if !healed.isEmpty { try transaction.put(SyncTables.state, ReplicaState.Key.healed, ReplicaState.encode(healed)) }
        if !filled.isEmpty { try transaction.put(SyncTables.state, ReplicaState.Key.filled, ReplicaState.encode(filled)) }
    }

    /// So many bytes of waiting events, and one event more, are in memory at once.
    private static let aheadBytesMax = 4 << 20

    /// The events that follow what is held, without a gap, some at a time.
    private func nextAhead(of log: LogID, behind seq: Seq) throws -> [WaitingEvent]? {
        var events: [WaitingEvent] = []
        var bytes = 0
        try side.read { transaction in
            try transaction.forEach(SyncTables.ahead, from: Self.key(log, seq + 1)) { key, value in
                guard key == Self.key(log, seq + 1 + Seq(events.count)) else { return false }
                events.append(try value.withUnsafeBytes { try WaitingEvent(decoding: $0) })
                bytes += value.count
                return events.count < 4096 && bytes < Self.aheadBytesMax
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
            let waiting = try value.withUnsafeBytes { try WaitingEvent(decoding: $0) }
            guard Scope.covers(waiting.event.log, names) else { return true }
            // What has come and was not judged was never shown: the hub sends it again.
            if !waiting.hasCome { events.append(waiting.event) }
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

    private static func isKey(_ key: [UInt8], of log: LogID) -> Bool { key.starts(with: log.key) && key.count == log.key.count + 8 }
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
