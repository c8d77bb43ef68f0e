import EventLog
import Testing

@Suite("Event store") struct EventStoreTests {
    let directory = TemporaryDirectory()

    func open(_ options: StoreOptions = StoreOptions(journalBytesMax: 256 << 10)) throws -> EventStore {
        try EventStore.open(at: directory.store, options: options)
    }

    /// Talks in three conversations, with streams; enough for several runs and journal files.
    func fill(_ store: EventStore, messages: UInt64 = 600) throws {
        for number in 1...3 as ClosedRange<UInt64> { #expect(try store.appendBlocking([created(number)])[0].receipt != nil) }
        for id in 1...messages {
            let number = id % 3 + 1
            var batch = [sent(id, in: number, "message \(id) " + String(repeating: "words and more words ", count: Int(id % 20)), isStreaming: id % 5 == 0)]
            if id % 5 == 0 {
                for index in 0..<UInt32(id % 7) { batch.append(chunk(index, of: id, in: number, "token \(index) ")) }
            }
            #expect(try store.appendBlocking(batch).allSatisfy(\.isAccepted))
        }
    }

    @Test("I1: what was acknowledged is there after closing and reopening, in the same order")
    func reopen() throws {
        let store = try open()
        try fill(store)
        let before = try store.all()
        let heads = try store.heads()
        try store.close()
        let again = try open()
        #expect(try again.all() == before)
        #expect(try again.heads() == heads)
        #expect(before.map(\.position) == Array(1...UInt64(before.count)))
        try again.close()
        let report = try EventStore.verify(at: directory.store)
        #expect(report.problems == [])
        #expect(report.events == UInt64(before.count))
        #expect(report.conversations == 3)
    }

    @Test("I7: an origin with this store's name and the last counter there is ends the lane, not the process")
    func lastCounter() throws {
        let store = try open()
        #expect(try store.appendBlocking([created(1)])[0].receipt != nil)
        let own = ReplicaID(high: store.id.high, low: store.id.low)
        let stolen = Submission(sent(1, in: 1, "hello").event, origin: Origin(replica: own, counter: .max, hlc: HLC(milliseconds: 1)))
        #expect(try store.appendBlocking([stolen])[0].receipt != nil)
        guard case .refused(let refusal) = try store.appendBlocking([sent(2, in: 1, "and now?")])[0] else {
            Issue.record("it was taken")
            return
        }
        #expect(refusal.code == .originConflict)
        try store.close()
    }

    @Test("I2: seqs are dense, and any range reads the same in both directions")
    func ranges() throws {
        let store = try open()
        try fill(store)
        for number in 1...3 as ClosedRange<UInt64> {
            let log = LogID.conversation(conversation(number))
            let events = try store.events(in: log)
            #expect(events.map(\.seq) == Array(1...UInt64(events.count)))
            #expect(try store.events(in: log, isReversed: true) == events.reversed())
            #expect(try store.events(in: log, range: 10...20) == Array(events[9..<20]))
            #expect(try store.events(in: log, range: 1...UInt64.max, isReversed: true, limit: 5) == events.suffix(5).reversed())
            #expect(try store.event(in: log, at: 17) == events[16])
            #expect(try store.event(in: log, at: UInt64(events.count) + 1) == nil)
            var replayed: [RecordedEvent] = []
            try store.replay(log: log) { event in
                replayed.append(event)
                return true
            }
            #expect(replayed == events)
        }
        try store.close()
    }

    @Test("I3: a repeat is a duplicate with the first one's receipt, after a reopening too")
    func duplicates() throws {
        let store = try open()
        _ = try store.appendBlocking([created(1)])
        let first = try store.appendBlocking([sent(1, in: 1, "hello")])[0].receipt
        #expect(try store.appendBlocking([sent(1, in: 1, "hello")]) == [.duplicate(first!)])
        #expect(try store.appendBlocking([sent(1, in: 1, "hullo")])[0].refusal == .messageConflict)
        try store.close()
        let again = try open()
        #expect(try again.appendBlocking([sent(1, in: 1, "hello")]) == [.duplicate(first!)])
        #expect(try again.appendBlocking([sent(1, in: 1, "hullo")])[0].refusal == .messageConflict)
        #expect(try again.all().count == 2)
        try again.close()
    }

    @Test("An atomic batch is taken whole or not at all")
    func atomic() throws {
        let store = try open()
        _ = try store.appendBlocking([created(1), created(2)])
        let outcomes = try store.appendBlocking([sent(1, in: 1, "a"), sent(2, in: 2, "b"), sent(3, in: 9, "c")], isAtomic: true)
        #expect(outcomes == [.withdrawn, .withdrawn, .refused(Refusal(.unknownConversation))])
        #expect(try store.all().count == 2)
        #expect(try store.appendBlocking([sent(1, in: 1, "a"), sent(2, in: 2, "b")], isAtomic: true).allSatisfy(\.isAccepted))
        #expect(try store.all().map(\.position) == [1, 2, 3, 4])
        try store.close()
    }

    @Test("Sixty-four writers at once leave dense logs and one order")
    func concurrent() async throws {
        let store = try open()
        _ = try store.appendBlocking([created(1), created(2)])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<64 as Range<UInt64> {
                group.addTask {
                    for number in 0..<10 as Range<UInt64> {
                        let outcomes = try await store.append([sent(writer * 100 + number + 1, in: writer % 2 + 1, "from \(writer)")])
                        #expect(outcomes[0].isAccepted)
                    }
                }
            }
            try await group.waitForAll()
        }
        let events = try store.all()
        #expect(events.map(\.position) == Array(1...642))
        #expect(try store.events(in: .conversation(conversation(1))).map(\.seq) == Array(1...321))
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("A relaxed store answers before the sync, and shows what is synced")
    func relaxed() throws {
        let store = try open(StoreOptions(durability: .relaxed(interval: .milliseconds(20))))
        let outcome = try store.appendBlocking([created(1)])[0]
        #expect(outcome.receipt?.isDurable == false)
        try fill(store, messages: 50)
        let expected = store.lastPosition
        try store.close()
        let again = try open()
        #expect(again.lastPosition >= expected)
        #expect(again.lastPosition >= 53)
        try again.close()
    }

    @Test("A second writer is refused with the first one's process id; a reader beside it sees what was durable")
    func secondWriter() throws {
        let store = try open()
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "x")])
        let error = #expect(throws: EventLogError.self) { _ = try open() }
        #expect(error?.code == .busy)
        let reader = try open(StoreOptions(access: .readOnly))
        #expect(try reader.all() == store.all())
        #expect(throws: EventLogError.self) { _ = try reader.appendBlocking([sent(2, in: 1, "y")]) }
        try reader.close()
        try store.close()
        try open().close()
    }

    @Test("I6: a proof made before holds after the log grew and an event was erased; its salt and text are gone")
    func erase() throws {
        let store = try open()
        try fill(store, messages: 60)
        let secretText = "the very secret words of this test"
        let log = LogID.conversation(conversation(1))
        let receipt = try store.appendBlocking([sent(1000, in: 1, secretText)])[0].receipt!
        let note = try store.makeCheckpoint()
        let proof = try store.proveInclusion(log: log, seq: receipt.seq)
        let other = try store.proveInclusion(log: log, seq: 2)
        let key = try VerifierKey(store.verifierKey())
        _ = try proof.check(expectedKey: key)
        guard case .inclusion(let shown) = proof, case .shown(_, let salt) = shown.body else { throw Refusal(.malformed) }
        let head = try store.head(of: log)
        let heads = try store.heads()
        _ = try store.appendBlocking([sent(1001, in: 2, "later")])

        try store.erase(log: log, seq: receipt.seq)

        let erased = try store.event(in: log, at: receipt.seq)
        #expect(erased?.isErased == true)
        if case .messageSent(let message) = erased?.event.content { #expect(message.text == "") }
        #expect(try store.head(of: log) == head)
        #expect(try store.heads()[log] == heads[log])
        _ = try proof.check(expectedKey: key)
        _ = try other.check(expectedKey: key)
        guard case .inclusion(let hidden) = try store.proveInclusion(log: log, seq: receipt.seq), case .hidden(let commitment) = hidden.body else {
            Issue.record("the body is still shown")
            return
        }
        #expect(hidden.head == shown.head)
        _ = commitment
        #expect(try Checkpoint.open(note, key: key).size == 3)
        _ = try store.appendBlocking([sent(1002, in: 1, "and on")])
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])

        _ = try EventStore.compact(at: directory.store)
        for bytes in filesBytes(directory.store) {
            #expect(!contains(bytes, Array(secretText.utf8)))
            #expect(!contains(bytes, salt.bytes))
        }
        #expect(try EventStore.verify(at: directory.store).problems == [])
        let again = try open()
        #expect(try again.event(in: log, at: receipt.seq)?.isErased == true)
        #expect(try again.head(of: log)?.size == head!.size + 1)
        _ = try again.proveConsistency(log: log, from: head!.size).check(expectedKey: nil)
        // Erased content can still be told from a new message by its id.
        #expect(try again.appendBlocking([sent(1000, in: 1, secretText)])[0].receipt?.seq == receipt.seq)
        try again.close()
    }

    @Test("Checkpoints are consistent with each other, and a log's growth can be proven")
    func checkpoints() throws {
        let store = try open()
        try fill(store, messages: 30)
        let first = try store.makeCheckpoint()
        let log = LogID.conversation(conversation(2))
        let size = try store.head(of: log)!.size
        try fillMore(store)
        _ = try store.makeCheckpoint()
        let key = try VerifierKey(store.verifierKey())
        _ = try store.proveCheckpoint(from: first).check(expectedKey: key)
        _ = try store.proveConsistency(log: log, from: size).check(expectedKey: key)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    @Test("I1: after two erasures with nothing in between a crash leaves a store that opens")
    func eraseTwice() throws {
        var options = StoreOptions(journalBytesMax: 256 << 10)
        options.runsInline = true
        let store = try open(options)
        try fill(store, messages: 20)
        let log = LogID.conversation(conversation(1))
        for seq in [2, 3] as [Seq] { try store.erase(log: log, seq: seq) }
        let receipt = try store.appendBlocking([sent(2000, in: 1, "behind")])[0].receipt!
        store.abandon()
        let again = try open(options)
        #expect(try again.event(in: log, at: receipt.seq) != nil)
        #expect(try [2, 3].allSatisfy { try again.event(in: log, at: $0)?.isErased ?? false })
        try again.close()
    }

    private func fillMore(_ store: EventStore) throws {
        for id in 5000...5050 as ClosedRange<UInt64> { _ = try store.appendBlocking([sent(id, in: id % 3 + 1, "more \(id)")]) }
    }

    @Test("A copy of a live store is the store, with the journal's events")
    func copy() throws {
        let store = try open()
        try fill(store)
        let target = directory.path + "/copy"
        try EventStore.copy(from: directory.store, to: target)
        let copied = try EventStore.open(at: target, options: StoreOptions(access: .readOnly))
        #expect(try copied.all() == store.all())
        #expect(try copied.heads() == store.heads())
        try copied.close()
        try store.close()
        #expect(try EventStore.verify(at: target).problems == [])
        #expect(throws: EventLogError.self) { try EventStore.copy(from: directory.store, to: target) }
    }

    @Test("A chunk that leaves a hole is refused with the index that is expected; nothing follows the end")
    func chunks() throws {
        let store = try open()
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "", isStreaming: true), chunk(0, of: 1, in: 1, "a")])
        #expect(try store.appendBlocking([chunk(2, of: 1, in: 1, "c")]) == [.refused(Refusal(.chunkGap, "1"))])
        try store.flush()
        #expect(try store.appendBlocking([chunk(1, of: 1, in: 1, "b")])[0].isAccepted)
        #expect(try store.appendBlocking([chunk(0, of: 1, in: 1, "a")])[0].receipt?.seq == 3)
        let end = Submission(Event(conversation: conversation(1), author: user("bob"), content: .messageInterrupted(message: message(1), reason: "stop")))
        #expect(try store.appendBlocking([end])[0].isAccepted)
        #expect(try store.appendBlocking([chunk(2, of: 1, in: 1, "c")])[0].refusal == .messageClosed)
        try store.close()
    }

    @Test("What is no store is refused with a typed error")
    func refusals() throws {
        #expect(throws: EventLogError.self) { _ = try EventStore.open(at: directory.path + "/none", options: StoreOptions(access: .readOnly)) }
        let error = #expect(throws: EventLogError.self) { _ = try EventStore.open(at: directory.path + "/no/parent") }
        #expect(error?.code == .cannotCreate)
    }

    @Test("What another store recorded is adopted with its heads, erased events too")
    func adopt() throws {
        let store = try open()
        try fill(store, messages: 40)
        let log = LogID.conversation(conversation(1))
        try store.erase(log: log, seq: 4)
        let events = try store.all()
        let heads = try store.heads()
        var secrets: [LogID: [UInt8]] = [:]
        for log in heads.keys { secrets[log] = try store.secret(of: log) }
        try store.close()

        let other = try EventStore.open(at: directory.path + "/other")
        #expect(try other.adoptBlocking(events, secrets: secrets).allSatisfy(\.isAccepted))
        #expect(try other.heads() == heads)  // from the journal
        #expect(try other.all() == events)
        try other.flush()
        #expect(try other.heads() == heads)  // from the archive
        #expect(try other.all() == events)
        for log in heads.keys { #expect(try other.secret(of: log) == secrets[log]) }
        try other.close()
        #expect(try EventStore.verify(at: directory.path + "/other").problems == [])
    }
}
