import ArgumentParser
import ConversationStore
import EventLog

struct Record: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Takes an AI's answer off the wire, as it comes, into a conversation that is there (`convstore new`).",
        discussion: """
            curl -N … | convstore record --store S CONVERSATION --author bot

            Standard input is a provider's stream: OpenAI chat chunks, Responses or completions, Anthropic, Gemini or its Interactions, as server-sent events \
            or one payload a line; or the messages of OpenAI Realtime or Gemini Live, one a line, of which the model's words are taken. Each delta of text is stored and typed as it comes. The message ends as complete if the stream said so; else as interrupted, with what \
            it had: `end_of_stream`, `error` (the stream told of one), `sigint`, `sigterm` or `sighup`. If nothing of a known stream comes, nothing is stored, and \
            the exit is 65. The store is open for writing meanwhile: other commands can read; those that write, `interrupt` too, end with 75.
            """)

    @OptionGroup var actor: Actor
    @Argument(help: "The conversation's id, or the beginning of it.")
    var conversation: String
    @Option(help: ArgumentHelp("The message that it answers: an id, the beginning of one, or @SEQ.", valueName: "message"))
    var replyTo: String?
    @Option(help: ArgumentHelp("The message's id, a UUID; else one is made.", valueName: "uuid"))
    var id: String?

    func run() throws {
        let author = try actor.author
        guard let id = id.map({ MessageID($0) }) ?? .random() else { throw Failure(.usage, "--id takes a UUID") }
        try actor.store.refuseReplica("a stream is recorded where the hub is")
        Signals.watch()
        StandardOutput.shared.heedSignals()
        var (answer, typist): (Answer?, Typist) = try actor.store.write { store in
            let conversation = try LogName(text: conversation).conversation(in: store)
            guard try store.message(in: conversation, id: id) == nil else { throw Refusal(.messageConflict, "a message \(id) is there already") }
            let reply = try replyTo.map { try MessageName(text: $0).resolve(in: conversation, store) }
            var recording = Recording(store, conversation, author, id: id, replyTo: reply, types: !actor.json)
            let skipped = try recording.run()
            return (try made(store, conversation, id, skipped), recording.typist)
        }
        typist.finish()
        switch answer {
        case .line(let line): try line.print()
        case .words(let words): Terminal.complain(words)
        case nil: break
        }
    }

    /// It goes to standard output for programs, and to standard error for people: their standard output is the text.
    private enum Answer {
        case line(JSONLine)
        case words(String)
    }

    private func made(_ store: ConversationStore, _ conversation: ConversationID, _ id: MessageID, _ skipped: Int) throws -> Answer? {
        guard let message = try store.message(in: conversation, id: id) else { return nil }
        if actor.json {
            var line = JSONLine()
            line.add("conversation_id", conversation.description)
            line.add("message_id", id.description)
            line.add("seq", message.seq)
            line.add("position", try store.log.event(in: .conversation(conversation), at: message.seq)?.position ?? 0)
            line.add("state", "\(message.state.name)")
            line.addOptional("finish_reason", message.finishReason)
            line.addOptional("interrupted_reason", message.interruptedReason)
            line.add("chunks", message.chunks)
            line.add("skipped", skipped)
            return .line(line)
        }
        let reason = message.finishReason ?? message.interruptedReason
        let skips = skipped > 0 ? ", \(skipped) payloads skipped" : ""
        let end = "\(message.state.name)" + (reason.map { " (\($0))" } ?? "")
        return .words("\(end): @\(message.seq) \(id), \(Quantity.count(message.chunks)) chunks\(skips)")
    }
}
