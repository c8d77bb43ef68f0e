import ArgumentParser
import ConversationStore

struct Join: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Takes a user into a conversation; the author takes part in it already.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "Who joins.")
    var user: String

    func run() throws {
        let user = try UserID.typed(user, as: "user")
        try actor.append(to: conversation, "joined") { _, _ in .participantJoined(user) }
    }
}
