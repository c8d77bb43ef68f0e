import ConversationStore
import Replication

/// An event that a replica took into its outbox, or knew already by the id that was given.
struct Queued {
    private enum Place {
        case new(OutboxEntry)
        case known(Replica.Known)
    }

    private let event: Event
    private let place: Place

    /// - Parameter isAgain: it may be what a command did before that was given its id, and is given it again.
    ///
    /// Throws a ``Refusal`` if the replica itself can tell that no hub will take it; 69 if it is a full copy, which is for reading.
    init(_ event: Event, in replica: Replica, isAgain: Bool = false) throws {
        if try replica.isFullCopy {
            let path = replica.store.log.path
            throw Failure(.unavailable, "\(path) is a full copy of a hub (`convstore follow`), for reading only: write at the hub, or on a user's replica")
        }
        self.event = event
        place = if isAgain, let known = try replica.known(event) { .known(known) } else { .new(try replica.append(event)) }
        if case .known(.queued(let entry)) = place, case .failed(let code, let detail) = entry.state {
            let why = detail.isEmpty ? code : "\(code) (\(detail))"
            throw Failure(.data, "refused: \(why): it is entry \(entry.id) of the outbox, which failed so: `convstore outbox` sends it again, or gives it up")
        }
    }

    func print(_ verb: String, asJSON: Bool) throws {
        if asJSON {
            var line = JSONLine()
            line.add("conversation_id", event.conversation.description)
            if let message = event.content.message { line.add("message_id", message.description) }
            switch place {
            case .new(let entry), .known(.queued(let entry)):
                line.add("pending", true)
                line.add("outbox", entry.id)
            case .known(.recorded(let recorded)):
                line.add("seq", recorded.seq)
                // Of a conversation that is held only in part it has none here.
                if recorded.position > 0 { line.add("position", recorded.position) }
            }
            if case .known = place { line.add("duplicate", true) }
            return try line.print()
        }
        var text =
            switch place {
            case .new: "\(verb), to be synced"
            case .known(.queued): "\(verb) already, to be synced"
            case .known(.recorded(let recorded)): "\(verb) already  @\(recorded.seq)"
            }
        if case .messageSent(let message) = event.content { text += "  \(message.id)" }
        try StandardOutput.shared.writeLine(text)
    }
}
