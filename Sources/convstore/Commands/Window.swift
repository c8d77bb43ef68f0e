import ArgumentParser
import ConversationStore

struct Window: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows what a model may be given: the newest whole messages within a budget of tokens, and always the system message.",
        discussion: """
            Tokens are an estimate: one for four characters (bytes of UTF-8, rounded up), and four a message. A model's own count differs. Deleted messages \
            are left out, and so are streamed ones that have no text yet.
            """)

    @OptionGroup var store: StoreOption
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Option(help: ArgumentHelp("At most so many tokens.", valueName: "tokens"))
    var budget: Int
    @Option(help: ArgumentHelp("So many of them are kept for the answer.", valueName: "tokens"))
    var reserve = 0
    @Flag(help: "Print one JSON object.")
    var json = false

    private static let counter = "estimate-4-characters"

    func validate() throws {
        guard budget >= 0, reserve >= 0 else { throw ValidationError("--budget and --reserve are 0 or more.") }
    }

    func run() throws {
        let (id, window, receipts, chat) = try store.show { store in
            let id = try LogName(text: conversation).conversation(in: store)
            guard let window = try store.contextWindow(of: id, budget: budget, reserve: reserve),
                let receipts = try store.receipts(of: id)
            else { throw try LogName.notShown(conversation, id, store.log) }
            return (id, window, receipts, json ? nil : try Chat(id, window.messages, receipts, in: store))
        }
        if let chat {
            try ChatView(chat).print()
            let chosen = window.range.map { "@\($0.lowerBound) to @\($0.upperBound)" } ?? "no message fits"
            let system = window.system.map { ", system message @\($0)" } ?? ""
            let over = window.isOverBudget ? ", more than the budget: the system message alone" : ""
            let count = "\(Quantity.count(window.messages.count)) messages, about \(Quantity.count(window.tokens)) tokens (an estimate)"
            for line in TextWrap.lines("\(count): \(chosen)\(system)\(over)", columns: Terminal.width) { try StandardOutput.shared.writeLine(Style.dim(line)) }
            return
        }
        var line = JSONLine()
        line.add("messages", window.messages.map { JSONLine($0, in: id, receipts) })
        line.add("tokens", window.tokens)
        line.addOptional("first_seq", window.range?.lowerBound)
        line.addOptional("last_seq", window.range?.upperBound)
        line.addOptional("system_seq", window.system)
        line.add("seq", window.seq)
        line.add("counter", Self.counter)
        try line.print()
    }
}
