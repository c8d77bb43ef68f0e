internal import ConversationStore
internal import EventLog
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What streaming answers costs the disk: several producers append token-sized chunks at a model's pace, durably, and the bytes that go to the disk are
/// divided by the bytes of text.
public struct StreamTrial: Sendable {
    public struct Plan: Sendable {
        public var streams: Int
        /// Chunks a second of each stream; 0: as fast as the store takes them.
        public var rate: Double
        /// Chunks of each stream.
        public var chunks: Int

        public init(streams: Int, rate: Double, chunks: Int) { (self.streams, self.rate, self.chunks) = (streams, rate, chunks) }
    }

    public var plan: Plan
    public var chunks = 0
    public var textBytes = 0
    public var seconds = 0.0
    /// Bytes to the disk, by this process, until all streams had ended; and until the store was closed.
    public var writtenBytes = 0
    public var closedWrittenBytes = 0
    /// The same for the whole device.
    public var deviceBytes: Int?
    public var closedDeviceBytes: Int?
    /// What the store takes in the end.
    public var storeBytes = 0

    /// The texts of streamed answers, chunk by chunk.
    public static func answers(_ items: [Item]) -> [[String]] {
        var places: [MessageID: Int] = [:]
        var answers: [[String]] = []
        for item in items {
            guard case .chunkAppended(let message, _, let text) = item.event.content else { continue }
            if let place = places[message] {
                answers[place].append(text)
            } else {
                places[message] = answers.count
                answers.append([text])
            }
        }
        return answers
    }

    public static func run(_ plan: Plan, _ answers: [[String]], directory: String) async throws -> StreamTrial {
        let store = try ConversationStore.open(at: directory + "/store")
        let (user, bot) = (UserID("user")!, UserID("bot")!)
        var conversations: [ConversationID] = []
        for _ in 0..<plan.streams { conversations.append(try await store.createConversation(.assistant, author: user, participants: [bot])) }
        try store.log.flush()
        sync()
        var trial = StreamTrial(plan: plan)
        let before = DeviceBytes.now(of: directory)
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: (chunks: Int, bytes: Int).self) { group in
            for (number, conversation) in conversations.enumerated() {
                group.addTask { try await stream(number, plan, answers, to: conversation, from: bot, store, start) }
            }
            for try await part in group {
                trial.chunks += part.chunks
                trial.textBytes += part.bytes
            }
        }
        let spent = ContinuousClock.now - start
        trial.seconds = Double(spent.components.seconds) + Double(spent.components.attoseconds) / 1e18
        let after = DeviceBytes.now(of: directory)
        try store.close()
        sync()
        let closed = DeviceBytes.now(of: directory)
        trial.writtenBytes = after.process - before.process
        trial.deviceBytes = after.device(since: before)
        trial.closedWrittenBytes = closed.process - before.process
        trial.closedDeviceBytes = closed.device(since: before)
        trial.storeBytes = DeviceBytes.used(by: directory + "/store")
        try check(trial, conversations, directory)
        return trial
    }

    /// One producer: answer after answer. Producers begin one after the other, as people do, and not all at one tick.
    private static func stream(
        _ number: Int, _ plan: Plan, _ answers: [[String]], to conversation: ConversationID, from author: UserID, _ store: ConversationStore,
        _ start: ContinuousClock.Instant
    ) async throws -> (chunks: Int, bytes: Int) {
        var (chunks, bytes, turn) = (0, 0, number)
        let pause: Duration = plan.rate > 0 ? .seconds(1 / plan.rate) : .zero
        let first = start + pause * (Double(number) / Double(plan.streams))
        while chunks < plan.chunks {
            let answer = try await store.startMessage(in: conversation, from: author)
            for text in answers[turn % answers.count].prefix(plan.chunks - chunks) {
                if plan.rate > 0 { try await Task.sleep(until: first + pause * chunks, tolerance: .zero, clock: .continuous) }
                try await answer.append(text)
                chunks += 1
                bytes += text.utf8.count
            }
            try await answer.complete()
            turn += plan.streams
        }
        return (chunks, bytes)
    }

    /// What was counted is there.
    private static func check(_ trial: StreamTrial, _ conversations: [ConversationID], _ directory: String) throws {
        let store = try ConversationStore.open(at: directory + "/store", options: ConversationStoreOptions(access: .readOnly))
        var bytes = 0
        for id in conversations {
            for message in try store.timeline(of: id, limit: .max)?.messages ?? [] { bytes += message.text.utf8.count }
        }
        try store.close()
        guard bytes == trial.textBytes else { throw EngineError("\(trial.textBytes) bytes were streamed, the store shows \(bytes)") }
    }

    /// A Markdown table of trials: of the rounds of a plan, the one in which the store wrote the least.
    public static func markdown(_ trials: [StreamTrial]) -> String {
        var lines = [
            "| streams | chunks/s a stream | chunks | bytes a chunk | written ÷ text | until closed ÷ text | device ÷ text, until closed | written, bytes a chunk "
                + "| closed store ÷ text |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for trial in trials {
            let text = Double(trial.textBytes)
            let reached = grouped(Double(trial.chunks) / trial.seconds / Double(trial.plan.streams))
            let pace = trial.plan.rate > 0 ? reached : "unpaced: \(reached)"
            let cells = [
                "\(trial.plan.streams)", pace, grouped(Double(trial.chunks)), fixed(text / Double(trial.chunks), 1),
                fixed(Double(trial.writtenBytes) / text, 1), fixed(Double(trial.closedWrittenBytes) / text, 1),
                trial.closedDeviceBytes.map { fixed(Double($0) / text, 1) } ?? "", grouped(Double(trial.writtenBytes) / Double(trial.chunks)),
                fixed(Double(trial.storeBytes) / text, 1),
            ]
            lines.append("| " + cells.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n")
    }
}
