import Testing

@testable import EventLog

@Suite("What is looked up before the writer is asked") struct SubmissionLookupTests {
    let directory = TemporaryDirectory()
    private let log = LogID.conversation(conversation(1))

    private func custom(_ number: Int, bytes: Int = 1, by replica: UInt64, _ counter: UInt64, at time: UInt64, isFirst: Bool = true) -> Submission {
        let payload = [UInt8](repeating: UInt8(number % 251), count: bytes)
        var made = Submission(Event(conversation: conversation(1), author: user("ann"), content: .custom(name: "x", payload: payload)))
        made.origin = Origin(replica: ReplicaID(high: 7, low: replica), counter: counter, hlc: HLC(milliseconds: time))
        (made.isFirstSending, made.comparesTimes) = (isFirst, true)
        return made
    }

    private func old(_ submission: Submission) -> Submission {
        var old = submission
        old.mayStandBehind = 0
        return old
    }

    @Test("In pieces, however small, all is found that is found at once", arguments: [false, true])
    func pieces(_ isArchived: Bool) throws {
        let store = try EventStore.open(at: directory.store)
        // Some times that many have, and many that one has; more than a piece between.
        let made = (0..<700).map { custom($0, by: 1, UInt64($0) + 1, at: UInt64($0 % 3 == 0 ? 5 : $0 + 100)) }
        _ = try store.appendBlocking([created(1)] + made)
        if isArchived { try store.flush() }
        let asked = (0..<700).map { number -> Submission in
            switch number % 4 {
            case 0: made[number]
            case 1: old(custom(number, by: 2, UInt64(number) + 1, at: made[number].origin!.hlc.milliseconds))
            case 2: old(custom(number + 1, by: 2, UInt64(number) + 1, at: made[number].origin!.hlc.milliseconds))
            default: custom(number, by: 2, UInt64(number) + 1, at: 9)
            }
        }
        let index = OriginIndex(store: store)
        var whole = asked
        _ = try look(&whole, index)
        func found(_ submissions: [Submission]) -> [[Seq?]] { submissions.map { [$0.recall?.found?.receipt.seq, $0.twin?.found?.receipt.seq] } }
        #expect(found(whole).contains { $0[0] != nil } && found(whole).contains { $0[1] != nil })
        for limit in [1, 70, 300] {
            var pieces = asked
            _ = try look(&pieces, index, limit: limit)
            #expect(found(pieces) == found(whole), "\(limit)")
            #expect(pieces.allSatisfy { $0.twin == nil || $0.twin!.found != nil || $0.twin!.through == 701 })
        }
        try store.close()
    }

    @Test("A piece is about as long as it may be, of a log with much of one time too") func limits() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)] + (0..<3000).map { custom($0, by: 1, UInt64($0) + 1, at: $0 < 1500 ? 5 : 6) })
        let index = OriginIndex(store: store)
        for time in [5, 7] as [UInt64] {
            var lookup = SubmissionLookup([old(custom(1, bytes: 2, by: 2, 1, at: time))]), memory = TwinMemory(), effort = Effort()
            var pieces = 0
            while try lookup.next(index, &effort) != nil {
                pieces += 1
                #expect(try lookup.read(index, &memory, limit: 640).events < 2 * 640 + 128)
            }
            #expect(pieces >= (time == 5 ? 1500 / 10 : 3000 / 640))
        }
        try store.close()
    }

    @Test("Of one large event that is named again and again it is read once, paid for each time, and not kept") func large() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), custom(1, bytes: 1 << 20, by: 1, 1, at: 5)])
        let index = OriginIndex(store: store)
        var asked = (0..<100).map { custom($0, by: 1, 1, at: 5) }
        #expect(try look(&asked, index).events >= 100 * ((1 << 20) / 64 + 64))
        #expect(asked.allSatisfy { $0.recall?.found?.isSame == false })
        asked = [custom(1, bytes: 1 << 20, by: 1, 1, at: 5), custom(1, bytes: 1 << 20, by: 1, 1, at: 6)]
        _ = try look(&asked, index)
        #expect(asked.map { $0.recall?.found?.isSame } == [true, true] && asked.map { $0.recall?.found?.isOfSameTime } == [true, false])
        #expect(try store.appendBlocking(asked).map(\.refusal) == [nil, .originConflict])
        // In pieces.
        var lookup = SubmissionLookup((0..<100).map { custom($0, by: 1, 1, at: 5) }), memory = TwinMemory(), effort = Effort(), pieces = 0
        while try lookup.next(index, &effort) != nil {
            _ = try lookup.read(index, &memory, limit: 40_000)
            pieces += 1
        }
        #expect(pieces == 34)
        try store.close()
    }

    @Test("While something is looked for, marks rise and much comes: that is looked up, too, and read once for all", arguments: [false, true])
    func meanwhile(_ isOne: Bool) throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), custom(0, by: 2, 1, at: 1)])
        let index = OriginIndex(store: store)
        // Of the second the counter is above the mark, of the third the former origin's.
        var third = custom(3, by: 4, 1, at: 3)
        third.former = FormerOrigin(replica: ReplicaID(high: 7, low: 3), counter: 8)
        // Of the rest all of that lane was handled, and nothing is recorded.
        var absent: [Submission] = []
        for counter in isOne ? 0..<0 : 2..<100 as Range<UInt64> { absent.append(custom(3, by: 5, counter, at: 2, isFirst: false)) }
        _ = try store.appendBlocking([custom(3, by: 5, 1, at: 2), custom(3, by: 5, 200, at: 33)])
        var lookup = SubmissionLookup([old(custom(1, by: 2, 5, at: 1))] + (isOne ? [] : [old(third)] + absent)), memory = TwinMemory(), effort = Effort()
        #expect(try lookup.next(index, &effort) == log)
        _ = try lookup.read(index, &memory, limit: .max)
        _ = try store.appendBlocking([custom(9, by: 2, 9, at: 7), custom(9, by: 3, 9, at: 8)] + (0..<300).map { sent($0 + 10, in: 1, "more") })
        _ = try store.appendBlocking([custom(1, by: 8, 1, at: 1)])
        effort = Effort()
        while try lookup.next(index, &effort) != nil { effort.events += try lookup.read(index, &memory, limit: .max).events }
        // The origins and the clocks of what came.
        #expect(effort.events < 2000)
        let end = try store.lastVisibleSeq(of: log), submissions = lookup.submissions
        #expect(submissions[0].recall?.through == end && submissions[0].twin?.found?.receipt.seq == end)
        if !isOne {
            #expect(submissions[1].formerRecall?.through == end && submissions[1].twin?.through == end)
            #expect(submissions.dropFirst(2).allSatisfy { $0.recall?.through == end && $0.recall?.found == nil })
        }
        try store.close()
    }

    @Test("What came meanwhile under the origin that is asked for, or another, is found by the writer where it is little", arguments: [false, true])
    func little(_ isArchived: Bool) throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)])
        var asked = [old(custom(1, by: 2, 1, at: 1)), old(custom(2, by: 2, 2, at: 2)), old(custom(3, by: 2, 3, at: 2))]
        _ = try look(&asked, OriginIndex(store: store))
        let came = try store.appendBlocking([custom(1, by: 3, 1, at: 1), custom(9, by: 3, 2, at: 2), custom(3, by: 3, 3, at: 2)])
        if isArchived { try store.flush() }
        let outcomes = try store.appendBlocking(asked)
        #expect(outcomes[0] == .duplicate(came[0].receipt!) && outcomes[1].isAccepted && outcomes[2] == .duplicate(came[2].receipt!))
        try store.close()
    }

    @Test("An event under the counter of what was a repeat is looked for beforehand, and what was refused or repeated is not") func answered() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")] + (2..<1500).map { sent($0, in: 1, "more") })
        func made(_ content: Event.Content, _ counter: UInt64) -> Submission {
            var made = Submission(Event(conversation: conversation(1), author: user("ann"), content: content))
            made.origin = Origin(replica: ReplicaID(high: 7, low: 2), counter: counter, hlc: HLC(milliseconds: 1))
            return made
        }
        let outcomes = try store.appendBlocking([made(.participantJoined(user("ann")), 1), made(.messageDeleted(message: message(9999)), 2)])
        #expect(outcomes[0].receipt != nil && !outcomes[0].isAccepted && outcomes[1].refusal == .unknownMessage)
        var asked = [made(.participantJoined(user("ann")), 1), made(.messageDeleted(message: message(9999)), 2), made(.custom(name: "x", payload: []), 1)]
        let effort = try look(&asked, OriginIndex(store: store))
        #expect(asked.map { $0.recall == nil } == [true, true, false] && effort.events >= 1024)
        #expect(try store.appendBlocking(asked).map(\.refusal) == [nil, .unknownMessage, .originConflict])
        try store.close()
    }

    @Test("Where whoever asks took no part nothing is read, also when the log has grown") func strangers() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)])
        let index = OriginIndex(store: store)
        var costs: [Int] = []
        for isThere in [false, true] {
            var asked = old(custom(1, by: 2, 1, at: 1))
            asked.mayStandBehind = 1
            if !isThere { asked.event.conversation = conversation(2) }
            var lookup = SubmissionLookup([asked]) { id in id == conversation(1) ? try? store.lastVisibleSeq(of: .conversation(id)) : nil }
            var memory = TwinMemory(), effort = Effort()
            while try lookup.next(index, &effort) != nil {
                _ = try store.appendBlocking((0..<600).map { sent((isThere ? 1000 : 2000) + $0, in: 1, "more") })
                effort.events += try lookup.read(index, &memory, limit: .max).events
            }
            costs.append(effort.events)
        }
        #expect(costs == [5, 5])
        try store.close()
    }
}
