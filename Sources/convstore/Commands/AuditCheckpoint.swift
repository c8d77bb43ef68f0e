import ArgumentParser
import ConversationStore

struct AuditCheckpoint: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkpoint", abstract: "Signs what the store holds now: a note that whoever has the key can check.",
        discussion: "Beside a running `convstore serve`, which signs at its own times, it gives the note that was signed last.")

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Write the note there instead of printing it.", valueName: "file"))
    var output: String?
    @Flag(help: "Print only the key to check it with.")
    var key = false

    func run() throws {
        try store.refuseOutputs(output)
        if key { return try store.read { try StandardOutput.shared.writeLine($0.verifierKey()) } }
        let note = try makeNote()
        guard let output else { return try StandardOutput.shared.write { $0.append(contentsOf: note.utf8) } }
        var file = try OutputFile(creating: output)
        try file.write(note.utf8)
        try file.flush()
    }

    private func makeNote() throws -> String {
        do {
            return try store.write { store in try ProgressBar.during("Signing", "heads") { try store.log.makeCheckpoint(progress: $0) } }
        } catch let error as EventLogError where error.code == .busy {
            guard let signed = try store.read({ try $0.checkpoint() }) else {
                throw EventLogError(
                    .busy, "\(error); it has signed no checkpoint yet, which only the program that writes can do (`convstore serve` does at its times)")
            }
            Terminal.complain("\(store.path) is open for writing elsewhere: this is the checkpoint that was signed last")
            return signed
        }
    }
}
