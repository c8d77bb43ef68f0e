internal import EventLog

/// The entries of an outbox by all that they are looked for: what one answer costs does not grow with what else waits.
struct OutboxEntries {
    private struct Name: Hashable {
        var log: LogID
        var replica: ReplicaID
        var counter: UInt64

        init?(_ entry: OutboxEntry) {
            if entry.origin.counter == 0 { return nil }
            self.init(entry.event.log, entry.origin.replica, entry.origin.counter)
        }

        init(_ log: LogID, _ replica: ReplicaID, _ counter: UInt64) {
            self.log = log
            self.replica = replica
            self.counter = counter
        }
    }

    /// Of what was sent.
    private struct Lane: Hashable {
        var log: LogID
        var replica: ReplicaID

        init?(_ entry: OutboxEntry) {
            guard entry.state == .sent else { return nil }
            self.init(log: entry.event.log, replica: entry.origin.replica)
        }

        init(log: LogID, replica: ReplicaID) { (self.log, self.replica) = (log, replica) }
    }

    private var byID: [UInt64: OutboxEntry] = [:]
    private var byName: [Name: UInt64] = [:]
    /// Those that a hub does not know again by what they say, by the clocks with which they were made.
    private var byTime: [HLC: [UInt64]] = [:]
    /// Ascending, as are those of each conversation.
    private(set) var pendingIDs: [UInt64] = []
    private var ofConversation: [ConversationID: [UInt64]] = [:]
    /// What the hub has recorded, and what has not come from there.
    private var acceptedIDs: [LogID: Set<UInt64>] = [:]
    /// What was sent, ascending.
    private var sentIDs: [Lane: [UInt64]] = [:]
    /// How many entries of a conversation have failed, or wait for one that has.
    private var troubles: [ConversationID: Int] = [:]

    var isEmpty: Bool { byID.isEmpty }
    var conversations: Set<ConversationID> { Set(ofConversation.keys) }
    /// Logs with something accepted.
    var acceptedLogs: [LogID] { acceptedIDs.keys.sorted() }

    /// In the order made.
    var all: [OutboxEntry] { byID.values.sorted { $0.id < $1.id } }

    func forEach(_ body: (OutboxEntry) -> Void) { for entry in byID.values { body(entry) } }

    func allSatisfy(_ condition: (OutboxEntry) throws -> Bool) rethrows -> Bool { try byID.values.allSatisfy(condition) }

    subscript(id: UInt64) -> OutboxEntry? { byID[id] }

    /// Those of a conversation, in the order made.
    subscript(conversation: ConversationID) -> [OutboxEntry] { ofConversation[conversation]?.map { byID[$0]! } ?? [] }

    func entry(_ log: LogID, _ replica: ReplicaID, _ counter: UInt64) -> OutboxEntry? {
        counter == 0 ? nil : byName[Name(log, replica, counter)].flatMap { byID[$0] }
    }

    /// Those that a log has under whatever origin, as an event of it tells: one that was set back may not know that it has sent them. What a hub knows again
    /// by what it says is its to judge.
    func twins(of event: RecordedEvent) -> [OutboxEntry] {
        if event.isErased || event.event.isKnownByContent { return [] }
        return event.times.flatMap { byTime[$0] ?? [] }.map { byID[$0]! }.filter { $0.event == event.event }
    }

    /// The greatest clock with which one was made.
    var lastTime: HLC { byID.values.reduce(HLC(rawValue: 0)) { max($0, $1.origin.hlc) } }

    func accepted(in log: LogID) -> [OutboxEntry] { acceptedIDs[log]?.sorted().map { byID[$0]! } ?? [] }

    /// What was sent and has no answer, ascending.
    var unanswered: [UInt64] { sentIDs.values.joined().filter { byID[$0]!.accepted == nil }.sorted() }

    /// The last of a lane that was sent.
    func lastSent(in log: LogID, of replica: ReplicaID) -> UInt64? { sentIDs[Lane(log: log, replica: replica)]?.last }

    func hasTrouble(in conversation: ConversationID) -> Bool { troubles[conversation] != nil }

    // Changing.

    /// Adds an entry, or puts it in the place of the one with its id.
    mutating func put(_ entry: OutboxEntry) {
        let old = byID.updateValue(entry, forKey: entry.id)
        precondition(old.map { $0.event.conversation == entry.event.conversation } ?? true, "an entry of the outbox stays in its conversation")
        if old == nil { Self.insert(entry.id, into: &ofConversation[entry.event.conversation, default: []]) }
        note(from: old, to: entry)
    }

    mutating func remove(_ id: UInt64) {
        guard let old = byID.removeValue(forKey: id) else { return }
        let conversation = old.event.conversation
        Self.remove(id, from: &ofConversation[conversation, default: []])
        if ofConversation[conversation]!.isEmpty { ofConversation[conversation] = nil }
        note(from: old, to: nil)
    }

    private mutating func note(from old: OutboxEntry?, to new: OutboxEntry?) {
        guard let id = (old ?? new)?.id, let conversation = (old ?? new)?.event.conversation else { return }
        let oldName = old.flatMap { Name($0) }, newName = new.flatMap { Name($0) }
        if oldName != newName {
            if let oldName, byName[oldName] == id { byName[oldName] = nil }
            if let newName { byName[newName] = id }
        }
        let oldTime = old.flatMap { Self.time($0) }, newTime = new.flatMap { Self.time($0) }
        if oldTime != newTime {
            if let oldTime {
                Self.remove(id, from: &byTime[oldTime]!)
                if byTime[oldTime]!.isEmpty { byTime[oldTime] = nil }
            }
            if let newTime { Self.insert(id, into: &byTime[newTime, default: []]) }
        }
        let wasPending = old?.state == .pending, isPending = new?.state == .pending
        if isPending, !wasPending { Self.insert(id, into: &pendingIDs) }
        if wasPending, !isPending { Self.remove(id, from: &pendingIDs) }
        if (old?.accepted == nil) != (new?.accepted == nil), let log = (old ?? new)?.event.log {
            if new?.accepted != nil { acceptedIDs[log, default: []].insert(id) } else { acceptedIDs[log]?.remove(id) }
            if acceptedIDs[log]?.isEmpty ?? false { acceptedIDs[log] = nil }
        }
        let oldLane = old.flatMap { Lane($0) }, newLane = new.flatMap { Lane($0) }
        if oldLane != newLane {
            if let oldLane {
                Self.remove(id, from: &sentIDs[oldLane]!)
                if sentIDs[oldLane]!.isEmpty { sentIDs[oldLane] = nil }
            }
            if let newLane { Self.insert(id, into: &sentIDs[newLane, default: []]) }
        }
        let trouble = (new?.isTrouble ?? false ? 1 : 0) - (old?.isTrouble ?? false ? 1 : 0)
        if trouble != 0 {
            troubles[conversation, default: 0] += trouble
            if troubles[conversation] == 0 { troubles[conversation] = nil }
        }
    }

    private static func time(_ entry: OutboxEntry) -> HLC? { entry.event.isKnownByContent ? nil : entry.origin.hlc }

    /// The place of an id in an ascending list; nearly always it is the first or behind the last.
    private static func place(of id: UInt64, in ids: [UInt64]) -> Int {
        if ids.last.map({ $0 < id }) ?? true { return ids.count }
        var (low, high) = (0, ids.count)
        while low < high {
            let middle = (low + high) / 2
            if ids[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private static func insert(_ id: UInt64, into ids: inout [UInt64]) { ids.insert(id, at: place(of: id, in: ids)) }

    private static func remove(_ id: UInt64, from ids: inout [UInt64]) {
        let place = place(of: id, in: ids)
        if place < ids.count, ids[place] == id { ids.remove(at: place) }
    }
}

extension OutboxEntry {
    fileprivate var isTrouble: Bool { isFailed || isWaiting }
}
