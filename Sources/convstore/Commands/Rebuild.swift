import ArgumentParser
import ConversationStore

struct Rebuild: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Builds what timelines and lobbies are shown from anew, from the log.",
        discussion: """
            One that is interrupted goes on where it stopped when it is run again. With --check nothing is changed: the log is folded anew on the side \
            and compared; the exit is 65 if there is a difference.
            """)

    @OptionGroup var store: StoreOption
    @Flag(help: "Only compare.")
    var check = false
    @Flag(help: "Print a JSON object for each projection.")
    var json = false

    func run() throws {
        let start = ContinuousClock.now
        if check {
            let findings = try ProjectionCheck(store).run()
            for finding in findings {
                try print(finding.projection, finding.digest, isSame: finding.problem == nil, (ContinuousClock.now - start).seconds, nil)
            }
            if let problem = findings.lazy.compactMap(\.problem).first { throw Failure(.data, "\(store.path): \(problem)") }
            return
        }
        let options = ConversationStoreOptions(access: .existing)
        try store.with(options) { store in
            for name in store.projectionNames {
                var progress = ProgressBar("Rebuilding")
                try store.rebuild(name) { done, total in
                    progress.update(done: Double(done), total: Double(total), count: Int(done), "events")
                }
                progress.clear()
                let seconds = (ContinuousClock.now - start).seconds
                try print(name, store.digest(of: name), isSame: true, seconds, store.log.lastPosition)
            }
        }
    }

    private func print(_ name: String, _ digest: [UInt8], isSame: Bool, _ seconds: Double, _ events: Position?) throws {
        let hex = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        if json {
            var line = JSONLine()
            line.add("projection", name)
            if check { line.add("ok", isSame) }
            if let events { line.add("events", events) }
            line.add("digest", hex)
            line.add("seconds", seconds, decimals: 3)
            return try line.print()
        }
        let what = check ? (isSame ? "is the fold of the log" : "is not the fold of the log") : "built anew from \(Quantity.count(events ?? 0)) events"
        let mark = isSame ? Style.green("✓ ") : Style.red("✗ ")
        try StandardOutput.shared.writeLine(mark + "\(name): \(what), in \(Quantity.duration(seconds))")
    }
}
