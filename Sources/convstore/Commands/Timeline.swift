import ArgumentParser
import ConversationStore

struct Timeline: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows a conversation's messages.",
        discussion:
            "The newest 50 in the order in which they were sent, or those next to a seq. With --json, where there is more, the last line is {\"next\": SEQ}: the place from which the same option goes on. A line {\"hole\": [SEQ, SEQ]} before it names what a replica does not hold."
    )

    @OptionGroup var store: StoreOption
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Option(help: "At most so many messages.")
    var limit = 50
    @Option(help: ArgumentHelp("Those before this seq.", valueName: "seq"))
    var before: UInt64?
    @Option(help: ArgumentHelp("Those after this seq.", valueName: "seq"))
    var after: UInt64?
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func validate() throws {
        guard limit >= 1 else { throw ValidationError("--limit is 1 or more.") }
        guard before == nil || after == nil else { throw ValidationError("--before and --after exclude each other.") }
    }

    func run() throws {
        let (page, chat) = try store.show { store in
            let id = try LogName(text: conversation).conversation(in: store)
            let range: TimelineRange = before.map { .before($0) } ?? after.map { .after($0) } ?? .newest
            guard let page = try store.timeline(of: id, range, limit: limit) else { throw try LogName.notShown(conversation, id, store.log) }
            return (page, json ? nil : try Chat(page, in: store))
        }
        if let chat { return try ChatView(chat).print() }
        for line in JSONLine.lines(of: page, goesForwards: after != nil) { try line.print() }
    }
}
