import ArgumentParser
import EventLog

struct Conversations: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists all conversations of a store.")
    private static let pageRows = 1000

    @OptionGroup var store: StoreOption
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func run() throws {
        try store.read { store in
            let columns: [(heading: String, alignment: Table.Alignment)] = [
                ("conversation", .left), ("events", .right), ("messages", .right), ("participants", .left),
            ]
            var table = Table(columns)
            var count = 0
            var progress = ProgressBar("Listing", isOn: !Terminal.isOutput)
            let total = try Double(store.statistics().conversations)
            try store.forEachLog { log in
                guard case .conversation(let id) = log.log else { return true }
                count += 1
                if count & 255 == 0 { progress.update(done: Double(count), total: total, count: count, "conversations") }
                if json {
                    var line = JSONLine()
                    line.add("conversation_id", id.description)
                    line.add("events", log.events)
                    line.add("messages", log.messages)
                    line.add("participants", log.participants.map(\.string))
                    try line.print()
                    return true
                }
                let people = log.participants.map(\.string).joined(separator: ", ")
                table.add(
                    id.description, Quantity.count(log.events), Quantity.count(log.messages),
                    Terminal.isOutput ? DisplayWidth.cut(Sanitizer.harmless(people), to: max(12, Terminal.columns - 60)) : people)
                if table.count == Self.pageRows { try table.print() }
                return true
            }
            progress.clear()
            if !json {
                if table.count > 0 { try table.print() }
                try StandardOutput.shared.writeLine(Style.dim(Quantity.count(count, "conversation")))
            }
        }
    }
}
