import ArgumentParser
import ConversationStore
import EventLog
import Interchange
import Replication

struct Outbox: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists a replica's events that its hub has not accepted, retries them, or gives them up.",
        discussion: """
            Each has a number. pending: not sent yet; sent: without an answer; accepted: the hub has it, and the scope leaves it out here, or it lies in a hole; failed: refused, with \
            the hub's code; waiting: for a failed one that it depends on. Only failed ones can be retried; failed, waiting and pending ones can be given up. \
            --retry and --discard take numbers, or `all` for all that failed; what waits for one that is given up fails then.
            """)

    @OptionGroup var store: StoreOption
    @Option(parsing: .upToNextOption, help: ArgumentHelp("Send failed ones again at the next sync: numbers, or all.", valueName: "number"))
    var retry: [String] = []
    @Option(parsing: .upToNextOption, help: ArgumentHelp("Give up: numbers, or all.", valueName: "number"))
    var discard: [String] = []
    @Option(help: ArgumentHelp("Change the text of this one: pending, waiting or failed (then --retry sends it).", valueName: "number"))
    var edit: UInt64?
    @Option(help: "The new text for --edit.")
    var text: String?
    @Flag(help: "List the events that a hub had and lost, or may have, if a sync was cut off.")
    var lost = false
    @Flag(help: "Print JSON, one object a line.")
    var json = false

    func validate() throws {
        guard (edit == nil) == (text == nil) else { throw ValidationError("--edit and --text belong together.") }
        guard !lost || (retry.isEmpty && discard.isEmpty && edit == nil) else {
            throw ValidationError("--lost only lists: it goes with none of --retry, --discard and --edit.")
        }
        for number in Self.numbers(retry) where Self.numbers(discard).contains(number) {
            throw ValidationError("--retry and --discard both name \(number).")
        }
    }

    private static func numbers(_ typed: [String]) -> [String] { typed.flatMap { $0.split(separator: ",").map { String($0) } } }

    func run() throws {
        try EventStore.checkIsStore(store.path)
        guard !retry.isEmpty || !discard.isEmpty || edit != nil else { return try list() }
        try store.replica { replica in
            // All that was typed is looked at before any of it is done.
            let retried = try ids(retry, in: replica) { $0.isFailed ? nil : "only failed ones can be retried" }
            let given = try ids(discard, in: replica) { $0.state == .sent ? "the hub may have it" : nil }
            let edited = try ids(edit.map { ["\($0)"] } ?? [], in: replica) { $0.state == .sent ? "the hub may have it" : nil }
            try checkApart([("--retry", retried), ("--discard", given), ("--edit", edited)], in: replica)
            // First what can still be refused: an entry without a text.
            if let edit, let text {
                try replica.edit(edit, text: text)
                try tell("edited", 1)
                if replica.outbox.contains(where: { $0.id == edit && $0.isFailed }) {
                    Terminal.complain("it stays failed until it is sent again: convstore outbox --store \(store.path) --retry \(edit)")
                }
            }
            if !retry.isEmpty { try tell("retrying", replica.retry(retried)) }
            if !discard.isEmpty { try tell("discarded", replica.discard(given)) }
        }
    }

    /// Throws 64 for an entry that is named twice, by its number, in another way of writing it, or by `all`: one of the two would find it changed or gone.
    private func checkApart(_ named: [(option: String, ids: Set<UInt64>?)], in replica: Replica) throws {
        let failed = Set(replica.outbox.filter(\.isFailed).map(\.id))
        var options: [UInt64: String] = [:]
        for (option, ids) in named {
            for id in (ids ?? failed).sorted() {
                guard let other = options.updateValue(option, forKey: id) else { continue }
                throw Failure(.usage, "\(other) and \(option) both name entry \(id) of the outbox: nothing was done")
            }
        }
    }

    /// Beside whoever writes.
    private func list() throws {
        if lost { return try listLost() }
        guard let overlay = try ReplicaOverlay(of: store.path) else { throw noReplica }
        for entry in overlay.outbox { try print(entry) }
    }

    private var noReplica: Failure { Failure(.usage, "\(store.path) is no replica; `convstore sync --user NAME` makes one") }

    private func listLost() throws {
        guard let kept = try KeptAside(of: store.path) else { throw noReplica }
        try list(kept.lost)
        if !kept.hasDoubtful { return }
        try store.read { log in
            let doubtful = try kept.doubtful(in: log)
            try list(doubtful)
            guard !doubtful.isEmpty else { return }
            Terminal.complain(
                "\(kept.lost.isEmpty ? "" : "the last ")\(Quantity.count(doubtful.count, "event")) may be lost: a sync of their conversations tells"
            )
        }
    }

    /// Throws 66 for a number that is not there, and 64 for one of which `objection` says why not.
    private func ids(_ typed: [String], in replica: Replica, _ objection: (OutboxEntry) -> String?) throws -> Set<UInt64>? {
        if typed == ["all"] { return nil }
        let known = Dictionary(uniqueKeysWithValues: replica.outbox.map { ($0.id, $0) })
        return Set(
            try Self.numbers(typed).map { text in
                guard let id = UInt64(text) else { throw Failure(.usage, "\"\(text)\" is no number of the outbox") }
                guard let entry = known[id] else { throw Failure(.noInput, "the outbox has no entry \(id); `convstore outbox` lists them") }
                if let why = objection(entry) { throw Failure(.usage, "entry \(id) of the outbox is \(Self.state(entry)): \(why)") }
                return id
            })
    }

    private static func state(_ entry: OutboxEntry) -> String {
        switch entry.state {
        case .pending: entry.isWaiting ? "waiting" : "pending"
        case .sent: entry.isAccepted ? "accepted" : "sent"
        case .failed: "failed"
        }
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
        let state = Self.state(entry)
        var code: String?, detail: String?
        if case .failed(let why, let more) = entry.state { (code, detail) = (why, more) }
        if json {
            var line = JSONLine()
            line.add("outbox", entry.id)
            line.add("state", state)
            line.add("type", "\(entry.event.content.kind?.name ?? "unknown")")
            line.add("conversation_id", entry.event.conversation.description)
            line.add("author", entry.event.author.string)
            line.addOptional("message_id", entry.event.content.message?.description)
            line.addOptional("text", entry.event.content.text)
            line.addOptional("user", entry.event.content.user?.string)
            if case .reactionSet(_, let emoji, let isOn) = entry.event.content {
                line.add("emoji", emoji)
                line.add("on", isOn)
            }
            line.addOptional("code", code)
            line.addOptional("detail", detail)
            return try line.print()
        }
        // Both are the hub's words; where it says the code alone, what that means is known here.
        let meaning = code.flatMap { RefusalCode(rawValue: $0) }.map { Refusal($0).meaning }
        let more = (detail?.isEmpty ?? true ? meaning : detail).map { " (\($0))" } ?? ""
        let why = code.map { ": " + Sanitizer.harmless($0 + more) } ?? ""
        let text = entry.event.content.shown.map { "  \(Sanitizer.harmless($0))" } ?? ""
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

    /// What tells it from others of its kind, for people.
    fileprivate var shown: String? {
        switch self {
        case .reactionSet(let message, let emoji, let isOn): "\(emoji)\(isOn ? "" : " taken back"), on \(message)"
        case .messageDeleted(let message), .messageInterrupted(let message, _), .receiptDelivered(let message), .receiptRead(let message): "\(message)"
        case .participantJoined(let user), .participantLeft(let user): user.string
        case .preferenceSet(let key, let value): value.map { "\(key) = \($0)" } ?? key
        default: text
        }
    }

    fileprivate var user: UserID? {
        switch self {
        case .participantJoined(let user), .participantLeft(let user): user
        default: nil
        }
    }
}
