import ConversationStore
import Replication
import ReplicationWebSocket

/// What a sync shows: a bar while it runs, a line whenever all is held.
final class SyncScreen: Sendable {
    private let json: Bool
    private let follows: Bool
    private let started = ContinuousClock.now
    private let bar: Monitor<ProgressBar>
    /// What was damaged and has been mended, and what of it could not be saved.
    private let damage = Monitor((parts: [String](), losses: [String]()))
    /// What tells that the hub was set back.
    private let evidence = Monitor<String?>(nil)

    /// Of what the line told that was shown last, what is no mere time or number of bytes.
    private struct Shown: Equatable {
        var report: SyncRun.Report
        var events: Position
        var outbox: [OutboxEntry.State]
        var holes: Int
    }
    private let shown = Monitor<Shown?>(nil)

    init(json: Bool, follows: Bool) {
        self.json = json
        self.follows = follows
        bar = Monitor(ProgressBar("Syncing"))
    }

    func noteDamage(_ part: String, _ losses: [String]) {
        damage.withLock { damage in
            if !damage.parts.contains(part) { damage.parts.append(part) }
            damage.losses += losses
        }
    }

    func show(_ update: SyncRun.Update, _ replica: Replica?) {
        switch update {
        case .connected: break
        case .setBack(let text):
            evidence.withLock { $0 = text }
            clear()
            Terminal.complain("\(text). It was restored from an older backup, or says so; what it lost is kept and compared")
        case .progress(let report):
            bar.withLock { $0.update(done: 0, total: 0, count: report.eventsReceived + report.accepted, "events") }
        case .settled(let report):
            guard follows, let replica, tellsNews(report, replica) else { return }
            clear()
            // Whoever reads this may have gone: the copy goes on.
            try? print(report, replica)
            try? StandardOutput.shared.flush()
        case .waiting(let milliseconds, let reason):
            clear()
            Terminal.complain("not connected (\(reason)); trying again in \(Quantity.duration(Double(milliseconds) / 1000))")
        case .unreadable(let logs):
            guard follows else { break }
            clear()
            Terminal.complain(Self.told(unreadable: Set(logs)))
        case .quiet(let seconds):
            clear()
            let unanswered = replica?.outbox.count { $0.state == .sent && !$0.isAccepted } ?? 0
            let lack = unanswered > 0 ? "answered none of the \(Quantity.count(unanswered, "event")) sent to it" : "not said that it has sent all"
            Terminal.complain("connected, but for \(seconds) s the hub has brought nothing, and it has \(lack)")
        case .repaired(let runs, let isWhole):
            guard runs > 0 || isWhole else { return }
            noteDamage("events", [])
            clear()
            // Without runs it was what leads to records.
            let what = runs > 0 ? "\(Quantity.count(runs, "run")) set right, as they were" : "its archive's pages are set right, as they were"
            Terminal.complain("the replica was damaged: \(what)\(isWhole ? "" : ", but that is not all")")
        case .typing: break
        }
    }

    /// Whether a line would say anything that the last one of this run did not. The hub says that it has sent all whenever it was asked for something.
    private func tellsNews(_ report: SyncRun.Report, _ replica: Replica) -> Bool {
        var report = report
        (report.bytesReceived, report.bytesSent) = (0, 0)
        let now = Shown(
            report: report, events: replica.store.log.lastPosition, outbox: replica.outbox.map(\.state), holes: replica.holes.count)
        return shown.withLock { shown in
            defer { shown = now }
            return shown != now
        }
    }

    static func told(unreadable logs: Set<LogID>) -> String {
        let names = logs.sorted().prefix(3).map { "\($0)" }.joined(separator: ", ")
        let logsOfIt = logs.count == 1 ? "one log" : "\(Quantity.count(logs.count)) logs"
        return "the hub cannot read \(logsOfIt) of its store (\(names)\(logs.count > 3 ? ", …" : "")), and has sent all else: its own log says what is damaged"
    }

    func clear() { bar.withLock { $0.clear() } }

    func print(_ report: SyncRun.Report, _ replica: Replica) throws {
        let outbox = replica.outbox
        let failed = outbox.filter(\.isFailed).count
        let lost = try replica.lostEvents().count
        let holes = replica.holes.count
        let seconds = (ContinuousClock.now - started).seconds
        if json {
            var line = JSONLine()
            line.add("user", replica.user.string)
            line.add("received", report.eventsReceived)
            line.add("accepted", report.accepted)
            line.add("refused", report.refused)
            line.add("pending", outbox.count { !$0.isFailed && !$0.isAccepted })
            line.add("failed", failed)
            line.add("holes", holes)
            line.add("lost", lost)
            line.add("bytes_in", report.bytesReceived)
            line.add("bytes_out", report.bytesSent)
            line.add("events", replica.store.log.lastPosition)
            line.add("connections", report.connections)
            line.add("seconds", seconds, decimals: 3)
            let damage = damage.withLock { $0 }
            if !damage.parts.isEmpty {
                line.add("damaged", damage.parts)
                line.add("unsaved", damage.losses)
            }
            if let evidence = evidence.withLock({ $0 }) { line.add("set_back", evidence) }
            if !report.unreadable.isEmpty { line.add("unreadable", report.unreadable.sorted().map { "\($0)" }) }
            return try line.print()
        }
        let events = report.eventsReceived == 1 ? "event" : "events"
        var text = "received \(Quantity.count(report.eventsReceived)) \(events), \(Quantity.count(report.accepted)) of ours accepted"
        if report.refused > 0 { text += ", \(Quantity.count(report.refused)) refused" }
        text += " (\(Quantity.bytes(report.bytesReceived)) in, \(Quantity.bytes(report.bytesSent)) out, \(Quantity.duration(seconds)))"
        if failed > 0 { text += "\n\(Quantity.count(failed)) in the outbox failed: `convstore outbox` lists them" }
        if holes > 0 { text += "\n\(Quantity.count(holes)) conversations are held in part" }
        if lost > 0 { text += "\n\(Quantity.count(lost)) events that the hub has lost are kept aside: `convstore outbox --lost` lists them" }
        try StandardOutput.shared.writeLine(text)
    }
}
