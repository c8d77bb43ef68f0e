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
            throw ValidationError(
                "--exact takes neither --keep-going, --format, --rejects nor --acks: it keeps what stands before the first bad line, and ends there.")
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
            store,
            // Lines come conversation by conversation, or as they were written: what is kept of others for long helps nobody.
            ConversationStoreOptions(
                durability: durability == .full ? .full : .relaxed(interval: .milliseconds(100)), journalBytesMax: 16 << 20, cacheBytes: 12 << 20))
        let failure: (any Error)?
        do {
            let count: ImportCount
            (count, failure) = exact ? copy(input, into: target) : try take(input, into: target)
            if failure == nil { _ = try target.open() }
            // However it ended, it tells what was taken; but where the totals cannot be had, only why it ended.
            let totals: EventStore.Statistics?
            do { totals = try target.opened?.statistics() } catch { throw failure ?? error }
            try count.print(totals, seconds: (ContinuousClock.now - start).seconds, asJSON: json)
            // Closing such a store fails as well, and says less.
            if let failure, failure is EventLogError { throw failure }
        } catch {
            try? target.close()
            throw error
        }
        // What ended it is what is told.
        if let failure {
            try? target.close()
            throw failure
        }
        try StoreOption.closeKeeping(target.close)
    }

    /// Answers also how it ended, if not well.
    private func take(_ input: ImportInput, into store: ImportStore) throws -> (ImportCount, (any Error)?) {
        var run = ImportRun(
            store, goesOn: keepGoing, rejects: try rejects.map { try OutputFile(creating: $0) }, acks: try acks.map { try AckFile(creating: $0) })
        var progress = ProgressBar("Importing")
        let reader = ImportReader(input: input, format: format, goesOn: keepGoing, now: WallClock.milliseconds())
        reader.start()
        defer { reader.batches.cancel() }
        var failure: (any Error)?
        do {
            while failure == nil, let batch = try reader.batches.next() {
                failure = try run.take(batch)
                progress.update(done: Double(batch.bytesRead), total: Double(batch.bytesTotal), count: run.count.lines, "lines")
            }
        } catch {
            failure = error
        }
        progress.clear()
        do { try run.finish() } catch { failure = failure ?? error }
        return (run.count, failure)
    }

    private func copy(_ input: ImportInput, into store: ImportStore) -> (ImportCount, (any Error)?) {
        var run = ExactImport(store)
        var progress = ProgressBar("Copying")
        var failure: (any Error)?
        do {
            for path in input.paths {
                try run.take(path) { bytes, bytesTotal, lines in
                    progress.update(done: Double(bytes), total: Double(bytesTotal), count: lines, "events")
                }
            }
        } catch {
            failure = error
        }
        progress.clear()
        return (run.count, failure)
    }
}
