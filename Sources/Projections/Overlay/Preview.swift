package import EventLog

/// The newest part of a log of which a store does not hold all that came before.
package struct Preview: Sendable {
    /// What the hub encoded of the state through `baseSeq`; `nil` if the events begin with the log's first.
    package let base: [UInt8]?
    package let baseSeq: Seq
    package let events: [RecordedEvent]
    let start: ConversationBase?

    /// - Throws: `EventLogError` `invalidArgument` for what no honest hub sends, `newerFormat` for a base of a version that is not known here.
    package init(base: [UInt8]?, baseSeq: Seq, events: [RecordedEvent]) throws {
        self.base = base
        self.baseSeq = baseSeq
        self.events = events
        start = try base.map { try ConversationBase(decoding: $0) }
        guard start?.seq ?? 0 == baseSeq, start != nil || !events.isEmpty else {
            throw EventLogError(.invalidArgument, "a preview's base is of seq \(start?.seq ?? 0), not of \(baseSeq)")
        }
        var seq = baseSeq
        for event in events {
            seq += 1
            guard event.seq == seq, event.log == events[0].log, event.log == .conversation(event.event.conversation), event.targetSeq ?? 0 < seq else {
                throw EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): a preview's events follow its base, at \(baseSeq), one by one (I2)")
            }
        }
    }

    var lastSeq: Seq { baseSeq + Seq(events.count) }
}
