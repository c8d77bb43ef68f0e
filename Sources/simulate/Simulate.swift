import ArgumentParser
import EventLog
import Foundation
import StoreTesting
import Synchronization

/// Runs simulated worlds, a seed each, and says which of them showed something that must not be.
@main struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "A hub and devices in a world where everything goes wrong, from a seed; exit 1 if a seed fails.")

    @Option(help: "How many seeds.") var seeds = 1000
    @Option(help: "The first of them.") var first: UInt64 = 1
    @Option(help: "What happens in each world before it is healed.") var operations = 200
    @Option(help: "Processes at once.") var jobs = 2
    @Option(help: "Plants a bug: a run that then finds nothing fails. `all`: one after the other.") var planted: String?
    @Flag(help: "Leaves the stores of worlds that failed in /dev/shm.") var keep = false
    @Flag(help: "Tells what happens.") var verbose = false

    func run() throws {
        // Dictionaries are walked in the same order each time only if hashing is not seeded anew by each process.
        guard ProcessInfo.processInfo.environment["SWIFT_DETERMINISTIC_HASHING"] != nil else { return try Parent(self).run() }
        try runHere()
    }

    private static let isTold = Atomic(false)

    private func runHere() throws {
        let bug = try planted.map { name in
            guard let bug = PlantedBug(rawValue: name) else { throw ValidationError("no bug is named \(name)") }
            return bug
        }
        // Whoever started us tells us to stop; a terminal tells all of us at once. The world at hand is brought to its end.
        signal(SIGINT, SIG_IGN)
        signal(SIGTERM) { _ in Simulate.isTold.store(true, ordering: .relaxed) }
        for seed in first..<first + UInt64(seeds) where !Self.isTold.load(ordering: .relaxed) {
            // Whoever reads knows which seed it was if this process ends here.
            print("BEGIN \(seed)")
            fflush(nil)
            var options = SimulationOptions(seed: seed)
            options.operations = operations
            if verbose { options.trace = { print($0) } }
            options.planted = bug
            options.keepsFiles = keep
            if let failure = Simulation(options).run() { print("FAILED \(seed) \(failure)") }
            print("DONE \(seed)")
        }
        print("END")
        fflush(nil)
    }
}
