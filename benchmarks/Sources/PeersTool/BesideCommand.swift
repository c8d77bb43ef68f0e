import ArgumentParser
import Peers

struct BesideCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "beside", abstract: "Measures whether reads wait for writes: pages and lobbies, alone and while another thread commits.")

    @Option(help: "Events as JSONL, made by dataset.py.") var input: String
    @Option(help: "An empty place on the disk to be measured; it is removed at the end.") var directory = "peers.tmp"
    @Option(parsing: .upToNextOption, help: "Events a commit; 0: nobody writes.") var batches = [0, 1, 256, 4096]
    @Option(help: "Seconds each.") var seconds = 5.0
    @Option(help: "Events that the store holds before.") var preload = 200_000

    func run() throws {
        note("reading \(input)")
        let items = try Loader.load(input)
        let trials = try withScratch(directory) {
            try BesideTrial.run(batches: batches, seconds: seconds, preload: preload, items, directory: directory)
        }
        print("\(machine()); durability full; events of \(input).\n")
        print(BesideTrial.markdown(trials))
    }
}
