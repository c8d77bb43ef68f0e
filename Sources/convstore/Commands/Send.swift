import ArgumentParser
import ConversationStore

struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sends a message.", discussion: "With --id a repeat of the same changes nothing: what failed half-way may be sent again.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The text; - reads it from standard input, without the last line's end.")
    var text: String
    @Option(help: "Whose words they are.")
    var role: Role = .user
    @Option(help: ArgumentHelp("The message that it answers: an id, the beginning of one, or @SEQ.", valueName: "message"))
    var replyTo: String?
    @Option(help: ArgumentHelp("The message's id, a UUID; else one is made.", valueName: "uuid"))
    var id: String?

    enum Role: String, ExpressibleByArgument, CaseIterable {
        case user, assistant, system, tool

        var value: Event.Role {
            switch self {
            case .user: .user
            case .assistant: .assistant
            case .system: .system
            case .tool: .tool
            }
        }
    }

    func run() throws {
        let isAgain = id != nil
        guard let id = id.map({ MessageID($0) }) ?? .random() else { throw Failure(.usage, "--id takes a UUID") }
        let text = try TypedText.read(text)
        try actor.append(to: conversation, "sent", isAgain: isAgain) { store, conversation in
            let reply = try replyTo.map { try MessageName(text: $0).resolve(in: conversation, store) }
            return .messageSent(Event.Message(id: id, role: role.value, text: text, replyTo: reply))
        }
    }
}
