import ArgumentParser
import ConversationStore
import Replication
import ReplicationWebSocket

struct BenchSync: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync", abstract: "Copies the store to a new replica over a WebSocket of this machine and tells how fast that was.",
        discussion: """
            Hub and replica are both durable: what was counted was received, checked against the heads, projected and synced. The replica is made beside the \
            store and removed again. With --user it is that user's, else it has everything. Then it is connected once more, with nothing new to say.
            """)

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Whose replica it is.", valueName: "name"))
    var user: String?
    @Flag(help: "Print one JSON object.")
    var json = false

    private struct Outcome: Sendable {
        var report: SyncRun.Report
        var seconds: Double
        /// Until the replica was closed, with all rows of its projections in the archive.
        var closedSeconds: Double
        var resumed: SyncRun.Report
        var resumeSeconds: Double
        var events: UInt64
    }

    func run() throws {
        let service = UserID("bench")!
        let user = try user.map { try UserID.typed($0, as: "--user") }
        let path = "\(store.path).bench-sync-\(ProcessUsage.id)"
        defer { StoreFiles.remove(path) }
        let (outcome, archive) = try store.write { store -> (Outcome, Int) in
            // What is in the journal only would go over the wire and not be counted here.
            try store.log.flush()
            let archive = Int(try store.log.statistics().compressedBytes)
            let outcome = try LoopbackHub(store: store, services: [service]).run { url in
                var options = SyncRun.Options(url: url) { "" }
                options.scope = user == nil ? .everything : .mine
                let (report, seconds, closedSeconds) = try sync(options, path, user ?? service)
                let (resumed, resumeSeconds, _) = try sync(options, path, user ?? service)
                let replica = try Replica.open(at: path, user: nil)
                defer { try? replica.close() }
                return Outcome(
                    report: report, seconds: seconds, closedSeconds: closedSeconds, resumed: resumed, resumeSeconds: resumeSeconds,
                    events: replica.store.log.lastPosition)
            }
            return (outcome, archive)
        }
        try print(outcome, archive)
    }

    private func sync(_ options: SyncRun.Options, _ path: String, _ user: UserID) throws -> (SyncRun.Report, settled: Double, closed: Double) {
        let screen = SyncScreen(json: json, follows: false)
        let start = ContinuousClock.now
        let settled = Monitor<ContinuousClock.Instant?>(nil)
        let run = SyncRun(
            options, open: { try Replica.open(at: path, user: user) },
            observe: { update in
                if case .settled = update { settled.withLock { $0 = .now } }
                screen.show(update, nil)
            })
        let report = try waiting { try await run.run() }
        let end = ContinuousClock.now
        screen.clear()
        return (report, ((settled.withLock { $0 } ?? end) - start).seconds, (end - start).seconds)
    }

    private func print(_ outcome: Outcome, _ archive: Int) throws {
        let rate = Double(outcome.events) / outcome.seconds
        let share = Double(outcome.report.bytesReceived) / Double(max(archive, 1))
        if json {
            var line = JSONLine()
            line.add("events", outcome.events)
            line.add("seconds", outcome.seconds, decimals: 3)
            line.add("events_per_second", rate, decimals: 0)
            line.add("closed_seconds", outcome.closedSeconds, decimals: 3)
            line.add("bytes_in", outcome.report.bytesReceived)
            line.add("bytes_out", outcome.report.bytesSent)
            line.add("archive_bytes", archive)
            line.add("bytes_of_archive", share, decimals: 3)
            line.add("resume_seconds", outcome.resumeSeconds, decimals: 4)
            line.add("resume_bytes_in", outcome.resumed.bytesReceived)
            line.add("resume_bytes_out", outcome.resumed.bytesSent)
            return try line.print()
        }
        try StandardOutput.shared.writeLine(
            """
            \(Quantity.count(outcome.events)) events in \(Quantity.duration(outcome.seconds)): \(Quantity.count(Int(rate)))/s; \(Quantity.duration(outcome.closedSeconds)) until it was closed
            \(Quantity.bytes(outcome.report.bytesReceived)) over the wire, \(Quantity.fixed(share, 2)) of the runs in the hub's archive
            connected again with nothing new: \(Quantity.fixed(outcome.resumeSeconds * 1000, 1)) ms
            """)
    }
}
