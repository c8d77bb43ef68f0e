import ArgumentParser
import ConversationStore

struct Interrupt: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Ends a message that is being streamed; the text that it has stays.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The message: an id, the beginning of one, or @SEQ; the one that is being streamed if it is left out.")
    var message: String?
    @Option(help: "Why.")
    var reason = "interrupted"

    private static let pageMessages = 1000

    func run() throws {
        try actor.append(to: conversation, "interrupted") { store, conversation in
            if let message { return .messageInterrupted(message: try MessageName(text: message).resolve(in: conversation, store), reason: reason) }
            let open = try Self.streamed(in: conversation, store)
            guard let first = open.first else { throw Refusal(.messageClosed, "no message is being streamed") }
            guard open.count == 1 else {
                throw Failure(.usage, "several messages are being streamed; name one:" + open.map { "\n  \($0.id)  by \($0.author)" }.joined())
            }
            return .messageInterrupted(message: first.id, reason: reason)
        }
    }

    /// Those that are being streamed on the newest page that has any: one that was left open may lie far back.
    private static func streamed(in conversation: ConversationID, _ store: ConversationStore) throws -> [Message] {
        var range = TimelineRange.newest
        while let page = try store.timeline(of: conversation, range, limit: pageMessages) {
            let open = page.messages.filter { $0.state == .streaming }
            guard open.isEmpty, page.hasBefore, let first = page.messages.first else { return open }
            range = .before(first.seq)
        }
        return []
    }
}
