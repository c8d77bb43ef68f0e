import ArgumentParser
import ConversationStore

struct Edit: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Gives a message another text; what it was before stays in the log.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The message: an id, the beginning of one, or @SEQ.")
    var message: String
    @Argument(help: "The text; - reads it from standard input, without the last line's end.")
    var text: String

    func run() throws {
        let text = try TypedText.read(text)
        try actor.append(to: conversation, "edited") { store, conversation in
            .messageEdited(message: try MessageName(text: message).resolve(in: conversation, store), text: text)
        }
    }
}
