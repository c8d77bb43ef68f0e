/// A segment of which all that can be done without the store that will keep it is done: decoded, checked, and its leaves hashed.
///
/// Its events stay as they lie in its columns: to make them all would cost more than to fold them.
///
/// `@unchecked Sendable`: handed from the one thread that makes it to the one that keeps it, and from that to the one that folds it.
package final class PreparedRun: @unchecked Sendable {
    struct Slice {
        var log: LogID
        var firstSeq: Seq
        /// Its events' places in the run.
        var range: Range<Int>
        /// What stands for its leaves, hashed with these seeds; `nil`: the seeds were not known yet, and none was hashed.
        var seeds: PuncturedSeeds?
        var tree: CompactRange
    }

    /// At a segment's position, 1.
    let bytes: [UInt8]
    private(set) var slices: [Slice] = []
    /// At a segment's position; its texts are loaded.
    let run: DecodedRun
    /// Of envelopes and bodies.
    private(set) var rawBytes = 0
    /// The newest clock of the hub's among the events, and the place of the first that has it.
    private(set) var hlc = HLC(rawValue: 0)
    private var newestPlace = 0
    /// What positions in the run are counted from in the store that keeps it.
    private var base: Position = 0

    /// Decodes bytes that may come from anybody.
    ///
    /// - Parameter seeds: those of a log, if they are known already.
    /// - Throws: `SegmentError`; `EventLogError` `invalidArgument` if a salt is missing; what the closure throws.
    package init(_ bytes: [UInt8], seeds: (LogID) throws -> PuncturedSeeds?) throws {
        run = try bytes.withUnsafeBytes { try SegmentCodec.open($0, eventsMax: SegmentCodec.eventsMax, rawBytesMax: SegmentCodec.rawBytesMax) }
        self.bytes = bytes
        do {
            try run.loadTexts()
        } catch {
            throw SegmentError(.malformed, "\(error)")
        }
        var checker = SegmentCodec.EventCheck()
        for slice in run.slices {
            let known = try seeds(slice.log)
            var tree = CompactRange(begin: slice.firstSeq - 1)
            var hasher = known.map { LeafHasher($0) }
            for place in slice.range {
                try checker.check(run, at: place)
                rawBytes += checker.envelope.count + checker.body.count
                if run.events[place].hlc > hlc.rawValue { (hlc, newestPlace) = (HLC(rawValue: run.events[place].hlc), place) }
                guard hasher != nil else { continue }
                guard let leaf = hasher!.leaf(run.events[place].seq, checker.envelope.bytes, checker.body.bytes, run.commitments[place]) else {
                    throw Self.saltMissing(slice.log, run.events[place].seq)
                }
                tree.append(leaf)
            }
            slices.append(Slice(log: slice.log, firstSeq: slice.firstSeq, range: slice.range, seeds: known, tree: tree))
        }
    }

    package var eventCount: Int { run.events.count }

    /// The newest event by the hub's clock; `nil` if there is none.
    package func newest() throws -> RecordedEvent? { eventCount == 0 ? nil : try run.recorded(at: newestPlace) }

    /// Gives the events their positions in the store that keeps them.
    func move(to first: Position) { base = first - SegmentCodec.position }

    /// Calls the closure with one window after the other, of so many events each.
    func forEachWindow(of count: Int, _ body: (RunWindow) -> Void) { RunWindow.forEach(of: run, base: base, count: count, body) }

    /// The events themselves, in commit order.
    func events() -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        events.reserveCapacity(eventCount)
        RunWindow.forEach(of: run, base: base, count: eventCount) { window in
            // Nothing throws: each was checked, which is to be such that it can be made.
            try? window.forEachEvent { events.append(copy $0) }
        }
        return events
    }

    /// What stands for the leaves of a slice, hashed now if other seeds, or none, were known before.
    func tree(of index: Int, _ seeds: PuncturedSeeds) throws -> CompactRange {
        let slice = slices[index]
        if slice.seeds == seeds { return slice.tree }
        var hasher = LeafHasher(seeds)
        var tree = CompactRange(begin: slice.firstSeq - 1)
        var envelope = ByteBuffer()
        var body = ByteBuffer()
        for place in slice.range {
            envelope.removeAll()
            body.removeAll()
            run.encodeEnvelope(at: place, into: &envelope)
            if !run.events[place].isErased { try run.body(at: place).encode(into: &body) }
            guard let leaf = hasher.leaf(run.events[place].seq, envelope.bytes, body.bytes, run.commitments[place]) else {
                throw Self.saltMissing(slice.log, run.events[place].seq)
            }
            tree.append(leaf)
        }
        return tree
    }

    private static func saltMissing(_ log: LogID, _ seq: Seq) -> EventLogError {
        EventLogError(.invalidArgument, "log \(log) seq \(seq): neither a salt nor a commitment is there for its body (I6)")
    }
}
