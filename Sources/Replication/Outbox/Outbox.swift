internal import EventLog

/// A replica's own events on their way to the hub: durable before anybody sees them, in order, each until the hub has said yes or its maker no more.
///
/// For one thread at a time: the replica guards it.
final class Outbox {
    private let side: SideStore
    private(set) var entries: [OutboxEntry] = []
    private var nextID: UInt64 = 1
    private var nextSending: UInt64 = 1
    /// Sent in this session and not answered yet.
    private var inFlight: Set<UInt64> = []
    private(set) var identity: ReplicaIdentity

    init(_ side: SideStore, identity: ReplicaIdentity) throws {
        self.side = side
        self.identity = identity
        var found: [OutboxEntry] = []
        try side.read { transaction in
            try transaction.forEach(SyncTables.outbox, from: []) { key, value in
                found.append(try value.withUnsafeBytes { try OutboxEntry(id: Self.id(key), decoding: $0) })
                return true
            }
        }
        entries = PlantedBug.loseOutbox.isPlanted ? [] : found
        nextID = (entries.last?.id ?? 0) + 1
        nextSending = (entries.map(\.sending).max() ?? 0) + 1
        settleWaiting()
    }

    private static func key(_ id: UInt64) -> [UInt8] { withUnsafeBytes(of: id.bigEndian) { Array($0) } }

    private static func id(_ key: [UInt8]) throws -> UInt64 {
        guard key.count == 8 else { throw CodecError(.badValue) }
        return key.reduce(0) { $0 << 8 | UInt64($1) }
    }

    // Making.

    /// Takes events in; they are durable when it returns.
    func add(_ events: [(event: Event, hlc: HLC)]) throws -> [OutboxEntry] {
        var new: [OutboxEntry] = []
        for (event, hlc) in events {
            let origin = Origin(replica: identity.replica, counter: 0, hlc: hlc)
            new.append(OutboxEntry(id: nextID + UInt64(new.count), event: event, origin: origin, nonce: identity.nonce))
        }
        try save(new)
        nextID += UInt64(new.count)
        entries += new
        settleWaiting()
        return new
    }

    /// Takes events back that a hub had accepted and lost: before all others, which may rest on them.
    func putFirst(_ events: [RecordedEvent]) throws {
        if events.isEmpty { return }
        var all: [OutboxEntry] = []
        for event in events {
            let origin = Origin(replica: identity.replica, counter: 0, hlc: event.origin.hlc)
            all.append(OutboxEntry(id: UInt64(all.count + 1), event: event.event, origin: origin, nonce: identity.nonce))
        }
        for entry in entries {
            var moved = OutboxEntry(id: UInt64(all.count + 1), event: entry.event, origin: entry.origin, nonce: entry.nonce)
            moved.state = entry.state
            moved.sending = entry.sending
            all.append(moved)
        }
        try side.write { transaction in
            for entry in entries { try transaction.delete(SyncTables.outbox, Self.key(entry.id)) }
            for entry in all { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
        }
        entries = all
        nextID = UInt64(all.count + 1)
        settleWaiting()
    }

    /// Changes the text of a message that was not sent yet.
    func edit(_ id: UInt64, text: String) throws {
        guard let index = entries.firstIndex(where: { $0.id == id }), entries[index].state != .sent else { throw Self.isSent(id) }
        var entry = entries[index]
        switch entry.event.content {
        case .messageSent(var message):
            message.text = text
            entry.event.content = .messageSent(message)
        case .messageEdited(let message, _): entry.event.content = .messageEdited(message: message, text: text)
        default: throw EventLogError(.invalidArgument, "entry \(id) of the outbox has no text")
        }
        try save([entry])
        entries[index] = entry
    }

    /// Sends a failed event again, as a new one of its lane: the hub has answered the old one for ever.
    func retry(_ ids: Set<UInt64>?) throws -> Int {
        var changed: [OutboxEntry] = []
        for entry in entries where entry.isFailed && ids?.contains(entry.id) ?? true {
            var entry = entry
            entry.state = .pending
            entry.sending = 0
            entry.origin = Origin(replica: identity.replica, counter: 0, hlc: entry.origin.hlc)
            entry.nonce = identity.nonce
            changed.append(entry)
        }
        try replace(changed)
        return changed.count
    }

    /// Gives events up that were not sent, or that failed; what depends on one of them fails with it.
    func discard(_ ids: Set<UInt64>?) throws -> Int {
        let gone = entries.filter { $0.state != .sent && (ids?.contains($0.id) ?? $0.isFailed) }
        if gone.isEmpty { return 0 }
        let goneIDs = Set(gone.map(\.id))
        var orphans: [OutboxEntry] = []
        for entry in entries where !goneIDs.contains(entry.id) && entry.state == .pending && gone.contains(where: { Self.needs(entry, $0) }) {
            var entry = entry
            entry.state = .failed(code: RefusalCode.unknownMessage.rawValue, detail: "it depends on an event that was discarded")
            orphans.append(entry)
        }
        try side.write { transaction in
            for entry in gone { try transaction.delete(SyncTables.outbox, Self.key(entry.id)) }
            for entry in orphans { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
        }
        entries.removeAll { goneIDs.contains($0.id) }
        for orphan in orphans { if let index = entries.firstIndex(where: { $0.id == orphan.id }) { entries[index] = orphan } }
        settleWaiting()
        return gone.count
    }

    private static func isSent(_ id: UInt64) -> EventLogError {
        EventLogError(.invalidArgument, "entry \(id) of the outbox is not there, or was sent already")
    }

    // Sending.

    /// A new session: what was sent before and not answered is sent again, first. So is what was accepted and has not come from there: a hub that was
    /// set back knows nothing of it.
    func beginSession() {
        inFlight = []
        for index in entries.indices { entries[index].acceptedSeq = nil }
    }

    /// The next events for a PUSH, in the order of their lanes. They are marked as sent, durably, before this returns: whatever happens then, their
    /// counters are not given to others.
    func take(bytesMax: Int, eventsMax: Int) throws -> [PushedEvent] {
        var pushed: [PushedEvent] = []
        var bytes = 0
        var taken: Set<UInt64> = []
        func add(_ entry: OutboxEntry, isFirst: Bool) -> Bool {
            let event = entry.pushed(isFirstSending: isFirst, sessionReplica: identity.replica)
            let size = event.envelope.count + event.body.count + 32
            guard pushed.isEmpty || bytes + size <= bytesMax && pushed.count < eventsMax else { return false }
            bytes += size
            pushed.append(event)
            taken.insert(entry.id)
            return true
        }
        let again = entries.filter { $0.state == .sent && $0.acceptedSeq == nil && !inFlight.contains($0.id) }.sorted { $0.sending < $1.sending }
        var isFull = false
        for entry in again where !isFull { isFull = !add(entry, isFirst: false) }
        var fresh: [OutboxEntry] = []
        var counters: [LogID: UInt64] = [:]
        if !isFull {
            for var entry in PlantedBug.reorderLane.isPlanted ? entries.reversed() : entries where entry.state == .pending && !entry.isWaiting {
                let log = entry.event.log
                let counter = try counters[log] ?? self.counter(of: log)
                entry.origin = Origin(replica: identity.replica, counter: counter + 1, hlc: entry.origin.hlc)
                entry.nonce = identity.nonce
                entry.state = .sent
                entry.sending = nextSending + UInt64(fresh.count)
                guard add(entry, isFirst: true) else { break }
                counters[log] = counter + 1
                fresh.append(entry)
            }
        }
        if !fresh.isEmpty {
            try side.write { transaction in
                for entry in fresh { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) }
                for (log, counter) in counters { try transaction.put(SyncTables.lanes, log.key, withUnsafeBytes(of: counter.bigEndian) { Array($0) }) }
            }
            nextSending += UInt64(fresh.count)
            for entry in fresh { if let index = entries.firstIndex(where: { $0.id == entry.id }) { entries[index] = entry } }
        }
        inFlight.formUnion(taken)
        return pushed
    }

    private func counter(of log: LogID) throws -> UInt64 {
        try side.read { transaction in
            try transaction.get(SyncTables.lanes, log.key)?.reduce(0) { $0 << 8 | UInt64($1) } ?? 0
        }
    }

    // Answers.

    /// The hub has recorded it; it stays until it has come from there, or is there already.
    func accepted(_ answer: Accepted, heldSeq: Seq) throws -> Bool {
        guard let index = index(answer.log, answer.replica, answer.counter) else { return false }
        if answer.seq <= heldSeq {
            try remove([entries[index].id])
        } else {
            entries[index].acceptedSeq = answer.seq
        }
        return true
    }

    /// What was accepted and is held by now leaves.
    func strikeAccepted(_ heldSeq: (LogID) throws -> Seq) throws {
        let gone = try entries.filter { entry in try entry.acceptedSeq.map { try $0 <= heldSeq(entry.event.log) } ?? false }
        if !gone.isEmpty { try remove(Set(gone.map(\.id))) }
    }

    /// - Returns: whether this replica's counters turned out to be another's, or its own of a lost life: then it has a new identity now.
    func refused(_ answer: Refused, newNonce: () -> [UInt8]) throws -> Bool {
        guard let index = index(answer.log, answer.replica, answer.counter) else { return false }
        var entry = entries[index]
        inFlight.remove(entry.id)
        guard answer.code == RefusalCode.originConflict.rawValue else {
            if PlantedBug.dropRefused.isPlanted {
                try remove([entry.id])
                return false
            }
            entry.state = .failed(code: answer.code, detail: answer.detail)
            try replace([entry])
            return false
        }
        let isOwn = entry.origin.replica == identity.replica
        if isOwn { identity = ReplicaIdentity(user: identity.user, nonce: newNonce()) }
        entry.state = .pending
        entry.sending = 0
        entry.origin = Origin(replica: identity.replica, counter: 0, hlc: entry.origin.hlc)
        entry.nonce = identity.nonce
        try side.write { transaction in
            if isOwn {
                try transaction.put(SyncTables.state, ReplicaState.Key.nonce, identity.nonce)
                var lanes: [[UInt8]] = []
                try transaction.forEach(SyncTables.lanes, from: []) { key, _ in
                    lanes.append(key)
                    return true
                }
                for lane in lanes { try transaction.delete(SyncTables.lanes, lane) }
            }
            try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded())
        }
        entries[index] = entry
        settleWaiting()
        return isOwn
    }

    /// Events have come from the hub: those that were this replica's own leave the outbox.
    func confirmed(_ events: [RecordedEvent]) throws -> Set<ConversationID> {
        if entries.isEmpty { return [] }
        var gone: [OutboxEntry] = []
        var last: [LogID: Seq] = [:]
        for event in events {
            last[event.log] = max(last[event.log] ?? 0, event.seq)
            // A replica that was set back gave a counter out twice: what comes under it may be the other event, of its lost life.
            if let index = index(event.log, event.origin.replica, event.origin.counter), entries[index].event == event.event { gone.append(entries[index]) }
        }
        // What was accepted as a repeat of something that has come by now.
        for entry in entries { if let seq = entry.acceptedSeq, let held = last[entry.event.log], seq <= held { gone.append(entry) } }
        if gone.isEmpty { return [] }
        try remove(Set(gone.map(\.id)))
        return Set(gone.map(\.event.conversation))
    }

    // Keeping.

    private func index(_ log: LogID, _ replica: ReplicaID, _ counter: UInt64) -> Int? {
        entries.firstIndex { $0.origin.counter == counter && counter > 0 && $0.origin.replica == replica && $0.event.log == log }
    }

    private func save(_ new: [OutboxEntry]) throws {
        try side.write { transaction in for entry in new { try transaction.put(SyncTables.outbox, Self.key(entry.id), entry.encoded()) } }
    }

    private func replace(_ changed: [OutboxEntry]) throws {
        if changed.isEmpty { return }
        try save(changed)
        for entry in changed { if let index = entries.firstIndex(where: { $0.id == entry.id }) { entries[index] = entry } }
        settleWaiting()
    }

    private func remove(_ ids: Set<UInt64>) throws {
        try side.write { transaction in for id in ids { try transaction.delete(SyncTables.outbox, Self.key(id)) } }
        entries.removeAll { ids.contains($0.id) }
        inFlight.subtract(ids)
        settleWaiting()
    }

    /// What depends on a failed event waits for it.
    private func settleWaiting() {
        var blocked = entries.filter(\.isFailed)
        for index in entries.indices where entries[index].state == .pending {
            let waits = blocked.contains { Self.needs(entries[index], $0) }
            entries[index].isWaiting = waits
            if waits { blocked.append(entries[index]) }
        }
    }

    private static func needs(_ entry: OutboxEntry, _ other: OutboxEntry) -> Bool {
        guard entry.id != other.id, entry.event.conversation == other.event.conversation else { return false }
        switch other.event.content {
        case .conversationCreated: return true
        case .messageSent(let message): return entry.neededMessages.contains(message.id)
        default: return false
        }
    }
}

extension LogID {
    /// A key of the side store's tables.
    var key: [UInt8] {
        switch self {
        case .conversation(let id): [0] + id.bytes
        case .user(let user): [1] + Array(user.string.utf8)
        }
    }

    init?(key: [UInt8]) {
        switch key.first {
        case 0:
            guard let id = ConversationID(bytes: key.dropFirst()) else { return nil }
            self = .conversation(id)
        case 1:
            guard let text = String(validating: key.dropFirst(), as: UTF8.self), let user = UserID(text) else { return nil }
            self = .user(user)
        default: return nil
        }
    }

    /// For an order that does not hang on hashing.
    var sortKey: String {
        switch self {
        case .conversation(let id): id.description
        case .user(let user): "~" + user.string
        }
    }
}
