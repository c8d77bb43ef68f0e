import ArgumentParser
import ConversationStore

struct Leave: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Takes a user out of a conversation: the author, or another.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "Who leaves; the author if it is left out.")
    var user: String?

    func run() throws {
        let user = try user.map { try UserID.typed($0, as: "user") } ?? actor.author
        try actor.append(to: conversation, "left") { _, _ in .participantLeft(user) }
    }
}
