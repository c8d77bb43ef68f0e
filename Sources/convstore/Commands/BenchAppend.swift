import ArgumentParser
import ConversationStore
import Glibc
import Interchange

struct BenchAppend: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "append", abstract: "Appends the events of a file and tells how fast that was. Parsing is not timed.")

    @Option(help: ArgumentHelp("Events as JSONL.", valueName: "file"))
    var input: String
    @Option(help: ArgumentHelp("A new store to make and to keep; else one is made beside the current directory, and removed.", valueName: "store"))
    var store: String?
    @Option(help: "Events an append.")
    var batch = 1
    @Option(help: "Threads that append at once; each takes whole conversations.")
    var writers = 1
    @Option(help: "Whether each append is synced (full), or all of them within 100 ms (relaxed).")
    var durability: DurabilityOption = .full
    @Option(help: "Whether timelines, lobbies and the rest are kept with each append.")
    var projections: OnOrOff = .on
    @Option(help: "Use only so many events.")
    var limit: Int?
    @Flag(help: "Print one JSON object.")
    var json = false

    enum OnOrOff: String, ExpressibleByArgument, CaseIterable {
        case on, off
    }

    func validate() throws {
        guard batch >= 1, writers >= 1, writers <= 4096, limit ?? 1 >= 1 else {
            throw ValidationError("--batch, --writers and --limit are 1 or more, and there are at most 4096 writers.")
        }
    }

    func run() throws {
        _ = try ImportInput([input])
        let shares = try Workload(input, writers: writers, limit: limit).shares
        let path = store ?? Self.newDirectory()
        guard access(path, F_OK) != 0 else { throw Failure(.cannotCreate, "\(path) exists; name a new directory") }
        // What is made for the measurement alone goes with it, also when that is cut short.
        if store == nil { Signals.beforeDying { Self.remove(path) } }
        let bytesBefore = ProcessUsage.bytesWritten
        let durability = durability == .full ? Durability.full : .relaxed(interval: .milliseconds(100))
        let result: Measurement
        do {
            let measured: Result<Measurement, any Error>
            switch projections {
            case .on:
                let opened = try ConversationStore.open(at: path, options: ConversationStoreOptions(durability: durability))
                measured = Measurement.run(shares, batch: batch, opened.log)
                try opened.close()
            case .off:
                let opened = try EventStore.open(at: path, options: StoreOptions(durability: durability))
                measured = Measurement.run(shares, batch: batch, opened)
                try opened.close()
            }
            result = try measured.get()
        } catch {
            if store == nil { Self.remove(path) }
            throw error
        }
        if store == nil { Self.remove(path) }
        try result.print(bytesWritten: ProcessUsage.bytesWritten - bytesBefore, asJSON: json)
    }

    private static func newDirectory() -> String { (access("..", W_OK) == 0 ? "../" : "") + "convstore-bench-\(getpid())" }

    /// A store's directory holds files only.
    private static func remove(_ path: String) {
        guard let directory = opendir(path) else { return }
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name != ".", name != ".." { unlink(path + "/" + name) }
        }
        closedir(directory)
        rmdir(path)
    }
}
