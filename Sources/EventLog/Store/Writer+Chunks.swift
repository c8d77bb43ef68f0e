/// Where the chunks of a log stand between two seqs, so that it is read once for all that are repeated in a frame.
struct ChunkSeqs {
    struct Name: Hashable {
        var target: Seq
        var index: UInt32
    }
    var first: Seq
    var through: Seq
    var seqs: [Name: Seq] = [:]
}

extension Writer {
    func chunkSeq(of state: LogState, target: Seq, index: UInt32) throws -> Seq? {
        let name = ChunkSeqs.Name(target: target, index: index)
        if let seq = chunkSeqs[state.row.id]?.seqs[name] { return seq }
        // Most streams are alone in their logs.
        if try chunkName(of: target + 1 + Seq(index), in: state) == name { return target + 1 + Seq(index) }
        // Taken out, or it would be copied for each change.
        var known = chunkSeqs.removeValue(forKey: state.row.id) ?? ChunkSeqs(first: target + 1, through: target)
        defer { chunkSeqs[state.row.id] = known }
        while known.first > target + 1 {
            if let name = try chunkName(of: known.first - 1, in: state) { known.seqs[name] = known.first - 1 }
            known.first -= 1
        }
        while known.seqs[name] == nil, known.through < state.row.seq {
            if let name = try chunkName(of: known.through + 1, in: state) { known.seqs[name] = known.through + 1 }
            known.through += 1
        }
        return known.seqs[name]
    }

    /// Reads no text.
    private func chunkName(of seq: Seq, in state: LogState) throws -> ChunkSeqs.Name? {
        let kind = Event.Kind.chunkAppended.rawValue
        guard seq <= state.row.seq else { return nil }
        if let envelope = try tailEnvelope(of: seq, in: state) {
            return envelope.kind == kind ? ChunkSeqs.Name(target: envelope.targetSeq, index: envelope.chunkIndex) : nil
        }
        try refresh(state)
        guard let (run, place) = try reader.place(of: seq, in: state.row), case let item = run.events[place], item.kind == kind else { return nil }
        return ChunkSeqs.Name(target: item.target, index: item.chunkIndex)
    }
}
