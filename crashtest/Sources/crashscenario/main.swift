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

switch (CommandLine.arguments.dropFirst().first, CommandLine.arguments.count) {
case ("run", 3...):
    do {
        var scenario = try Scenario(directory: CommandLine.arguments[2], seed: CommandLine.arguments.dropFirst(3).first.flatMap(UInt64.init) ?? 1)
        try scenario.run()
    } catch {
        complain("crashscenario: \(error)")
        exit(error is EventLogError ? 3 : 4)
    }
case ("serve", 2):
    while let line = readLine() {
        let fields = line.split(separator: "\t").map(String.init)
        guard fields.count == 3, let count = Int(fields[2]) else {
            acknowledge("bad: DIR<tab>ACKS<tab>N expected")
            continue
        }
        acknowledge(Verdict.of(fields[0], acks: fields[1], count: count))
    }
case ("verify", 5):
    let verdict = Verdict.of(CommandLine.arguments[2], acks: CommandLine.arguments[3], count: Int(CommandLine.arguments[4]) ?? 0)
    acknowledge(verdict)
    exit(verdict == "ok" ? 0 : 1)
default:
    complain("usage: crashscenario run DIR [SEED] | serve | verify DIR ACKS N")
    exit(64)
}
