public import ArgumentParser
import FoundationEssentials
public import Peers

extension StateDump.Way: ExpressibleByArgument {}

/// What a peer shows of some events: for check_state.py.
struct DumpCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dump", abstract: "Appends valid events to a peer that keeps state, and prints every timeline and lobby as JSON lines.")

    @Option(help: "Which engine.") var engine: StateEngineKind
    @Option(help: "Events as JSONL, all of them acceptable.") var input: String
    @Option(help: "An empty place; it is removed at the end.") var directory = "peers.tmp"
    @Option(help: "Events a commit.") var batch = 256
    @Option(help: "How the state comes to be: append, build (anew from the event rows), or replay (the same the simple way; sqlite only).")
    var way = StateDump.Way.append

    func run() throws {
        let items = try Loader.load(input)
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }  // Scratch.
        try StateDump.lines(of: engine, items, batch: batch, way: way, directory: directory) { print($0) }
    }
}
