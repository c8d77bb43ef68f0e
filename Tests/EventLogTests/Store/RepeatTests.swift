import Testing

@testable import EventLog

@Suite("Repeats") struct RepeatTests {
    let directory = TemporaryDirectory()

    private func chunk(_ id: UInt64, _ index: UInt32) -> Submission {
        Submission(
            Event(conversation: conversation(1), author: user("ann"), content: .chunkAppended(message: message(id), index: index, text: "\(id) \(index)")))
    }

    private func stream(_ id: UInt64) -> Submission {
        let message = Event.Message(id: message(id), role: .assistant, text: "", isStreaming: true)
        return Submission(Event(conversation: conversation(1), author: user("ann"), content: .messageSent(message)))
    }

    @Test("A chunk's repeat is answered with its seq, wherever that lies and in whatever order they are asked for", arguments: [0, 1, 2])
    func chunks(_ place: Int) throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)])
        // Three streams at once, with messages between; the last one begins alone.
        var made: [Submission] = [stream(1), stream(2), sent(100, in: 1, "between")]
        for index in 0..<20 as Range<UInt32> {
            made += [chunk(1, index), sent(200 + UInt64(index), in: 1, "between"), chunk(2, index)]
        }
        made += [stream(3)] + (0..<20).map { chunk(3, $0) }
        let asked = ([1, 2, 3] as [UInt64]).flatMap { id in (0..<20).map { chunk(id, $0) } }
        var seqs: [Event: Seq] = [:]
        let orders = [asked, asked.reversed(), asked.shuffled()]
        if place == 0 {
            // All in one frame.
            let outcomes = try store.appendBlocking(made + orders.flatMap { $0 })
            for (submission, outcome) in zip(made, outcomes) { seqs[submission.event] = outcome.receipt?.seq }
            for (submission, outcome) in zip(orders.flatMap { $0 }, outcomes.dropFirst(made.count)) {
                #expect(!outcome.isAccepted && outcome.receipt?.seq == seqs[submission.event])
            }
        } else {
            for (submission, outcome) in zip(made, try store.appendBlocking(made)) { seqs[submission.event] = outcome.receipt?.seq }
            if place == 2 { try store.flush() }
        }
        for order in orders {
            for (submission, outcome) in zip(order, try store.appendBlocking(order)) {
                #expect(!outcome.isAccepted && outcome.receipt?.seq == seqs[submission.event])
            }
        }
        #expect(seqs.count == made.count && Set(seqs.values).count == made.count)
        try store.close()
    }

    @Test("For the chunks that are repeated in a frame no more than so many events are read: behind that their messages are named") func chunksLongAgo() throws
    {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), stream(1), stream(2)])
        _ = try store.appendBlocking([sent(9, in: 1, "between"), chunk(1, 0), chunk(2, 0)])
        let between = 3 * ChunkSeqs.eventsMax / 4
        for first in stride(from: 0, to: between, by: 1 << 15) {
            _ = try store.appendBlocking((0..<1 << 15).map { sent(UInt64(1000 + first + $0), in: 1, "") })
        }
        try store.flush()
        _ = try store.appendBlocking([chunk(1, 1), chunk(2, 1)])
        let end = Seq(between) + 8
        // Both from their beginnings: the second is too much.
        #expect(try store.appendBlocking([chunk(1, 1), chunk(2, 1), chunk(1, 0), chunk(2, 0)]).map { $0.receipt?.seq } == [end - 1, 3, 5, 6])
        #expect(try store.appendBlocking([chunk(2, 1)]).map { $0.receipt?.seq } == [end])
        try store.close()
    }

    @Test("Of what is not synced yet a repeat does not say that it is durable") func relaxed() throws {
        var options = StoreOptions()
        options.durability = .relaxed(interval: .seconds(3600))
        let store = try EventStore.open(at: directory.store, options: options)
        let asked = [created(1), sent(1, in: 1, "a"), sent(1, in: 1, "a")]
        #expect(try store.appendBlocking(asked).map { $0.receipt?.isDurable } == [false, false, false])
        #expect(try store.appendBlocking(asked).map { $0.receipt?.isDurable } == [false, false, false])
        try store.flush()
        #expect(try store.appendBlocking(asked).map { $0.receipt?.isDurable } == [true, true, true])
        try store.close()
    }

    @Test("What a frame has is found again in it, each time that something came") func inOneFrame() throws {
        let store = try EventStore.open(at: directory.store)
        var asked = [created(1)]
        for id in 1...500 as ClosedRange<UInt64> {
            asked += [sent(id, in: 1, "text \(id)"), sent(id, in: 1, "text \(id)"), sent((id + 1) / 2, in: 1, "text \((id + 1) / 2)")]
        }
        let outcomes = try store.appendBlocking(asked)
        for id in 1...500 as ClosedRange<UInt64> {
            let place = Int(id) * 3 - 2
            #expect(outcomes[place].isAccepted && outcomes[place].receipt?.seq == id + 1)
            #expect(outcomes[place + 1] == .duplicate(outcomes[place].receipt!))
            #expect(outcomes[place + 2].receipt?.seq == (id + 1) / 2 + 1)
        }
        // Nothing of an atomic batch that is refused is found again.
        let refused = try store.appendBlocking([sent(900, in: 1, "a"), sent(900, in: 1, "a"), sent(900, in: 1, "b")], isAtomic: true)
        #expect(refused.last?.refusal == .messageConflict)
        let again = try store.appendBlocking([sent(900, in: 1, "b"), sent(900, in: 1, "b"), sent(1, in: 1, "text 1")])
        #expect(again[0].isAccepted && again[1] == .duplicate(again[0].receipt!) && again[2].receipt?.seq == 2)
        try store.close()
    }

    @Test("Of an origin above its lane's mark it is known beforehand that no event has it, also of one that is alone") func fresh() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)] + (1..<50).map { sent($0, in: 1, "text") })
        var made = sent(900, in: 1, "new")
        made.origin = Origin(replica: ReplicaID(high: 7, low: 7), counter: 1, hlc: HLC(milliseconds: 1))
        var later = sent(901, in: 1, "later")
        later.origin = Origin(replica: ReplicaID(high: 7, low: 7), counter: 2, hlc: HLC(milliseconds: 2))
        made.former = FormerOrigin(replica: ReplicaID(high: 8, low: 8), counter: 1)
        var asked = [made]
        #expect(try look(&asked, OriginIndex(store: store)).events == 0)
        #expect(asked[0].recall?.through == 50 && asked[0].recall?.found == nil && asked[0].formerRecall?.through == 50)
        // Another of its lane comes before it.
        _ = try store.appendBlocking([later])
        #expect(try store.appendBlocking(asked)[0].refusal == .originConflict)
        try store.close()
    }
}
