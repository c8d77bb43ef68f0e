package import EventLog

/// The newest part of a log of which a store does not hold all that came before.
package struct Preview: Sendable {
    /// What the hub encoded of the state through `baseSeq`; `nil` if the events begin with the log's first.
    package let base: [UInt8]?
    package let baseSeq: Seq
    /// What is up to `baseSeq` is not for this user: nothing is missing.
    let isFirst: Bool
    package private(set) var events: [RecordedEvent]
    let start: ConversationBase?

    /// - Throws: `EventLogError` `invalidArgument` for what no honest hub sends, `newerFormat` for a base of a version that is not known here.
    package init(base: [UInt8]?, baseSeq: Seq, isFirst: Bool = false, events: [RecordedEvent]) throws {
        self.base = base
        self.isFirst = isFirst
        self.baseSeq = baseSeq
        self.events = []
        start = try base.map { try ConversationBase(decoding: $0) }
        guard start?.seq ?? 0 == baseSeq, start != nil || !events.isEmpty else {
            throw EventLogError(.invalidArgument, "a preview's base is of seq \(start?.seq ?? 0), not of \(baseSeq)")
        }
        try append(events)
    }

    /// Adds events behind its last; costs what they are, not what it has.
    ///
    /// - Throws: `EventLogError` `invalidArgument` if they do not follow; then it is as it was.
    package mutating func append(_ new: [RecordedEvent]) throws {
        guard let log = events.first?.log ?? new.first?.log else { return }
        var seq = lastSeq
        for event in new {
            seq += 1
            guard event.seq == seq, event.log == log, event.log == .conversation(event.event.conversation), event.targetSeq ?? 0 < seq else {
                throw EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): a preview's events follow its base, at \(baseSeq), one by one (I2)")
            }
        }
        events += new
    }

    package mutating func removeLast(_ count: Int) { events.removeLast(count) }

    var lastSeq: Seq { baseSeq + Seq(events.count) }

    /// What is written later than this wins over all that it shows (DESIGN.md, section 8).
    package var clock: HLC { max(start?.clock ?? HLC(rawValue: 0), events.last?.hlc ?? HLC(rawValue: 0)) }

    /// Who takes part behind its last event. Ascending.
    package var participants: [UserID] {
        var people = Set(start?.row.participants ?? [])
        for event in events {
            switch event.event.content {
            case .conversationCreated(_, _, let participants): people.formUnion(participants + [event.event.author])
            case .participantJoined(let user): people.insert(user)
            case .participantLeft(let user): people.remove(user)
            default: break
            }
        }
        return people.sorted()
    }
}
