import ArgumentParser
import ConversationStore

struct React: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Reacts to a message with an emoji, or takes that back.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The message: an id, the beginning of one, or @SEQ.")
    var message: String
    @Argument(help: "The emoji: up to 64 bytes.")
    var emoji: String
    @Flag(help: "Take it back.")
    var remove = false

    func run() throws {
        try actor.append(to: conversation, remove ? "taken back" : "reacted") { store, conversation in
            .reactionSet(message: try MessageName(text: message).resolve(in: conversation, store), emoji: emoji, isOn: !remove)
        }
    }
}
