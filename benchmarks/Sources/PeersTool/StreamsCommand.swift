import ArgumentParser
import FoundationEssentials
import Peers

struct StreamsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "streams", abstract: "Measures the store's write amplification: bytes to the disk for each byte of streamed text.")

    @Option(help: "Events as JSONL, made by dataset.py: the texts of their chunks are streamed.") var input: String
    @Option(help: "An empty place on the disk to be measured; it is removed at the end.") var directory = "peers.tmp"
    @Option(parsing: .upToNextOption, help: "Concurrent streams.") var streams = [1, 10, 100]
    @Option(parsing: .upToNextOption, help: "Chunks a second of each stream; 0 is as fast as it goes.") var rates = [50.0, 0]
    @Option(help: "Seconds a trial, where it is paced; as many chunks are streamed unpaced.") var seconds = 20.0
    @Option(help: "Rounds; the one with the fewest bytes is shown.") var rounds = 3
    @Option(help: "Events of the input that are read.") var events = 100_000

    func run() async throws {
        note("reading \(input)")
        let answers = StreamTrial.answers(try Loader.load(input, limit: events))
        guard !answers.isEmpty else { throw ValidationError("\(input) has no chunks") }
        let pace = rates.first { $0 > 0 } ?? 50
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch: what is left behind does no harm.
        var best: [StreamTrial] = []
        for rate in rates {
            for count in streams {
                var trials: [StreamTrial] = []
                for round in 0..<rounds {
                    let place = "\(directory)/\(count)-\(rate)-\(round)"
                    try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
                    let plan = StreamTrial.Plan(streams: count, rate: rate, chunks: Int((rate > 0 ? rate : pace) * seconds))
                    let trial = try await StreamTrial.run(plan, answers, directory: place)
                    note("\(count) streams at \(rate): \(trial.closedWrittenBytes) bytes for \(trial.textBytes) of text in \(trial.seconds) s")
                    trials.append(trial)
                    try FileManager.default.removeItem(atPath: place)
                }
                if let least = trials.min(by: { $0.closedWrittenBytes < $1.closedWrittenBytes }) { best.append(least) }
            }
        }
        print("\(machine()); durability full; chunks of \(input).\n")
        print(StreamTrial.markdown(best))
    }
}
