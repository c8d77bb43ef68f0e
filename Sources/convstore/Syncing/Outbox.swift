import ArgumentParser
import ConversationStore
import Interchange
import Replication

struct Outbox: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists a replica's events that its hub has not accepted, retries them, or gives them up.",
        discussion: """
            Each has a number. pending: not sent yet; sent: without an answer; failed: refused, with the hub's code; waiting: for a failed one that it depends \
            on. --retry and --discard take numbers, or `all` for all that failed.
            """)

    @OptionGroup var store: StoreOption
    @Option(parsing: .upToNextOption, help: ArgumentHelp("Send again at the next sync: numbers, or all.", valueName: "number"))
    var retry: [String] = []
    @Option(parsing: .upToNextOption, help: ArgumentHelp("Give up: numbers, or all.", valueName: "number"))
    var discard: [String] = []
    @Option(help: ArgumentHelp("Change the text of this one, if it was not sent.", valueName: "number"))
    var edit: UInt64?
    @Option(help: "The new text for --edit.")
    var text: String?
    @Flag(help: "List the events that a hub had and lost.")
    var lost = false
    @Flag(help: "Print JSON, one object a line.")
    var json = false

    func validate() throws {
        guard (edit == nil) == (text == nil) else { throw ValidationError("--edit and --text belong together.") }
    }

    func run() throws {
        guard !retry.isEmpty || !discard.isEmpty || edit != nil else { return try list() }
        try store.replica { replica in
            if !retry.isEmpty { try tell("retrying", replica.retry(ids(retry, in: replica))) }
            if !discard.isEmpty { try tell("discarded", replica.discard(ids(discard, in: replica))) }
            if let edit, let text {
                try replica.edit(edit, text: text)
                try tell("edited", 1)
            }
        }
    }

    /// Beside whoever writes.
    private func list() throws {
        guard let overlay = try ReplicaOverlay(of: store.path) else {
            throw Failure(.usage, "\(store.path) is no replica; `convstore sync --user NAME` makes one")
        }
        if lost { return try list(overlay.lost) }
        for entry in overlay.outbox { try print(entry) }
    }

    /// Throws 66 for a number that is not there.
    private func ids(_ typed: [String], in replica: Replica) throws -> Set<UInt64>? {
        if typed == ["all"] { return nil }
        let known = Set(replica.outbox.map(\.id))
        return Set(
            try typed.flatMap { $0.split(separator: ",") }.map { text in
                guard let id = UInt64(text) else { throw Failure(.usage, "\"\(text)\" is no number of the outbox") }
                guard known.contains(id) else { throw Failure(.noInput, "the outbox has no entry \(id); `convstore outbox` lists them") }
                return id
            })
    }

    private func tell(_ verb: String, _ count: Int) throws {
        if json {
            var line = JSONLine()
            line.add(verb, count)
            return try line.print()
        }
        try StandardOutput.shared.writeLine("\(verb) \(count)")
    }

    private func print(_ entry: OutboxEntry) throws {
        var state = "pending", code: String?, detail: String?
        switch entry.state {
        case .pending: state = entry.isWaiting ? "waiting" : "pending"
        case .sent: state = "sent"
        case .failed(let why, let more): (state, code, detail) = ("failed", why, more)
        }
        if json {
            var line = JSONLine()
            line.add("outbox", entry.id)
            line.add("state", state)
            line.add("type", "\(entry.event.content.kind?.name ?? "unknown")")
            line.add("conversation_id", entry.event.conversation.description)
            line.add("author", entry.event.author.string)
            line.addOptional("message_id", entry.event.content.message?.description)
            line.addOptional("text", entry.event.content.text)
            line.addOptional("code", code)
            line.addOptional("detail", detail)
            return try line.print()
        }
        let why = code.map { ": \($0)" + (detail?.isEmpty ?? true ? "" : " (\(detail!))") } ?? ""
        let text = entry.event.content.text.map { "  \(Sanitizer.harmless($0))" } ?? ""
        try StandardOutput.shared.writeLine(
            DisplayWidth.cut("\(entry.id)  \(state)\(why)  \(entry.event.content.kind?.name ?? "unknown")  \(entry.event.conversation)\(text)", to: 400))
    }

    private func list(_ events: [RecordedEvent]) throws {
        let encoder = EventLineEncoder()
        for event in events { try StandardOutput.shared.write { _ = encoder.append(event, to: &$0) } }
    }
}

extension Event.Content {
    /// What a person wrote in it.
    fileprivate var text: String? {
        switch self {
        case .messageSent(let message): message.text
        case .messageEdited(_, let text), .chunkAppended(_, _, let text): text
        case .conversationUpdated(let title, _): title
        case .conversationCreated(_, let title, _): title
        default: nil
        }
    }
}
