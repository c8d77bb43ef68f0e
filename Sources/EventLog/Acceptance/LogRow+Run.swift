extension LogRow {
    /// Folds accepted events where they lie in a run.
    mutating func apply(_ run: DecodedRun, _ places: Range<Int>) throws {
        // Who wrote last mostly writes on.
        var replica: UInt32 = .max
        var lane = 0
        for place in places {
            guard run.events[place].isPlain else {
                replica = .max
                apply(try run.effect(at: place))
                continue
            }
            seq = run.events[place].seq
            if run.events[place].replica == replica {
                lanes[lane].mark = max(lanes[lane].mark, run.events[place].counter)
            } else {
                replica = run.events[place].replica
                mark(run.replicas[Int(replica)], run.events[place].counter)
                lane = self.lane(run.replicas[Int(replica)])!
            }
            if run.events[place].kind == Event.Kind.messageSent.rawValue {
                messages += 1
            } else {
                let target = run.events[place].target
                for position in open.indices where open[position].seq == target {
                    open[position].chunks += 1
                    open[position].joinedBytes += Int(run.events[place].textLength)
                }
            }
        }
    }
}
