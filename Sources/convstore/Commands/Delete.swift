import ArgumentParser
import ConversationStore

struct Delete: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Deletes a message, for ever: nobody is shown it any more.",
        discussion: "Its text stays in the log, as every fact does; `convstore erase` destroys it.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The message: an id, the beginning of one, or @SEQ.")
    var message: String

    func run() throws {
        try actor.append(to: conversation, "deleted") { store, conversation in
            .messageDeleted(message: try MessageName(text: message).resolve(in: conversation, store))
        }
    }
}
