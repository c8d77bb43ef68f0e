import ArgumentParser
import ConversationStore
import Replication

struct New: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates a conversation, and the store if need be; prints its id.",
        discussion: "The author takes part. With --id a repeat of the same changes nothing.")

    @OptionGroup var actor: Actor
    @Option(help: "If it is left out: direct for up to two, else group.")
    var kind: Kind?
    @Option(help: "What it is called.")
    var title: String?
    @Option(name: .customLong("participant"), help: ArgumentHelp("Who takes part; may be given several times.", valueName: "user"))
    var participants: [String] = []
    @Option(help: "What who joins later may see of what was before: whole, or from-joining.")
    var history: History?
    @Option(help: ArgumentHelp("Its id, a UUID; else one is made.", valueName: "uuid"))
    var id: String?

    enum Kind: String, ExpressibleByArgument, CaseIterable {
        case direct, group, assistant

        var value: Event.ConversationKind {
            switch self {
            case .direct: .direct
            case .group: .group
            case .assistant: .assistant
            }
        }
    }

    enum History: String, ExpressibleByArgument, CaseIterable {
        case whole
        case fromJoining = "from-joining"

        var value: ConversationHistory {
            switch self {
            case .whole: .whole
            case .fromJoining: .fromJoining
            }
        }
    }

    func run() throws {
        let author = try actor.author
        var people = [author]
        for user in try participants.map({ try UserID.typed($0, as: "--participant") }) where !people.contains(user) { people.append(user) }
        let isAgain = id != nil
        guard let id = id.map({ ConversationID($0) }) ?? .random() else { throw Failure(.usage, "--id takes a UUID") }
        let content = Event.Content.conversationCreated(
            kind: kind?.value ?? (people.count <= 2 ? .direct : .group), title: title, participants: people)
        let change = history.map { history in
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: history.rawValue)
            return Event(conversation: id, author: author, content: .conversationUpdated(title: nil, attributes: [attribute]))
        }
        if try Replica.isReplica(at: actor.store.path) {
            return try actor.store.replica { replica in
                let done = try Queued(Event(conversation: id, author: author, content: content), in: replica, isAgain: isAgain)
                if let change, try replica.store.history(of: id) != history?.value { _ = try Queued(change, in: replica) }
                if actor.json { return try done.print("created", asJSON: true) }
                try StandardOutput.shared.writeLine(id.description)
            }
        }
        let done = try actor.store.with(ConversationStoreOptions()) { store in
            let done = try Appended(Event(conversation: id, author: author, content: content), to: store)
            if let change, try store.history(of: id) != history?.value { _ = try Appended(change, to: store) }
            return done
        }
        if actor.json { return try done.print("created", asJSON: true) }
        try StandardOutput.shared.writeLine(id.description)
    }
}
