import ArgumentParser
import ConversationStore
import Replication

struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Reads everything a store holds and checks it: checksums, order, hashes, structure.",
        discussion: "Exits with 65 if something is wrong.")

    @OptionGroup var store: StoreOption
    @Flag(help: "Fold all events anew too, and compare with what the projections show (I4).")
    var projections = false
    @Flag(help: "First put right what the store itself can tell of damaged segments; nobody else may write meanwhile.")
    var repair = false
    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        let repaired = try repair ? mend() : nil
        var progress = ProgressBar("Verifying")
        var report = try EventStore.verify(at: store.path) { done, total in
            progress.update(done: Double(done), total: Double(total), count: Int(done), "events")
        }
        progress.clear()
        var damaged = report.damaged
        // Events that are not sound fold to nothing worth comparing.
        if projections, report.isSound {
            report.problems = try ProjectionCheck(store).run().compactMap(\.problem)
            damaged = [.projections]
        }
        let partial = try partial(report)
        if json {
            var line = JSONLine()
            line.add("ok", report.isSound)
            line.add("events", report.events)
            line.add("conversations", report.conversations)
            line.add("segments", report.segments)
            line.add("problems", report.problems)
            if let repaired { line.add("repaired", repaired) }
            if let partial { line.add("partial", partial) }
            try line.print()
        } else {
            if let repaired { try StandardOutput.shared.writeLine("repaired: \(Quantity.count(repaired, "segment"))") }
            for problem in report.problems { try StandardOutput.shared.writeLine(Style.red("✗ ") + Sanitizer.harmless(problem)) }
            var what =
                "\(Quantity.count(report.events, "event")), \(Quantity.count(report.conversations, "conversation")), \(Quantity.count(report.segments, "segment"))"
            if let partial, partial > 0 { what += "; held only in part: \(Quantity.count(partial, "conversation"))" }
            try StandardOutput.shared.writeLine(report.isSound ? Style.green("✓ ") + "sound: " + what : "damaged: " + what)
        }
        if !report.isSound { throw Failure(.data, advice(damaged, report.problems.count)) }
    }

    /// How many damaged segments are as they were before.
    private func mend() throws -> Int {
        // What hinders an opening is told by what follows.
        do { return try EventStore.restore(at: store.path) } catch let error as EventLogError where error.code == .damaged { return 0 }
    }

    /// How many conversations a replica holds only in part; `nil` of other stores, and if that cannot be read.
    private func partial(_ report: VerifyReport) throws -> Int? {
        guard report.damaged.isDisjoint(with: [.log, .side]) else { return nil }
        guard let held = try HeldParts(of: store.path) else { return nil }
        // An opening reads much.
        return held.isEmpty ? 0 : try store.read { try held.beside($0).count }
    }

    private func advice(_ damaged: Set<VerifyReport.Part>, _ count: Int) -> String {
        if damaged == [.projections] { return "\(store.path): its events are sound, but not what the projections show of them: convstore rebuild" }
        if !damaged.contains(.log) {
            return """
                \(store.path): its events are sound, but not its file sync: of a device's convstore sync --verify keeps what can be read, a hub's is made anew by \
                convstore serve
                """
        }
        let next = repair ? "" : "where it is its segments, convstore verify --repair puts right what the store itself can tell; else "
        return "\(store.path) is damaged (\(count) problems); \(next)keep it as it is, and save what is sound: convstore export --salvage"
    }
}
