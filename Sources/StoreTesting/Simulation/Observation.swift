internal import ConversationStore
internal import Replication

/// What a device's screens have shown, looked at after every step: no confirmed message vanishes, none comes before another that was there, and
/// nothing of strangers is held.
struct Observation {
    struct Shown: Hashable {
        var seq: Seq
        var id: MessageID
    }

    private var position: Position = 0
    /// Up to where it was seen that the device had asked for what came.
    private var asked: Position = 0
    private var timelines: [ConversationID: [Shown]] = [:]
    /// The ends of the newest parts that were looked at.
    private var parts: [LogID: ClosedRange<Seq>] = [:]
    private var hubRestores = 0
    /// Shown once, gone since the hub was set back: to be found again at the end.
    private(set) var vanished: [ConversationID: Set<Shown>] = [:]
    /// Bytes of the device have decayed: what it has erased itself may be unknown now, and its log have to come anew.
    var mayVanish = false

    /// - Parameter asksFor: whether a log is among what the device asks for now.
    mutating func look(at replica: Replica, _ user: UserID, _ hub: HubNode, asksFor: (LogID) -> Bool) throws {
        let last = replica.store.log.lastPosition
        var touched: Set<ConversationID> = []
        if last < position || hub.restores > hubRestores {
            // Logs were cut back: all is looked at anew.
            (position, asked) = (0, 0)
            touched.formUnion(timelines.keys)
        }
        if last > position {
            var new: [RecordedEvent] = []
            try replica.store.log.replay(from: position + 1) { event in
                new.append(event)
                return true
            }
            // As soon as it came, for what the device asks for now: what is allowed may be known only when the hub is back.
            if position > 0 {
                for event in new where event.position > asked && !asksFor(event.log) {
                    throw SimulationFailure("\(event.log) seq \(event.seq) came, and was not asked for")
                }
            }
            asked = last
            var isKnown = true
            for event in new where isKnown {
                isKnown = try isAllowed(event, user, hub)
                touched.insert(event.event.conversation)
            }
            if isKnown { position = last }
        }
        let parts = replica.parts
        let hasParts = !parts.isEmpty || !self.parts.isEmpty
        if hasParts { touched.formUnion(try lookAtParts(parts, user, hub)) }
        for id in touched.sorted() {
            try look(at: id, in: replica, mayVanish: mayVanish || hub.restores > 0, wasFromJoining: hub.history.everFromJoining.contains(id))
        }
        hubRestores = hub.restores
    }

    /// A hub that fell right behind a commit had no time to tell us of it: then it is looked at again when the hub is back.
    private func isAllowed(_ event: RecordedEvent, _ user: UserID, _ hub: HubNode) throws -> Bool {
        if hub.history.wasAllowed(event.log, event.seq, user) { return true }
        guard hub.isUp else { return false }
        throw SimulationFailure("\(event.log) seq \(event.seq) reached \(user), who may not see it")
    }

    /// Answers of which conversations another part is shown than before.
    private mutating func lookAtParts(_ all: [Replica.Part], _ user: UserID, _ hub: HubNode) throws -> Set<ConversationID> {
        var touched: Set<ConversationID> = []
        var now: [LogID: ClosedRange<Seq>] = [:]
        for part in all {
            let seqs = part.baseSeq...part.lastSeq
            now[part.log] = seqs
            guard parts[part.log] != seqs, case .conversation(let id) = part.log else { continue }
            touched.insert(id)
            guard try part.events.allSatisfy({ try isAllowed($0, user, hub) }) else { now[part.log] = nil; continue }
        }
        for case .conversation(let id) in parts.keys where now[.conversation(id)] == nil { touched.insert(id) }
        parts = now
        return touched
    }

    private mutating func look(at id: ConversationID, in replica: Replica, mayVanish: Bool, wasFromJoining: Bool) throws {
        let messages = try replica.store.timeline(of: id, limit: .max)?.messages ?? []
        var shown: [Shown] = []
        for message in messages where message.unconfirmed == nil {
            if let before = shown.last, before.seq >= message.seq {
                throw SimulationFailure("the timeline of \(id) shows seq \(message.seq) behind \(before.seq)")
            }
            shown.append(Shown(seq: message.seq, id: message.id))
        }
        let now = Set(shown)
        var gap: ClosedRange<Seq>?
        // What is before a joining is not for who came in anew, nor shown again at once when it is opened; and what the hub has lost no part shows.
        if let part = replica.parts.first(where: { $0.log == .conversation(id) }), part.baseSeq > 0, mayVanish || wasFromJoining { gap = 1...part.baseSeq }
        for old in timelines[id] ?? [] where !now.contains(old) {
            // Where the part begins is checked at the end.
            if gap?.contains(old.seq) ?? false { continue }
            guard mayVanish else { throw SimulationFailure("message \(old.id) of \(id) at seq \(old.seq) was confirmed and has vanished") }
            vanished[id, default: []].insert(old)
        }
        timelines[id] = shown
    }
}
