internal import ConversationStore
internal import EventLog

/// What a replica of which bytes are damaged asks for: of a run that both hold as the same bytes, just the blocks that differ; also of one that the hub
/// encoded for it and does not hold.
extension HubConnection {
    /// Says nothing of a run that is not there, that is not the peer's to have whole, or that differs in too much.
    func repair(_ damaged: DamagedRun) throws {
        // The same for all, so that waiting tells no more than silence does.
        allowance.spend(Effort(events: Self.repairCost + damaged.spans.count * Self.wishCost))
        guard damaged.seq > 0, visibleSeq(damaged.log) >= damaged.seq, RunBlocks.hasAllChecks(damaged),
            let blocks = try blocks(damaged, storedRun) ?? blocks(damaged, encodedRun)
        else { return }
        transmit(.repair(RepairFrame(position: damaged.position, blocks: blocks)))
    }

    /// Reading a run and its checksums costs no more than hashing as many events as the largest holds.
    private static let repairCost = SegmentCodec.eventsMax

    /// In what a run differs from the hub's copy. `nil` too if that is damaged: the peer loses nothing by asking for the events, and somebody is told.
    private func blocks(_ damaged: DamagedRun, _ run: (DamagedRun) throws -> [UInt8]?) throws -> [RunBlock]? {
        do {
            guard let bytes = try run(damaged), bytes.count == damaged.byteCount, let blocks = RunBlocks.blocks(of: bytes, unlike: damaged.checks),
                1...WireLimits.repairBytesMax ~= blocks.reduce(0, { $0 + $1.bytes.count })
            else { return nil }
            return blocks
        } catch let error as EventLogError where error.code == .damaged {
            hub.options.log("\(error)")
            return nil
        }
    }

    /// The run as this hub holds it.
    private func storedRun(_ damaged: DamagedRun) throws -> [UInt8]? {
        guard let run = try hub.store.log.storedRun(of: damaged),
            try mayHave(run.slices.map { ($0.log, $0.firstSeq...$0.firstSeq + Seq($0.count) - 1) })
        else { return nil }
        return run.bytes
    }

    /// The run as this hub encodes it: just as it did once, if nothing of it was erased since.
    private func encodedRun(_ damaged: DamagedRun) throws -> [UInt8]? {
        guard !damaged.spans.isEmpty, let ranges = EventSpan.ranges(of: damaged.spans), try mayHave(ranges),
            let events = try events(of: damaged.spans, ranges)
        else { return nil }
        return try hub.encoders.encode(events, at: damaged.position)
    }

    /// A run goes as it lies, or is encoded again, where all of it may be seen.
    private func mayHave(_ ranges: [(log: LogID, seqs: ClosedRange<Seq>)]) throws -> Bool {
        guard let identity = session.who else { return false }
        var effort = Effort()
        defer { allowance.spend(effort) }
        for (log, seqs) in ranges {
            guard visibleSeq(log) >= seqs.upperBound,
                try hub.firstSeq(of: log, for: identity, seesEverything: seesEverything, &effort) <= seqs.lowerBound
            else { return false }
        }
        return true
    }

    /// Runs of the hub that one of a replica may have come from: all that is read of them is the allowance at once.
    private static let runsMax = WorkAllowance.eventsMax / SegmentCodec.eventsMax
    /// Compressing so many bytes costs about as much as hashing an event.
    private static let bytesOfEvent = 64

    /// The events of spans, in their order. Each run that holds some is read once, whatever the order. `nil` if not all are there, or they are too much.
    private func events(of spans: [EventSpan], _ ranges: [(log: LogID, seqs: ClosedRange<Seq>)]) throws -> [RecordedEvent]? {
        let store = hub.store.log
        var runs: Set<Position> = []
        for (log, seqs) in ranges {
            runs.formUnion(try store.runs(of: log, from: seqs.lowerBound, through: seqs.upperBound))
            if runs.count > Self.runsMax { return nil }
        }
        var found: [LogID: ArraySlice<RecordedEvent>] = [:]
        var effort = Effort()
        var bytes = 0
        defer { allowance.spend(Effort(events: effort.events + bytes / Self.bytesOfEvent)) }
        func take(_ event: RecordedEvent) {
            found[event.log, default: []].append(event)
            bytes += event.event.approximateBytes
            effort.events += 1
        }
        let wanted = Dictionary(uniqueKeysWithValues: ranges.map { ($0.log, $0.seqs) })
        for run in runs.sorted() where bytes <= SegmentCodec.rawBytesMax {
            effort.events += try store.forEachEvent(inRun: run, wanted: { wanted[$0] }, take)
        }
        // What the archive does not hold yet.
        for (log, seqs) in ranges where bytes <= SegmentCodec.rawBytesMax {
            let next = seqs.lowerBound + Seq(found[log]?.count ?? 0)
            guard next <= seqs.upperBound else { continue }
            try store.forEachEvent(in: log, range: next...seqs.upperBound) { event in
                take(event)
                return bytes <= SegmentCodec.rawBytesMax
            }
        }
        guard bytes <= SegmentCodec.rawBytesMax else { return nil }
        var events: [RecordedEvent] = []
        for span in spans {
            guard let part = found[span.log]?.prefix(span.count), part.count == span.count, part.first?.seq == span.firstSeq else { return nil }
            events += part
            found[span.log]!.removeFirst(span.count)
        }
        return events
    }
}
