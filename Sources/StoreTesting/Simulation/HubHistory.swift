internal import ConversationStore

/// What the hub's log has said so far, and who was ever allowed to see what: told from the events alone, beside the hub's own index.
struct HubHistory {
    /// Somebody's place in a conversation.
    private struct Place {
        /// Where the user came in last.
        var joinedSeq: Seq
        var isIn: Bool
        /// The last seq that the user may see; for somebody who left, that of the leaving.
        var lastSeq: Seq
    }

    /// A log's events as they were written, by seq.
    private(set) var logs: [LogID: [RecordedEvent]] = [:]
    private(set) var position: Position = 0
    private var places: [ConversationID: [UserID: Place]] = [:]
    /// Whether a conversation's history begins with the joining, for who comes later.
    private var beginnings: [ConversationID: Model.Register<Bool>] = [:]
    /// Conversations of which that was ever so.
    private(set) var everFromJoining: Set<ConversationID> = []
    /// What a user was ever allowed to see, in the futures too that a restored hub has lost.
    private var everVisible: [UserID: [LogID: [ClosedRange<Seq>]]] = [:]
    /// All events that ever stood in a log, lost ones too.
    private var everRecorded: [LogID: [Seq: [RecordedEvent]]] = [:]
    /// Seqs of which the hub has erased the body.
    private(set) var erased: [LogID: Set<Seq>] = [:]
    /// All that was ever erased at a time, in order: states that a device was shown may be of any.
    private var erasedOnce: [LogID: [Set<Seq>]] = [:]
    /// Origins of what was written before and erased by then: a hub cannot know it again (docs/PROTOCOL.md, 7).
    private var behindErased: [LogID: Set<OriginKey>] = [:]

    mutating func take(_ event: RecordedEvent) throws {
        position = event.position
        guard event.seq == Seq(logs[event.log]?.count ?? 0) + 1 else {
            throw SimulationFailure("I2: the hub's log \(event.log) has seq \(event.seq) behind \(logs[event.log]?.count ?? 0)")
        }
        let written = everRecorded[event.log]?[event.seq]?.first { $0.isSame(as: event) }
        if written == nil { everRecorded[event.log, default: [:]][event.seq, default: []].append(event) }
        var kept = written ?? event
        kept.position = event.position
        // Judged when it is recorded: what was erased later was there to be found.
        if written == nil, isBehindErased(kept) { behindErased[event.log, default: []].insert(OriginKey(event.origin)) }
        logs[event.log, default: []].append(kept)
        if event.isErased { noteErased(event.log, event.seq) }
        switch event.log {
        case .conversation(let id): takePlaces(event, id)
        case .user(let user): note(user, event.log, 1...event.seq)
        }
    }

    /// Whether an event is known by nothing but its content, and stands in its log already, each time erased.
    private func isBehindErased(_ event: RecordedEvent) -> Bool {
        if event.event.isKnownByContent { return false }
        let copies = logs[event.log]?.filter { $0.origin.hlc == event.origin.hlc && $0.event == event.event } ?? []
        return !copies.isEmpty && copies.allSatisfy(isErased)
    }

    private mutating func takePlaces(_ event: RecordedEvent, _ id: ConversationID) {
        switch event.event.content {
        case .conversationCreated(_, _, let others): for user in others + [event.event.author] { join(user, id, event.seq) }
        case .participantJoined(let user): join(user, id, event.seq)
        case .participantLeft(let user):
            noteVisible(in: id, through: event.seq)
            places[id]?[user]?.isIn = false
        case .conversationUpdated where !event.isErased: beginnings[id, default: Model.Register(false)].writeHistory(event)
        default: break
        }
        if isFromJoining(id) { everFromJoining.insert(id) }
        noteVisible(in: id, through: event.seq)
    }

    private mutating func join(_ user: UserID, _ id: ConversationID, _ seq: Seq) {
        places[id, default: [:]][user] = Place(joinedSeq: seq, isIn: true, lastSeq: seq)
    }

    func isFromJoining(_ id: ConversationID) -> Bool { beginnings[id]?.value ?? false }

    private mutating func noteVisible(in id: ConversationID, through seq: Seq) {
        for (user, place) in places[id] ?? [:] {
            let last = place.isIn ? seq : place.lastSeq
            places[id]![user]!.lastSeq = last
            note(user, .conversation(id), (isFromJoining(id) ? place.joinedSeq : 1)...last)
        }
    }

    private mutating func note(_ user: UserID, _ log: LogID, _ seqs: ClosedRange<Seq>) {
        var ranges = everVisible[user]?[log] ?? []
        if let index = ranges.firstIndex(where: { $0.lowerBound == seqs.lowerBound }) {
            ranges[index] = seqs.lowerBound...max(seqs.upperBound, ranges[index].upperBound)
        } else {
            ranges.append(seqs)
        }
        everVisible[user, default: [:]][log] = ranges
    }

    /// The hub was set back: what it says is read anew, what was allowed was allowed.
    mutating func forget() {
        var new = HubHistory()
        new.everVisible = everVisible
        new.everRecorded = everRecorded
        new.everFromJoining = everFromJoining
        new.erasedOnce = erasedOnce
        new.behindErased = behindErased
        for (log, seqs) in erased where !seqs.isEmpty { new.erasedOnce[log]!.append([]) }
        self = new
    }

    // Erasure.

    /// The hub has erased a body: of a conversation that is told by a title or a history it is told anew.
    mutating func noteErased(_ log: LogID, _ seq: Seq) {
        guard erased[log, default: []].insert(seq).inserted else { return }
        erasedOnce[log, default: [[]]].append(erased[log]!)
        guard case .conversation(let id) = log, beginnings[id] != nil else { return }
        beginnings[id] = nil
        for event in logs[log] ?? [] where !isErased(event) {
            if case .conversationUpdated = event.event.content { beginnings[id, default: Model.Register(false)].writeHistory(event) }
        }
        if isFromJoining(id) { everFromJoining.insert(id) }
        noteVisible(in: id, through: Seq(logs[log]?.count ?? 0))
    }

    func isErased(_ event: RecordedEvent) -> Bool { erased[event.log]?.contains(event.seq) ?? false }

    func wasErased(_ event: RecordedEvent) -> Bool { erasedOnce[event.log]?.contains { $0.contains(event.seq) } ?? false }

    /// What was ever erased of some seqs of a log at a time: nothing, then more and more.
    func erasures(in log: LogID, _ seqs: ClosedRange<Seq>) -> Set<Set<Seq>> { Set((erasedOnce[log] ?? [[]]).map { $0.filter(seqs.contains) }) }

    // Asking.

    func wasAllowed(_ log: LogID, _ seq: Seq, _ user: UserID) -> Bool {
        user == Token.service || everVisible[user]?[log]?.contains { $0.contains(seq) } ?? false
    }

    /// Whether a user was ever shown a log from a later seq on: then what is before it is not held any more.
    func wasShownFromLater(_ log: LogID, _ seq: Seq, _ user: UserID) -> Bool { everVisible[user]?[log]?.contains { $0.lowerBound > seq } ?? false }

    /// Whether just this event ever stood in the log, its body erased or not.
    func wasRecorded(_ event: RecordedEvent) -> Bool { everRecorded[event.log]?[event.seq]?.contains { $0.isSame(as: event) } ?? false }

    /// Where an event of just this content ever stood in its log.
    func seqs(of event: Event) -> [Seq] {
        everRecorded[event.log]?.filter { $0.value.contains { $0.event == event } }.map(\.key) ?? []
    }

    /// The last seq of each log that a user may see now.
    func ends(for user: UserID) -> [LogID: Seq] {
        var result: [LogID: Seq] = [:]
        forEachEnd(for: user) { log, seq in
            result[log] = seq
            return true
        }
        return result
    }

    /// Visits them, until the closure says false.
    func forEachEnd(for user: UserID, _ body: (LogID, Seq) -> Bool) {
        if user == Token.service {
            for (log, events) in logs where !body(log, Seq(events.count)) { return }
            return
        }
        for (id, people) in places { if let place = people[user], !body(.conversation(id), place.lastSeq) { return } }
        if let own = logs[.user(user)] { _ = body(.user(user), Seq(own.count)) }
    }

    /// Ascending.
    var conversations: [ConversationID] { places.keys.sorted() }

    /// Whether the event at a seq came behind a position.
    func stands(_ log: LogID, _ seq: Seq, behind position: Position) -> Bool { logs[log].map { $0[Int(seq) - 1].position > position } ?? false }

    /// Where somebody came into a conversation last.
    func joinedSeq(_ user: UserID, in log: LogID) -> Seq {
        guard case .conversation(let id) = log else { return 1 }
        return places[id]?[user]?.joinedSeq ?? 1
    }

    /// The first events of a log, as the hub has them now.
    func events(of log: LogID, through last: Seq) -> [RecordedEvent] {
        (logs[log] ?? []).prefix(Int(clamping: last)).map { event in
            var event = event
            if isErased(event) { event.isErased = true }
            return event
        }
    }

    /// I3: no origin twice in a log, no message twice in a conversation, and nothing that its maker wrote once.
    ///
    /// - Parameter mayRepeat: whether something may stand there twice.
    func checkOnce(mayRepeat: (Event) -> Bool) throws {
        for (log, events) in logs {
            var origins: Set<OriginKey> = []
            var messages: Set<MessageID> = []
            var written: [HLC: [Event]] = [:]
            for event in events {
                // A device ticks its clock for each event; what it offers again keeps the time, but where it was written over (`OfferedTimes`): that is not seen here.
                let isAgain = written[event.origin.hlc]?.contains(event.event) ?? false
                guard !isAgain || mayRepeat(event.event) || behindErased[log]?.contains(OriginKey(event.origin)) ?? false else {
                    throw SimulationFailure("I3: \(log) has what was written at \(event.origin.hlc) twice, again at seq \(event.seq): \(event.event)")
                }
                written[event.origin.hlc, default: []].append(event.event)
                guard origins.insert(OriginKey(event.origin)).inserted else {
                    throw SimulationFailure("I3: \(log) has the origin \(event.origin.replica) \(event.origin.counter) twice, again at seq \(event.seq)")
                }
                if case .messageSent(let message) = event.event.content, !messages.insert(message.id).inserted {
                    throw SimulationFailure("I3: \(log) has the message \(message.id) twice, again at seq \(event.seq)")
                }
            }
        }
    }

    /// Whether an event of just this content was recorded.
    func holds(_ event: Event) -> Bool { self.event(like: event) != nil }

    func event(like event: Event) -> RecordedEvent? { logs[event.log]?.first { $0.event == event } }
}

extension Model.Register<Bool> {
    /// What an update says of where the history begins, if it does.
    fileprivate mutating func writeHistory(_ event: RecordedEvent) {
        guard case .conversationUpdated(_, let attributes) = event.event.content else { return }
        for attribute in attributes where attribute.name == ConversationHistory.attribute {
            write(attribute.value == ConversationHistory.fromJoining.rawValue, event)
        }
    }
}

extension RecordedEvent {
    /// Whether two are copies of one event; positions are each store's own, and the body of either may be erased.
    func isSame(as other: RecordedEvent) -> Bool {
        guard log == other.log, seq == other.seq, origin == other.origin, hlc == other.hlc, targetSeq == other.targetSeq else { return false }
        if isErased || other.isErased {
            return event.author == other.event.author && event.kindNumber == other.event.kindNumber && event.references == other.event.references
        }
        return event == other.event
    }
}

/// An origin without its clock.
struct OriginKey: Hashable {
    var replica: ReplicaID
    var counter: UInt64

    init(_ origin: Origin) {
        replica = origin.replica
        counter = origin.counter
    }

    init(replica: ReplicaID, counter: UInt64) {
        self.replica = replica
        self.counter = counter
    }
}
