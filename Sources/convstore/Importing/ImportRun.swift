import EventLog

/// Commits batches as they come, counts what became of each line, and stops where it must.
struct ImportRun: ~Copyable {
    private let store: ImportStore
    /// Whether to go on behind a refused line.
    let goesOn: Bool
    private(set) var count = ImportCount()
    private var rejects: OutputFile?
    private var acks: AckFile?

    init(_ store: ImportStore, goesOn: Bool, rejects: consuming OutputFile?, acks: consuming AckFile?) {
        self.store = store
        self.goesOn = goesOn
        self.rejects = rejects
        self.acks = acks
    }

    /// Appends a batch. Answers what the first refused line was if nothing behind it may be taken.
    mutating func take(_ batch: ImportBatch) throws -> Failure? {
        let outcomes = try append(batch.submissions)
        if let store = store.opened { try acks?.write(batch.lines, outcomes, store) }
        count.skippedPayloads += batch.skippedPayloads
        var refused = batch.refused[...]
        var first: Failure?
        for index in 0...outcomes.count {
            while let next = refused.first, next.before == index, goesOn || first == nil {
                refused.removeFirst()
                try reject(next.refusal, batch.file, next.line, &first)
            }
            guard index < outcomes.count, goesOn || first == nil else { break }
            count.take(outcomes[index])
            if case .refused(let refusal) = outcomes[index] { try write(refusal, batch.file, batch.lines[index], &first) }
        }
        return goesOn ? nil : first
    }

    /// Writes what waits for its sync, and the files.
    mutating func finish() throws {
        if let store = store.opened { try acks?.finish(store) }
        try rejects?.flush()
    }

    /// Without `--keep-going` the answers end with the first refusal, and nothing behind it was appended.
    private func append(_ submissions: [Submission]) throws -> [AppendOutcome] {
        if submissions.isEmpty { return [] }
        let store = try store.open()
        if goesOn { return try store.appendBlocking(submissions) }
        let whole = try store.appendBlocking(submissions, isAtomic: true)
        guard
            let end = whole.firstIndex(where: {
                if case .refused = $0 { true } else { false }
            })
        else { return whole }
        return try store.appendBlocking(Array(submissions[..<end])) + [whole[end]]
    }

    private mutating func reject(_ refusal: Refusal, _ file: String, _ line: Int, _ first: inout Failure?) throws {
        count.take(refusal)
        try write(refusal, file, line, &first)
    }

    private mutating func write(_ refusal: Refusal, _ file: String, _ line: Int, _ first: inout Failure?) throws {
        if first == nil {
            let detail = refusal.detail.isEmpty ? "" : " (\(refusal.detail))"
            first = Failure(
                .data,
                "\(file): line \(line): \(refusal.code.rawValue)\(detail). What stands before it is kept; mend it, or import with --keep-going")
        }
        var json = JSONLine()
        json.add("file", file)
        json.add("line", line)
        json.add("code", refusal.code.rawValue)
        json.add("detail", refusal.detail)
        try rejects?.write(json.finished())
    }
}
