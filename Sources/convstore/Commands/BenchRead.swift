import ArgumentParser
import ConversationStore

struct BenchRead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Reads what screens show, at random places of a store, and tells how fast that was.",
        discussion: """
            timeline: the newest 50 messages of a conversation; lobby: the newest 50 conversations of a user; message: one by conversation and seq; window: \
            8,000 tokens of a conversation. Each as Swift values, after a second of the same to warm up.
            """)

    enum Kind: String, ExpressibleByArgument, CaseIterable {
        case timeline, lobby, message, window
    }

    private static let warmUpSeconds = 1.0

    @OptionGroup var store: StoreOption
    @Option(help: "What to read.")
    var kind: Kind = .timeline
    @Flag(help: "Only of the 100 conversations that something was said in last.")
    var recent = false
    @Option(help: "Threads that read at once.")
    var threads = 1
    @Option(help: "For so long.")
    var seconds = 3.0
    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
        guard 1...1024 ~= threads else { throw ValidationError("--threads is 1 to 1024.") }
        guard seconds > 0, seconds <= 86_400 else { throw ValidationError("--seconds is more than 0, and at most a day.") }
    }

    func run() throws {
        let times = try store.show { store in
            let places = try ReadPlaces(store, onlyRecent: recent, withMessages: kind == .message)
            guard !places.isEmpty(for: kind) else { throw Failure(.data, "\(self.store.path) holds nothing to read; import something first") }
            _ = try ReadRun.run(kind, places, store, threads: threads, seconds: min(Self.warmUpSeconds, seconds))
            return try ReadRun.run(kind, places, store, threads: threads, seconds: seconds)
        }
        try times.print(kind.rawValue, threads: threads, asJSON: json)
    }
}
