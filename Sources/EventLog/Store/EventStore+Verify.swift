internal import Synchronization

/// What `verify` found.
public struct VerifyReport: Sendable, Hashable {
    public var events: UInt64 = 0
    public var conversations: UInt64 = 0
    public var segments: UInt64 = 0
    /// What is wrong, each naming the log and seq where it can.
    public var problems: [String] = []
    /// What the problems are of.
    public private(set) var damaged: Set<Part> = []
    /// Logs of which every byte matches its checksum, and whose events do not give their heads (I6).
    package fileprivate(set) var contradicted: Set<LogID> = []
    /// Whether that is all that is wrong.
    package var isOnlyContradicted: Bool { !contradicted.isEmpty && problems.count == contradicted.count }
    public var isSound: Bool { problems.isEmpty }

    /// What is mended in a way of its own.
    public enum Part: Hashable, Sendable {
        /// The events, and all that is needed to read them.
        case log
        /// What screens are shown from, which follows from the log: a rebuild makes it anew.
        case projections
        /// The file `sync`.
        case side
    }

    public init() {}

    static let problemsMax = 1000

    mutating func add(_ problem: String, in part: Part = .log) {
        damaged.insert(part)
        guard problems.count < Self.problemsMax else { return }
        // Nobody needs to be told to run what is running; what to do stands at the end of its report.
        let advices = [", " + Archive.salvage, ", " + SideStore.rescue, ""]
        problems.append(advices.reduce(problem) { $0.replacing(Archive.verify + $1, with: "") })
    }
}

extension EventStore {
    /// Reads everything and checks it: LMDB's structure, every checksum, density (I2), every hash and tree (I6), the totals, and the side store.
    ///
    /// Damage becomes a line of the report; only what keeps the store from being looked at at all is thrown (`noSuchStore`, `newerFormat`,
    /// `busy` …).
    public static func verify(at path: String, progress: ((_ done: UInt64, _ total: UInt64) -> Void)? = nil) throws -> VerifyReport {
        var report = VerifyReport()
        try verifyLog(path, &report, progress)
        for problem in try SideStore.verify(directory: path) { report.add(problem, in: .side) }
        return report
    }

    private static func verifyLog(_ path: String, _ report: inout VerifyReport, _ progress: ((_ done: UInt64, _ total: UInt64) -> Void)?) throws {
        let store: EventStore
        do {
            store = try open(at: path, options: StoreOptions(access: .readOnly))
        } catch let error as EventLogError where error.code == .damaged {
            report.add(error.message, in: .log)
            if Directory.exists(Archive.path(path)), let file = try? DataFile(path: Archive.path(path)) {
                // The first may be what the store's opening failed of.
                for problem in file.check().problems.prefix(100) where !error.message.contains("\(problem)") { report.add("archive: \(problem)", in: .log) }
            }
            return
        }
        defer { try? store.close() }
        try store.verifyLog(&report, progress)
    }

    /// What of it a store that is open for reading can tell.
    func verifyLog(_ report: inout VerifyReport, _ progress: ((_ done: UInt64, _ total: UInt64) -> Void)? = nil) throws {
        // What does not keep LMDB from reading is told here. A writer's commit beside us looks like damage for a moment.
        if try !Self.isBesideWriter(path) {
            let file = try DataFile(path: Archive.path(path))
            for problem in file.check().problems { report.add("archive: \(problem)", in: .log) }
            let unreadable = file.unreadablePages()
            for page in unreadable { report.add("archive: \(DataFileProblem(kind: .unreadable, page: page, detail: "the disk does not give it"))", in: .log) }
            // What is mapped and cannot be read ends the process.
            if !unreadable.isEmpty { return }
        }
        var verifier = Verifier(store: self)
        try verifier.run(&report, progress)
    }

    static func isBesideWriter(_ path: String) throws -> Bool {
        guard let file = try? File(path + "/lock", 0) else { return false }
        return file.isLocked
    }
}

/// Small numbers, a bit each.
private struct BitSet {
    /// Only numbers below this one are kept: a forged one must not make us allocate.
    static let countMax: UInt64 = 1 << 28
    private var words: [UInt64] = []

    func contains(_ number: UInt64) -> Bool {
        let word = number / 64
        return word < UInt64(words.count) && words[Int(word)] >> (number % 64) & 1 == 1
    }

    mutating func insert(_ number: UInt64) {
        let word = Int(number / 64)
        while words.count <= word { words.append(0) }
        words[word] |= 1 << (number % 64)
    }
}

/// One pass over all runs in commit order, with the tree and next seq of each log that goes on at hand.
private struct Verifier {
    /// A log of which we have seen some events, and more are to come.
    private final class Progress {
        var next: Seq = 1
        var tree = CompactRange()
        /// Dropped and made anew where many logs take turns.
        var cursor: SeedTree.Cursor?
        /// What its row said when we first met the log.
        var rowSeq: Seq = 0
        var number: UInt64?
        var isBroken = false
    }

    /// What the archive's state counts too.
    private struct Counts {
        var messages: UInt64 = 0
        var conversations: UInt64 = 0
    }

    let store: EventStore
    private var logs: [LogID: Progress] = [:]
    /// Logs that were seen through to what their rows say, by the store's numbers of them: a bit is all that is kept of such a log.
    private var done = BitSet()
    private var cursors = 0
    private static let cursorsMax = 4096

    init(store: EventStore) { self.store = store }

    mutating func run(_ report: inout VerifyReport, _ progress: ((UInt64, UInt64) -> Void)?) throws {
        let snapshot = store.tail.snapshot
        let state = try store.archive.environment.read { try store.archive.state($0) }
        store.followKeys(state)
        try checkRuns(state, snapshot, &report, progress)
        try compareRows(state, &report)
        try store.verifyFolds(&report)
        // The journal's events were folded, and their seqs checked, when the store was opened.
        if snapshot.visible > state.position { report.events += snapshot.visible - state.position }
        checkCheckpoint(&report)
        progress?(report.events, report.events)
    }

    /// What lies under a key of the table of runs: the run, or why it cannot be read.
    private typealias StoredRun = (start: Position, run: Result<DecodedRun, any Error>)

    /// The run behind a key, which becomes its key. One a snapshot: nothing is held while we compute.
    private func storedRun(behind key: inout [UInt8], _ decompressor: ZstdDecompressor) throws -> StoredRun? {
        let archive = store.archive, last = key
        let found = try archive.environment.read { transaction -> (key: [UInt8], run: StoredRun)? in
            var found: (key: [UInt8], run: StoredRun)?
            try transaction.forEach(archive.runs, from: last) { name, value in
                let name = Array(name)
                if name == last { return true }
                let start = name.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                let run = Result { try DecodedRun(value, at: start, decompressor: decompressor) }
                if case .success = run { MappedPages.release(value) }
                found = (name, (start, run))
                return false
            }
            return found
        }
        if let found { key = found.key }
        return found?.run
    }

    private mutating func checkRuns(
        _ state: Archive.State, _ snapshot: Tail.Snapshot, _ report: inout VerifyReport, _ progress: ((UInt64, UInt64) -> Void)?
    ) throws {
        let decompressor = ZstdDecompressor()
        var position: Position = 1
        var key: [UInt8] = []
        var counts = Counts()
        while let (start, found) = try storedRun(behind: &key, decompressor), start <= state.position {
            let run = try? found.get()
            if start > snapshot.archived, run == nil { break }
            guard start > 0 else {
                report.add("I2: a run at position 0")
                continue
            }
            report.segments += 1
            if start != position { report.add("I2: positions \(position) to \(start - 1) are missing") }
            guard let run else {
                if case .failure(let error) = found { report.add("\(error); it held \(try lost(in: start))") }
                position = try nextRun(after: start) ?? state.position + 1
                continue
            }
            position = start + Position(run.events.count)
            report.events += UInt64(run.events.count)
            for slice in run.slices { check(slice, run, &report, &counts) }
            progress?(report.events, snapshot.visible)
        }
        if position != state.position + 1 {
            report.add("I2: the archive's runs end at position \(position - 1), its state says \(state.position)")
        }
        // Damage that was told of has taken of these too.
        guard report.problems.isEmpty else { return }
        for (what, told, found) in [
            ("messages", state.messages, counts.messages), ("conversations", state.conversations, counts.conversations), ("runs", state.runs, report.segments),
        ] where told != found { report.add("the archive's state counts \(told) \(what), what it holds \(found)") }
    }

    /// The rows, against what the events gave.
    private func compareRows(_ state: Archive.State, _ report: inout VerifyReport) throws {
        var conversations: UInt64 = 0
        do {
            var tailOnly = Set(logs.keys)
            try store.forEachRow(withTrees: true) { key, error in
                // Its key still says whose it is, and of a conversation's which.
                let log = logs.keys.first { Archive.key(log: $0) == key }
                if key.first == 0 { conversations += 1 }
                if let log { tailOnly.remove(log) }
                // Else its events have told of it.
                if log.map({ !logs[$0]!.isBroken }) ?? true { report.add(error.message) }
            } body: { row, _ in
                if case .conversation = row.id { conversations += 1 }
                tailOnly.remove(row.id)
                try compare(row, state, &report)
                return true
            }
            for log in tailOnly { report.add("log \(log): events but no row") }
        } catch let error as EventLogError where error.code == .damaged {
            report.add(error.message)
        }
        report.conversations = conversations
    }

    private func compare(_ row: LogRow, _ state: Archive.State, _ report: inout VerifyReport) throws {
        let known = logs[row.id]
        if known?.isBroken ?? false || known == nil && done.contains(row.number) { return }
        guard let archived = try store.archive.environment.read({ try store.archive.row(row.id, $0) }) else { return }
        // A writer beside us goes on: of what its row says by now, that counts which lies in the runs that we were to read.
        let told = archived.slices.last { $0.run <= state.position }.map { $0.firstSeq + Seq($0.count) - 1 } ?? 0
        let held = (known?.next ?? 1) - 1
        if told != held {
            report.add("I2: log \(row.id): its row says \(told) events, the runs hold \(held)")
        } else if told == archived.seq, archived.tree != known?.tree ?? CompactRange() {
            report.contradicted.insert(row.id)
            report.add("I6: log \(row.id): the events up to seq \(told) do not give its head")
        }
    }

    private func checkCheckpoint(_ report: inout VerifyReport) {
        do {
            guard let text = try store.checkpoint() else { return }
            _ = try Checkpoint.open(text, key: VerifierKey(store.verifierKey()))
        } catch {
            report.add("the checkpoint: \(error)")
        }
    }

    private mutating func check(_ slice: DecodedRun.Slice, _ run: DecodedRun, _ report: inout VerifyReport, _ counts: inout Counts) {
        let known = progress(of: slice.log, &report)
        if slice.firstSeq == 1, case .conversation = slice.log { counts.conversations += 1 }
        if slice.firstSeq != known.next {
            report.add("I2: log \(slice.log): seq \(slice.firstSeq) follows \(known.next - 1)")
            known.isBroken = true
        }
        known.next = slice.endSeq
        var envelope = ByteBuffer()
        var body = ByteBuffer()
        for place in slice.range {
            let seq = run.events[place].seq
            if run.events[place].kind == Event.Kind.messageSent.rawValue { counts.messages += 1 }
            do {
                envelope.removeAll()
                run.envelope(at: place).encode(into: &envelope)
                var commitment = run.commitments[place]
                if commitment == nil {
                    body.removeAll()
                    try run.body(at: place).encode(into: &body)
                    commitment = known.cursor?.leaf(at: seq - 1).map { Merkle.bodyCommitment(salt: $0, body: body.bytes) }
                }
                guard let commitment else {
                    if !known.isBroken { report.add("log \(slice.log) seq \(seq): its salt was forgotten, but its body is there") }
                    known.isBroken = true
                    continue
                }
                known.tree.append(Merkle.eventLeaf(envelope: envelope.bytes, commitment: commitment))
            } catch {
                report.add("log \(slice.log) seq \(seq): \(error)")
                known.isBroken = true
            }
        }
        finish(slice.log, known, &report)
    }

    /// What is known of a log, with the means to hash its events.
    private mutating func progress(of log: LogID, _ report: inout VerifyReport) -> Progress {
        let known = logs[log] ?? Progress()
        if known.cursor != nil || known.isBroken { return known }
        if cursors >= Self.cursorsMax {
            for other in logs.values { other.cursor = nil }
            cursors = 0
        }
        let row = row(of: log)
        known.cursor = row.flatMap { try? store.seeds(of: $0) }?.cursor()
        cursors += 1
        if let row, logs[log] == nil {
            known.rowSeq = row.seq
            known.number = row.number
            // More events than the log's row told of when we were through with it.
            if done.contains(row.number) { (known.next, known.tree) = (row.seq + 1, row.tree) }
        }
        if known.cursor == nil {
            report.add("log \(log): its row or its secret cannot be read")
            known.isBroken = true
        }
        logs[log] = known
        return known
    }

    /// Compares a log with its row as soon as all is seen that the row tells of, and then forgets it: most logs of a large store have ended.
    private mutating func finish(_ log: LogID, _ known: Progress, _ report: inout VerifyReport) {
        guard !known.isBroken, known.next == known.rowSeq + 1, let number = known.number, let row = row(of: log), row.seq == known.rowSeq else { return }
        guard number < BitSet.countMax, !done.contains(number) else { return }
        if row.tree != known.tree {
            report.contradicted.insert(log)
            report.add("I6: log \(log): the events up to seq \(row.seq) do not give its head")
            known.isBroken = true
            return
        }
        done.insert(number)
        if known.cursor != nil { cursors -= 1 }
        logs[log] = nil
    }

    private func row(of log: LogID) -> LogRow? { try? store.archive.environment.read { try store.archive.row(log, $0) } }

    private func nextRun(after start: Position) throws -> Position? {
        var result: Position?
        try store.archive.environment.read { transaction in
            try transaction.forEach(store.archive.runs, from: Archive.key(position: start + 1)) { name, _ in
                result = Array(name).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                return false
            }
        }
        return result
    }

    /// Which events a run held that cannot be read, as the logs' rows tell. Their logs are not reported a second time.
    private mutating func lost(in start: Position) throws -> String {
        var words: [String] = []
        try store.forEachRow(withTrees: false) { _, _ in
            // It is told when the rows are read.
        } body: { row, _ in
            for slice in row.slices where slice.run == start {
                let progress = logs[row.id] ?? Progress()
                progress.isBroken = true
                progress.next = slice.firstSeq + Seq(slice.count)
                logs[row.id] = progress
                words.append("log \(row.id) seq \(slice.firstSeq) to \(slice.firstSeq + Seq(slice.count) - 1)")
            }
            return true
        }
        return words.isEmpty ? "events that no row names" : words.joined(separator: ", ")
    }
}
