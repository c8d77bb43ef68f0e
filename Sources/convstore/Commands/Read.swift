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
                id = try Self.newest(in: conversation, store)
            }
            return delivered ? .receiptDelivered(upTo: id) : .receiptRead(upTo: id)
        }
    }

    /// The newest message that the hub has accepted: one that is pending may be refused or given up, and the mark with it.
    private static func newest(in conversation: ConversationID, _ store: ConversationStore) throws -> MessageID {
        var range = TimelineRange.newest
        while let page = try store.timeline(of: conversation, range, limit: pageMessages) {
            if let last = page.messages.last(where: { $0.unconfirmed == nil }) { return last.id }
            guard let first = page.messages.first, page.hasBefore else { break }
            range = .before(first.seq)
        }
        throw Refusal(.unknownMessage, "the conversation has no messages")
    }

    private static let pageMessages = 20
}
