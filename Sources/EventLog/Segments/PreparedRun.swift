/// A segment of which all that can be done without the store that will keep it is done: decoded, checked, and its leaves hashed.
///
/// `@unchecked Sendable`: handed from the one thread that makes it to the one that keeps it.
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
    /// In commit order; positions are 0 until `move(to:)`.
    private(set) var events: [RecordedEvent] = []
    /// What acceptance must know of them, by place: one after the other, as logs' rows are folded.
    private(set) var effects: ContiguousArray<Effect> = []
    /// By place: which of `events` it is.
    private let ranks: ContiguousArray<UInt32>
    /// Of envelopes and bodies.
    private(set) var rawBytes = 0
    /// The newest clock of the hub's among the events.
    private(set) var hlc = HLC(rawValue: 0)

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
        var hlc = HLC(rawValue: 0)
        var effects = ContiguousArray<Effect>()
        effects.reserveCapacity(run.events.count)
        events = try Array(unsafeUninitializedCapacity: run.events.count) { buffer, count in
            var made = 0
            do {
                var checker = SegmentCodec.EventCheck()
                for slice in run.slices {
                    let known = try seeds(slice.log)
                    var tree = CompactRange(begin: slice.firstSeq - 1)
                    var hasher = known.map { LeafHasher($0) }
                    for place in slice.range {
                        let event = try checker.event(of: run, at: place)
                        rawBytes += checker.envelope.count + checker.body.count
                        hlc = max(hlc, event.hlc)
                        if hasher != nil {
                            guard let leaf = hasher!.leaf(event.seq, checker.envelope.bytes, checker.body.bytes, event.commitment) else {
                                throw Self.saltMissing(event)
                            }
                            tree.append(leaf)
                        }
                        effects.append(Effect(event))
                        // Slices follow each other without a gap, and each place has a rank of its own.
                        (buffer.baseAddress! + Int(ranks[place])).initialize(to: event)
                        made += 1
                    }
                    slices.append(Slice(log: slice.log, firstSeq: slice.firstSeq, range: slice.range, seeds: known, tree: tree))
                }
            } catch {
                for place in 0..<made { (buffer.baseAddress! + Int(ranks[place])).deinitialize(count: 1) }
                throw error
            }
            count = made
        }
        self.slices = slices
        self.effects = effects
        self.rawBytes = rawBytes
        self.hlc = hlc
    }

    package var eventCount: Int { events.count }

    /// Gives the events their positions in the store that keeps them.
    func move(to first: Position) { for rank in events.indices { events[rank].position = first + Position(rank) } }

    /// What stands for the leaves of a slice, hashed now if other seeds, or none, were known before.
    func tree(of index: Int, _ seeds: PuncturedSeeds) throws -> CompactRange {
        let slice = slices[index]
        if slice.seeds == seeds { return slice.tree }
        var hasher = LeafHasher(seeds)
        var tree = CompactRange(begin: slice.firstSeq - 1)
        for place in slice.range {
            let event = events[Int(ranks[place])]
            guard let leaf = hasher.leaf(event) else { throw Self.saltMissing(event) }
            tree.append(leaf)
        }
        return tree
    }

    private static func saltMissing(_ event: RecordedEvent) -> EventLogError {
        EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): neither a salt nor a commitment is there for its body (I6)")
    }
}
