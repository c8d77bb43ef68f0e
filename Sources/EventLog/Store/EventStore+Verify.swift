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

    mutating func add(_ problem: String, in part: Part) {
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
            for problem in try DataFile(path: Archive.path(path)).check().problems { report.add("archive: \(problem)", in: .log) }
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
        let archive = store.archive
        let snapshot = store.tail.snapshot
        let state = try archive.environment.read { try archive.state($0) }
        store.followKeys(state)
        let decompressor = ZstdDecompressor()
        var position: Position = 1
        var key: [UInt8] = []
        var counts = Counts()
        func note(_ problem: String, _ report: inout VerifyReport) { report.add(problem, in: .log) }

        while true {
            // One run a snapshot: nothing is held while we compute.
            let found = try archive.environment.read { transaction -> (Position, DecodedRun?, String?)? in
                var result: (Position, DecodedRun?, String?)?
                try transaction.forEach(archive.runs, from: key) { name, value in
                    let name = Array(name)
                    if name == key { return true }
                    key = name
                    let start = name.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                    do {
                        result = (start, try DecodedRun(value, at: start, decompressor: decompressor), nil)
                        MappedPages.release(value)
                    } catch {
                        result = (start, nil, "\(error)")
                    }
                    return false
                }
                return result
            }
            guard let (start, run, failure) = found, start <= snapshot.archived || run != nil else { break }
            if start > state.position { break }
            guard start > 0 else {
                note("I2: a run at position 0", &report)
                continue
            }
            report.segments += 1
            if start != position { note("I2: positions \(position) to \(start - 1) are missing", &report) }
            guard let run else {
                note("\(failure!); it held \(try lost(in: start))", &report)
                position = try nextRun(after: start) ?? state.position + 1
                continue
            }
            position = start + Position(run.events.count)
            report.events += UInt64(run.events.count)
            for slice in run.slices { check(slice, run, &report, &counts, note) }
            progress?(report.events, snapshot.visible)
        }
        if position != state.position + 1 {
            note("I2: the archive's runs end at position \(position - 1), its state says \(state.position)", &report)
        }
        if report.problems.isEmpty {
            for (what, told, found) in [
                ("messages", state.messages, counts.messages), ("conversations", state.conversations, counts.conversations),
                ("runs", state.runs, report.segments),
            ] where told != found { note("the archive's state counts \(told) \(what), what it holds \(found)", &report) }
        }

        // The rows, against what the events gave.
        var conversations: UInt64 = 0
        do {
            var tailOnly = Set(logs.keys)
            try store.forEachRow(withTrees: true) { key, error in
                // Its key still says whose it is, and of a conversation's which.
                let log = logs.keys.first { Archive.key(log: $0) == key }
                if key.first == 0 { conversations += 1 }
                if let log { tailOnly.remove(log) }
                // Else its events have told of it.
                if log.map({ !logs[$0]!.isBroken }) ?? true { note(error.message, &report) }
            } body: { row, _ in
                if case .conversation = row.id { conversations += 1 }
                tailOnly.remove(row.id)
                let known = logs[row.id]
                if known?.isBroken ?? false { return true }
                if known == nil, done.contains(row.number) { return true }
                let archived = try archive.environment.read { try archive.row(row.id, $0) }
                guard let archived else { return true }
                // A writer beside us goes on: of what its row says by now, that counts which lies in the runs that we were to read.
                let told = archived.slices.last { $0.run <= state.position }.map { $0.firstSeq + Seq($0.count) - 1 } ?? 0
                if told != (known?.next ?? 1) - 1 {
                    note("I2: log \(row.id): its row says \(told) events, the runs hold \((known?.next ?? 1) - 1)", &report)
                } else if told == archived.seq, archived.tree != known?.tree ?? CompactRange() {
                    report.contradicted.insert(row.id)
                    note("I6: log \(row.id): the events up to seq \(told) do not give its head", &report)
                }
                return true
            }
            for log in tailOnly { note("log \(log): events but no row", &report) }
        } catch let error as EventLogError where error.code == .damaged {
            note(error.message, &report)
        }
        report.conversations = conversations
        try store.verifyFolds(&report)
        // The journal's events were folded, and their seqs checked, when the store was opened.
        if snapshot.visible > state.position { report.events += snapshot.visible - state.position }
        do {
            if let text = try store.checkpoint() {
                let key = try VerifierKey(store.verifierKey())
                _ = try Checkpoint.open(text, key: key)
            }
        } catch {
            note("the checkpoint: \(error)", &report)
        }
        progress?(report.events, report.events)
    }

    private mutating func check(
        _ slice: DecodedRun.Slice, _ run: DecodedRun, _ report: inout VerifyReport, _ counts: inout Counts, _ note: (String, inout VerifyReport) -> Void
    ) {
        let known = progress(of: slice.log, &report, note)
        if slice.firstSeq == 1, case .conversation = slice.log { counts.conversations += 1 }
        if slice.firstSeq != known.next {
            note("I2: log \(slice.log): seq \(slice.firstSeq) follows \(known.next - 1)", &report)
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
                    if !known.isBroken { note("log \(slice.log) seq \(seq): its salt was forgotten, but its body is there", &report) }
                    known.isBroken = true
                    continue
                }
                known.tree.append(Merkle.eventLeaf(envelope: envelope.bytes, commitment: commitment))
            } catch {
                note("log \(slice.log) seq \(seq): \(error)", &report)
                known.isBroken = true
            }
        }
        finish(slice.log, known, &report, note)
    }

    /// What is known of a log, with the means to hash its events.
    private mutating func progress(of log: LogID, _ report: inout VerifyReport, _ note: (String, inout VerifyReport) -> Void) -> Progress {
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
            note("log \(log): its row or its secret cannot be read", &report)
            known.isBroken = true
        }
        logs[log] = known
        return known
    }

    /// Compares a log with its row as soon as all is seen that the row tells of, and then forgets it: most logs of a large store have ended.
    private mutating func finish(_ log: LogID, _ known: Progress, _ report: inout VerifyReport, _ note: (String, inout VerifyReport) -> Void) {
        guard !known.isBroken, known.next == known.rowSeq + 1, let number = known.number, let row = row(of: log), row.seq == known.rowSeq else { return }
        guard number < BitSet.countMax, !done.contains(number) else { return }
        if row.tree != known.tree {
            report.contradicted.insert(log)
            note("I6: log \(log): the events up to seq \(row.seq) do not give its head", &report)
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
