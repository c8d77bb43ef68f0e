internal import ConversationStore
internal import EventLog

/// What a replica of which bytes are damaged asks for: of a run that both hold as the same bytes, just the blocks that differ.
extension HubConnection {
    /// Says nothing of a run that is not there, that is not the peer's to have whole, or that differs in too much.
    func repair(_ damaged: DamagedRun) throws {
        // The same for all, so that waiting tells no more than silence does.
        allowance.spend(Effort(events: Self.repairCost))
        guard damaged.seq > 0, visibleSeq(damaged.log) >= damaged.seq, let run = try soundRun(damaged), try mayHave(run),
            let blocks = RunBlocks.blocks(of: run.bytes, unlike: damaged.checks), !blocks.isEmpty,
            blocks.reduce(0, { $0 + $1.bytes.count }) <= WireLimits.repairBytesMax
        else { return }
        transmit(.repair(RepairFrame(position: damaged.position, blocks: blocks)))
    }

    /// Reading a run and its checksums costs no more than hashing as many events as the largest holds.
    private static let repairCost = SegmentCodec.eventsMax

    /// `nil` too if the hub's own copy is damaged: the peer loses nothing by asking for the events, and somebody is told.
    private func soundRun(_ damaged: DamagedRun) throws -> StoredRun? {
        do {
            return try hub.store.log.storedRun(of: damaged)
        } catch let error as EventLogError where error.code == .damaged {
            hub.options.log("\(error)")
            return nil
        }
    }

    /// A run goes as it lies where all of it may be seen.
    private func mayHave(_ run: StoredRun) throws -> Bool {
        guard let identity = session.who else { return false }
        var effort = Effort()
        defer { allowance.spend(effort) }
        for slice in run.slices {
            guard visibleSeq(slice.log) >= slice.firstSeq + Seq(slice.count) - 1,
                try hub.firstSeq(of: slice.log, for: identity, seesEverything: seesEverything, &effort) <= slice.firstSeq
            else { return false }
        }
        return true
    }
}
