import ArgumentParser

struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measures this machine with your own data.", subcommands: [BenchAppend.self, BenchReplay.self, BenchRead.self, BenchSync.self])
}
