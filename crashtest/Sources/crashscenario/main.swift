import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

func complain(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    bytes.withUnsafeBytes { _ = write(2, $0.baseAddress!, $0.count) }
}

/// Answers each line that asks for a verdict.
func serve(_ verdict: (_ directory: String, _ acks: String, _ count: Int) -> String) {
    while let line = readLine() {
        let fields = line.split(separator: "\t").map(String.init)
        guard fields.count == 3, let count = Int(fields[2]) else {
            acknowledge("bad: DIR<tab>ACKS<tab>N expected")
            continue
        }
        acknowledge(verdict(fields[0], fields[1], count))
    }
}

/// Lives a life that is recorded: 3 if the store failed, 4 for all else.
func live(_ body: (_ directory: String, _ seed: UInt64) throws -> Void) {
    do {
        try body(CommandLine.arguments[2], CommandLine.arguments.dropFirst(3).first.flatMap(UInt64.init) ?? 1)
    } catch {
        complain("crashscenario: \(error)")
        exit(error is EventLogError ? 3 : 4)
    }
}

switch (CommandLine.arguments.dropFirst().first, CommandLine.arguments.count) {
case ("run", 3...):
    live { directory, seed in
        var scenario = try Scenario(directory: directory, seed: seed)
        try scenario.run()
    }
case ("run-device", 3...):
    live { directory, seed in
        var device = try Device(directory: directory, seed: seed)
        try device.run()
    }
case ("serve", 2): serve { Verdict.of($0, acks: $1, count: $2) }
case ("serve-device", 3):
    var verdict = DeviceVerdict(hubDirectory: CommandLine.arguments[2])
    serve { verdict.of($0, acks: $1, count: $2) }
case ("verify", 5):
    let verdict = Verdict.of(CommandLine.arguments[2], acks: CommandLine.arguments[3], count: Int(CommandLine.arguments[4]) ?? 0)
    acknowledge(verdict)
    exit(verdict == "ok" ? 0 : 1)
default:
    complain("usage: crashscenario run DIR [SEED] | serve | verify DIR ACKS N | run-device DIR [SEED] | serve-device HUB")
    exit(64)
}
