import ArgumentParser
import ConversationStore

struct Erase: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Erases one event's text for ever; that it was there stays proven.",
        discussion: "Run `convstore compact` afterwards: until then the old bytes may still lie in free pages.")

    @OptionGroup var store: StoreOption
    @Argument(help: "The conversation; the beginning of its id will do.")
    var conversation: String
    @Argument(help: "The event's seq in it.")
    var seq: UInt64

    func run() throws {
        try store.write { store in
            let log = try LogName(text: conversation).resolve(in: store.log)
            guard try store.log.event(in: log, at: seq) != nil else { throw Failure(.noInput, "\(log) has no seq \(seq)") }
            do {
                try ProgressBar.during("Folding anew", "events") { try store.log.erase(log: log, seq: seq, progress: $0) }
            } catch let error as EventLogError where error.code == .invalidArgument {
                // The command is well said: what stands at that seq decides.
                throw Failure(.data, error.message)
            }
        }
        Terminal.complain("erased. Until `convstore compact --store \(store.path)` its bytes may still lie in free pages; edits of it are events of their own")
    }
}
