import ArgumentParser
import FoundationEssentials
import Glibc

@main struct PeersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peers", abstract: "Measures the store beside other databases on the same real events.",
        subcommands: [AppendCommand.self, StateCommand.self, StreamsCommand.self, OpenCommand.self, StallCommand.self, BesideCommand.self, DumpCommand.self],
        defaultSubcommand: AppendCommand.self)
}

extension String {
    func write(toFile path: String) throws { try Data(utf8).write(to: URL(filePath: path)) }
}

/// Progress goes to standard error, so that standard output is the report.
func note(_ line: String) {
    var text = line + "\n"
    text.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

/// Makes an empty place for the length of the closure.
func withScratch<Result>(_ directory: String, _ body: () throws -> Result) throws -> Result {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch: what is left behind does no harm.
    return try body()
}

/// What the figures were measured on.
func machine() -> String {
    var name = utsname()
    uname(&name)
    let release = withUnsafeBytes(of: &name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let model = (try? String(contentsOf: URL(filePath: "/proc/cpuinfo"), encoding: .utf8))?  // Not everywhere, and only a label.
        .split(separator: "\n").first { $0.hasPrefix("model name") }?.split(separator: ":").last.map { $0.drop { $0 == " " } }
    return "\(model ?? "unknown processor"), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) cores, Linux \(release)"
}
