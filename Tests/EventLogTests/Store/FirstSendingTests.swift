import Testing

@testable import EventLog

@Suite("First sendings") struct FirstSendingTests {
    let directory = TemporaryDirectory()

    private func submission(_ submission: Submission, _ counter: UInt64, isFirst: Bool) -> Submission {
        var copy = submission
        copy.origin = Origin(replica: ReplicaID(high: 7, low: 7), counter: counter, hlc: HLC(milliseconds: 1))
        copy.isFirstSending = isFirst
        return copy
    }

    @Test("I3: a counter that is used again for another event is a conflict, whatever the older event got; a mere repeat is not", arguments: [false, true])
    func restored(_ isReopened: Bool) throws {
        var store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(50, in: 1, "there already")])
        let outcomes = try store.appendBlocking([
            submission(sent(1, in: 1, "one"), 1, isFirst: true), submission(sent(50, in: 1, "there already"), 2, isFirst: true),
            submission(chunk(0, of: 99, in: 1, "to nothing"), 3, isFirst: true), submission(sent(2, in: 1, "two"), 4, isFirst: true),
        ])
        #expect(outcomes.map(\.isAccepted) == [true, false, false, true])
        #expect(outcomes[1].receipt?.seq == 2)
        #expect(outcomes[2].refusal == .unknownMessage)
        if isReopened {
            try store.close()
            store = try EventStore.open(at: directory.store)
        }
        // As first sendings: the event that was recorded is known; other events, and those that were answered otherwise, are not.
        #expect(try store.appendBlocking([submission(sent(1, in: 1, "one"), 1, isFirst: true)]) == [.duplicate(outcomes[0].receipt!)])
        for counter in 1...4 as ClosedRange<UInt64> {
            #expect(try store.appendBlocking([submission(sent(100 + counter, in: 1, "new"), counter, isFirst: true)])[0].refusal == .originConflict)
        }
        #expect(try store.appendBlocking([submission(chunk(0, of: 99, in: 1, "to nothing"), 3, isFirst: true)])[0].refusal == .originConflict)
        // As repeats they get the answers that they got.
        #expect(try store.appendBlocking([submission(sent(1, in: 1, "one"), 1, isFirst: false)]) == [.duplicate(outcomes[0].receipt!)])
        #expect(try store.appendBlocking([submission(sent(50, in: 1, "there already"), 2, isFirst: false)]) == [outcomes[1]])
        #expect(try store.appendBlocking([submission(chunk(0, of: 99, in: 1, "to nothing"), 3, isFirst: false)])[0].refusal == .unknownMessage)
        // Other events under the counter of a repeat are not that, also where they would be refused.
        func about(_ content: Event.Content) -> Submission { Submission(Event(conversation: conversation(1), author: UserID("ann")!, content: content)) }
        let others = [
            chunk(0, of: 99, in: 1, "to nothing"), about(.messageCompleted(message: message(99), finishReason: nil, usage: nil)),
            about(.messageInterrupted(message: message(99), reason: "stop")), about(.messageDeleted(message: message(99))),
            about(.receiptRead(upTo: message(99))),
        ]
        for other in others {
            #expect(try store.appendBlocking([submission(other, 2, isFirst: false)])[0].refusal == .originConflict)
        }
        #expect(try store.appendBlocking([submission(sent(3, in: 1, "three"), 5, isFirst: true)])[0].isAccepted)
        #expect(try store.all().count == 5)
        try store.close()
    }

    @Test("I3: what stands under the origin that it had is a repeat, asked for once or again; nothing else is", arguments: [false, true])
    func former(_ isReopened: Bool) throws {
        var store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)])
        func edit(_ text: String, by author: String = "ann") -> Submission {
            Submission(Event(conversation: conversation(1), author: user(author), content: .messageEdited(message: message(1), text: text)))
        }
        let old = try store.appendBlocking([submission(sent(1, in: 1, "one"), 1, isFirst: true), submission(edit("two"), 2, isFirst: true)])
        #expect(old.map(\.isAccepted) == [true, true])
        if isReopened {
            try store.close()
            store = try EventStore.open(at: directory.store)
        }
        /// Under a new id, with the time that it had.
        func offered(_ submission: Submission, _ counter: UInt64, former: UInt64, isFirst: Bool = true, at time: UInt64 = 1) -> Submission {
            var copy = self.submission(submission, counter, isFirst: isFirst)
            copy.origin!.replica = ReplicaID(high: 8, low: 8)
            copy.origin!.hlc = HLC(milliseconds: time)
            copy.former = FormerOrigin(replica: ReplicaID(high: 7, low: 7), counter: former)
            copy.comparesTimes = true
            return copy
        }
        let index = OriginIndex(store: store)
        for isLookedFor in [false, true] {
            func append(_ submission: Submission) throws -> AppendOutcome {
                var submissions = [submission]
                if isLookedFor { _ = try look(&submissions, index) }
                return try store.appendBlocking(submissions)[0]
            }
            let first: UInt64 = isLookedFor ? 10 : 1
            #expect(try append(offered(edit("two"), first, former: 2)) == .duplicate(old[1].receipt!))
            // Its answer was lost.
            #expect(try append(offered(edit("two"), first, former: 2, isFirst: false)) == .duplicate(old[1].receipt!))
            // Another text, another time, another author, another counter: it is not that.
            for (number, other) in [
                offered(edit("three"), first + 1, former: 2), offered(edit("two"), first + 2, former: 2, at: 2), offered(edit("two"), first + 3, former: 1),
                offered(edit("two"), first + 4, former: 3),
            ].enumerated() {
                let isAccepted = try append(other).isAccepted
                #expect(isAccepted, "\(number)")
            }
            #expect(try append(offered(edit("two", by: "bob"), first + 5, former: 2)).refusal == .notAuthor)
        }
        // Erased, the envelope tells.
        try store.erase(log: .conversation(conversation(1)), seq: 3)
        #expect(try store.appendBlocking([offered(edit("two"), 20, former: 2)])[0].receipt?.seq == 3)
        #expect(try store.all().count == 11)
        try store.close()
    }

    @Test("I3: what may stand under any origin is looked for by author, content and clock, and is a repeat")
    func twins() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        let index = OriginIndex(store: store)
        var lastReplica: UInt64 = 10
        func edit(_ text: String, at time: UInt64 = 1, behind position: Position? = 0, by author: String = "ann") -> Submission {
            lastReplica += 1
            var edit = Submission(Event(conversation: conversation(1), author: user(author), content: .messageEdited(message: message(1), text: text)))
            edit.origin = Origin(replica: ReplicaID(high: 7, low: lastReplica), counter: 1, hlc: HLC(milliseconds: time))
            edit.isFirstSending = true
            edit.mayStandBehind = position
            return edit
        }
        func append(_ submissions: [Submission]) throws -> [AppendOutcome] {
            var submissions = submissions
            _ = try look(&submissions, index)
            return try store.appendBlocking(submissions)
        }
        for isArchived in [false, true] {
            let time: UInt64 = isArchived ? 20 : 10
            let first = try append([edit("two", at: time)])[0].receipt!
            if isArchived { try store.flush() }
            #expect(try append([edit("two", at: time)]) == [.duplicate(first)])
            #expect(try append([edit("two", at: time, behind: first.position - 1)]) == [.duplicate(first)])
            // Before the position, of another text or time, or not asked for: another event.
            for other in [edit("two", at: time, behind: first.position), edit("three", at: time), edit("two", at: time + 1)] {
                #expect(try append([other])[0].isAccepted)
            }
            #expect(try append([edit("two", at: time, by: "bob")])[0].refusal == .notAuthor)
            #expect(try append([edit("two", at: time, behind: nil)])[0].isAccepted)
        }
        // Two in one commit; the first may be of a device that has just made it.
        func pushed(_ submission: Submission) -> Submission {
            var pushed = submission
            pushed.comparesTimes = true
            return pushed
        }
        let both = try append([pushed(edit("four", behind: nil)), edit("other", at: 3), edit("four"), edit("four", at: 4)])
        #expect(both[0].isAccepted && both[1].isAccepted && both[2] == .duplicate(both[0].receipt!) && both[3].isAccepted)
        // Another came while it was looked for.
        var late = [edit("five"), edit("six"), edit("five", behind: both[3].receipt!.position + 1)]
        _ = try look(&late, index)
        let between = try append([edit("five")])[0].receipt!
        let lateOutcomes = try store.appendBlocking(late)
        #expect(lateOutcomes[0] == .duplicate(between) && lateOutcomes[1].isAccepted && lateOutcomes[2].isAccepted)
        // Its answer was lost: asked again it is found again, by who looks for it, and is another event's counter to who does not.
        var again = edit("four")
        #expect(try append([again]) == [.duplicate(both[0].receipt!)])
        again.isFirstSending = false
        #expect(try append([again]) == [.duplicate(both[0].receipt!)])
        again.mayStandBehind = nil
        #expect(try append([again])[0].refusal == .originConflict)
        // Not looked for, it is not found: nothing is read while all others wait.
        #expect(try store.appendBlocking([edit("other", at: 3)])[0].isAccepted)
        // A former origin that is another event's does not keep it from being looked for.
        var former = edit("four")
        former.former = FormerOrigin(replica: ReplicaID(high: 7, low: 12), counter: 1)
        #expect(try append([former]) == [.duplicate(both[0].receipt!)])
        // Of an erased one nothing can be told.
        try store.erase(log: .conversation(conversation(1)), seq: both[0].receipt!.seq)
        #expect(try append([edit("four")])[0].isAccepted)
        try store.close()
    }

    @Test("What a log has of one clock is read once for all that may be it, and paid for; the rest but once for each who asks")
    func costs() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        func edit(_ replica: UInt64, _ number: Int, at time: UInt64) -> Submission {
            let content = Event.Content.custom(name: "x", payload: [UInt8(number % 250), UInt8(number / 250)])
            var edit = Submission(Event(conversation: conversation(1), author: user("ann"), content: content))
            edit.origin = Origin(replica: ReplicaID(high: 7, low: replica), counter: UInt64(number) + 1, hlc: HLC(milliseconds: time))
            edit.mayStandBehind = 0
            edit.comparesTimes = true
            return edit
        }
        let index = OriginIndex(store: store)
        let first = try store.appendBlocking((0..<500).map { edit(1, $0, at: 9) })
        #expect(first.allSatisfy { $0.isAccepted })
        for isArchived in [false, true] {
            if isArchived { try store.flush() }
            var again = (0..<500).map { edit(isArchived ? 3 : 2, $0, at: 9) }
            var memory = TwinMemory()
            let effort = try look(&again, index, &memory)
            // It asks all once more.
            #expect(effort.events == 504 + 502 + 500 * 64 + 500 / 16)
            #expect(try store.appendBlocking(again).map(\.receipt?.seq) == first.map(\.receipt?.seq))
            // Read before.
            var other = [edit(4, 1, at: 10)]
            #expect(try look(&other, index, &memory).events == 5)
            #expect(other[0].twin?.found == nil && other[0].twin?.through == 502 && memory.footprint == 501)
        }
        // More than is remembered.
        let many = try store.appendBlocking((0..<TwinMemory.countMax).map { edit(5, $0 % 60_000, at: UInt64($0) + 100) })
        #expect(many.allSatisfy { $0.isAccepted })
        var memory = TwinMemory()
        for _ in 0..<2 {
            var last = [edit(6, TwinMemory.countMax - 1, at: UInt64(TwinMemory.countMax) + 99)]
            #expect(try look(&last, index, &memory).events == 5 + 502 + TwinMemory.countMax + 64)
            #expect(memory.footprint == 0 && last[0].twin?.found?.receipt.seq == 502 + Seq(TwinMemory.countMax))
        }
        try store.close()
    }

    @Test("What stands under another origin is looked for only where whoever wrote it took part")
    func unrecorded() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one"), sent(2, in: 1, "two"), sent(3, in: 1, "three")])
        let index = OriginIndex(store: store)
        for (seq, events) in [0: 4, 3: 0, 4: 0] as [Seq: Int] {
            var edit = Submission(Event(conversation: conversation(1), author: user("ann"), content: .messageEdited(message: message(1), text: "x")))
            edit.origin = Origin(replica: ReplicaID(high: 7, low: 7), counter: 1, hlc: HLC(milliseconds: 1))
            edit.mayStandBehind = 0
            if seq > 0 { edit.isUnrecorded(through: seq) }
            var submissions = [edit]
            let effort = try look(&submissions, index)
            #expect(effort.events == 5 + events, "\(seq)")
            #expect(submissions[0].twin?.through == (seq == 0 ? 4 : seq))
        }
        try store.close()
    }

    @Test("The clock is the greatest that was given or adopted, after reopening too")
    func clock() throws {
        var store = try EventStore.open(at: directory.store)
        #expect(store.clock == HLC(rawValue: 0))
        let receipt = try store.appendBlocking([created(1)])[0].receipt!
        #expect(store.clock == receipt.hlc)
        let late = HLC(milliseconds: receipt.hlc.milliseconds + 1_000_000, counter: 3)
        let adopted = RecordedEvent(
            log: .conversation(conversation(1)), seq: 2, position: 0,
            origin: Origin(replica: ReplicaID(high: 1, low: 1), counter: 1, hlc: HLC(milliseconds: 9)), hlc: late, event: sent(1, in: 1, "hi").event,
            targetSeq: nil)
        _ = try store.adoptBlocking([adopted], secrets: [:])
        #expect(store.clock == late)
        for flushes in [false, true] {
            if flushes { try store.flush() }
            try store.close()
            store = try EventStore.open(at: directory.store)
            #expect(store.clock == late)
        }
        #expect(try store.appendBlocking([sent(2, in: 1, "later")])[0].receipt!.hlc > late)
        try store.close()
    }

    @Test("A repeat of what was erased is known by its envelope: of a preference nothing else tells its conversation")
    func erased() throws {
        let store = try EventStore.open(at: directory.store)
        let author = UserID("ann")!
        _ = try store.appendBlocking([created(1)])
        let preference = Submission(Event(conversation: conversation(1), author: author, content: .preferenceSet(key: "pinned", value: "a secret")))
        let receipt = try #require(store.appendBlocking([submission(preference, 1, isFirst: true)])[0].receipt)
        try store.erase(log: .user(author), seq: receipt.seq)
        #expect(try store.appendBlocking([submission(preference, 1, isFirst: false)]) == [.duplicate(receipt)])
        let other = Submission(Event(conversation: conversation(1), author: author, content: .preferenceSet(key: "pinned", value: nil)))
        var later = submission(other, 1, isFirst: false)
        later.origin?.hlc = HLC(milliseconds: 2)
        #expect(try store.appendBlocking([later])[0].refusal == .originConflict)
        try store.close()
    }
}
