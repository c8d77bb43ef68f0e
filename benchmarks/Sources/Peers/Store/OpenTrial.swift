internal import ConversationStore
public import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What it costs to open a large store, and to keep it open while some of its conversations are active. In a process that has done nothing else.
public struct OpenTrial: Sendable {
    public var events: UInt64 = 0
    public var seconds = 0.0
    /// Before the opening, the program alone; after it; and when the conversations had been active.
    public var program = Memory()
    public var opened = Memory()
    public var active = Memory()
    public var conversations = 0

    /// What the kernel says that this process holds, in bytes.
    public struct Memory: Sendable {
        public var resident = 0
        /// Of these its own, and those of files that are mapped (the archive: the kernel takes them back when it needs them).
        public var own = 0
        public var mapped = 0

        static func now() -> Memory {
            var memory = Memory()
            for line in DeviceBytes.lines("/proc/self/status") {
                let words = line.split { $0 == " " || $0 == "\t" }
                guard words.count > 1, let kilobytes = Int(words[1]) else { continue }
                switch words[0] {
                case "VmRSS:": memory.resident = kilobytes << 10
                case "RssAnon:": memory.own = kilobytes << 10
                case "RssFile:": memory.mapped = kilobytes << 10
                default: break
                }
            }
            return memory
        }
    }

    /// Makes a store of events.
    public static func fill(_ path: String, _ items: [Item]) throws {
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(durability: .relaxed(interval: .seconds(1))))
        for at in stride(from: 0, to: items.count, by: 4096) {
            for outcome in try store.log.appendBlocking(items[at..<min(items.count, at + 4096)].map { Submission($0.event) }) {
                guard case .accepted = outcome else { throw EngineError("not accepted: \(outcome)") }
            }
        }
        try store.close()
    }

    /// The conversations that were active last.
    public static func active(_ path: String, _ count: Int) throws -> [ConversationID] {
        let store = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
        defer { try? store.close() }  // Only read.
        var last: [ConversationID: Position] = [:]
        try store.replay { event in
            last[event.event.conversation] = event.position
            return true
        }
        return last.sorted { $0.value > $1.value }.prefix(count).map(\.key)
    }

    /// Opens the store; then, in each of the conversations, streams an answer, sends a message and reads what a screen shows.
    public static func run(_ path: String, _ conversations: [ConversationID], chunks: Int = 50) async throws -> OpenTrial {
        var trial = OpenTrial(conversations: conversations.count)
        trial.program = .now()
        let start = Trial.nanoseconds()
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .existing))
        trial.seconds = Double(Trial.nanoseconds() - start) / 1e9
        trial.opened = .now()
        trial.events = store.log.lastPosition
        for id in conversations {
            guard let author = try store.participants(of: id).first else { throw EngineError("\(id): nobody takes part") }
            let answer = try await store.startMessage(in: id, from: author)
            for number in 0..<chunks { try await answer.append("token \(number) ") }
            try await answer.complete()
            try await store.send("And now?", to: id, from: author)
            guard try store.timeline(of: id)?.messages.last?.text == "And now?" else { throw EngineError("\(id): the message is not shown") }
            guard try store.lobby(of: author).rows.first?.conversation == id else { throw EngineError("\(id): it is not the lobby's first") }
            _ = try store.contextWindow(of: id, budget: 8000)
        }
        trial.active = .now()
        try store.close()
        return trial
    }

    public var text: String {
        func mebibytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1_048_576, 1) }
        func line(_ memory: Memory) -> String {
            "\(mebibytes(memory.resident)) MiB resident, \(mebibytes(memory.own)) own, \(mebibytes(memory.mapped)) of mapped files"
        }
        return """
            the program: \(line(program))
            opened \(grouped(Double(events))) events in \(fixed(seconds * 1000, 1)) ms: \(line(opened))
            after \(conversations) conversations were active: \(line(active))
            """
    }
}
