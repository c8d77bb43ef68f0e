import ArgumentParser
import EventLog

struct AuditHead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "head", abstract: "Prints each conversation's head: how many events it has, and the root of their tree.")

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Only this conversation's; the beginning of its id will do.", valueName: "id"))
    var conversation: String?
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func run() throws {
        try store.read { store in
            if let log = try conversation.resolvedLog(in: store) {
                if let head = try store.head(of: log) { try print(head) }
                return
            }
            try store.forEachHead { head in
                if case .conversation = head.log { try print(head) }
                return true
            }
        }
    }

    private func print(_ head: Head) throws {
        guard json else { return try StandardOutput.shared.writeLine("\(head.log)  \(head.size)  \(head.root.base64)") }
        var line = JSONLine()
        line.add("conversation_id", head.log.description)
        line.add("size", head.size)
        line.add("root", head.root.base64)
        try line.print()
    }
}
