import Testing

@testable import EventLog

@Suite("Origins of long logs") struct OriginIndexTests {
    let directory = TemporaryDirectory()
    private let lanes = (0..<3 as Range<UInt64>).map { ReplicaID(high: 0x1A, low: $0) }

    private func submission(_ lane: ReplicaID, _ counter: UInt64, _ id: UInt64, _ text: String = "text", isFirst: Bool = false) -> Submission {
        var made = sent(id, in: 1, text)
        made.origin = Origin(replica: lane, counter: counter, hlc: HLC(milliseconds: counter))
        made.isFirstSending = isFirst
        return made
    }

    /// Some thousand events of three lanes, with counters left out, part of them archived.
    private func fill(_ store: EventStore) throws -> [Origin: Seq] {
        _ = try store.appendBlocking([created(1)])
        var seqs: [Origin: Seq] = [:]
        var counters: [UInt64] = [0, 0, 0]
        for round in 0..<50 as Range<UInt64> {
            let batch = (0..<100 as Range<UInt64>).map { index -> Submission in
                let lane = round < 30 ? Int((round + index / 7) % 2) : Int(index % 3)
                counters[lane] += index % 5 == 0 ? 2 : 1
                return submission(lanes[lane], counters[lane], round * 100 + index)
            }
            for (submission, outcome) in zip(batch, try store.appendBlocking(batch)) { seqs[submission.origin!] = try #require(outcome.receipt).seq }
            if round == 35 { try store.flush() }
        }
        return seqs
    }

    @Test("I3: of counters that a batch itself raises, nothing is looked for before it, of the origin that an event had, too") func raised() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try fill(store)
        let index = OriginIndex(store: store), end = try store.lastVisibleSeq(of: .conversation(conversation(1)))
        var batch = [submission(ReplicaID(high: 9, low: 9), 50, 90_000)] + (1...9).map { submission(ReplicaID(high: 9, low: 9), 50 - $0, 90_000 + $0) }
        for place in 1...9 { batch[place].former = FormerOrigin(replica: ReplicaID(high: 9, low: 9), counter: 40 + UInt64(place)) }
        _ = try look(&batch, index)
        #expect(batch.allSatisfy { $0.recall?.through == end && $0.recall?.found == nil })
        #expect(batch.dropFirst().allSatisfy { $0.formerRecall?.through == end && $0.formerRecall?.found == nil })
        let outcomes = try store.appendBlocking(batch)
        #expect(outcomes[0].isAccepted && !outcomes.dropFirst().contains { $0.isAccepted })
        try store.close()
    }

    @Test("I3: an origin is found where it was recorded, and no other; archived or not, while the log grows")
    func find() throws {
        let store = try EventStore.open(at: directory.store)
        let seqs = try fill(store)
        let log = LogID.conversation(conversation(1))
        for index in [OriginIndex(store: store), OriginIndex(store: store, bytesMax: 0)] {
            var effort = Effort()
            for origin in seqs.keys.shuffled().prefix(200) {
                #expect(try index.find(origin.replica, origin.counter, in: log, &effort).seq == seqs[origin])
                let next = Origin(replica: origin.replica, counter: origin.counter + 1, hlc: HLC(milliseconds: origin.counter + 1))
                #expect(try index.find(next.replica, next.counter, in: log, &effort).seq == seqs[next])
            }
            #expect(try index.find(ReplicaID(high: 9, low: 9), 1, in: log, &effort).seq == nil)
            #expect(try index.find(lanes[0], .max, in: log, &effort) == (nil, 5001))
            #expect(try index.find(lanes[0], 2, in: .user(user("nobody")), &effort) == (nil, 0))
        }
        try store.flush()
        let index = OriginIndex(store: store)
        var effort = Effort()
        _ = try index.find(lanes[0], 2, in: log, &effort)
        #expect(effort.events > 4000)
        for origin in seqs.keys.shuffled().prefix(50) {
            effort = Effort()
            #expect(try index.find(origin.replica, origin.counter, in: log, &effort).seq == seqs[origin])
            // What it costs does not grow with the log.
            #expect(effort.events <= 2048)
        }
        try store.close()
    }

    @Test("I3: the writer finds each origin itself, in whatever order it is asked; and goes on where one that is absent would have been")
    func writerFinds() throws {
        let store = try EventStore.open(at: directory.store)
        let seqs = try fill(store)
        var random = SystemRandomNumberGenerator()
        let ascending = seqs.keys.sorted { ($0.replica, $0.counter) < ($1.replica, $1.counter) }
        try store.writer.withLock { writer in
            let state = try #require(try writer.state(of: .conversation(conversation(1))))
            for round in 0..<40 {
                let start = Int.random(in: 0..<ascending.count - 20, using: &random)
                let asked = Array(ascending[start..<start + 20])
                for (number, origin) in (round % 2 == 0 ? asked : asked.shuffled()).enumerated() {
                    // Of what was looked up before, the log is read from there on.
                    let known = number % 4 == 0 ? Seq.random(in: 0..<seqs[origin]!, using: &random) : 0
                    #expect(try writer.find(origin, in: state, after: known)?.seq == seqs[origin], "\(origin.counter) after \(known)")
                    let absent = Origin(replica: origin.replica, counter: origin.counter + 1, hlc: HLC(milliseconds: 1))
                    guard seqs[Origin(replica: origin.replica, counter: origin.counter + 1, hlc: HLC(milliseconds: origin.counter + 1))] == nil,
                        let next = ascending.first(where: { $0.replica == origin.replica && $0.counter > absent.counter })
                    else { continue }
                    #expect(try writer.find(absent, in: state) == nil)
                    #expect(state.originCursor?.counter == absent.counter && state.originCursor?.seq == seqs[next]! - 1)
                    // What was skipped says nothing of later counters.
                    #expect(try writer.find(absent, in: state, after: seqs[next]! + 1) == nil)
                    #expect(try writer.find(next, in: state)?.seq == seqs[next])
                }
            }
        }
        try store.close()
    }

    @Test("I3: what a refused batch looked for does not hide what is recorded in its place")
    func refusedBatch() throws {
        let store = try EventStore.open(at: directory.store)
        // Counter 10 is handled, as a repeat of what has another origin.
        _ = try store.appendBlocking([created(1), submission(lanes[0], 3, 1), submission(lanes[0], 10, 1)])
        // It holds four events more when counter 8 is looked for, which is absent, and then none of them.
        let batch = (20..<24 as Range<UInt64>).map { submission(lanes[1], $0, $0) } + [submission(lanes[0], 8, 30, isFirst: true)]
        let outcomes = try store.appendBlocking(batch, isAtomic: true)
        guard case .refused? = outcomes.last else { return #expect(Bool(false), "\(outcomes)") }
        var custom = Submission(Event(conversation: conversation(1), author: sent(1, in: 1, "").event.author, content: .custom(name: "n", payload: [1])))
        custom.origin = Origin(replica: lanes[0], counter: 11, hlc: HLC(milliseconds: 11))
        let seq = try #require(try store.appendBlocking([custom])[0].receipt).seq
        #expect(seq == 3)
        let again = try store.appendBlocking([custom])[0]
        guard case .duplicate(let receipt) = again, receipt.seq == 3 else { return #expect(Bool(false), "\(again)") }
        try store.close()
    }

    @Test("I3: what was looked up before gets the answers that the writer finds by itself")
    func recall() throws {
        let store = try EventStore.open(at: directory.store)
        let seqs = try fill(store)
        _ = try store.appendBlocking([submission(lanes[0], 100_000, 1, "another content")])
        let index = OriginIndex(store: store)
        var asked: [Submission] = []
        for (number, origin) in seqs.keys.shuffled().prefix(100).enumerated() {
            let id = try #require(try store.event(in: .conversation(conversation(1)), at: seqs[origin]!)?.event.references.message?.low)
            asked.append(submission(origin.replica, origin.counter, id, number % 3 == 0 ? "other" : "text", isFirst: number % 2 == 0))
        }
        asked.append(submission(lanes[0], 100_000, 1, "another content"))
        asked.append(submission(lanes[0], 2, 1, isFirst: true))
        asked.append(submission(lanes[1], 3, 90_000, isFirst: true))
        var recalled = asked
        #expect(try look(&recalled, index).events > 0)
        #expect(recalled.allSatisfy { $0.recall != nil || $0.origin!.counter == 100_000 })
        let plain = try store.appendBlocking(asked)
        #expect(try store.appendBlocking(recalled) == plain)
        #expect(plain.contains { $0.refusal == .originConflict } && plain.contains { $0.receipt != nil })
        // An event that came between: it is looked for behind what was looked at.
        var late = [submission(lanes[2], 200_000, 80_000)]
        var effort = Effort()
        let (_, through) = try index.find(lanes[2], 200_000, in: .conversation(conversation(1)), &effort)
        late[0].recall = Recall(through: through, found: nil)
        let receipt = try #require(try store.appendBlocking(late)[0].receipt)
        #expect(try store.appendBlocking(late) == [.duplicate(receipt)])
        try store.close()
    }
}
