internal import ConversationStore

/// The newest parts of logs that are not held whole: what a new device shows before the rest has come. Kept in the side store, shown as an overlay, and
/// dropped when the log is whole.
///
/// For one thread at a time: the replica guards it.
struct Previews {
    /// What came of taking something.
    struct Taken {
        /// What is shown now, with all that it was put behind if that was not shown by then.
        var shown: [RecordedEvent] = []
        /// What must be asked for, so that what was shown before need not go.
        var missing: ClosedRange<Seq>?
    }

    private let side: SideStore
    private var parts: [ConversationID: Part] = [:]
    /// What the hub shows anew in the place of suspect or outgrown parts: shown, and kept, when it reaches as far or when all has come. Else what was on the screen
    /// would be gone until then, and for long if the line broke in between.
    private var fresh: [ConversationID: Part] = [:]
    /// What the hub has behind the base of a suspect part that goes on otherwise here, as it comes, up to where the fresh part begins.
    private var bridges: [ConversationID: [RecordedEvent]] = [:]
    /// What the hub has where the shown part of a conversation began, if that leads to nothing that is held: it is not shown, but tells what was lost.
    private var told: [ConversationID: [RecordedEvent]] = [:]
    /// Whether heads vouch for all of it. What came without one, from whomever, must not be held against the next hub.
    private(set) var areVouched: Bool
    /// What is written later than this wins over all that was shown of them.
    private(set) var clock = HLC(rawValue: 0)

    init(_ side: SideStore) throws { self = try side.read { try Self(side, $0) } }

    init(empty side: SideStore) { (self.side, areVouched) = (side, true) }

    init(_ side: SideStore, _ transaction: borrowing SideStore.Reading) throws {
        self.side = side
        var found: [ConversationID: Part] = [:]
        var events: [ConversationID: [RecordedEvent]] = [:]
        areVouched = try transaction.get(SyncTables.state, ReplicaState.Key.unvouched) == nil
        try transaction.forEach(SyncTables.previews, from: []) { key, value in
            guard key.count == 24, let id = ConversationID(bytes: key.prefix(16)) else { throw CodecError(.badValue) }
            if key.suffix(8).allSatisfy({ $0 == 0 }) {
                found[id] = try value.withUnsafeBytes { try Part(decoding: $0) }
            } else {
                events[id, default: []].append(try value.withUnsafeBytes { try RecordedEvent(kept: $0) })
            }
            return true
        }
        for (id, events) in events {
            guard let part = found[id] else { continue }
            found[id]!.tree = try HeadCache.extend(part.tree, with: events, seeds: Replica.seeds(part.secret))
            try found[id]!.shown.append(events)
        }
        parts = found
        for part in parts.values { pass(part) }
    }

    private mutating func pass(_ part: Part) { pass(part.shown.clock) }
    private mutating func pass(_ time: HLC) { if !PlantedBug.forgetShown.isPlanted { clock = max(clock, time) } }

    func holes(behind lastSeq: (LogID) -> Seq) -> [(log: LogID, seqs: ClosedRange<Seq>)] {
        parts.compactMap { id, part in
            let held = lastSeq(.conversation(id))
            return part.baseSeq > held && !part.isFirst ? (.conversation(id), held + 1...part.baseSeq) : nil
        }
    }

    /// Where a log's newest part goes on before which nothing is for this user; 0: there is none such.
    func lastSeqOfFirst(_ log: LogID) -> Seq {
        guard case .conversation(let id) = log, let part = fresh[id] ?? parts[id], part.isFirst else { return 0 }
        return part.lastSeq
    }

    /// The same of what heads may have vouched for: of a base alone none does.
    func lastSeqVouchedFor(_ log: LogID) -> Seq {
        guard case .conversation(let id) = log, let part = fresh[id] ?? parts[id], part.isFirst, !part.events.isEmpty else { return 0 }
        return part.lastSeq
    }

    /// Logs with a newest part before which nothing is for this user.
    var firsts: [LogID] { parts.filter { $0.value.isFirst && !$0.value.events.isEmpty }.map { .conversation($0.key) } }

    /// The messages that a conversation's newest part shows.
    func messages(shownOf conversation: ConversationID) -> Set<MessageID> {
        Set((parts[conversation]?.events ?? []).compactMap { if case .messageSent(let message) = $0.event.content { message.id } else { nil } })
    }

    /// The event of a newest part, be it shown yet or not, that sent a message.
    func sending(of id: MessageID, in conversation: ConversationID) -> RecordedEvent? {
        for case let part? in [fresh[conversation], parts[conversation]] {
            let found = part.events.last { if case .messageSent(let message) = $0.event.content { message.id == id } else { false } }
            if let found { return found }
        }
        return nil
    }

    /// The root at a seq of a log, if its newest part reaches from before that to there.
    func root(of log: LogID, at seq: Seq) throws -> Hash256? {
        guard case .conversation(let id) = log, let part = fresh[id] ?? parts[id], part.baseSeq...part.lastSeq ~= seq,
            let base = CompactRange(end: part.baseSeq, encoded: part.range)
        else { return nil }
        if seq == part.lastSeq { return part.tree.root() }
        return try HeadCache.extend(base, with: Array(part.events.prefix(Int(seq - part.baseSeq))), seeds: Replica.seeds(part.secret)).root()
    }

    func has(_ log: LogID) -> Bool {
        guard case .conversation(let id) = log else { return false }
        return parts[id] != nil
    }

    /// How many of some seqs of a log stand here.
    func count(of seqs: Range<Seq>, in log: LogID) -> Int {
        guard case .conversation(let id) = log else { return 0 }
        let held = [parts[id], fresh[id]].compactMap { part in part.map { seqs.clamped(to: $0.baseSeq + 1..<$0.lastSeq + 1) } }.filter { !$0.isEmpty }
        let both = held.count == 2 ? held[0].clamped(to: held[1]).count : 0
        return held.reduce(0) { $0 + $1.count } - both
    }

    /// The last seq of a log that stands here; 0: none does.
    func lastSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 0 }
        return parts[id]?.lastSeq ?? 0
    }

    /// The last seq of a log's part that another may go on from; 0: there is none, or what will take its place is coming.
    func settledSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log, let part = parts[id], !part.isSuspect, !part.isOutgrown else { return 0 }
        return part.lastSeq
    }

    /// How far a log has come here; 0: nothing has. What is missing before a fresh part comes before that.
    func reach(of log: LogID) -> Seq {
        guard case .conversation(let id) = log, let part = parts[id] else { return 0 }
        return bridges[id].map { part.baseSeq + Seq($0.count) } ?? part.lastSeq
    }

    /// The last seq that has come of a log's newest part, or of the one that is to take its place.
    func newestSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 0 }
        return (fresh[id] ?? parts[id])?.lastSeq ?? 0
    }

    /// The event at a seq of a log's newest part.
    func event(in log: LogID, at seq: Seq) -> RecordedEvent? {
        guard case .conversation(let id) = log, let part = parts[id], seq > part.baseSeq, seq <= part.lastSeq else { return nil }
        return part.events[Int(seq - part.baseSeq) - 1]
    }

    /// Whether the hub has an event that nothing here shows any more; `nil`: it has not told what it has there.
    func isTold(_ event: RecordedEvent) -> Bool? {
        guard case .conversation(let id) = event.log, let told = told[id], let first = told.first, first.seq <= event.seq, event.seq - first.seq < told.count
        else { return nil }
        // It may have come there anew, and have another place.
        return HeldEvent(told[Int(event.seq - first.seq)]) == HeldEvent(event)
            || told.contains { !Set($0.times).isDisjoint(with: event.times) && $0.event == event.event }
    }

    /// All that may be lost has been told of.
    mutating func forgetTold() { told = [:] }

    /// The seq from which on a log's newest part stands here; 0: none does.
    func baseSeq(of log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 0 }
        return parts[id]?.baseSeq ?? 0
    }

    /// The newest event by the hub's clock of those in a scope.
    func newest(in names: Set<ConversationID>?) -> RecordedEvent? {
        parts.filter { Scope.covers(.conversation($0.key), names) }.values.compactMap(\.events.last).max { ($0.hlc, $0.log) < ($1.hlc, $1.log) }
    }

    var isEmpty: Bool { parts.isEmpty }

    /// Whether something is shown for which no cursor vouches.
    var hasSuspects: Bool { parts.values.contains { $0.isSuspect } }

    /// The same of one log.
    func isSuspect(_ log: LogID) -> Bool {
        if case .conversation(let id) = log { parts[id]?.isSuspect ?? false } else { false }
    }

    var all: [Replica.Part] {
        parts.map { Replica.Part(log: .conversation($0), baseSeq: $1.baseSeq, isFirst: $1.isFirst, base: $1.base, events: $1.events) }
    }

    func participants(of log: LogID) -> [UserID] {
        guard case .conversation(let id) = log else { return [] }
        return parts[id]?.shown.participants ?? []
    }

    func show(in store: ConversationStore) {
        for (id, part) in parts { store.setPreview(part.shown, of: id) }
    }

    // Comparing.

    /// Nothing vouches any more for what is held of a scope's logs. Answers which those are, and their events.
    mutating func suspect(in names: Set<ConversationID>?) -> (logs: [LogID], events: [RecordedEvent]) {
        let ids = parts.keys.filter { Scope.covers(.conversation($0), names) }.sorted { $0.description < $1.description }
        for id in ids {
            parts[id]!.isSuspect = true
            parts[id]!.isOutgrown = false
            (fresh[id], bridges[id], told[id]) = (nil, nil, nil)
        }
        return (ids.map { .conversation($0) }, ids.flatMap { parts[$0]!.events })
    }

    /// All that the hub has in a scope has come: what it did not show anew goes. Answers the events that are shown in its place.
    ///
    /// - Parameter unread: what the hub could not read stays as it is shown.
    mutating func settleSuspects(in names: Set<ConversationID>?, but unread: [LogID: Seq], of store: ConversationStore) throws -> [RecordedEvent] {
        var shown: [RecordedEvent] = []
        for (id, part) in parts where part.isSuspect && Scope.covers(.conversation(id), names) && unread[.conversation(id)] == nil {
            if let new = fresh[id], try new.lastSeq > store.log.lastSeq(of: .conversation(id)) {
                try place(new, id, in: store)
                shown += new.events
            } else {
                try drop(.conversation(id), in: store)
            }
        }
        return shown
    }

    /// Takes a BASE: what follows it must lead to the log's head.
    mutating func take(_ base: BaseFrame, in store: ConversationStore) throws -> Taken {
        guard case .conversation(let id) = base.log else { throw ReplicaError(.badPeer, "a BASE of a user's log") }
        let held = try store.log.lastSeq(of: base.log)
        guard held < base.seq else { return Taken() }
        let old = parts[id]
        let known = old?.isSuspect ?? false ? fresh[id] : old?.isOutgrown ?? false ? fresh[id] ?? old : old
        // Where the user's history begins is the last word on it, whatever part was shown before. Else what is held is not given up for less.
        if let known, base.isFirst ? known.isFirst && base.seq <= known.baseSeq : base.seq <= known.lastSeq { return Taken() }
        var part = try Part(base, isBesideOlder: held > 0)
        if let known, known.baseSeq <= part.baseSeq { try part.goOn(with: known, base.log) }
        bridges[id] = nil
        if let old, !old.isFirst, !part.isFirst, old.baseSeq < part.baseSeq, !PlantedBug.forgetPart.isPlanted {
            // The hub gives the salts of all that it sends.
            if let old = try old.under(part.secret) { return try approach(part, from: old, id, in: store) }
        }
        guard let old, part.lastSeq < old.lastSeq, old.isSuspect || old.baseSeq > part.baseSeq else {
            try place(part, id, in: store)
            return Taken()
        }
        // Between the two nothing is held yet.
        parts[id]!.isOutgrown = !old.isSuspect
        fresh[id] = part
        return Taken()
    }

    /// What is shown need not go for a part that begins behind it: it goes on to there, and the two are one.
    private mutating func approach(_ new: Part, from old: Part, _ id: ConversationID, in store: ConversationStore) throws -> Taken {
        var old = old
        (old.isSuspect, old.isOutgrown) = (true, false)
        // What it goes on with must be found under the same secret by whoever opens this.
        if old.secret != parts[id]!.secret { try write(old, id) }
        parts[id] = old
        fresh[id] = new
        if old.lastSeq < new.baseSeq { return Taken(missing: old.lastSeq + 1...new.baseSeq) }
        return try join(id, in: store)
    }

    /// What is shown, or has come in its place, reaches to where the fresh part begins.
    private mutating func join(_ id: ConversationID, in store: ConversationStore) throws -> Taken {
        guard let old = parts[id], let new = fresh[id] else { return Taken() }
        let bridge = bridges.removeValue(forKey: id)
        if let whole = try old.going(on: new, over: bridge ?? old.events.prefix { $0.seq <= new.baseSeq }) {
            fresh[id] = whole
        } else if bridge == nil {
            // The hub has lost something of it, and goes on otherwise: maybe from its beginning on.
            bridges[id] = []
            return Taken(missing: old.baseSeq + 1...new.baseSeq)
        } else if let bridge {
            told[id] = bridge
        }
        return Taken(shown: try showFresh(id, in: store))
    }

    /// When it reaches as far as what is shown.
    private mutating func showFresh(_ id: ConversationID, in store: ConversationStore) throws -> [RecordedEvent] {
        guard let old = parts[id], let part = fresh[id], part.lastSeq >= old.lastSeq else { return [] }
        try place(part, id, in: store)
        return part.events
    }

    /// All that the hub has has come, with its heads. It is noted on the disk with the cursor.
    mutating func vouched() { areVouched = true }

    /// Keeps a part and shows it, in the place of any other.
    private mutating func place(_ part: Part, _ id: ConversationID, in store: ConversationStore) throws {
        try write(part, id)
        parts[id] = part
        (fresh[id], bridges[id]) = (nil, nil)
        pass(part)
        store.setPreview(part.shown, of: id)
    }

    private mutating func write(_ part: Part, _ id: ConversationID) throws {
        areVouched = false
        try side.write { transaction in
            try transaction.put(SyncTables.state, ReplicaState.Key.unvouched, [])
            var old: [[UInt8]] = []
            try transaction.forEach(SyncTables.previews, from: id.bytes) { key, _ in
                guard key.starts(with: id.bytes) else { return false }
                old.append(key)
                return true
            }
            for key in old { try transaction.delete(SyncTables.previews, key) }
            try transaction.put(SyncTables.previews, Self.key(id, 0), part.encoded())
            for event in part.events { try transaction.put(SyncTables.previews, Self.key(id, event.seq), event.kept) }
        }
    }

    /// Takes events that follow a preview's last; `nil`: they do not follow.
    mutating func extend(_ log: LogID, with events: [RecordedEvent], head: LogHead?, in store: ConversationStore) throws -> Taken? {
        guard case .conversation(let id) = log, let old = parts[id] else { return nil }
        if old.isSuspect || old.isOutgrown { return try extendFresh(id, with: events, head: head, in: store) }
        guard let new = old.following(events) else { return nil }
        if !new.isEmpty { try extend(id, by: new, head: head, in: store) }
        return Taken(shown: new)
    }

    /// Shows and keeps what follows a part's last event.
    private mutating func extend(_ id: ConversationID, by new: [RecordedEvent], head: LogHead?, in store: ConversationStore) throws {
        // This copy must be the only one, or all events are copied.
        var part = parts.removeValue(forKey: id)!
        defer { parts[id] = part }
        let (end, tree) = (part.events.count, part.tree)
        try part.append(new, head: head)
        var isKept = false
        defer {
            if !isKept {
                part.shown.removeLast(part.events.count - end)
                part.tree = tree
            }
        }
        if head == nil { areVouched = false }
        try side.write { transaction in
            if head == nil { try transaction.put(SyncTables.state, ReplicaState.Key.unvouched, []) }
            for event in new { try transaction.put(SyncTables.previews, Self.key(id, event.seq), event.kept) }
        }
        isKept = true
        pass(new.last!.hlc)
        store.extendPreview(by: new, of: id)
    }

    private mutating func extendFresh(
        _ id: ConversationID, with events: [RecordedEvent], head: LogHead?, in store: ConversationStore
    ) throws -> Taken? {
        guard let new = fresh[id]?.following(events) else { return nil }
        var part = fresh.removeValue(forKey: id)!
        let (baseSeq, lastSeq) = (parts[id]!.baseSeq, parts[id]!.lastSeq)
        let count = new.prefix { $0.seq <= lastSeq }.count
        if count > 0 {
            try part.append(Array(new.prefix(count)), head: head)
            if let old = parts[id], old.isOutgrown, part.lastSeq == lastSeq, part.tree.root() != old.tree.root() {
                throw ReplicaError(.forked, "the events of \(id) that came anew do not lead to what was shown before at seq \(lastSeq)")
            }
        }
        if count < new.count { try part.append(Array(new.dropFirst(count)), head: head) }
        fresh[id] = part
        if var bridge = bridges.removeValue(forKey: id) {
            bridge += part.before(events, behind: baseSeq + Seq(bridge.count))
            let isWhole = baseSeq + Seq(bridge.count) == part.baseSeq
            bridges[id] = bridge
            return isWhole ? try join(id, in: store) : Taken()
        }
        guard lastSeq < part.baseSeq else { return Taken(shown: try showFresh(id, in: store)) }
        let between = part.before(events, behind: lastSeq)
        // Its end may be what the hub has lost: so no head is that of this.
        if !between.isEmpty { try extend(id, by: between, head: nil, in: store) }
        guard parts[id]!.lastSeq == part.baseSeq else { return Taken(shown: between) }
        let taken = try join(id, in: store)
        return Taken(shown: between + taken.shown, missing: taken.missing)
    }

    /// A log has grown from below: when it has reached the preview, that is checked against what the reducers make of the log itself (I4), and dropped.
    mutating func settle(_ log: LogID, heldSeq: Seq, in store: ConversationStore) throws -> [RecordedEvent] {
        guard case .conversation(let id) = log, let old = parts[id], let part = old.isSuspect ? fresh[id] : old, heldSeq >= part.baseSeq else { return [] }
        // An erasure changes what a state tells, not what is proven: then there is nothing to compare.
        if !part.isBesideOlder, let own = try store.encodedBase(of: id, at: part.baseSeq, hidesMessages: part.isFirst), own != part.base,
            try !store.log.hasErased(log, through: part.baseSeq)
        {
            throw ReplicaError(.forked, "the state of \(log) at seq \(part.baseSeq) that the hub showed is not what its events make")
        }
        let rest = part.events.filter { $0.seq > heldSeq }
        guard !rest.isEmpty, let seeds = try store.log.knownSeeds(of: log) else { return rest }
        return try Salts.move(rest, from: Replica.seeds(part.secret), to: seeds)
    }

    func isReached(_ log: LogID, heldSeq: Seq) -> Bool {
        guard case .conversation(let id) = log, let part = parts[id] else { return false }
        return heldSeq >= part.lastSeq
    }

    /// The log holds all that the preview does.
    /// - Parameter write: what is to be written with that.
    mutating func drop(_ log: LogID, in store: ConversationStore, write: (inout SideStore.Writing) throws -> Void = { _ in }) throws {
        guard case .conversation(let id) = log, let part = parts.removeValue(forKey: id) else { return }
        (fresh[id], bridges[id]) = (nil, nil)
        try side.write { transaction in
            try transaction.delete(SyncTables.previews, Self.key(id, 0))
            for event in part.events { try transaction.delete(SyncTables.previews, Self.key(id, event.seq)) }
            try write(&transaction)
        }
        store.setPreview(nil, of: id)
    }

    private static func key(_ id: ConversationID, _ seq: Seq) -> [UInt8] { id.bytes + withUnsafeBytes(of: seq.bigEndian) { Array($0) } }
}
