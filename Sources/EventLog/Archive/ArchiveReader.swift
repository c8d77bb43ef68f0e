/// Reads runs, with the last few at hand. For one thread at a time.
final class ArchiveReader {
    private let archive: Archive
    private let decompressor = ZstdDecompressor()
    private var cache: [(position: Position, run: DecodedRun)] = []
    private let runsMax: Int
    /// Of which run the last stamp was.
    private var stamped: Position?

    init(archive: Archive, runsMax: Int = 3) {
        self.archive = archive
        self.runsMax = runsMax
    }

    func forget() { (cache, stamped) = ([], nil) }

    /// The run that begins at a position.
    func run(at position: Position) throws -> DecodedRun {
        if let index = cache.firstIndex(where: { $0.position == position }) {
            if index > 0 { cache.insert(cache.remove(at: index), at: 0) }
            return cache[0].run
        }
        let run = try archive.environment.read { transaction in
            guard let bytes = try transaction.get(archive.runs, Archive.key(position: position)) else { throw absent(position) }
            return try decode(bytes, position)
        }
        keep(run)
        return run
    }

    private func decode(_ bytes: UnsafeRawBufferPointer, _ position: Position) throws -> DecodedRun {
        let run = try typed { try DecodedRun(bytes, at: position, decompressor: decompressor) }
        MappedPages.release(bytes)
        return run
    }

    private func keep(_ run: DecodedRun) {
        cache.insert((run.position, run), at: 0)
        if cache.count > runsMax { cache.removeLast() }
    }

    /// The run in which a position lies; `nil` if the archive does not reach it.
    func run(containing position: Position) throws -> DecodedRun? {
        if let known = cache.first(where: { $0.position <= position && position < $0.position + Position($0.run.events.count) }) { return known.run }
        let found = try archive.environment.read { transaction -> DecodedRun? in
            guard let (start, bytes) = try archive.run(containing: position, transaction) else { return nil }
            return try decode(bytes, start)
        }
        guard let found, position < found.position + Position(found.events.count) else { return nil }
        keep(found)
        return found
    }

    /// The place of an event of a log.
    func place(of seq: Seq, in row: LogRow) throws -> (run: DecodedRun, place: Int)? { try place(of: seq, row.id, row.slices) }

    func place(of seq: Seq, in places: LogPlaces) throws -> (run: DecodedRun, place: Int)? { try place(of: seq, places.id, places.slices) }

    private func place(of seq: Seq, _ log: LogID, _ slices: [LogRow.Slice]) throws -> (run: DecodedRun, place: Int)? {
        guard let slice = Self.slice(of: seq, in: slices) else { return nil }
        let run = try run(at: slice.run)
        guard slice.index < run.slices.count, slice.is(run.slices[slice.index], of: log) else { throw disagreement(log, slice) }
        return (run, run.slices[slice.index].range.lowerBound + Int(seq - slice.firstSeq))
    }

    /// An event's stamp. A run that is not at hand is decoded only for the second that is asked for in a row: it costs several times as much as one stamp, and
    /// nothing from there on.
    func stamp(of seq: Seq, in places: LogPlaces) throws -> EventStamp? {
        guard let slice = Self.slice(of: seq, in: places.slices) else { return nil }
        defer { stamped = slice.run }
        if stamped == slice.run || cache.contains(where: { $0.position == slice.run }) {
            return try place(of: seq, in: places).map { run, place in
                let item = run.events[place]
                return EventStamp(position: item.position, hlc: HLC(rawValue: item.hlc), replica: run.replicas[Int(item.replica)], counter: item.counter)
            }
        }
        let found = try archive.environment.read { transaction in
            guard let bytes = try transaction.get(archive.runs, Archive.key(position: slice.run)) else { throw absent(slice.run) }
            return try typed { try DecodedRun.stamp(bytes, at: slice.run, slice: slice.index, event: Int(seq - slice.firstSeq), decompressor: decompressor) }
        }
        guard let found, slice.is(found.slice, of: places.id) else { throw disagreement(places.id, slice) }
        return found.stamp
    }

    private static func slice(of seq: Seq, in slices: [LogRow.Slice]) -> LogRow.Slice? {
        var low = 0
        var high = slices.count
        while low < high {
            let middle = (low + high) / 2
            if slices[middle].firstSeq + Seq(slices[middle].count) <= seq { low = middle + 1 } else { high = middle }
        }
        return low < slices.count && slices[low].firstSeq <= seq ? slices[low] : nil
    }

    private func absent(_ position: Position) -> EventLogError { Archive.damaged(archive.path, "the run at position \(position) is missing") }

    private func disagreement(_ log: LogID, _ slice: LogRow.Slice) -> EventLogError {
        Archive.damaged(archive.path, "the row of log \(log) and the run at position \(slice.run) disagree at seq \(slice.firstSeq)")
    }

    private func typed<R>(_ body: () throws -> R) throws -> R {
        do {
            return try body()
        } catch let error as RunError {
            throw Archive.damaged(archive.path, "\(error)")
        }
    }

    func messageIDs(of row: LogRow) throws -> Set<MessageID> {
        var result: Set<MessageID> = []
        for slice in row.slices where slice.messages > 0 {
            if let known = cache.first(where: { $0.position == slice.run }) {
                for place in known.run.slices[slice.index].range where known.run.events[place].kind == Event.Kind.messageSent.rawValue {
                    result.insert(known.run.events[place].message)
                }
                continue
            }
            try archive.environment.read { transaction in
                guard let bytes = try transaction.get(archive.runs, Archive.key(position: slice.run)) else { throw absent(slice.run) }
                do {
                    for id in try DecodedRun.messageIDs(bytes, at: slice.run, slice: slice.index) { result.insert(id) }
                } catch is CodecError {
                    throw Archive.damaged(archive.path, "the run at position \(slice.run) cannot be read")
                } catch let error as ChecksumMismatch {
                    throw Archive.damaged(archive.path, "the run at position \(slice.run): \(error)")
                }
            }
        }
        return result
    }
}

extension LogRow.Slice {
    /// Whether a run's slice is the one that the row of a log speaks of.
    fileprivate func `is`(_ slice: DecodedRun.Slice, of log: LogID) -> Bool {
        slice.log == log && slice.firstSeq == firstSeq && slice.range.count == count
    }
}
