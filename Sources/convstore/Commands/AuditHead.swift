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
        try store.readParts { store, beside in
            if let log = try conversation.resolvedLog(in: store, beside) {
                if let head = try store.head(of: log) { try print(head) }
                return beside.complain(log)
            }
            var progress = ProgressBar("Reading heads", isOn: !Terminal.isOutput)
            let total = try Double(store.statistics().conversations)
            var count = 0
            try store.forEachHead { head in
                guard case .conversation = head.log else { return true }
                try print(head)
                count += 1
                if count & 255 == 0 { progress.update(done: Double(count), total: total, count: count, "heads") }
                return true
            }
            progress.clear()
            beside.complain()
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
