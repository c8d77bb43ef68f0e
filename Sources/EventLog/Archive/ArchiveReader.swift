/// Reads runs, with the last few at hand. For one thread at a time.
final class ArchiveReader {
    private let archive: Archive
    private let decompressor = ZstdDecompressor()
    private var cache: [(position: Position, run: DecodedRun)] = []
    private let runsMax: Int

    init(archive: Archive, runsMax: Int = 3) {
        self.archive = archive
        self.runsMax = runsMax
    }

    func forget() { cache.removeAll() }

    /// The run that begins at a position.
    func run(at position: Position) throws -> DecodedRun {
        if let index = cache.firstIndex(where: { $0.position == position }) {
            if index > 0 { cache.insert(cache.remove(at: index), at: 0) }
            return cache[0].run
        }
        let run = try archive.environment.read { transaction in
            guard let bytes = try transaction.get(archive.runs, Archive.key(position: position)) else {
                throw Archive.damaged(archive.path, "the run at position \(position) is missing")
            }
            return try decode(bytes, position)
        }
        keep(run)
        return run
    }

    private func decode(_ bytes: UnsafeRawBufferPointer, _ position: Position) throws -> DecodedRun {
        do {
            let run = try DecodedRun(bytes, at: position, decompressor: decompressor)
            MappedPages.release(bytes)
            return run
        } catch let error as RunError {
            throw Archive.damaged(archive.path, "\(error)")
        }
    }

    private func keep(_ run: DecodedRun) {
        cache.insert((run.position, run), at: 0)
        if cache.count > runsMax { cache.removeLast() }
    }

    /// The run in which a position lies; `nil` if the archive does not reach it.
    func run(containing position: Position) throws -> DecodedRun? {
        if let known = cache.first(where: { $0.position <= position && position < $0.position + Position($0.run.events.count) }) { return known.run }
        let found = try archive.environment.read { transaction -> DecodedRun? in
            guard let (key, value) = try transaction.floor(archive.runs, Archive.key(position: position)), key.count == 8 else { return nil }
            let start = UInt64(bigEndian: key.loadUnaligned(as: UInt64.self))
            return try decode(value, start)
        }
        guard let found, position < found.position + Position(found.events.count) else { return nil }
        keep(found)
        return found
    }

    /// The place of an event of a log.
    func place(of seq: Seq, in row: LogRow) throws -> (run: DecodedRun, place: Int)? { try place(of: seq, row.id, row.slices) }

    func place(of seq: Seq, in places: LogPlaces) throws -> (run: DecodedRun, place: Int)? { try place(of: seq, places.id, places.slices) }

    private func place(of seq: Seq, _ log: LogID, _ slices: [LogRow.Slice]) throws -> (run: DecodedRun, place: Int)? {
        var low = 0
        var high = slices.count
        while low < high {
            let middle = (low + high) / 2
            if slices[middle].firstSeq + Seq(slices[middle].count) <= seq { low = middle + 1 } else { high = middle }
        }
        guard low < slices.count, slices[low].firstSeq <= seq else { return nil }
        let slice = slices[low]
        let run = try run(at: slice.run)
        guard slice.index < run.slices.count, run.slices[slice.index].log == log, run.slices[slice.index].firstSeq == slice.firstSeq,
            run.slices[slice.index].range.count == slice.count
        else { throw Archive.damaged(archive.path, "the row of log \(log) and the run at position \(slice.run) disagree at seq \(slice.firstSeq)") }
        return (run, run.slices[slice.index].range.lowerBound + Int(seq - slice.firstSeq))
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
                guard let bytes = try transaction.get(archive.runs, Archive.key(position: slice.run)) else {
                    throw Archive.damaged(archive.path, "the run at position \(slice.run) is missing")
                }
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
