/// What stands in a log under another origin than it is submitted under now.
///
/// An edit, a reaction or an application's event has no id by which a repeat of it would be known. A device that was restored from a backup, or that offers
/// what a hub seems to have lost, may send one under a new origin, and know nothing of the older. Its author, its content and the clock with which it was made
/// stay the same.
extension EventStore {
    /// Notes in submissions that may stand under other origins what is found of them. Reads no texts but of what has the same clock.
    func recallTwins(_ submissions: inout [Submission], _ effort: inout Effort) throws {
        let asked = submissions.indices.filter { submissions[$0].mayHaveTwin }
        if asked.isEmpty { return }
        for (log, indices) in Dictionary(grouping: asked, by: { submissions[$0].event.log }) {
            // Before all is read: what comes meanwhile is the writer's.
            let last = try lastVisibleSeq(of: log)
            let position = indices.map { submissions[$0].mayStandBehind! }.min()!
            let known = indices.map { submissions[$0].twin?.through ?? 0 }.min()!
            let first = position == 0 ? 1 : try firstSeq(of: log, after: position)
            let rest = Dictionary(grouping: indices) { submissions[$0].origin!.hlc.rawValue }
            func take(_ seq: Seq, _ indices: [Int], _ event: () throws -> RecordedEvent) rethrows {
                for index in indices where submissions[index].twin?.event == nil && seq > submissions[index].twin?.through ?? 0 {
                    let event = try event()
                    if submissions[index].isTwin(event) { submissions[index].twin = Recall(through: last, event: event) }
                }
            }
            if let first, first <= last {
                try forEachVisible(of: log, from: max(first, known + 1), through: last) { run, place in
                    effort.events += 1
                    if let indices = rest[run.events[place].originHLC] { try take(run.events[place].seq, indices) { try run.recorded(at: place) } }
                    return true
                } inTail: { seq, frame, index in
                    effort.events += 1
                    if let indices = rest[try frame.envelope(index).origin.hlc.rawValue] { try take(seq, indices) { try frame.recorded(index) } }
                    return true
                }
            }
            for index in indices where submissions[index].twin?.event == nil {
                submissions[index].twin = Recall(through: max(last, submissions[index].twin?.through ?? 0), event: nil)
            }
        }
    }
}

extension Submission {
    /// Whether it has to be looked for under other origins: it may stand there, and is not known under one that it names.
    fileprivate var mayHaveTwin: Bool {
        mayStandBehind != nil && origin != nil && recall?.event == nil && formerRecall?.event == nil && !PlantedBug.forgetTwins.isPlanted
    }

    /// Whether an event is this one, under whatever origin. Of an erased body nothing can be told.
    func isTwin(_ recorded: RecordedEvent) -> Bool {
        guard let mayStandBehind, recorded.position > mayStandBehind, let origin, recorded.origin.hlc == origin.hlc, !recorded.isErased else { return false }
        return isSame(as: recorded, isOfSameTime: true)
    }

    /// Whether an event is the one that was recorded. Of an erased one the envelope and its time tell.
    func isSame(as recorded: RecordedEvent, isOfSameTime: Bool) -> Bool {
        guard recorded.event.author == event.author, recorded.event.kindNumber == event.kindNumber, recorded.event.references == event.references,
            Self.isSame(recorded.newer, newer)
        else { return false }
        if recorded.isErased { return isOfSameTime }
        var old = ByteBuffer()
        var new = ByteBuffer()
        recorded.encodeBody(into: &old)
        event.encodeBody(into: &new)
        if let newer { new.put(newer.body) }
        // The body of a preference tells its conversation as well.
        return recorded.event.conversation == event.conversation && old.bytes.elementsEqual(new.bytes)
    }

    /// Of the envelope: erasing a body takes the rest.
    private static func isSame(_ old: NewerFields?, _ new: NewerFields?) -> Bool {
        guard let old else { return new?.envelope.isEmpty ?? true }
        return new.map(old.isSameEnvelope) ?? old.envelope.isEmpty
    }
}
