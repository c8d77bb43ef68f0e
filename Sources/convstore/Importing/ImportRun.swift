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
        // All is counted before a file is written: that may fail, and what was appended stands all the same.
        count.skippedPayloads += batch.skippedPayloads
        var refused = batch.refused[...]
        var refusals: [(line: Int, refusal: Refusal)] = []
        for index in 0...outcomes.count {
            while let next = refused.first, next.before == index, goesOn || refusals.isEmpty {
                refused.removeFirst()
                note(next.refusal, next.line, &refusals)
            }
            guard index < outcomes.count, goesOn || refusals.isEmpty else { break }
            if case .refused(let refusal) = outcomes[index] {
                note(refusal, batch.lines[index], &refusals)
            } else {
                count.take(outcomes[index])
            }
        }
        if let store = store.opened { try acks?.write(batch.lines, outcomes, store) }
        for (line, refusal) in refusals { try write(refusal, batch.file, line) }
        return goesOn ? nil : refusals.first.map { failure($0.refusal, batch.file, $0.line) }
    }

    /// Of a dialogue or a recorded stream a line's conversation may be refused, and then what is said in it: that is one refused line.
    private mutating func note(_ refusal: Refusal, _ line: Int, _ refusals: inout [(line: Int, refusal: Refusal)]) {
        if refusals.last?.line == line { return }
        count.take(refusal)
        refusals.append((line, refusal))
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

    private func failure(_ refusal: Refusal, _ file: String, _ line: Int) -> Failure {
        let detail = refusal.detail.isEmpty ? "" : " (\(refusal.detail))"
        return Failure(
            .data, "\(file): line \(line): \(refusal.code.rawValue)\(detail). What stands before it is kept; mend it, or import with --keep-going")
    }

    private mutating func write(_ refusal: Refusal, _ file: String, _ line: Int) throws {
        var json = JSONLine()
        json.add("file", file)
        json.add("line", line)
        json.add("code", refusal.code.rawValue)
        json.add("detail", refusal.detail)
        try rejects?.write(json.finished())
    }
}
