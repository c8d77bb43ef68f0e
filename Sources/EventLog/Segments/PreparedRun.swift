/// A segment of which all that can be done without the store that will keep it is done: decoded, checked, and its leaves hashed.
///
/// `@unchecked Sendable`: nothing of it changes after `init`.
package final class PreparedRun: @unchecked Sendable {
    struct Slice {
        var log: LogID
        var firstSeq: Seq
        /// Places in `events`.
        var range: Range<Int>
        /// The leaves' hashes with these seeds; `nil`: the seeds were not known yet.
        var seeds: PuncturedSeeds?
        var leaves: [Hash256]
    }

    /// At a segment's position, 1.
    let bytes: [UInt8]
    private(set) var slices: [Slice] = []
    /// By place; positions are 0.
    private(set) var events: [RecordedEvent] = []
    /// Places in commit order.
    let order: ContiguousArray<UInt32>
    /// Of envelopes and bodies.
    private(set) var rawBytes = 0

    /// Decodes bytes that may come from anybody.
    ///
    /// - Parameter seeds: those of a log, if they are known already.
    /// - Throws: `SegmentError`; `EventLogError` `invalidArgument` if a salt is missing; what the closure throws.
    package init(_ bytes: [UInt8], seeds: (LogID) throws -> PuncturedSeeds?) throws {
        let run = try bytes.withUnsafeBytes { try SegmentCodec.open($0, eventsMax: SegmentCodec.eventsMax, rawBytesMax: SegmentCodec.rawBytesMax) }
        self.bytes = bytes
        order = run.order
        events.reserveCapacity(run.events.count)
        slices.reserveCapacity(run.slices.count)
        var checker = SegmentCodec.EventCheck()
        for slice in run.slices {
            let known = try seeds(slice.log)
            var leaves: [Hash256] = []
            leaves.reserveCapacity(slice.range.count)
            var hasher = known.map { LeafHasher($0) }
            for place in slice.range {
                let event = try checker.event(of: run, at: place)
                rawBytes += checker.envelope.count + checker.body.count
                if hasher != nil {
                    guard let leaf = hasher!.leaf(event.seq, checker.envelope.bytes, checker.body.bytes, event.commitment) else {
                        throw Self.saltMissing(event)
                    }
                    leaves.append(leaf)
                }
                events.append(event)
            }
            slices.append(Slice(log: slice.log, firstSeq: slice.firstSeq, range: slice.range, seeds: known, leaves: leaves))
        }
    }

    /// The leaves of a slice, hashed now if other seeds, or none, were known before.
    func leaves(of index: Int, _ seeds: PuncturedSeeds) throws -> [Hash256] {
        let slice = slices[index]
        if slice.seeds == seeds { return slice.leaves }
        var hasher = LeafHasher(seeds)
        var leaves: [Hash256] = []
        for place in slice.range {
            guard let leaf = hasher.leaf(events[place]) else { throw Self.saltMissing(events[place]) }
            leaves.append(leaf)
        }
        return leaves
    }

    private static func saltMissing(_ event: RecordedEvent) -> EventLogError {
        EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): neither a salt nor a commitment is there for its body (I6)")
    }
}
