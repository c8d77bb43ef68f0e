import ArgumentParser
import EventLog

struct AuditProve: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prove", abstract: "Writes a proof as a file.",
        discussion: """
            That an event is in a conversation (--conversation, --seq), that a conversation only grew (--conversation, --from, --to), or that the \
            store only grew since it signed an older checkpoint (--checkpoint).
            """)

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("The conversation; the beginning of its id will do.", valueName: "id"))
    var conversation: String?
    @Option(help: ArgumentHelp("The event to prove.", valueName: "seq"))
    var seq: UInt64?
    @Option(help: ArgumentHelp("How many events the conversation had.", valueName: "size"))
    var from: UInt64?
    @Option(help: ArgumentHelp("How many it had later; as many as now if it is left out.", valueName: "size"))
    var to: UInt64?
    @Option(help: ArgumentHelp("A checkpoint that the store signed before its last one.", valueName: "file"))
    var checkpoint: String?
    @Option(help: ArgumentHelp("Write the proof there instead of printing it.", valueName: "file"))
    var output: String?

    func validate() throws {
        let ways = [seq != nil, from != nil, checkpoint != nil].filter { $0 }.count
        guard ways == 1, to == nil || from != nil, (conversation == nil) == (checkpoint != nil) else {
            throw ValidationError("Give --conversation with either --seq, or --from and --to; or --checkpoint alone.")
        }
    }

    func run() throws {
        try store.refuseOutputs(output)
        let older = try checkpoint.map { String(decoding: try ImportInput.bytes(of: $0, atMost: ProofFile.bytesMax), as: UTF8.self) }
        let proof = try store.read { store -> ProofFile in
            try ProgressBar.during("Hashing", "hashes") { progress in
                if let older { return try store.proveCheckpoint(from: older, progress: progress) }
                let log = try LogName(text: conversation ?? "").resolve(in: store)
                if let seq { return try store.proveInclusion(log: log, seq: seq, progress: progress) }
                return try store.proveConsistency(log: log, from: from ?? 0, to: to, progress: progress)
            }
        }
        guard let output else { return try StandardOutput.shared.writeLine(proof.json) }
        var file = try OutputFile(creating: output)
        try file.write((proof.json + "\n").utf8)
        try file.flush()
    }
}
