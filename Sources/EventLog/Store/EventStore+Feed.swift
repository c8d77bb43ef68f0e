/// What shipping a store's events to others needs.
extension EventStore {
    /// The runs of the archive that hold a log's events from a seq on, ascending. What they lack lies in the journal.
    package func runs(of log: LogID, from seq: Seq, through last: Seq = .max) throws -> [Position] {
        try checkOpen()
        guard let places = try archive.environment.read({ [archive] in try archive.places(log, $0) }) else { return [] }
        return places.slices.filter { $0.firstSeq + Seq($0.count) > seq && $0.firstSeq <= last }.map(\.run)
    }

    /// Gives those events of a run that are wanted, log by log: the closure says from which seq through which; `nil`: none of the log.
    ///
    /// - Parameter onDamage: told of a log of which texts cannot be read, and why; those of its events that come before them are given. `nil`: that is thrown, as
    ///   is damage of what all logs of the run share.
    /// - Returns: how many events the run holds, wanted or not: all were decoded.
    @discardableResult
    package func forEachEvent(
        inRun position: Position, wanted: (LogID) -> ClosedRange<Seq>?, _ body: (RecordedEvent) throws -> Void,
        onDamage: ((LogID, EventLogError) -> Void)? = nil
    ) throws -> Int {
        try checkOpen()
        return try withReader { reader in
            let run = try reader.run(at: position)
            for slice in run.slices {
                guard let range = wanted(slice.log), range.upperBound >= slice.firstSeq, range.lowerBound < slice.endSeq else { continue }
                let first = Int(max(range.lowerBound, slice.firstSeq) - slice.firstSeq)
                let end = Int(min(range.upperBound, slice.endSeq - 1) - slice.firstSeq) + 1
                for place in slice.range.lowerBound + first..<slice.range.lowerBound + end {
                    let event: RecordedEvent
                    do {
                        event = try run.recorded(at: place)
                    } catch {
                        guard let onDamage, let damage = archive.typed(error) as? EventLogError, damage.code == .damaged else { throw error }
                        onDamage(slice.log, damage)
                        break
                    }
                    try body(event)
                }
            }
            return run.events.count
        }
    }

    /// The last seq of a log, durable or not; 0: it has no events.
    package func lastSeq(of log: LogID) throws -> Seq {
        try checkOpen()
        return try writer.withLock { writer in
            // Behind a failed write it counts what may not be there.
            if let failure = writer.failure { throw failure }
            return try writer.state(of: log)?.row.seq
        } ?? 0
    }

    /// The last seq of a log that the archive holds.
    package func archivedSeq(of log: LogID) throws -> Seq {
        try archive.environment.read { [archive] in try archive.places(log, $0)?.archivedSeq } ?? 0
    }

    /// What the replica that made these ids is known to have made of a log: the greatest counter; 0: nothing.
    package func mark(of replica: ReplicaID, in log: LogID) throws -> UInt64 {
        try checkOpen()
        return try writer.withLock { writer in
            guard let row = try writer.state(of: log)?.row, let lane = row.lane(replica) else { return 0 }
            return row.lanes[lane].mark
        }
    }

    /// Whether a body among a log's first events was erased.
    package func hasErased(_ log: LogID, through seq: Seq) throws -> Bool {
        var found = false
        try forEachEvent(in: log, range: 1...max(seq, 1)) { event in
            found = event.isErased
            return !found
        }
        return found
    }

    /// Where the event of an origin was recorded; `nil`: it was not.
    package func seq(of origin: Origin, in log: LogID) throws -> Seq? {
        try checkOpen()
        return try writer.withLock { writer in
            guard let state = try writer.state(of: log), let lane = state.row.lane(origin.replica), state.row.lanes[lane].mark >= origin.counter else {
                return nil
            }
            return try writer.find(origin, in: state)?.seq
        }
    }

    /// Another object after each change of the logs' secrets, as by an erasure: whoever keeps what it made of events compares by identity.
    package var secretsVersion: AnyObject { keys.withLock { $0.ring.version } }

    /// Leaves out so many of the clock's next values.
    package func advanceClock(by count: UInt64) { writer.withLock { $0.advanceClock(by: count) } }

    /// What can be said against an event without knowing its log.
    package static func checkForm(_ event: Event) -> Refusal? { Acceptance.checkForm(event) }

    /// The size of the log of heads that the last checkpoint signed; 0: none was made.
    package func checkpointSize() throws -> UInt64 {
        guard let note = try checkpoint() else { return 0 }
        return try Checkpoint.open(note, key: verifier).size
    }
}
