#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

extension EventStore {
    /// Reads what is sound of a damaged store, without LMDB and without trusting anything but the checksums: events in commit order as far as
    /// they can be read, and a line for all that cannot.
    ///
    /// Changes nothing. Nobody may have the store open for writing meanwhile.
    ///
    /// - Throws: `EventLogError`: `noSuchStore`, `newerFormat`; or what a closure throws.
    /// - Parameter progress: how many positions of how many are behind us; 0 of how many if the archive cannot tell.
    public static func salvage(
        at path: String, progress: ((_ done: Position, _ total: Position) -> Void)? = nil, event: (RecordedEvent) throws -> Void,
        lost: (String) throws -> Void
    ) throws {
        let files: [String]
        do { files = try Directory.names(path) } catch {
            throw error.isAbsent ? EventLogError(.noSuchStore, "\(path): no such store") : error.typed
        }
        guard files.contains(where: { ["archive", "key", "lock"].contains($0) || $0.hasPrefix("journal.") }) else {
            throw EventLogError(.noSuchStore, "\(path): no such store")
        }
        var salvage = Salvage(path: path)
        do {
            let keys = try KeyFile(reading: path)
            (salvage.keys, salvage.store) = (keys, keys.store)
        } catch let error as EventLogError where error.code == .newerFormat {
            throw error
        } catch {
            try lost("\(error)")
        }
        try salvage.archive(progress: progress, event: event, lost: lost)
        try salvage.journal(event: event, lost: lost)
    }

    /// Restores runs, and remembers of which that is not to be had: it takes long.
    private final class Restoring {
        private struct Run: Hashable {
            let position: Position
            let pages: Range<UInt64>
        }

        private let parity: ParityRecords
        private var lost: Set<Run> = []

        init(_ parity: ParityRecords) { self.parity = parity }

        func restored(_ bytes: [UInt8], of place: ValuePlace, at start: Position) -> [UInt8]? {
            let run = Run(position: start, pages: place.pages)
            guard parity.has(start), !lost.contains(run) else { return nil }
            let restored = parity.parity(at: start).flatMap { RunParity.restored(bytes, by: $0, at: start) }
            if restored == nil { lost.insert(run) }
            return restored
        }
    }

    /// What is known of a damaged store while it is read.
    private struct Salvage {
        let path: String
        private let parity: ParityRecords
        private let restoring: Restoring
        var keys: KeyFile?
        var store: StoreID?
        /// What the archive says that there was.
        private var archived = Archive.State()
        /// The last position that is behind us.
        private var last: Position = 0
        /// Where the rows say that events lie.
        private var spans: [Position: [EventSpan]] = [:]
        /// The logs of which there is a row, and whether those are all.
        private var logs: Set<LogID> = []
        private var knowsAllLogs = false
        /// Logs of which bodies were erased. A frame that was written before that, and which a crash kept from being destroyed, may still hold one.
        private var punctured: [LogID: PuncturedSeeds] = [:]
        private var knowsAllErasures = false

        init(path: String) {
            self.path = path
            parity = ParityFile(directory: path).records(archiveBytes: (try? File(Archive.path(path), O_RDONLY).size) ?? 0)
            restoring = Restoring(parity)
        }

        mutating func archive(
            progress: ((_ done: Position, _ total: Position) -> Void)?, event: (RecordedEvent) throws -> Void, lost: (String) throws -> Void
        ) throws {
            let path = Archive.path(path)
            guard Directory.exists(path) else { return try lost("\(path): it is missing") }
            var file = try DataFile(path: path)
            let judged = file.check().problems
            file.isLenient = !judged.isEmpty
            file.findRoot { Archive.State(salvaging: $0)?.commit }
            var problems = judged.map { "\(path): \($0)" }
            try readIdentity(file, path)
            if file.foundRoot != nil { problems.append("\(path): no meta page leads to its content; the newest commit that could be found is read") }
            archived = Archive.State(salvaging: file) ?? archived
            let unread = readRows(file)
            if unread > 0 { problems.append("\(unread) logs' rows cannot be read (their events are looked for all the same)") }
            let found = runs(in: file)
            try runs(file, found.places, progress, event, lost)
            for start in spans.keys.sorted() where found.places[start] == nil {
                try lost("the run at position \(start) cannot be reached; it held \(told(start))")
            }
            if found.isScanned, !knowsAllErasures {
                problems.append("runs were found that no page leads to any more: whether a body of theirs was erased since cannot be told")
            } else if found.places.values.contains(where: { $0.count > 1 }), !knowsAllErasures {
                problems.append("a damaged page leads to more than one copy of a run: whether a body was erased since cannot be told")
            }
            if found.isGivenUp { problems.append("so many runs are lost that not all could be looked for") }
            if found.isScanned, !knowsAllLogs { problems.append("nor whether all of those are the store's own") }
            for problem in problems + found.problems.map({ "\(path): \($0)" }) { try lost(problem) }
        }

        /// What a run held, as the rows say.
        private func told(_ start: Position) -> String {
            spans[start]?.map { "log \($0.log) seq \($0.firstSeq) to \($0.firstSeq + Seq($0.count) - 1)" }.joined(separator: ", ") ?? "events that no row names"
        }

        private mutating func readIdentity(_ file: borrowing DataFile, _ path: String) throws {
            var newer: UInt32?
            _ = file.forEach(database: "meta") { key, value in
                if key.array == Archive.MetaKey.store, value.byteCount >= 20 {
                    store = store ?? StoreID(bytes: value.array[4..<20])
                    // A version whose checksum does not match is damage, not a version.
                    let version = value.array.withUnsafeBytes { bytes in
                        Archive.unsealed(Archive.MetaKey.store, bytes).map { UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self)) }
                    }
                    if let version, version > Format.version { newer = version }
                }
                return true
            }
            if let newer { throw Format.newer(path, newer) }
        }

        /// - Returns: how many cannot be read.
        private mutating func readRows(_ file: borrowing DataFile) -> Int {
            let secrets = keys.map { EventStore.secrets(in: file, archived.position > 0 ? archived : nil, $0) }
            var unread = 0
            var rows: [LogID: LogRow] = [:]
            _ = file.forEach(database: "logs") { key, value in
                let name = key.array
                let row = value.array.withUnsafeBytes { bytes -> LogRow? in
                    guard let value = try? Archive.open(name, bytes, "a row") else { return nil }
                    return try? LogRow(key: name, decoding: value) { ReplicaID(high: 0, low: $0) }
                }
                // A damaged page may hold an older one, too.
                if let row { if row.tree.size >= rows[row.id]?.tree.size ?? 0 { rows[row.id] = row } } else { unread += 1 }
                return true
            }
            for row in rows.values {
                if let seeds = secrets?.seeds[row.number], !seeds.isWhole { punctured[row.id] = seeds }
                for slice in row.slices { spans[slice.run, default: []].append(EventSpan(log: row.id, firstSeq: slice.firstSeq, count: slice.count)) }
            }
            logs = Set(rows.keys)
            knowsAllLogs = archived.position > 0 && rows.values.map(\.tree.size).sumIfAny == archived.position
            knowsAllErasures = knowsAllLogs && secrets?.isWhole == true
            return unread
        }

        private struct Found {
            var places: [Position: [ValuePlace]] = [:]
            var problems: [DataFileProblem] = []
            /// Whether there are some that no tree names.
            var isScanned = false
            /// Whether not all headers were tried at all positions.
            var isGivenUp = false
        }

        /// Where the archive's tree says that runs lie, be they sound or not; and of a damaged file, where else one was found that may stand there.
        private func runs(in file: borrowing DataFile) -> Found {
            var result = Found()
            result.problems = file.forEachPlace(database: "runs") { key, place in
                if key.byteCount == 8 { result.places[Archive.position(key.array), default: []].append(place) }
                return true
            }
            guard !result.problems.isEmpty || file.isLenient || spans.keys.contains(where: { result.places[$0] == nil }) else { return result }
            // Of those that are sound nothing is looked for but what stands behind them. What others wrote into them is no run, whatever it looks like.
            var wanted = Set(spans.keys).union(parity.positions).union([1]).union(result.places.keys)
            var (taken, held) = (PageSet(lastPage: file.fileBytes / UInt64(file.pageBytes)), Set<Position>())
            for (position, found) in result.places {
                for place in found {
                    guard let bytes = sound(place, file, position), let shape = bytes.withUnsafeBytes({ DecodedRun.Shape($0) }) else { continue }
                    wanted.insert(position + Position(shape.events))
                    held.insert(position)
                    for page in place.pages { _ = taken.insert(page) }
                }
            }
            let decompressor = ZstdDecompressor()
            let scanned = RunScan(file, but: taken).places(among: wanted.subtracting(held))
            result.isGivenUp = !scanned.isWhole
            let begun = held.union(spans.keys).sorted()
            for (position, found) in scanned.places where !held.contains(position) {
                let next = begun.firstBehind(position)
                // Of two the one counts of which more is erased: that only grows.
                var newest: (place: ValuePlace, erased: Int)?
                for place in found {
                    guard let erased = rightful(place, file, position, before: next, decompressor), erased > newest?.erased ?? -1 else { continue }
                    newest = (place, erased)
                }
                guard let newest else { continue }
                result.places[position, default: []].insert(newest.place, at: 0)
                result.isScanned = true
            }
            return result
        }

        /// Whether a run that nothing names is one of the store's, as far as its rows tell: anybody's message may have a run's bytes.
        ///
        /// - Parameter next: where the next one stands that is known.
        /// - Returns: how many of its events are erased; `nil`: it is none.
        private func rightful(
            _ place: ValuePlace, _ file: borrowing DataFile, _ position: Position, before next: Position?, _ decompressor: ZstdDecompressor
        ) -> Int? {
            guard let bytes = sound(place, file, position),
                let run = try? bytes.withUnsafeBytes({ try DecodedRun($0, at: position, decompressor: decompressor) })
            else { return nil }
            if let next, position + Position(run.events.count) > next { return nil }
            if archived.position > 0, position + Position(run.events.count) - 1 > archived.position { return nil }
            for slice in run.slices {
                let span = EventSpan(log: slice.log, firstSeq: slice.firstSeq, count: slice.range.count)
                guard logs.contains(slice.log) ? spans[position]?.contains(span) == true : !knowsAllLogs else { return nil }
            }
            return run.order.count { run.events[Int($0)].isErased }
        }

        private mutating func runs(
            _ file: borrowing DataFile, _ places: [Position: [ValuePlace]], _ progress: ((_ done: Position, _ total: Position) -> Void)?,
            _ event: (RecordedEvent) throws -> Void, _ lost: (String) throws -> Void
        ) throws {
            let decompressor = ZstdDecompressor()
            for (start, found) in places.sorted(by: { $0.key < $1.key }) {
                guard start > last else {
                    if spans[start] != nil { try lost("the run at position \(start): another reaches over it; it held \(told(start))") }
                    continue
                }
                let bytes = found.count > 1 ? newest(of: found, file, start, decompressor) : nil
                let run = bytes ?? restored(found[0], file, start)
                try tellRun(run, at: start, decompressor, event, lost)
                progress?(last, archived.position)
            }
        }

        /// Of several copies of a run the sound one of which most is erased: that only grows. `nil`: none is sound.
        private func newest(of places: [ValuePlace], _ file: borrowing DataFile, _ start: Position, _ decompressor: ZstdDecompressor) -> [UInt8]? {
            var newest: (bytes: [UInt8], erased: Int)?
            for place in places {
                guard let bytes = sound(place, file, start),
                    let run = try? bytes.withUnsafeBytes({ try DecodedRun($0, at: start, decompressor: decompressor) })
                else { continue }
                let erased = run.order.count { run.events[Int($0)].isErased }
                if erased > newest?.erased ?? -1 { newest = (bytes, erased) }
            }
            return newest?.bytes
        }

        private func sound(_ place: ValuePlace, _ file: borrowing DataFile, _ start: Position) -> [UInt8]? {
            let bytes = restored(place, file, start)
            return bytes.withUnsafeBytes { DecodedRun.isSound($0, at: start) } ? bytes : nil
        }

        private mutating func tellRun(
            _ bytes: [UInt8], at start: Position, _ decompressor: ZstdDecompressor, _ event: (RecordedEvent) throws -> Void, _ lost: (String) throws -> Void
        ) throws {
            let run: DecodedRun
            do { run = try bytes.withUnsafeBytes { try DecodedRun($0, at: start, decompressor: decompressor) } } catch {
                return try lost("\(error); it held \(told(start))")
            }
            if start > last + 1 { try lost("positions \(last + 1) to \(start - 1)") }
            for place in run.order {
                let found: RecordedEvent
                do { found = try run.recorded(at: Int(place)) } catch {
                    try lost("log \(run.slices[Int(run.events[Int(place)].slice)].log) seq \(run.events[Int(place)].seq): \(error)")
                    continue
                }
                try tell(found, event, lost)
            }
            last = start + Position(run.events.count) - 1
        }

        /// Lends an event, unless it is one of which the body was erased since its bytes were written.
        private func tell(_ found: RecordedEvent, _ event: (RecordedEvent) throws -> Void, _ lost: (String) throws -> Void) throws {
            guard found.isErased || punctured[found.log].map({ $0.leaf(at: found.seq - 1) != nil }) ?? true else {
                return try lost("log \(found.log) seq \(found.seq): its body was erased, and what was left of it went with its run")
            }
            try event(found)
        }

        /// A run's bytes; of a damaged one as they were, if its parity tells.
        private func restored(_ place: ValuePlace, _ file: borrowing DataFile, _ start: Position) -> [UInt8] {
            let bytes = file.value(at: place)
            if bytes.withUnsafeBytes({ DecodedRun.isSound($0, at: start) }) { return bytes }
            return restoring.restored(bytes, of: place, at: start) ?? bytes
        }

        mutating func journal(event: (RecordedEvent) throws -> Void, lost: (String) throws -> Void) throws {
            guard let store else {
                if archived.position > last { try lost("positions \(last + 1) to \(archived.position)") }
                return try lost("the journal: neither key nor archive says whose it is")
            }
            let journal = SalvagedJournal(directory: path, store: store, after: last)
            let end = max(archived.position, journal.end)
            for frame in journal.frames.sorted(by: { $0.firstPosition < $1.firstPosition }) where frame.lastPosition > last {
                if frame.firstPosition > last + 1 { try lost("positions \(last + 1) to \(frame.firstPosition - 1)") }
                for index in frame.items.indices where frame.firstPosition + Position(index) > last {
                    guard let found = try? frame.recorded(index) else {
                        try lost("position \(frame.firstPosition + Position(index))")
                        continue
                    }
                    try tell(found, event, lost)
                }
                last = frame.lastPosition
            }
            if end > last { try lost("positions \(last + 1) to \(end)") }
            for problem in journal.problems { try lost(problem) }
            if journal.newestFrame < archived.frame {
                try lost("the journal: files are missing or cut; what they held behind position \(max(last, end)) nobody can tell")
            }
        }
    }
}

extension Archive.State {
    /// The state that a perhaps damaged archive holds; nil if its bytes are not sound.
    init?(salvaging file: borrowing DataFile) {
        var found: Archive.State?
        _ = file.forEach(database: "meta") { key, value in
            guard key.array == Archive.MetaKey.state else { return true }
            let state = value.array.withUnsafeBytes { try? Archive.State(decoding: Archive.open(Archive.MetaKey.state, $0, "the store's state")) }
            // A damaged page may hold an older one, too.
            if let state, state.commit >= found?.commit ?? 0 { found = state }
            return true
        }
        guard let found else { return nil }
        self = found
    }
}

extension RawSpan {
    var array: [UInt8] { withUnsafeBytes { Array($0) } }
}

extension [Position] {
    /// The first of these, which ascend, behind a position.
    fileprivate func firstBehind(_ position: Position) -> Position? {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] <= position { low = middle + 1 } else { high = middle }
        }
        return low < count ? self[low] : nil
    }
}
