/// Where the chunks of a stream stand up to a seq, so that its log is read once for all that are repeated in a frame.
struct ChunkSeqs {
    struct Stream: Hashable {
        var log: LogID
        /// Of the event that sent the message.
        var seq: Seq
    }
    var through: Seq
    var seqs: [UInt32: Seq] = [:]

    /// So many events are looked at for the repeats of a frame: everybody waits for it, and whoever writes into a log can repeat what lies long ago in it.
    static let eventsMax = 4 * SegmentCodec.eventsMax
}

extension Writer {
    func chunkSeq(of state: LogState, target: Seq, index: UInt32) throws -> Seq? {
        let stream = ChunkSeqs.Stream(log: state.row.id, seq: target)
        if let seq = chunkSeqs[stream]?.seqs[index] { return seq }
        // Most streams are alone in their logs.
        let alone = target + 1 + Seq(index)
        if let chunk = try chunk(at: alone, in: state), chunk.target == target, chunk.index == index { return alone }
        // Taken out, or it would be copied for each change.
        var known = chunkSeqs.removeValue(forKey: stream) ?? ChunkSeqs(through: target)
        defer { chunkSeqs[stream] = known }
        while known.seqs[index] == nil, known.through < state.row.seq, chunkEventsRead < ChunkSeqs.eventsMax {
            if let chunk = try chunk(at: known.through + 1, in: state), chunk.target == target { known.seqs[chunk.index] = known.through + 1 }
            known.through += 1
            chunkEventsRead += 1
        }
        return known.seqs[index]
    }

    /// What chunk an event is. Reads no text.
    private func chunk(at seq: Seq, in state: LogState) throws -> (target: Seq, index: UInt32)? {
        let kind = Event.Kind.chunkAppended.rawValue
        guard seq <= state.row.seq else { return nil }
        if let envelope = try tailEnvelope(of: seq, in: state) { return envelope.kind == kind ? (envelope.targetSeq, envelope.chunkIndex) : nil }
        try refresh(state)
        guard let (run, place) = try reader.place(of: seq, in: state.row), case let item = run.events[place], item.kind == kind else { return nil }
        return (item.target, item.chunkIndex)
    }
}
