/// What makes two events one, whatever their origins: a replica ticks its clock for each that it makes, and never gives a time twice.
///
/// An edit, a reaction or an application's event has no id by which a repeat of it would be known. A device that was restored from a backup, or that offers
/// what a hub seems to have lost, may send one under a new origin, and know nothing of the older. Its author, its content and the clock with which it was made
/// stay the same.
struct TwinKey: Hashable {
    private let log: LogID
    private let hlc: HLC
    private let conversation: ConversationID
    private let author: UserID
    private let kind: UInt32
    private let message: MessageID?
    private let body: [UInt8]
    private let newer: NewerFields?

    private init(_ event: Event, _ hlc: HLC, _ newer: NewerFields?) {
        var bytes = ByteBuffer()
        // Texts of other bytes are others, even where they look alike.
        event.encodeBody(into: &bytes)
        (log, self.hlc, conversation, author) = (event.log, hlc, event.conversation, event.author)
        (kind, message, body, self.newer) = (event.kindNumber, event.references.message, bytes.array(), newer)
    }

    /// `nil`: it has no origin, or a log knows it again by what it says.
    init?(_ submission: borrowing Submission) {
        guard let origin = submission.origin, !submission.event.isKnownByContent else { return nil }
        self.init(submission.event, origin.hlc, submission.newer)
    }

    /// `nil`: a log knows it again by what it says, or its body was erased, and nothing can be told of that.
    init?(_ recorded: RecordedEvent) {
        if recorded.isErased || recorded.event.isKnownByContent { return nil }
        self.init(recorded.event, recorded.origin.hlc, recorded.newer)
    }

    /// What it takes to read and compare it, in events.
    fileprivate var cost: Int { Self.costMin + body.count / 64 }
    fileprivate static let costMin = 64
}

/// What a peer's submissions had a store read of its logs to find them under other origins: so that it is read once.
///
/// Bounded: what is more than that is read again.
package struct TwinMemory: Sendable {
    fileprivate struct Stamp {
        var time: UInt64
        var seq: Seq
    }

    /// One log's events from a position on that it would not know again by what they say, by their clocks.
    fileprivate struct Known {
        var position: Position
        /// Not before this seq, wherever the position is.
        var start: Seq
        var through: Seq
        var stamps: [Stamp] = []
    }

    fileprivate var logs: [LogID: Known] = [:]
    private var count = 0

    package static let countMax = 1 << 14

    package init() {}

    /// How many things it remembers.
    package var footprint: Int { logs.count + count }

    fileprivate mutating func take(_ log: LogID) -> Known? {
        guard let known = logs.removeValue(forKey: log) else { return nil }
        count -= known.stamps.count
        return known
    }

    fileprivate mutating func put(_ known: Known, of log: LogID) {
        if logs.count + count + known.stamps.count >= Self.countMax { (logs, count) = ([:], 0) }
        guard known.stamps.count < Self.countMax else { return }
        logs[log] = known
        count += known.stamps.count
    }
}

extension EventStore {
    /// Notes in submissions of a log that may stand under other origins what is found of them. Reads no texts but of what has the same clock.
    func recallTwins(_ search: TwinSearch, _ submissions: inout [Submission], _ memory: inout TwinMemory) throws -> Effort {
        var effort = Effort(events: 4 + search.indices.count)
        let log = search.log, indices = search.indices.filter { submissions[$0].twin?.event == nil }
        // Before all is read: what comes meanwhile is the writer's.
        let last = try lastVisibleSeq(of: log)
        // Where it is known that whoever asks took no part, nothing is read: it would take longer than of a log that is not there.
        let unrecorded = indices.map { submissions[$0].twin?.through ?? 0 }.min() ?? last
        if unrecorded < last {
            let position = indices.map { submissions[$0].mayStandBehind! }.min()!
            let known = try known(of: log, behind: position, from: unrecorded + 1, through: last, &memory, &effort)
            for (time, indices) in Dictionary(grouping: indices, by: { submissions[$0].origin!.hlc.rawValue }) {
                try find(indices, among: known.seqs(at: time), &submissions, &effort)
            }
            memory.put(known, of: log)
        }
        for index in indices where submissions[index].twin?.event == nil {
            submissions[index].twin = Recall(through: max(last, submissions[index].twin?.through ?? 0), event: nil)
        }
        return effort
    }

    /// What a log has behind a position, as remembered and read.
    private func known(
        of log: LogID, behind position: Position, from start: Seq, through last: Seq, _ memory: inout TwinMemory, _ effort: inout Effort
    ) throws -> TwinMemory.Known {
        var known: TwinMemory.Known
        if let held = memory.take(log), held.position <= position, held.start <= start {
            known = held
        } else {
            // A run's columns are read to find it.
            if position > 0 { effort.events += 512 }
            let first = position == 0 ? 1 : try firstSeq(of: log, after: position) ?? last + 1
            known = TwinMemory.Known(position: position, start: start, through: max(first, start) - 1)
        }
        guard known.through < last else { return known }
        let before = known.stamps.count
        try forEachVisible(of: log, from: known.through + 1, through: last) { run, place in
            effort.events += 1
            let item = run.events[place]
            if !(Event.Kind(rawValue: item.kind)?.isKnownByContent ?? true), !item.isErased {
                known.stamps.append(TwinMemory.Stamp(time: item.originHLC, seq: item.seq))
            }
            return true
        } inTail: { seq, frame, index in
            effort.events += 1
            let envelope = try frame.envelope(index)
            if !(Event.Kind(rawValue: envelope.kind)?.isKnownByContent ?? true) {
                known.stamps.append(TwinMemory.Stamp(time: envelope.origin.hlc.rawValue, seq: seq))
            }
            return true
        }
        known.through = last
        if known.stamps.count > before { known.stamps.sort { ($0.time, $0.seq) < ($1.time, $1.seq) } }
        return known
    }

    /// Finds submissions of one clock among events of that, each of which is read once for all of them.
    private func find(_ indices: [Int], among seqs: some Sequence<Seq>, _ submissions: inout [Submission], _ effort: inout Effort) throws {
        var rest: [TwinKey: [Int]] = [:]
        for seq in seqs {
            if rest.isEmpty { rest = Dictionary(grouping: indices) { TwinKey(submissions[$0])! } }
            guard let event = try event(in: submissions[indices[0]].event.log, at: seq) else { continue }
            let key = TwinKey(event)
            effort.events += key?.cost ?? TwinKey.costMin
            guard let key else { continue }
            for index in rest[key] ?? [] where submissions[index].twin?.event == nil && event.position > submissions[index].mayStandBehind! {
                submissions[index].twin = Recall(through: seq, event: event)
            }
        }
    }
}

extension TwinMemory.Known {
    /// Ascending.
    fileprivate func seqs(at time: UInt64) -> some Sequence<Seq> {
        var (low, high) = (0, stamps.count)
        while low < high {
            let middle = (low + high) / 2
            if stamps[middle].time < time { low = middle + 1 } else { high = middle }
        }
        return stamps[low...].lazy.prefix { $0.time == time }.map(\.seq)
    }
}

extension Submission {
    /// Whether it has to be looked for under other origins: it may stand there, and is not known under one that it names.
    var mayHaveTwin: Bool {
        guard mayStandBehind != nil, let origin, !event.isKnownByContent, recall?.event == nil else { return false }
        if let former = formerRecall?.event, former.origin.hlc == origin.hlc, isSame(as: former, isOfSameTime: true) { return false }
        return !PlantedBug.forgetTwins.isPlanted
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
