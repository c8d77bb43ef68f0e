import ConversationStore
import Replication

/// An event that a replica took into its outbox.
struct Queued {
    let entry: OutboxEntry

    /// Throws a ``Refusal`` if the replica itself can tell that no hub will take it.
    init(_ event: Event, in replica: Replica) throws { entry = try replica.append(event) }

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

extension LogName {
    /// The conversation that is meant, which may have been made on this replica and not be synced yet.
    func conversation(in replica: Replica) throws -> ConversationID {
        let new = replica.outbox.compactMap { entry -> ConversationID? in
            if case .conversationCreated = entry.event.content { return entry.event.conversation }
            return nil
        }
        let found = new.filter { $0.description.hasPrefix(text.lowercased()) }
        if found.count == 1 { return found[0] }
        if let id = ConversationID(text), try !replica.store.participants(of: id).isEmpty { return id }
        return try conversation(in: replica.store.log)
    }
}
