internal import EventLog

/// What comes of an entry that the hub says it has recorded.
enum Standing {
    /// It stands there: the entry leaves. It may stand there as this event of another origin.
    case held(as: RecordedEvent? = nil)
    /// What stands there was erased, and said something else or may have: the entry fails.
    case erased
    /// What stands there has not come, or cannot be compared yet.
    case awaited
    /// It does not come: the scope leaves it out, or it lies in a hole.
    case elsewhere
}

/// What entries of an outbox have come to, before it is written.
private struct Outcome {
    /// Those that leave.
    var gone: [OutboxEntry] = []
    /// Those that stay, and have failed now.
    var failed: [OutboxEntry] = []
    /// Those that stay otherwise, changed.
    var kept: [OutboxEntry] = []
    /// The hub's events that entries stand there as, under other ids of this replica than it knows.
    var own: [RecordedEvent] = []

    var isEmpty: Bool { gone.isEmpty && failed.isEmpty && kept.isEmpty }
    /// Conversations of which something else is pending.
    var touched: Set<ConversationID> { Set((gone + failed + kept).map(\.event.conversation)) }

    /// Takes an entry that the hub says it has recorded for what it stands there as.
    ///
    /// - Returns: whether nothing has come of it that must be written.
    @discardableResult
    mutating func take(_ entry: OutboxEntry, _ standing: Standing) -> Bool {
        switch standing {
        case .held(let event):
            gone.append(entry)
            if let event, entry.isUnderOtherID(event) { own.append(event) }
        case .erased:
            var entry = entry
            entry.fail(OutboxEntry.isOfErased)
            failed.append(entry)
        case .elsewhere where !entry.isElsewhere:
            var entry = entry
            entry.isElsewhere = true
            kept.append(entry)
        case .awaited, .elsewhere: return true
        }
        return false
    }

    /// In the transaction that `write` gives.
    func write(as identity: ReplicaIdentity, _ transaction: inout SideStore.Writing) throws {
        for entry in failed + kept { try transaction.put(SyncTables.outbox, Outbox.key(entry.id), entry.encoded()) }
        // Last, as in memory: a hub may say two things of one entry.
        for entry in gone { try transaction.delete(SyncTables.outbox, Outbox.key(entry.id)) }
        try Identities.know(own, as: identity, &transaction)
    }
}

extension Outbox {
    struct Answered {
        /// Conversations of which something else is pending now.
        var touched: Set<ConversationID> = []
        /// This replica's counters turned out to be another's, or its own of a lost life: it has a new identity now.
        var isReborn = false
        /// Entries that have failed now. What is only sent again under another counter was not refused.
        var failed = 0
    }

    /// The hub's answers to a PUSH, in one transaction: what it recorded stays until `standing` finds it there; what it refused has failed.
    ///
    /// - Throws: what `standing` throws; then nothing has changed.
    func answered(
        _ accepted: [Accepted], _ refused: [Refused], newNonce: (_ after: ReplicaIdentity) throws -> [UInt8], standing: (OutboxEntry) throws -> Standing
    ) throws -> Answered {
        var result = Answered()
        var outcome = Outcome()
        // Told of once, and not before it is written.
        var new = 0
        for answer in accepted {
            guard var entry = table.entry(answer.log, answer.replica, answer.counter) else { continue }
            // A repeat of nothing that this user may see: a hub that was set back says so of an old counter, in a conversation that it does not know.
            if answer.isDuplicate, answer.seq == 0 {
                entry.fail(.failed(code: RefusalCode.unknownConversation.rawValue, detail: "what it repeats is not in sight"))
                outcome.failed.append(entry)
                continue
            }
            entry.accepted = OutboxEntry.Record(seq: answer.seq, isRepeat: answer.isDuplicate)
            let standing = try standing(entry)
            let isErased = if case .erased = standing { true } else { false }
            if !isErased {
                if !entry.isCounted { new += 1 }
                entry.isCounted = true
            }
            // Not kept on the disk: the next session asks again.
            if outcome.take(entry, standing) { table.put(entry) }
        }
        var reborn: ReplicaIdentity?
        let conflicts = conflicts(refused, but: Set(outcome.gone.map(\.id)))
        if !conflicts.isEmpty, conflicts.contains(where: { $0.origin.replica == identity.replica }) {
            reborn = ReplicaIdentity(user: identity.user, nonce: try newNonce(identity))
        }
        let again = Set(conflicts.map(\.id))
        for answer in refused {
            guard var entry = table.entry(answer.log, answer.replica, answer.counter), !again.contains(entry.id) else { continue }
            if PlantedBug.dropRefused.isPlanted {
                outcome.gone.append(entry)
            } else {
                entry.fail(.failed(code: answer.code, detail: answer.detail))
                outcome.failed.append(entry)
            }
        }
        let next = reborn ?? identity
        for var entry in conflicts {
            entry.state = .pending
            (entry.accepted, entry.isElsewhere) = (nil, false)
            entry.wasSent = true
            entry.origin = Origin(replica: next.replica, counter: 0, hlc: entry.origin.hlc)
            entry.nonce = next.nonce
            outcome.kept.append(entry)
        }
        if reborn != nil {
            // The life that was lost may have sent what waits here, too, under counters of its own.
            let known = Set((outcome.gone + outcome.failed + outcome.kept).map(\.id))
            for var entry in table.all where entry.state == .pending && !entry.wasSent && !known.contains(entry.id) {
                entry.wasSent = true
                outcome.kept.append(entry)
            }
        }
        result.failed = outcome.failed.count
        result.isReborn = reborn != nil
        result.touched = try keep(outcome, as: next) { transaction in
            if let reborn { try Identities.take(reborn, after: identity, &transaction) }
        }
        settled.accepted += new
        return result
    }

    /// Writes what entries have come to, in one transaction with what `write` writes.
    ///
    /// - Returns: the conversations of which something else is pending now.
    private func keep(
        _ outcome: Outcome, as identity: ReplicaIdentity, write: (inout SideStore.Writing) throws -> Void = { _ in }
    ) throws -> Set<ConversationID> {
        if outcome.isEmpty { return [] }
        try side.write { transaction in
            try write(&transaction)
            try outcome.write(as: identity, &transaction)
            try keepLastID([], &transaction)
        }
        self.identity = identity
        for entry in outcome.failed + outcome.kept { table.put(entry) }
        for entry in outcome.gone { table.remove(entry.id) }
        settleWaiting(outcome.touched)
        return outcome.touched
    }

    /// Entries that must get counters of another id: those whose counters turned out to be other events', and what went behind them in their lanes, which
    /// the hub does not take either: it would stand before them.
    private func conflicts(_ refused: [Refused], but gone: Set<UInt64>) -> [OutboxEntry] {
        let refused = refused.filter { $0.code == RefusalCode.originConflict.rawValue }.compactMap { table.entry($0.log, $0.replica, $0.counter) }
        let known = Set(refused.map(\.id))
        var firsts: [LogID: [ReplicaID: UInt64]] = [:]
        for entry in refused {
            let first = firsts[entry.event.log]?[entry.origin.replica] ?? .max
            firsts[entry.event.log, default: [:]][entry.origin.replica] = min(first, entry.origin.counter)
        }
        // The user's log has events of many conversations.
        let isOfUser = refused.contains { if case .user = $0.event.log { true } else { false } }
        let near = isOfUser ? table.all : Set(refused.map(\.event.conversation)).flatMap { table[$0] }
        let behind = near.filter { entry in
            guard entry.isUnanswered, !known.contains(entry.id), !gone.contains(entry.id) else { return false }
            return firsts[entry.event.log]?[entry.origin.replica].map { $0 < entry.origin.counter } ?? false
        }
        return refused + behind
    }

    /// Events have come from the hub: those that were this replica's own leave the outbox, and so does what was accepted and is held by now.
    func confirmed(_ events: [RecordedEvent], standing: (OutboxEntry) throws -> Standing) throws -> Set<ConversationID> {
        if isEmpty { return [] }
        var outcome = Outcome()
        var logs: Set<LogID> = [], known: Set<UInt64> = []
        for event in events {
            logs.insert(event.log)
            // A replica that was set back gave a counter out twice: what comes under it may be the other event, of its lost life.
            if let entry = table.entry(event.log, event.origin.replica, event.origin.counter), entry.isRecorded(as: event) {
                if known.insert(entry.id).inserted { outcome.gone.append(entry) }
            } else if let twin = table.twins(of: event).first(where: { !known.contains($0.id) && !isNew($0.id) }) {
                known.insert(twin.id)
                outcome.take(twin, .held(as: event))
            }
        }
        return try settle(logs.flatMap { table.accepted(in: $0) }.filter { !known.contains($0.id) }, with: outcome, standing)
    }

    /// What some hub may know and has not accepted: what is offered anew, as a hub had lost it, what was sent and is not answered, and what failed.
    private var unaccepted: [OutboxEntry] { table.all.filter { $0.wasSent && $0.accepted == nil } }

    var hasOffers: Bool { unaccepted.contains { !$0.isFailed } }

    /// Whether something goes under another counter than it had: of a device that was restored from a backup the lost life may have sent it.
    var hasSentAnew: Bool { table.all.contains { $0.wasSent && $0.state == .pending } }

    /// What is offered anew and stands there all the same leaves: a hub that was set back, and then put forward again, has it as it was first. An offer keeps
    /// its clock, by which it is found. So does what failed in between: tried again, it would stand there twice.
    ///
    /// What was erased there has no body to compare. Where its envelope fits, and may be that of another device's event of the same time, the entry fails: dropped
    /// it could be lost, and offered again it could bring back what was erased. That is for its user to decide.
    ///
    /// - Parameters:
    ///   - own: which events are known to be this replica's.
    ///   - evenSent: whether all of it may leave, and not only what failed.
    ///   - forEachEvent: gives the events that are held of a log.
    func strikeStanding(
        own: Identities.Own, evenSent: Bool, _ forEachEvent: (LogID, _ body: (RecordedEvent) -> Void) throws -> Void
    ) throws -> Set<ConversationID> {
        var outcome = Outcome()
        let candidates = evenSent ? unaccepted : unaccepted.filter(\.isFailed)
        for (log, candidates) in Dictionary(grouping: candidates, by: \.event.log).sorted(by: { $0.key < $1.key }) {
            var rest = Dictionary(grouping: candidates, by: \.origin.hlc)
            var doubtful: Set<UInt64> = []
            try forEachEvent(log) { event in
                guard let (time, place) = event.times.lazy.compactMap({ time in rest[time]?.firstIndex { $0.isOffer(of: event) }.map { (time, $0) } }).first
                else { return }
                if event.isErased, !event.event.isNamedByEnvelope, !own.contains(event) {
                    doubtful.insert(rest[time]![place].id)
                    return
                }
                let entry = rest[time]!.remove(at: place)
                outcome.take(entry, .held(as: event))
            }
            for var entry in rest.values.joined() where doubtful.contains(entry.id) && !entry.isFailed {
                entry.state = OutboxEntry.isErasedPerhaps
                entry.isWaiting = false
                outcome.failed.append(entry)
            }
        }
        return try settle([], with: outcome) { _ in .awaited }
    }

    /// What was accepted can be compared now.
    func strikeAccepted(standing: (OutboxEntry) throws -> Standing) throws -> Set<ConversationID> {
        try settle(table.acceptedLogs.flatMap { table.accepted(in: $0) }, standing)
    }

    /// Accepted entries that are held by now leave, with what came of others, of which nobody was told yet; that they do not come is kept.
    private func settle(
        _ accepted: [OutboxEntry], with outcome: Outcome = Outcome(), _ standing: (OutboxEntry) throws -> Standing
    ) throws -> Set<ConversationID> {
        let new = outcome.gone.count { !$0.isCounted }
        var outcome = outcome
        for entry in accepted { outcome.take(entry, try standing(entry)) }
        let touched = try keep(outcome, as: identity)
        settled.accepted += new
        settled.failed += outcome.failed.count
        return touched
    }
}

extension OutboxEntry {
    /// Whether what stands under this entry's origin is its event: the same counter may have been given out twice, even for what says the same. Of an erased
    /// one the envelope tells.
    func isRecorded(as recorded: RecordedEvent) -> Bool {
        recorded.origin == origin && (recorded.isErased ? hasEnvelope(of: recorded) : recorded.event == event)
    }

    private func hasEnvelope(of recorded: RecordedEvent) -> Bool {
        recorded.event.author == event.author && recorded.event.kindNumber == event.kindNumber && recorded.event.references == event.references
    }

    /// Whether an event is this one, and stands under an id that may not be known as this replica's.
    fileprivate func isUnderOtherID(_ recorded: RecordedEvent) -> Bool { recorded.event == event && recorded.origin.replica != origin.replica }

    /// Whether an event of the same clock is what this entry offers, under another origin. Of an erased one the envelope tells: its body must not come back.
    fileprivate func isOffer(of recorded: RecordedEvent) -> Bool {
        guard recorded.isErased else { return recorded.event == event }
        return hasEnvelope(of: recorded)
    }

    /// What has failed as what stands there was erased, and may be this.
    static let isErasedPerhaps = State.failed(
        code: RefusalCode.originConflict.rawValue, detail: "it may be what was erased there: retry to write it anew, or discard it")

    /// What has failed as its message was erased at the hub, and may have had another text.
    static let isOfErased = State.failed(
        code: RefusalCode.messageConflict.rawValue, detail: "what stands there under its id was erased, and was something else, or may have been")

    /// Whether what stands there as this message says something else, or was erased here and was written at another time. The hub has erased it: it takes
    /// its sender's word then, and the body may be here still.
    func isEdited(since recorded: RecordedEvent) -> Bool {
        guard case .messageSent(let message) = event.content, case .messageSent(let other) = recorded.event.content, message.id == other.id else {
            return false
        }
        return recorded.isErased ? recorded.origin.hlc != origin.hlc : !message.repeats(other)
    }

    /// It has failed, whatever the hub said of it.
    fileprivate mutating func fail(_ state: State) {
        self.state = state
        accepted = nil
        (isCounted, isElsewhere) = (false, false)
    }

    /// Whether an event that is held is what an honest hub means that says it has recorded this one there.
    ///
    /// - Parameter isService: whether the replica is a service account's, which sees what happens behind a leave.
    func stands(as recorded: RecordedEvent, isRepeat: Bool, isService: Bool) -> Bool {
        if recorded.origin.replica == origin.replica, recorded.origin.counter == origin.counter { return isRecorded(as: recorded) }
        guard isRepeat else { return false }
        if recorded.isOfTime(origin.hlc), isOffer(of: recorded) { return true }
        // Out of the user's sight it stands behind this, the last in sight.
        if !isService, case .participantLeft(event.author) = recorded.event.content { return true }
        let isOwn = recorded.event.author == event.author
        switch (event.content, recorded.event.content) {
        case (.conversationCreated, .conversationCreated): return true
        case (.participantLeft(let user), .participantLeft(let other)): return user == other
        case (.participantJoined(let user), .participantJoined(let other)): return user == other
        case (.participantJoined(let user), .conversationCreated(_, _, let people)): return recorded.event.author == user || people.contains(user)
        case (.messageSent(let message), .messageSent(let other)): return isOwn && message.id == other.id
        case (.chunkAppended(let id, let index, _), .chunkAppended(let other, let otherIndex, _)): return isOwn && id == other && index == otherIndex
        // Where the chunk cannot be found any more the hub names its message.
        case (.chunkAppended(let id, _, _), .messageSent(let message)): return isOwn && id == message.id
        case (.messageCompleted(let id, _, _), .messageCompleted(let other, _, _)): return isOwn && id == other
        case (.messageInterrupted(let id, _), .messageInterrupted(let other, _)): return id == other
        case (.messageDeleted(let id), .messageDeleted(let other)): return isOwn && id == other
        case (.receiptDelivered, .receiptDelivered), (.receiptDelivered, .receiptRead), (.receiptRead, .receiptRead): return isOwn
        default: return false
        }
    }
}
