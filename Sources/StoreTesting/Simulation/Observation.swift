internal import ConversationStore
internal import Replication

/// What a device's screens have shown, looked at after every step: no confirmed message vanishes, none comes before another that was there, and
/// nothing of strangers is held.
struct Observation {
    private struct Shown: Hashable {
        var seq: Seq
        var id: MessageID
    }

    private var position: Position = 0
    private var timelines: [ConversationID: [Shown]] = [:]
    private var hubRestores = 0
    /// Shown once, gone since the hub was set back: to be found again at the end.
    private(set) var vanished: [ConversationID: Set<MessageID>] = [:]

    mutating func look(at replica: Replica, _ user: UserID, _ hub: HubNode) throws {
        let last = replica.store.log.lastPosition
        var touched: Set<ConversationID> = []
        if last < position || hub.restores > hubRestores {
            // Logs were cut back: all is looked at anew.
            position = 0
            touched.formUnion(timelines.keys)
        }
        if last > position {
            var isKnown = true
            try replica.store.log.replay(from: position + 1) { event in
                guard hub.history.wasAllowed(event.log, event.seq, user) else {
                    // A hub that fell right behind a commit had no time to tell us of it: looked at again when it is back.
                    if !hub.isUp {
                        isKnown = false
                        return false
                    }
                    throw SimulationFailure("\(event.log) seq \(event.seq) reached \(user), who may not see it")
                }
                touched.insert(event.event.conversation)
                return true
            }
            if isKnown { position = last }
        }
        for id in touched.sorted() { try look(at: id, in: replica, mayVanish: hub.restores > 0) }
        hubRestores = hub.restores
    }

    private mutating func look(at id: ConversationID, in replica: Replica, mayVanish: Bool) throws {
        let messages = try replica.store.timeline(of: id, limit: .max)?.messages ?? []
        var shown: [Shown] = []
        for message in messages where message.unconfirmed == nil {
            if let before = shown.last, before.seq >= message.seq {
                throw SimulationFailure("the timeline of \(id) shows seq \(message.seq) behind \(before.seq)")
            }
            shown.append(Shown(seq: message.seq, id: message.id))
        }
        let now = Set(shown)
        for old in timelines[id] ?? [] where !now.contains(old) {
            guard mayVanish else { throw SimulationFailure("message \(old.id) of \(id) at seq \(old.seq) was confirmed and has vanished") }
            vanished[id, default: []].insert(old.id)
        }
        timelines[id] = shown
    }
}
