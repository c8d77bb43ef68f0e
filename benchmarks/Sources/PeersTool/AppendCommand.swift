public import ArgumentParser
import FoundationEssentials
public import Peers

extension EngineKind: ExpressibleByArgument {}

enum Section: String, CaseIterable, ExpressibleByArgument {
    /// Durable appends to an empty store.
    case append
    /// Durable appends to a store that holds `--preload` events.
    case preloaded
    /// Appends of 16 that are not synced.
    case relaxed
    /// One event an append from 64 tasks, and from one (convstore only).
    case writers
    /// All events of the preloaded store into Swift values.
    case scan
}

struct AppendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "append", abstract: "Measures appends of events, and reading them, engines in turn.")

    @Option(help: "Events as JSONL, made by dataset.py.") var input: String
    @Option(help: "An empty place on the disk to be measured; it is removed at the end.") var directory = "peers.tmp"
    @Option(parsing: .upToNextOption, help: "Which engines.") var engines: [EngineKind] = EngineKind.allCases
    @Option(parsing: .upToNextOption, help: "What to measure.") var sections: [Section] = Section.allCases
    @Option(parsing: .upToNextOption, help: "Events a commit.") var batches = [1, 16, 256, 4096]
    @Option(help: "Rounds; medians are shown.") var rounds = 3
    @Option(help: "Events that a preloaded store holds; 0 leaves out what needs one.") var preload = 900_000
    @Option(help: "Whether the peers keep message ids and look a new one up: on or off.") var ids = "on"
    @Option(help: "Scales the number of events a trial.") var scale = 1.0
    @Option(help: "Also writes the figures to this file, as JSON.") var json: String?

    func run() async throws {
        var plan = Comparison.Plan(engines: engines)
        plan.batches = batches
        plan.rounds = rounds
        plan.preload = preload
        plan.keepsIDs = ids != "off"
        plan.scale = scale
        note("reading \(input)")
        let items = try Loader.load(input)
        guard preload < items.count else { throw ValidationError("--preload \(preload) leaves nothing of \(items.count) events to append") }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch: what is left behind does no harm.
        var comparison = Comparison(items: items, plan: plan, directory: directory, progress: note)
        if sections.contains(.append) { try comparison.appendToEmpty(title: "durable, empty store", batches: batches, isDurable: true) }
        if sections.contains(.relaxed) { try comparison.appendToEmpty(title: "not synced, empty store", batches: [16], isDurable: false) }
        if sections.contains(.writers) { try await comparison.appendConcurrently(title: "durable, empty store", writers: [1, 64]) }
        if preload > 0, sections.contains(.preloaded) || sections.contains(.scan) {
            try comparison.preload()
            if sections.contains(.preloaded) { try comparison.appendToPreloaded(title: "durable, store of \(preload)", batches: batches) }
            if sections.contains(.scan) { try comparison.scan() }
        }
        let report = Report(comparison, machine: machine(), input: "\(items.count) events of \(input)")
        print(report.markdown)
        if let json { try report.json.write(toFile: json) }
    }
}
