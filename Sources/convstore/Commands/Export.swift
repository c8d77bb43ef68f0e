import ArgumentParser
import EventLog
import Glibc
import Interchange
import Replication

struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes events as JSONL in the order of their commits, with seq, position, hlc and origin.")

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Only this conversation's; the beginning of its id will do.", valueName: "id"))
    var conversation: String?
    @Flag(help: "Add what makes a true copy, secrets too: for `import --exact`. Keep it as safe as the store.")
    var exact = false
    @Flag(help: "Write what is sound of a damaged store, and list on standard error what is not.")
    var salvage = false

    func validate() throws {
        if salvage, exact || conversation != nil { throw ValidationError("--salvage takes the whole store, and cannot vouch for an exact copy.") }
    }

    func run() throws {
        if salvage { return try salvageAll() }
        try store.readParts { store, beside in
            let log = try conversation.resolvedLog(in: store, beside)
            if exact { protect() }
            let encoder = EventLineEncoder(isExact: exact)
            var progress = ProgressBar("Exporting", isOn: !Terminal.isOutput)
            let last = store.lastPosition
            var written = 0
            var unknown = 0
            try store.replay(log: log) { event in
                let secret = exact && event.seq == 1 ? try store.secret(of: event.log) : nil
                try StandardOutput.shared.write { buffer in
                    if encoder.append(event, secret: secret, to: &buffer) { written += 1 } else { unknown += 1 }
                }
                if written & 1023 == 0 { progress.update(done: Double(event.position), total: Double(last), count: written, "events") }
                return true
            }
            progress.clear()
            try StandardOutput.shared.flush()
            if unknown > 0 {
                Terminal.complain("\(unknown) events are of kinds that this version does not know, and were left out; --exact writes them")
            }
            beside.complain(log)
        }
    }

    private func salvageAll() throws {
        let encoder = EventLineEncoder(isExact: true)
        var sound = 0
        var losses = 0
        var progress = ProgressBar("Salvaging", isOn: !Terminal.isOutput)
        try EventStore.salvage(at: store.path) { done, total in
            progress.update(done: Double(done), total: Double(total), count: sound, "events")
        } event: { event in
            try StandardOutput.shared.write { buffer in
                if encoder.append(event, secret: nil, to: &buffer) { sound += 1 }
            }
        } lost: { what in
            losses += 1
            progress.clear()
            Terminal.complain("lost: \(what)")
        }
        progress.clear()
        let remains = try SideRemains(of: store.path)
        if let remains { losses += try write(remains, encoder) }
        try StandardOutput.shared.flush()
        Terminal.complain("\(sound) events are sound; \(losses == 0 ? "nothing is lost" : "\(losses) lines above say what is not")")
        if losses > 0 { throw Failure(.data, "\(store.path) is damaged; what is sound of it was written") }
    }

    /// Writes what no hub may have, and tells of the rest. Answers how many things are lost.
    private func write(_ remains: SideRemains, _ encoder: EventLineEncoder) throws -> Int {
        for problem in remains.problems { Terminal.complain("lost: \(problem)") }
        try StandardOutput.shared.write { buffer in
            for event in remains.lost { encoder.append(event, to: &buffer) }
            for entry in remains.outbox { encoder.appendPending(entry.event, made: entry.origin.hlc, to: &buffer) }
        }
        func tell(_ count: Int, _ what: String) { if count > 0 { Terminal.complain("\(Quantity.count(count, "event")) \(what)") } }
        tell(remains.lost.count, "that a hub had and lost, written behind the log's")
        tell(remains.outbox.count, "of the outbox, written last, as pending")
        tell(remains.ahead, "that came ahead of the log, not written: the hub has them")
        return remains.problems.count
    }

    /// Whoever has the secrets can open what they protect: a file becomes the owner's only.
    private func protect() {
        var status = stat()
        if fstat(STDOUT_FILENO, &status) == 0, status.st_mode & S_IFMT == S_IFREG { fchmod(STDOUT_FILENO, 0o600) }
        Terminal.complain("warning: an exact export holds the conversations' secrets; keep it as safe as the store itself")
    }
}
