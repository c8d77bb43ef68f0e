import ArgumentParser
import Foundation

@main struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "Measures a hub and its devices: the hub is a process of its own, `convstore serve` on loopback.",
        subcommands: [ResumeCommand.self, FirstScreenCommand.self, LatencyCommand.self, FleetCommand.self, CrowdCommand.self])
}

/// What every measurement needs.
struct Place: ParsableArguments {
    @Option(help: "The program `convstore`, built for release.") var convstore: String
    @Option(help: "A place that is not there yet, on the disk to be measured; it is removed at the end.") var directory = "devices.tmp"
    @Option(help: "A folder of dialogues (.jsonl.zst), whose texts are written.") var dialogues = "../Tests/Fixtures/dialogue"

    func with<R>(_ body: () async throws -> R) async throws -> R {
        guard !FileManager.default.fileExists(atPath: directory) else { throw DeviceError("\(directory) is there already: name a place that is not") }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch: what is left behind does no harm.
        return try await body()
    }
}
