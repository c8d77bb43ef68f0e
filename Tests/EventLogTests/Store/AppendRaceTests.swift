import Synchronization
import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A file-by-file copy of a store's directory, as kill -9 would leave it.
func abandonedCopy(of store: EventStore, in directory: TemporaryDirectory, _ name: String) throws -> String {
    // Not in the middle of a commit of the archive: that is no state a crash can leave, as the files are copied one after the other.
    store.flushing.withLock(waitingWhile: { $0.asked != $0.done }) { _ in }
    let target = directory.path + "/" + name
    try Directory.make(target)
    for name in try Directory.names(store.path) where !name.hasSuffix("-lock") && name != "lock" {
        let from = try File(store.path + "/" + name, O_RDONLY)
        let bytes = try from.read(try from.size, at: 0)
        let to = try File(target + "/" + name, O_RDWR | O_CREAT)
        try bytes.withUnsafeBytes { try to.write($0, at: 0) }
    }
    return target
}

@Suite("Appending from many sides") struct AppendRaceTests {
    static let small = StoreOptions(journalBytesMax: 64 << 10, queueDepthMax: 8)

    @Test("I2: 64 writers, tasks and threads, a narrow queue and a small journal: dense seqs, whole batches, no one waits for ever", .timeLimit(.minutes(20)))
    func writers() async throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: Self.small)
        for number in 0..<4 as Range<UInt64> { _ = try await store.append([created(number)]) }
        let threads = Mutex(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<32 as Range<UInt64> {
                group.addTask {
                    for round in 0..<12 as Range<UInt64> {
                        let id = writer << 32 | round << 8
                        let batch = (0..<3 as Range<UInt64>).map {
                            sent(id | $0, in: ($0 + writer) % 4, "batch \(id) \($0) " + String(repeating: "x", count: 200))
                        }
                        let outcomes = try await store.append(batch, isAtomic: true)
                        #expect(outcomes.allSatisfy { $0.isAccepted })
                    }
                }
                WorkerThread.start {
                    for round in 0..<12 as Range<UInt64> {
                        let outcomes = try? store.appendBlocking([sent(writer << 32 | round << 8 | 0xFF, in: writer % 4, "thread")])
                        if outcomes?.first?.isAccepted != true { Issue.record("a thread's append: \(String(describing: outcomes))") }
                    }
                    threads.withLock { $0 += 1 }
                }
            }
            try await group.waitForAll()
        }
        while threads.withLock({ $0 }) < 32 { try await Task.sleep(for: .milliseconds(5)) }
        try store.close()
        let again = try EventStore.open(at: directory.store, options: Self.small)
        let all = try again.all()
        #expect(all.count == 4 + 32 * 12 * 4)
        var seqs: [LogID: Seq] = [:]
        var previous: [Substring] = []
        for (index, record) in all.enumerated() {
            seqs[record.log, default: 0] += 1
            #expect(record.position == Position(index + 1) && record.seq == seqs[record.log])
            // A batch's events stand together.
            guard case .messageSent(let message) = record.event.content, message.text.hasPrefix("batch") else { continue }
            let words = message.text.split(separator: " ")
            if words[2] != "0" { #expect(previous[1] == words[1] && Int(previous[2])! + 1 == Int(words[2])!) }
            previous = words
        }
        try again.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("A thread that waits for room goes on when tasks have left it", .timeLimit(.minutes(20))) func queueBound() async throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: Self.small)
        _ = try await store.append([created(1)])
        for round in 0..<40 as Range<UInt64> {
            let done = Atomic(false)
            // The writer's thread is kept busy until the queue is full of tasks and a thread stands before it.
            try await withThrowingTaskGroup(of: Void.self) { group in
                store.leadership.withLock { _ in
                    for task in 0..<8 as Range<UInt64> {
                        group.addTask { _ = try await store.append([sent(round << 16 | task, in: 1, "task")]) }
                    }
                    while store.queue.withLock({ $0.waiting }) < 8 { usleep(200) }
                    let batch = [sent(round << 16 | 99, in: 1, "thread")]
                    WorkerThread.start { [done = Box(done: { done.store(true, ordering: .releasing) })] in
                        _ = try? store.appendBlocking(batch)
                        done.done()
                    }
                    usleep(3_000)
                    #expect(store.queue.withLock { $0.waiting } <= 8, "the queue's bound")
                }
                try await group.waitForAll()
            }
            var waited = 0
            while !done.load(ordering: .acquiring), waited < 2000 {
                usleep(5_000)
                waited += 5
            }
            if !done.load(ordering: .acquiring) {
                Issue.record("round \(round): the thread still waits for room, and nobody else is there")
                exit(1)  // It would write into a variable of ours.
            }
        }
        try store.close()
    }

    private struct Box: @unchecked Sendable { let done: () -> Void }

    @Test("Cancelling a caller's task leaves a batch whole") func cancelling() async throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: Self.small)
        _ = try await store.append([created(1), created(2)])
        for round in 0..<60 as Range<UInt64> {
            let task = Task { try await store.append((0..<6).map { sent(round << 8 | $0, in: 1 + $0 % 2, "round \(round)") }, isAtomic: true) }
            if round % 3 == 1 { await Task.yield() }
            task.cancel()
            _ = try? await task.value
        }
        try store.close()
        let again = try EventStore.open(at: directory.store)
        var counts: [String: Int] = [:]
        for record in try again.all() { if case .messageSent(let message) = record.event.content { counts[message.text, default: 0] += 1 } }
        #expect(counts.values.allSatisfy { $0 == 6 })
        try again.close()
    }

    @Test("A refused atomic batch leaves nothing, in memory or on disk; its ids and origins stay free") func refusedBatch() throws {
        let directory = TemporaryDirectory()
        var store = try EventStore.open(at: directory.store, options: Self.small)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        let replica = ReplicaID(high: 9, low: 9)
        func origin(_ counter: UInt64) -> Origin { Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 1)) }
        var batch = [created(2), sent(2, in: 2, "new log"), sent(3, in: 1, "old log"), chunk(0, of: 77, in: 1, "no such message")]
        for index in batch.indices { batch[index].origin = origin(1) }
        batch[1].origin = origin(2)
        batch[2].origin = origin(5)
        batch[3].origin = origin(6)
        let refused = try store.appendBlocking(batch, isAtomic: true)
        #expect(refused[3].refusal == .unknownMessage && refused[0] == .withdrawn && refused[1] == .withdrawn && refused[2] == .withdrawn)
        #expect(store.lastPosition == 2)
        for round in 0..<2 {
            let all = try store.all()
            #expect(all.count == 2, "round \(round)")
            let none = try store.event(in: .conversation(conversation(2)), at: 1)
            #expect(none == nil)
            try store.close()
            store = try EventStore.open(at: directory.store, options: Self.small)
        }
        // The same ids and origins are taken now: nothing was marked.
        let accepted = try store.appendBlocking([batch[0], Submission(batch[2].event, origin: batch[2].origin)], isAtomic: true)
        #expect(accepted.allSatisfy { $0.isAccepted })
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("Repeats within one batch are duplicates of what stands before them; an origin with other content is a conflict") func repeats() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: Self.small)
        func with(_ submission: Submission, _ counter: UInt64) -> Submission {
            Submission(submission.event, origin: Origin(replica: ReplicaID(high: 9, low: 9), counter: counter, hlc: HLC(milliseconds: 1)))
        }
        let outcomes = try store.appendBlocking([
            with(created(1), 1), with(created(1), 1), with(sent(1, in: 1, "a"), 2), with(sent(1, in: 1, "a"), 2), with(sent(1, in: 1, "a"), 3),
            with(sent(1, in: 1, "b"), 2), with(sent(2, in: 1, "c"), 2), sent(1, in: 1, "a"), sent(1, in: 1, "b"),
        ])
        #expect(outcomes[0].isAccepted && outcomes[2].isAccepted)
        #expect(outcomes[1] == .duplicate(outcomes[0].receipt!) && outcomes[3] == .duplicate(outcomes[2].receipt!))
        #expect(outcomes[4] == .duplicate(outcomes[2].receipt!) && outcomes[7] == .duplicate(outcomes[2].receipt!))
        #expect(outcomes[5].refusal == .originConflict && outcomes[6].refusal == .originConflict)
        #expect(outcomes[8].refusal == .messageConflict)
        for isAtomic in [false, true] {
            let again = try store.appendBlocking([with(created(1), 1), with(sent(1, in: 1, "a"), 2)], isAtomic: isAtomic)
            #expect(again == [.duplicate(outcomes[0].receipt!), .duplicate(outcomes[2].receipt!)])
        }
        #expect(try store.all().count == 2)
        try store.close()
    }

    @Test("I3: a repeat of a duplicate gets the first answer, whatever came since, also after a flush and anew after opening") func repeatedDuplicates() throws
    {
        let directory = TemporaryDirectory()
        var store = try EventStore.open(at: directory.store, options: Self.small)
        func with(_ counter: UInt64, by author: String = "ann", _ content: Event.Content) -> Submission {
            Submission(
                Event(conversation: conversation(1), author: user(author), content: content),
                origin: Origin(replica: ReplicaID(high: 9, low: 9), counter: counter, hlc: HLC(milliseconds: 1)))
        }
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one"), sent(2, in: 1, "two")])
        _ = try store.appendBlocking([with(1, by: "bob", .receiptRead(upTo: message(1)))])
        let repeats = [
            with(2, .participantJoined(user("bob"))), with(3, by: "bob", .receiptRead(upTo: message(1))),
            with(4, by: "bob", .receiptDelivered(upTo: message(1))),
        ]
        let first = try store.appendBlocking(repeats)
        #expect(first.map { $0.receipt?.seq } == [1, 4, 5])
        #expect(!first[0].isAccepted && !first[1].isAccepted && first[2].isAccepted)
        _ = try store.appendBlocking([with(5, by: "bob", .receiptRead(upTo: message(2))), with(6, by: "bob", .participantLeft(user("bob")))])
        let left = with(7, .participantLeft(user("bob")))
        let second = try store.appendBlocking([left])
        #expect(second.map { $0.receipt?.seq } == [7])
        _ = try store.appendBlocking([with(8, .participantJoined(user("bob"))), with(9, .participantLeft(user("bob"))), sent(3, in: 1, "three")])

        for step in 0..<3 {
            let again = try store.appendBlocking(repeats + [left])
            #expect(again.map { $0.receipt?.seq } == [1, 4, 5, 7] && again.allSatisfy { !$0.isAccepted })
            // Another event under such a counter is not swallowed.
            #expect(
                try store.appendBlocking([with(2, .participantJoined(user("bob"))), with(3, sent(9, in: 1, "x").event.content)])[1].refusal == .originConflict)
            if step == 0 { try store.flush() }
            if step == 1 {
                try store.close()
                store = try EventStore.open(at: directory.store, options: Self.small)
            }
        }
        try store.close()
    }

    @Test("I3: refusals alone, more than the journal holds, are remembered after a crash") func refusalsOnly() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: Self.small)
        _ = try store.appendBlocking([created(1)])
        try store.flush()
        var submissions: [Submission] = []
        for counter in 1...6000 as ClosedRange<UInt64> {
            submissions.append(
                Submission(
                    chunk(0, of: 1_000_000 + counter, in: 1, "x").event,
                    origin: Origin(replica: ReplicaID(high: 9, low: 9), counter: counter, hlc: HLC(milliseconds: 1))))
        }
        for start in stride(from: 0, to: submissions.count, by: 4) {
            let outcomes = try store.appendBlocking(Array(submissions[start..<start + 4]))
            #expect(outcomes.allSatisfy { $0.refusal == .unknownMessage })
            if start % 1500 == 0 {
                let copy = try EventStore.open(at: abandonedCopy(of: store, in: directory, "copy-\(start)"), options: Self.small)
                // What would be accepted now, had its origin not been refused before.
                let event = sent(2_000_000, in: 1, "new").event
                for index in [start + 3, 0] {
                    let again = try copy.appendBlocking([Submission(event, origin: submissions[index].origin)])
                    #expect(again[0].refusal == .unknownMessage)
                }
                try copy.close()
            }
        }
        try store.close()
    }
}
