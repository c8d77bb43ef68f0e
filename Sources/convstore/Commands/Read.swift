import ArgumentParser
import ConversationStore

struct Read: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Says that a user has read a conversation, up to a message.")

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Argument(help: "The last message that was read: an id, the beginning of one, or @SEQ; the newest if it is left out.")
    var message: String?
    @Flag(help: "It only was delivered.")
    var delivered = false

    func run() throws {
        try actor.append(to: conversation, delivered ? "marked as delivered" : "marked as read") { store, conversation in
            let id: MessageID
            if let message {
                id = try MessageName(text: message).resolve(in: conversation, store)
            } else {
                guard let last = try store.timeline(of: conversation, .newest, limit: 1)?.messages.last else {
                    throw Refusal(.unknownMessage, "the conversation has no messages")
                }
                id = last.id
            }
            return delivered ? .receiptDelivered(upTo: id) : .receiptRead(upTo: id)
        }
    }
}
