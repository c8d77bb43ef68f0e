public import ArgumentParser
import FoundationEssentials
public import Peers

extension StateEngineKind: ExpressibleByArgument {}

enum StateSection: String, CaseIterable, ExpressibleByArgument {
    /// Durable appends to an empty store.
    case append
    /// Durable appends to a store that holds `--preload` events.
    case preloaded
    /// Pages, lobbies and messages of a store of all events, and its size.
    case read
    /// All state of a store of all events, from the events.
    case build
}

struct StateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "state",
        abstract: "Measures stores that keep timelines and lobbies: reads of them, and appends and builds that keep them, engines in turn.")

    @Option(help: "Events as JSONL, made by dataset.py.") var input: String
    @Option(help: "An empty place on the disk to be measured; it is removed at the end.") var directory = "peers.tmp"
    @Option(parsing: .upToNextOption, help: "Which engines.") var engines: [StateEngineKind] = StateEngineKind.usual
    @Option(parsing: .upToNextOption, help: "What to measure.") var sections: [StateSection] = StateSection.allCases
    @Option(parsing: .upToNextOption, help: "Events a commit.") var batches = [1, 256, 4096]
    @Option(help: "Rounds; medians are shown.") var rounds = 3
    @Option(help: "Events that a preloaded store holds.") var preload = 900_000
    @Option(help: "Scales the number of events and reads a trial.") var scale = 1.0
    @Option(help: "Chooses what is read.") var seed: UInt64 = 1
    @Option(help: "Also writes the figures to this file, as JSON.") var json: String?

    func run() throws {
        var plan = StateComparison.Plan(engines: engines)
        plan.batches = batches
        plan.rounds = rounds
        plan.preload = preload
        plan.scale = scale
        plan.seed = seed
        note("reading \(input)")
        let begin = ContinuousClock.now
        let items = try Loader.load(input)
        let reading = ContinuousClock.now - begin
        guard preload < items.count else { throw ValidationError("--preload \(preload) leaves nothing of \(items.count) events to append") }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch: what is left behind does no harm.
        var comparison = StateComparison(items: items, plan: plan, directory: directory, progress: note)
        comparison.secondsToRead = reading / .seconds(1)
        if sections.contains(.append) { try comparison.appendToEmpty() }
        if sections.contains(.preloaded) || sections.contains(.read) || sections.contains(.build) {
            try comparison.preload()
            if sections.contains(.preloaded) { try comparison.appendToPreloaded() }
        }
        if sections.contains(.read) || sections.contains(.build) {
            try comparison.complete()
            if sections.contains(.read) { try comparison.read() }
            if sections.contains(.build) { try comparison.build() }
        }
        let report = StateReport(comparison, machine: machine(), input: "\(items.count) events of \(input)")
        print(report.markdown)
        if let json { try report.json.write(toFile: json) }
    }
}
