import ArgumentParser
import EventLog

struct AuditProve: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prove", abstract: "Writes a proof as a file: that an event is in a conversation (--seq), or that one only grew (--from, --to).")

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("The conversation; the beginning of its id will do.", valueName: "id"))
    var conversation: String
    @Option(help: ArgumentHelp("The event to prove.", valueName: "seq"))
    var seq: UInt64?
    @Option(help: ArgumentHelp("How many events the conversation had.", valueName: "size"))
    var from: UInt64?
    @Option(help: ArgumentHelp("How many it had later; as many as now if it is left out.", valueName: "size"))
    var to: UInt64?
    @Option(help: ArgumentHelp("Write the proof there instead of printing it.", valueName: "file"))
    var output: String?

    func validate() throws {
        guard (seq == nil) != (from == nil), to == nil || from != nil else { throw ValidationError("Give either --seq, or --from and --to.") }
    }

    func run() throws {
        let proof = try store.read { store -> ProofFile in
            let log = try LogName(text: conversation).resolve(in: store)
            if let seq { return try store.proveInclusion(log: log, seq: seq) }
            guard let size = try to ?? store.head(of: log)?.size else { throw Failure(.noInput, "\(log) has no events") }
            return try store.proveConsistency(log: log, from: from ?? 0, to: size)
        }
        guard let output else { return try StandardOutput.shared.writeLine(proof.json) }
        var file = try OutputFile(creating: output)
        try file.write((proof.json + "\n").utf8)
        try file.flush()
    }
}
