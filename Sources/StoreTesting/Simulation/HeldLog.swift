internal import ConversationStore
internal import Replication

/// What a device holds of a log: a beginning, and perhaps a newest part behind a hole.
struct HeldLog {
    var events: [RecordedEvent] = []
    private(set) var part: Replica.Part?

    static func all(of replica: Replica) throws -> [LogID: HeldLog] {
        var held: [LogID: HeldLog] = [:]
        try replica.store.log.replay { event in
            held[event.log, default: HeldLog()].events.append(event)
            return true
        }
        for part in replica.parts where part.lastSeq > Seq(held[part.log]?.events.count ?? 0) { held[part.log, default: HeldLog()].part = part }
        return held
    }

    var lastSeq: Seq { max(Seq(events.count), part?.lastSeq ?? 0) }

    /// What it does not hold, be it still to come or not for its user.
    var gap: ClosedRange<Seq>? {
        guard let part, part.baseSeq > Seq(events.count) else { return nil }
        return Seq(events.count) + 1...part.baseSeq
    }

    /// What is missing.
    var hole: ClosedRange<Seq>? { part?.isFirst ?? false ? nil : gap }

    var all: [RecordedEvent] { events + (part?.events.drop { $0.seq <= events.count } ?? []) }
}
