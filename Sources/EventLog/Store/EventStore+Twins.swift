/// What makes two events one, whatever their origins: a replica ticks its clock for each that it makes, and never gives a time twice.
///
/// An edit, a reaction or an application's event has no id by which a repeat of it would be known. A device that was restored from a backup, or that offers
/// what a hub seems to have lost, may send one under a new origin, and know nothing of the older. Its author, its content and the clock with which it was made
/// stay the same.
struct TwinKey: Hashable {
    let hlc: HLC
    private let log: LogID
    private let conversation: ConversationID
    private let author: UserID
    private let kind: UInt32
    private let message: MessageID?
    /// Its digest, where it is longer than that: many keys may be kept at once.
    private let body: [UInt8]
    private let newer: NewerFields?
    /// Bytes of the body.
    let size: Int

    private init(_ event: Event, _ hlc: HLC, _ newer: NewerFields?) {
        var bytes = ByteBuffer()
        // Texts of other bytes are others, even where they look alike.
        event.encodeBody(into: &bytes)
        (log, self.hlc, conversation, author) = (event.log, hlc, event.conversation, event.author)
        (kind, message, self.newer, size) = (event.kindNumber, event.references.message, newer, bytes.count)
        body = size <= Hash256.byteCount ? bytes.array() : SHA256Hasher.digest(nil, bytes.bytes, UnsafeRawBufferPointer(start: nil, count: 0)).bytes
    }

    /// `nil`: it has no origin, or a log knows it again by what it says.
    init?(_ submission: borrowing Submission) {
        guard let origin = submission.origin, !submission.event.isKnownByContent else { return nil }
        self.init(submission.event, origin.hlc, submission.newer)
    }

    /// `nil`: a log knows it again by what it says, or its body was erased, and nothing can be told of that.
    ///
    /// - Parameter time: one of its times.
    init?(_ recorded: RecordedEvent, at time: HLC) {
        if recorded.isErased || recorded.event.isKnownByContent { return nil }
        self.init(recorded.event, time, recorded.newer)
    }

    /// What it takes to read and compare it, in events.
    fileprivate var cost: Int { Self.costMin + size / 64 }
    static let costMin = 64
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

        /// Notes an event by each of its times (`RecordedEvent.times`).
        mutating func add(_ seq: Seq, made: HLC, recorded: HLC) {
            stamps.append(TwinMemory.Stamp(time: made.rawValue, seq: seq))
            if let other = Envelope.timeHeldBack(made: made, recorded: recorded) { stamps.append(TwinMemory.Stamp(time: other.rawValue, seq: seq)) }
        }
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
    ///
    /// - Parameters:
    ///   - memory: of whoever submits them.
    ///   - limit: how many events are read, about. It is gone on from there next time.
    func recallTwins(_ search: inout TwinSearch, _ submissions: inout [Submission], _ memory: inout TwinMemory, limit: Int) throws -> Effort {
        var effort = Effort(events: 4 + search.indices.count)
        let indices = search.open(submissions)
        if indices.isEmpty { return effort }
        // Before all is read: what comes meanwhile is the writer's.
        let last = try lastVisibleSeq(of: search.log)
        let start = indices.map { submissions[$0].twin?.through ?? 0 }.min()!
        var end = start
        // Where it is known that whoever asks took no part, nothing is read: it would take longer than of a log that is not there.
        if start < last, search.goal != nil || start == 0 || last > start + TwinSearch.few {
            let position = indices.map { submissions[$0].mayStandBehind! }.min()!
            let known = try known(of: search.log, behind: position, from: start + 1, through: last, limit: limit, &memory, &effort)
            let reach = min(last, known.through)
            if reach > start { end = try find(indices, among: known, (start + 1)...reach, &search.keys, &submissions, limit: limit, &effort) }
            memory.put(known, of: search.log)
            search.goal = last
        } else {
            search.goal = start
        }
        for index in search.open(submissions) {
            submissions[index].twin = Recall(through: max(end, submissions[index].twin?.through ?? 0), found: nil)
        }
        return effort
    }

    /// What a log has behind a position, as remembered and read.
    private func known(
        of log: LogID, behind position: Position, from start: Seq, through last: Seq, limit: Int, _ memory: inout TwinMemory, _ effort: inout Effort
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
        // What is known already is compared first, unless little is missing.
        guard known.through < last, known.through < start || last - known.through <= TwinSearch.few else { return known }
        let before = known.stamps.count, end = last - known.through > Seq(limit) ? known.through + Seq(limit) : last
        try forEachVisible(of: log, from: known.through + 1, through: end) { run, place in
            effort.events += 1
            let item = run.events[place]
            if !(Event.Kind(rawValue: item.kind)?.isKnownByContent ?? true), !item.isErased {
                known.add(item.seq, made: HLC(rawValue: item.originHLC), recorded: HLC(rawValue: item.hlc))
            }
            return true
        } inTail: { seq, frame, index in
            effort.events += 1
            let envelope = try frame.envelope(index)
            if !(Event.Kind(rawValue: envelope.kind)?.isKnownByContent ?? true) {
                known.add(seq, made: envelope.origin.hlc, recorded: envelope.hlc)
            }
            return true
        }
        known.through = end
        if known.stamps.count > before { known.stamps.sort { ($0.time, $0.seq) < ($1.time, $1.seq) } }
        return known
    }

    /// Finds submissions among the events of their clocks, each of which is read once for all of them. Returns up to where it looked.
    private func find(
        _ indices: [Int], among known: TwinMemory.Known, _ range: ClosedRange<Seq>, _ keys: inout [UInt64: [TwinKey: [Int]]],
        _ submissions: inout [Submission], limit: Int, _ effort: inout Effort
    ) throws -> Seq {
        let before = effort.events
        let times = Dictionary(grouping: indices) { submissions[$0].origin!.hlc.rawValue }
        let found = times.keys.flatMap { time in known.seqs(at: time).filter { range.contains($0) }.map { (seq: $0, time: time) } }.sorted { $0.seq < $1.seq }
        var last: Seq?
        for (seq, time) in found {
            // One may be there for two times.
            guard last == nil || last == seq || effort.events - before < limit else { return seq - 1 }
            last = seq
            if keys[time] == nil {
                keys[time] = Dictionary(grouping: times[time]!) { TwinKey(submissions[$0])! }
                effort.events += keys[time]!.reduce(0) { $0 + $1.key.size / 64 }
            }
            guard let event = try event(in: submissions[indices[0]].event.log, at: seq) else { continue }
            let key = TwinKey(event, at: HLC(rawValue: time))
            effort.events += key?.cost ?? TwinKey.costMin
            guard let key else { continue }
            for index in keys[time]![key] ?? [] where submissions[index].twin?.found == nil && event.position > submissions[index].mayStandBehind! {
                let receipt = Receipt(seq: seq, position: event.position, hlc: event.hlc, isDurable: true)
                submissions[index].twin = Recall(through: seq, found: Recalled(receipt: receipt, isSame: true, isOfSameTime: true))
            }
        }
        return range.upperBound
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
        guard mayStandBehind != nil, origin != nil, !event.isKnownByContent, recall?.found == nil else { return false }
        if let former = formerRecall?.found, former.isOfSameTime, former.isSame { return false }
        return !PlantedBug.forgetTwins.isPlanted
    }
}
