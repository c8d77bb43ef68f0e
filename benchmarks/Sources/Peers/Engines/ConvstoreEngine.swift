import EventLog
import Synchronization

/// The store itself. It checks every rule of acceptance and always knows its message ids.
final class ConvstoreEngine: Engine {
    private let store: EventStore
    private let conversations: Set<ConversationID>

    init(directory: String, held: ArraySlice<Item>, options: EngineOptions) throws {
        // The trial's directory exists; the store makes its own inside, crash-safely.
        let durability: Durability = options.isDurable ? .full : .relaxed(interval: .seconds(1))
        store = try EventStore.open(at: directory + "/store", options: StoreOptions(durability: durability))
        conversations = Set(held.map(\.event.conversation))
    }

    func append(_ items: ArraySlice<Item>) throws {
        try Self.check(try store.appendBlocking(items.map { Submission($0.event) }))
    }

    private static func check(_ outcomes: [AppendOutcome]) throws {
        for outcome in outcomes {
            guard case .accepted = outcome else { throw EngineError("convstore: not accepted: \(outcome)") }
        }
    }

    func scan(_ order: ScanOrder, _ body: (RecordedEvent) -> Void) throws -> Int {
        var count = 0
        func take(_ event: RecordedEvent) -> Bool {
            body(event)
            count += 1
            return true
        }
        switch order {
        case .commit: try store.replay(from: 1, through: .max, log: nil, take)
        case .conversation:
            for conversation in conversations.sorted() {
                try store.replay(from: 1, through: .max, log: .conversation(conversation), take)
            }
        }
        return count
    }

    func close() throws { try store.close() }

    private final class End: Sendable {
        let isReached = Atomic(false)
    }

    /// One event an append from many tasks at once, each task with conversations of its own, as a conversation's order must hold.
    func appendConcurrently(_ items: ArraySlice<Item>, writers: Int, directory: String) async throws -> Trial {
        var shares = [[Event]](repeating: [], count: writers)
        for item in items { shares[Int(item.event.conversation.low % UInt64(writers))].append(item.event) }
        // The trial ends when the first writer has nothing left: from then on there would be fewer than stated.
        let end = End()
        let store = store
        let before = DeviceBytes.now(of: directory)
        let start = Trial.nanoseconds()
        var trial = Trial()
        try await withThrowingTaskGroup(of: [Double].self) { group in
            for share in shares {
                group.addTask {
                    var commits: [Double] = []
                    for event in share {
                        if end.isReached.load(ordering: .relaxed) { return commits }
                        let begun = Trial.nanoseconds()
                        try Self.check(try await store.append([Submission(event)]))
                        commits.append(Double(Trial.nanoseconds() - begun) / 1000)
                    }
                    end.isReached.store(true, ordering: .relaxed)
                    return commits
                }
            }
            for try await commits in group { trial.commits += commits }
        }
        trial.seconds = Double(Trial.nanoseconds() - start) / 1e9
        trial.events = trial.commits.count
        let after = DeviceBytes.now(of: directory)
        trial.writtenBytes = after.process - before.process
        trial.deviceBytes = after.device(since: before)
        trial.commits.sort()
        return trial
    }
}
