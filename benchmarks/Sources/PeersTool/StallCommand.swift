import ArgumentParser
import Peers

struct StallCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stall", abstract: "Measures whether a flush holds up appends: the time of commits beside one, and of the others.")

    @Option(help: "Events as JSONL, made by dataset.py.") var input: String
    @Option(help: "An empty place on the disk to be measured; it is removed at the end.") var directory = "peers.tmp"
    @Option(parsing: .upToNextOption, help: "Events a commit.") var batches = [1, 16, 256]
    @Option(help: "Seconds a trial.") var seconds = 30.0
    @Option(help: "Events in the journal at which it is flushed: 40,000 are some 8 MiB, as a store does by itself.") var flushedAt = 40_000
    @Option(help: "Rounds; all are shown.") var rounds = 2

    func run() throws {
        note("reading \(input)")
        let items = try Loader.load(input)
        var trials: [StallTrial] = []
        for round in 0..<rounds {
            for batch in batches {
                let plan = StallTrial.Plan(batch: batch, seconds: seconds, flushedAt: flushedAt)
                trials.append(try withScratch(directory) { try StallTrial.run(plan, items, directory: directory) })
                note("\(batch) events a commit, round \(round + 1): done")
            }
        }
        print("\(machine()); durability full; events of \(input); flushed at \(flushedAt) events.\n")
        print(StallTrial.markdown(trials))
    }
}
