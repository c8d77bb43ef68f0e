internal import Synchronization

/// Where a log ends, and who is or was in it: what a hub keeps in memory of each log.
package struct LogPlace: Sendable {
    package var log: LogID
    package var lastSeq: Seq
    package var lastPosition: Position
    /// Whether that is just where the log ends, and not behind it.
    package var isEndKnown = true
    /// In the order in which the log first names them. `joinedSeq` is 0 for who takes no part now, `leftSeq` for who never left.
    package var people: [(user: UserID, joinedSeq: Seq, leftSeq: Seq)]
}

extension EventStore {
    /// Visits all logs that have events, as of the last visible one. Reads the rows and, of the runs in which logs end, the order of the commits. A log of which
    /// that order cannot be read ends, as far as is known, where its run does.
    package func forEachLogPlace(_ body: (LogPlace) throws -> Void) throws {
        var ended: [Position: [(place: Int, slice: Int)]] = [:]
        var places: [LogPlace] = []
        try forEachRow(withTrees: false) { row, tailPosition in
            places.append(
                LogPlace(
                    log: row.id, lastSeq: row.seq, lastPosition: tailPosition ?? 0,
                    people: row.people.map { (user: $0.user, joinedSeq: $0.joinedSeq, leftSeq: $0.leftSeq) }))
            if tailPosition == nil, let slice = row.slices.last { ended[slice.run, default: []].append((places.count - 1, slice.index)) }
            return true
        }
        let decompressor = ZstdDecompressor()
        for (run, logs) in ended {
            let last = try archive.environment.read { [archive] transaction -> [Position] in
                guard let bytes = try transaction.get(archive.runs, Archive.key(position: run)) else {
                    throw Archive.damaged(archive.path, "the run at position \(run) is missing")
                }
                do {
                    return try DecodedRun.lastPositions(bytes, at: run, decompressor: decompressor)
                } catch is RunError {
                    return []
                }
            }
            if last.isEmpty {
                let end = try archive.environment.read { [archive] in try archive.lastPosition(ofRun: run, $0) }
                for (place, _) in logs { (places[place].lastPosition, places[place].isEndKnown) = (end, false) }
                continue
            }
            for (place, slice) in logs {
                guard slice < last.count, last[slice] > 0 else {
                    throw Archive.damaged(archive.path, "the row of log \(places[place].log) and the run at position \(run) disagree")
                }
                places[place].lastPosition = last[slice]
            }
        }
        for place in places { try body(place) }
    }

    /// The first event of a log that stands after a position; `nil` if the log has none there. Reads at most the run in which the position lies.
    package func firstSeq(of log: LogID, after position: Position) throws -> Seq? {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places.
        let (_, first, positions) = tailPlaces(of: log)
        let (places, runNext) = try archive.environment.read { [archive] transaction -> (LogPlaces?, Position?) in
            guard try position < archive.state(transaction).position else { return (nil, nil) }
            return (try archive.places(log, transaction), try archive.run(containing: position + 1, transaction)?.position)
        }
        if let slices = places?.slices {
            var low = 0
            var high = slices.count
            while low < high {
                let middle = (low + high) / 2
                if slices[middle].run <= position { low = middle + 1 } else { high = middle }
            }
            // The slice before goes on behind the position at most in the run in which the next event of all stands; the next slice stands behind it whole.
            if low > 0, runNext ?? 0 < slices[low - 1].run { throw archive.noRun(at: position + 1) }
            if low > 0, slices[low - 1].run == runNext, let seq = try firstSeq(of: log, in: slices[low - 1], after: position) { return seq }
            if low < slices.count { return slices[low].firstSeq }
        }
        let index = Self.count(of: positions, upTo: position)
        return index < positions.count ? first + Seq(index) : nil
    }

    private func firstSeq(of log: LogID, in slice: LogRow.Slice, after position: Position) throws -> Seq? {
        try withReader { reader in
            let run = try reader.run(at: slice.run)
            guard slice.index < run.slices.count, run.slices[slice.index].log == log else {
                throw Archive.damaged(archive.path, "the row of log \(log) and the run at position \(slice.run) disagree")
            }
            let places = run.slices[slice.index].range
            var low = places.lowerBound
            var high = places.upperBound
            while low < high {
                let middle = (low + high) / 2
                if run.events[middle].position <= position { low = middle + 1 } else { high = middle }
            }
            return low < places.upperBound ? run.events[low].seq : nil
        }
    }

    /// Where a log's newest visible events lie that the archive may not hold yet: their first seq, and their positions.
    func tailPlaces(of log: LogID) -> (snapshot: Tail.Snapshot, first: Seq, positions: [Position]) {
        let snapshot = tail.snapshot
        return writer.withLock { writer in
            guard let state = writer.known(log) else { return (snapshot, .max, []) }
            return (snapshot, state.tailFirstSeq, Array(state.tail[..<Self.count(of: state.tail, upTo: snapshot.visible)]))
        }
    }

    /// Where each of a log's visible events lies, ascending, until a closure says false: a place of an archived run, or of a frame in the tail.
    func forEachVisible(
        of log: LogID, from first: Seq, through last: Seq, archived: (_ run: DecodedRun, _ place: Int) throws -> Bool,
        inTail: (Seq, _ frame: TailFrame, _ index: Int) throws -> Bool
    ) throws {
        try checkOpen()
        // The tail first: what a flush moves meanwhile is then seen in both places.
        let (snapshot, tailFirst, positions) = tailPlaces(of: log)
        var seq = first
        if positions.isEmpty || first < tailFirst {
            let places = try archive.environment.read { [archive] in try archive.places(log, $0) }
            if places == nil, positions.isEmpty { return }
            guard try forEachArchived(of: places ?? LogPlaces(of: log), &seq, through: last, archived) else { return }
        }
        while seq <= last, !positions.isEmpty, seq < tailFirst + Seq(positions.count) {
            guard seq >= tailFirst, let (frame, index) = snapshot.frame(of: positions[Int(seq - tailFirst)]) else {
                throw Archive.damaged(archive.path, "log \(log) has no seq \(seq) (I2)")
            }
            guard try inTail(seq, frame, index) else { return }
            seq += 1
        }
    }

    /// Answers whether the closure said so each time; `seq` is then the next.
    private func forEachArchived(of places: LogPlaces, _ seq: inout Seq, through last: Seq, _ body: (DecodedRun, Int) throws -> Bool) throws -> Bool {
        try withReader { reader in
            let end = min(last, places.archivedSeq)
            while seq <= end {
                guard let (run, place) = try reader.place(of: seq, in: places) else {
                    throw Archive.damaged(archive.path, "log \(places.id) has no seq \(seq) (I2)")
                }
                // The rest of this run's slice, without looking for each.
                let rest = run.slices[Int(run.events[place].slice)].range.upperBound - place
                for place in place..<place + Int(min(Seq(rest), end - seq + 1)) {
                    guard try body(run, place) else { return false }
                    seq += 1
                }
            }
            return true
        }
    }

    /// How many of ascending positions are at or before one.
    static func count(of positions: [Position], upTo position: Position) -> Int {
        var low = 0
        var high = positions.count
        while low < high {
            let middle = (low + high) / 2
            if positions[middle] <= position { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
