import ArgumentParser
import ConversationStore
import Replication

/// What every command takes that appends an event: the store, who does it, and how to answer.
struct Actor: ParsableArguments {
    @OptionGroup var store: StoreOption
    @Option(name: .customLong("author"), help: ArgumentHelp("Who does it.", valueName: "user"))
    var name: String
    @Flag(help: "Print one JSON object: ids, seq and position.")
    var json = false

    /// Throws 64 if it is no user's name.
    var author: UserID { get throws { try UserID.typed(name, as: "--author") } }

    /// Appends one event to a conversation that is there, and answers where it stands.
    ///
    /// - Parameters:
    ///   - verb: what was done, for people.
    ///   - isAgain: whether it may have been done before, under the id that it was given.
    func append(
        to conversation: String, _ verb: String, isAgain: Bool = false, _ content: (ConversationStore, ConversationID) throws -> Event.Content
    ) throws {
        let author = try author
        if try Replica.isReplica(at: store.path) {
            return try store.replica { replica in
                let id = try LogName(text: conversation).conversation(in: replica.store)
                let event = Event(conversation: id, author: author, content: try content(replica.store, id))
                try Queued(event, in: replica, isAgain: isAgain).print(verb, asJSON: json)
            }
        }
        let done = try store.write { store in
            let id = try LogName(text: conversation).conversation(in: store)
            return try Appended(Event(conversation: id, author: author, content: content(store, id)), to: store)
        }
        try done.print(verb, asJSON: json)
    }
}

extension UserID {
    /// A user's name as it was typed. Throws 64 for what is none.
    static func typed(_ text: String, as option: String) throws -> UserID {
        guard let user = UserID(text) else { throw Failure(.usage, "\(option): a user's name has 1 to \(bytesMax) bytes") }
        return user
    }
}

/// An event that was appended, or had been before.
struct Appended {
    let event: Event
    let receipt: Receipt
    let isDuplicate: Bool

    /// Throws a ``Refusal`` if the store refuses it.
    init(_ event: Event, to store: ConversationStore) throws {
        self.event = event
        switch try store.log.appendBlocking([Submission(event)])[0] {
        case .accepted(let receipt): (self.receipt, isDuplicate) = (receipt, false)
        case .duplicate(let receipt): (self.receipt, isDuplicate) = (receipt, true)
        case .refused(let refusal): throw refusal
        case .withdrawn: throw Refusal(.malformed)
        case .undecided(let text): throw EventLogError(.damaged, text)
        }
    }

    func print(_ verb: String, asJSON: Bool) throws {
        if asJSON {
            var line = JSONLine()
            line.add("conversation_id", event.conversation.description)
            if let message = event.content.message { line.add("message_id", message.description) }
            line.add("seq", receipt.seq)
            line.add("position", receipt.position)
            if isDuplicate { line.add("duplicate", true) }
            return try line.print()
        }
        var text = isDuplicate ? "\(verb) already" : verb
        if case .messageSent(let message) = event.content { text += "  @\(receipt.seq)  \(message.id)" }
        try StandardOutput.shared.writeLine(text)
    }
}

extension Event.Content {
    /// The message that it is about.
    var message: MessageID? {
        switch self {
        case .messageSent(let message): message.id
        case .chunkAppended(let id, _, _), .messageCompleted(let id, _, _), .messageInterrupted(let id, _), .messageEdited(let id, _), .messageDeleted(let id),
            .reactionSet(let id, _, _), .receiptDelivered(let id), .receiptRead(let id):
            id
        default: nil
        }
    }
}
