import ConversationStore
import Replication

/// An event that a replica took into its outbox.
struct Queued {
    let entry: OutboxEntry

    /// Throws a ``Refusal`` if the replica itself can tell that no hub will take it; 69 if it is a full copy, which is for reading.
    init(_ event: Event, in replica: Replica) throws {
        if try replica.isFullCopy {
            let path = replica.store.log.path
            throw Failure(.unavailable, "\(path) is a full copy of a hub (`convstore follow`), for reading only: write at the hub, or on a user's replica")
        }
        entry = try replica.append(event)
    }

    func print(_ verb: String, asJSON: Bool) throws {
        if asJSON {
            var line = JSONLine()
            line.add("conversation_id", entry.event.conversation.description)
            if let message = entry.event.content.message { line.add("message_id", message.description) }
            line.add("pending", true)
            line.add("outbox", entry.id)
            return try line.print()
        }
        var text = "\(verb), to be synced"
        if case .messageSent(let message) = entry.event.content { text += "  \(message.id)" }
        try StandardOutput.shared.writeLine(text)
    }
}
