import ArgumentParser
import ConversationStore

struct Watch: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows a conversation, or a user's conversations, and what changes in them, as it happens.",
        discussion: """
            Works beside a writer. Begins with the newest, then prints each message or conversation that is new or changed, once, as it stands; what \
            changes often, like an answer being streamed, is shown at intervals. With --json the lines are those of `timeline` or `lobby`; \
            {"conversation_id", "removed": true} says that the user left, with a "message_id" that a message that waited for the hub was withdrawn. Who has read or got a message is told with those that were shown before. Ends with \
            0 at SIGINT.
            """)

    @OptionGroup var store: StoreOption
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String?
    @Option(help: "Whose conversations.")
    var user: String?
    @Option(help: "Begin with at most so many messages or conversations.")
    var limit = 50
    @Flag(help: "Print a JSON object for each.")
    var json = false

    func validate() throws {
        guard limit >= 0 else { throw ValidationError("--limit is 0 or more.") }
        guard (conversation == nil) != (user == nil) else { throw ValidationError("Name either a conversation, or a user with --user.") }
    }

    func run() throws {
        Signals.watch()
        StandardOutput.shared.heedSignals()
        do { try show() } catch is StandardOutput.IsTold {}
    }

    private func show() throws {
        var follower = StoreFollower(store)
        if let user {
            var watch = LobbyWatch(try UserID.typed(user, as: "--user"), limit: limit)
            var feed = LobbyFeed(user: watch.user, json: json)
            try follow(&follower, &watch, { try $0.update(from: $1) }) { changes in try feed.print(changes) }
        } else if let conversation {
            let id = try follower.read { try LogName(text: conversation).conversation(in: $0) }
            var watch = TimelineWatch(id, limit: limit)
            var feed = TimelineFeed(id, json: json)
            try follow(&follower, &watch, { try $0.update(from: $1) }) { changes in try feed.print(changes) }
            try feed.finish()
        }
    }

    private func follow<State, Change>(
        _ follower: inout StoreFollower, _ state: inout State, _ update: (inout State, ConversationStore) throws -> [Change],
        _ print: ([Change]) throws -> Void
    ) throws {
        repeat {
            let old = state
            // Whoever is asked again begins from the same state.
            let (new, changes) = try follower.read { store in
                var new = old
                let changes = try update(&new, store)
                return (new, changes)
            }
            state = new
            try print(changes)
            try StandardOutput.shared.flush()
        } while follower.wait()
    }
}
