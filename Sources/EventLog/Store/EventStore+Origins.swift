extension EventStore {
    /// The last seq of a log that readers see; 0: none.
    func lastVisibleSeq(of log: LogID) throws -> Seq {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places.
        let visible = tail.snapshot.visible
        let seq = writer.withLock { writer -> Seq? in
            guard let state = writer.known(log) else { return nil }
            let count = Self.count(of: state.tail, upTo: visible)
            return count > 0 ? state.tailFirstSeq + Seq(count) - 1 : nil
        }
        return try seq ?? archivedSeq(of: log)
    }

    /// Who made each of a log's visible events, ascending, until the closure says false. Decompresses no texts.
    func forEachOrigin(of log: LogID, from first: Seq, through last: Seq, _ body: (Seq, ReplicaID, _ counter: UInt64) throws -> Bool) throws {
        try forEachVisible(of: log, from: first, through: last) { run, place in
            let item = run.events[place]
            return try body(item.seq, run.replicas[Int(item.replica)], item.counter)
        } inTail: { seq, frame, index in
            let origin = try frame.envelope(index).origin
            return try body(seq, origin.replica, origin.counter)
        }
    }
}
