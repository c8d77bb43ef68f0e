import ArgumentParser
import ConversationStore
import Interchange

struct Import: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Takes conversations from files into a store, which is created if need be.",
        discussion: "Importing the same file again changes nothing. Without --keep-going it stops at the first refused line."
    )

    @OptionGroup var store: StoreOption
    @Option(help: "What the files hold: events (JSONL), dialogue (JSONL), or stream (recorded AI streams, one a file).")
    var format: ImportFormat = .events
    @Flag(help: "Go on behind refused lines, and exit with 0 whatever was refused.")
    var keepGoing = false
    @Option(help: ArgumentHelp("Write refused lines there: {\"file\", \"line\", \"code\", \"detail\"}.", valueName: "file"))
    var rejects: String?
    @Option(help: ArgumentHelp("Write {\"line\", \"outcome\", \"seq\", \"position\"} there as each becomes durable.", valueName: "file"))
    var acks: String?
    @Option(help: "Whether each batch is synced (full), or all of them within 100 ms (relaxed).")
    var durability: DurabilityOption = .full
    @Flag(help: "Take what `export --exact` wrote, with seqs, clocks and secrets, into a new store.")
    var exact = false
    @Flag(help: "Print the summary as one JSON object.")
    var json = false
    @Argument(help: ArgumentHelp("Files; those ending in .zst are decompressed; - is standard input.", valueName: "file"))
    var files: [String]

    func validate() throws {
        if exact, keepGoing || format != .events || rejects != nil || acks != nil {
            throw ValidationError("--exact takes neither --keep-going, --format, --rejects nor --acks: a true copy holds every line or none.")
        }
    }

    func run() throws {
        let start = ContinuousClock.now
        let input = try ImportInput(files)
        for path in [rejects, acks].compactMap({ $0 }) where input.holds(path) {
            throw Failure(.usage, "\(path) is to be read and to be written; name another file")
        }
        if let rejects, let acks, FilePlace(rejects).keepsBytes, FilePlace(rejects).isSame(as: FilePlace(acks)) {
            throw Failure(.usage, "--rejects and --acks name the same file; name two")
        }
        try store.refuseOutputs(rejects, acks)
        try store.refuseReplica("import where the hub is, then sync")
        let target = try ImportStore(
            store, ConversationStoreOptions(durability: durability == .full ? .full : .relaxed(interval: .milliseconds(100))))
        let refused: Failure?
        do {
            let count: ImportCount
            (count, refused) = exact ? try copy(input, into: target) : try take(input, into: target)
            if refused == nil { _ = try target.open() }
            try count.print(target.opened?.statistics(), seconds: (ContinuousClock.now - start).seconds, asJSON: json)
        } catch {
            try? target.close()
            throw error
        }
        try target.close()
        if let refused { throw refused }
    }

    /// Answers also how it ended, if not well.
    private func take(_ input: ImportInput, into store: ImportStore) throws -> (ImportCount, Failure?) {
        var run = ImportRun(
            store, goesOn: keepGoing, rejects: try rejects.map { try OutputFile(creating: $0) }, acks: try acks.map { try AckFile(creating: $0) })
        var progress = ProgressBar("Importing")
        let reader = ImportReader(input: input, format: format, goesOn: keepGoing, now: WallClock.milliseconds())
        reader.start()
        defer { reader.batches.cancel() }
        var failure: Failure?
        do {
            while failure == nil, let batch = try reader.batches.next() {
                failure = try run.take(batch)
                progress.update(done: Double(batch.bytesRead), total: Double(input.bytesTotal), count: run.count.lines, "lines")
            }
        } catch let error as InputError {
            failure = Failure(error)
        }
        progress.clear()
        try run.finish()
        return (run.count, failure)
    }

    private func copy(_ input: ImportInput, into store: ImportStore) throws -> (ImportCount, Failure?) {
        var run = ExactImport(store)
        var progress = ProgressBar("Copying")
        var failure: Failure?
        do {
            for path in input.paths {
                try run.take(path) { bytes, lines in
                    progress.update(done: Double(bytes), total: Double(input.bytesTotal), count: lines, "events")
                }
            }
        } catch let error as Failure {
            failure = error
        }
        progress.clear()
        return (run.count, failure)
    }
}
