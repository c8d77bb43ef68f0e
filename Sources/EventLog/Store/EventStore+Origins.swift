extension EventStore {
    /// The last seq of a log that readers see; 0: none.
    func lastVisibleSeq(of log: LogID) throws -> Seq {
        try checkOpen()
        let (_, first, positions) = tailPlaces(of: log)
        return positions.isEmpty ? try archivedSeq(of: log) : first + Seq(positions.count) - 1
    }

    /// Who made each of a log's visible events, ascending, until the closure says false. Decompresses no texts.
    func forEachOrigin(of log: LogID, from first: Seq, through last: Seq, _ body: (Seq, ReplicaID, _ counter: UInt64) throws -> Bool) throws {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places.
        let (snapshot, tailFirst, positions) = tailPlaces(of: log)
        var seq = first
        if positions.isEmpty || first < tailFirst {
            guard let row = try archive.environment.read({ [archive] in try archive.row(log, $0) }) ?? (positions.isEmpty ? nil : LogRow(id: log, number: 0))
            else { return }
            let goes = try withReader { reader -> Bool in
                while seq <= min(last, row.archivedSeq) {
                    guard let (run, place) = try reader.place(of: seq, in: row) else {
                        throw Archive.damaged(archive.path, "log \(log) has no seq \(seq) (I2)")
                    }
                    // The rest of this run's slice, without looking for each.
                    let slice = run.slices[Int(run.events[place].slice)]
                    for place in place..<min(slice.range.upperBound, place + Int(clamping: last - seq) + 1) {
                        let item = run.events[place]
                        guard try body(item.seq, run.replicas[Int(item.replica)], item.counter) else { return false }
                        seq = item.seq + 1
                    }
                }
                return true
            }
            guard goes else { return }
        }
        while seq <= last, !positions.isEmpty, seq < tailFirst + Seq(positions.count) {
            guard seq >= tailFirst, let (frame, index) = snapshot.frame(of: positions[Int(seq - tailFirst)]) else {
                throw Archive.damaged(archive.path, "log \(log) has no seq \(seq) (I2)")
            }
            let origin = try frame.envelope(index).origin
            guard try body(seq, origin.replica, origin.counter) else { return }
            seq += 1
        }
    }
}
