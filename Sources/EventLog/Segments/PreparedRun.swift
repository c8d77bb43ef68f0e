/// A segment of which all that can be done without the store that will keep it is done: decoded, checked, and its leaves hashed.
///
/// `@unchecked Sendable`: handed from the one thread that makes it to the one that keeps it.
package final class PreparedRun: @unchecked Sendable {
    struct Slice {
        var log: LogID
        var firstSeq: Seq
        /// Its events' places in the run.
        var range: Range<Int>
        /// The leaves' hashes with these seeds; `nil`: the seeds were not known yet.
        var seeds: PuncturedSeeds?
        var leaves: [Hash256]
    }

    /// At a segment's position, 1.
    let bytes: [UInt8]
    private(set) var slices: [Slice] = []
    /// In commit order; positions are 0 until `move(to:)`.
    private(set) var events: [RecordedEvent] = []
    /// By place: which of `events` it is.
    private let ranks: ContiguousArray<UInt32>
    /// Of envelopes and bodies.
    private(set) var rawBytes = 0

    /// Decodes bytes that may come from anybody.
    ///
    /// - Parameter seeds: those of a log, if they are known already.
    /// - Throws: `SegmentError`; `EventLogError` `invalidArgument` if a salt is missing; what the closure throws.
    package init(_ bytes: [UInt8], seeds: (LogID) throws -> PuncturedSeeds?) throws {
        let run = try bytes.withUnsafeBytes { try SegmentCodec.open($0, eventsMax: SegmentCodec.eventsMax, rawBytesMax: SegmentCodec.rawBytesMax) }
        self.bytes = bytes
        var ranks = ContiguousArray<UInt32>(repeating: 0, count: run.events.count)
        for (rank, place) in run.order.enumerated() { ranks[Int(place)] = UInt32(rank) }
        self.ranks = ranks
        var slices: [Slice] = []
        var rawBytes = 0
        events = try Array(unsafeUninitializedCapacity: run.events.count) { buffer, count in
            var made = 0
            do {
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
                        // Slices follow each other without a gap, and each place has a rank of its own.
                        (buffer.baseAddress! + Int(ranks[place])).initialize(to: event)
                        made += 1
                    }
                    slices.append(Slice(log: slice.log, firstSeq: slice.firstSeq, range: slice.range, seeds: known, leaves: leaves))
                }
            } catch {
                for place in 0..<made { (buffer.baseAddress! + Int(ranks[place])).deinitialize(count: 1) }
                throw error
            }
            count = made
        }
        self.slices = slices
        self.rawBytes = rawBytes
    }

    /// Gives the events their positions in the store that keeps them.
    func move(to first: Position) { for rank in events.indices { events[rank].position = first + Position(rank) } }

    func event(at place: Int) -> RecordedEvent { events[Int(ranks[place])] }

    /// The leaves of a slice, hashed now if other seeds, or none, were known before.
    func leaves(of index: Int, _ seeds: PuncturedSeeds) throws -> [Hash256] {
        let slice = slices[index]
        if slice.seeds == seeds { return slice.leaves }
        var hasher = LeafHasher(seeds)
        var leaves: [Hash256] = []
        for place in slice.range {
            guard let leaf = hasher.leaf(event(at: place)) else { throw Self.saltMissing(event(at: place)) }
            leaves.append(leaf)
        }
        return leaves
    }

    private static func saltMissing(_ event: RecordedEvent) -> EventLogError {
        EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): neither a salt nor a commitment is there for its body (I6)")
    }
}
