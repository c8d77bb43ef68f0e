import ArgumentParser
import ConversationStore

struct Lobby: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows a user's conversations, the newest first.",
        discussion: "With --json, where there are more, the last line is {\"next\": CURSOR}, to be given to --after.")

    @OptionGroup var store: StoreOption
    @Option(help: "Whose.")
    var user: String
    @Option(help: "At most so many conversations.")
    var limit = 50
    @Option(help: ArgumentHelp("Those after this cursor, which an earlier page ended with.", valueName: "cursor"))
    var after: String?
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func validate() throws { guard limit >= 1 else { throw ValidationError("--limit is 1 or more.") } }

    func run() throws {
        let user = try UserID.typed(user, as: "--user")
        let cursor = try after.map { text in
            guard let cursor = LobbyCursor(text) else { throw Failure(.usage, "--after \(text): that is no cursor; take one from a line {\"next\": …}") }
            return cursor
        }
        let page = try store.show { try $0.lobby(of: user, after: cursor, limit: limit) }
        guard json else {
            if page.rows.isEmpty { return try StandardOutput.shared.writeLine(Style.dim("No conversations.")) }
            try LobbyView(page.rows, of: user).print()
            if let next = page.next { try StandardOutput.shared.writeLine(Style.dim("↓ more: --after \(next)")) }
            return
        }
        for row in page.rows { try JSONLine(row).print() }
        if let next = page.next {
            var line = JSONLine()
            line.add("next", next.description)
            try line.print()
        }
    }
}
