import ConversationStore
@testable import Replication
import Testing

/// What was sent and has no answer, and that on which it rests.
extension OutboxOrderTests {
    @Test("what rests on what is tried again goes behind it, with what rests on that: tried again too it goes as it was made")
    func basesFirst() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let creation = Event.Content.conversationCreated(kind: .group, title: "", participants: [])
            var entries = [
                Self.entry(1, in: chat, creation, of: Self.present, .pending), Self.entry(2, in: chat, Self.text(one), of: Self.present, .sent),
                Self.entry(3, in: chat, Self.text(two, replyTo: one), of: Self.present, .sent),
            ]
            for index in 1...2 { entries[index].restsOn = 1 }
            let outbox = Outbox(side, entries, identity: Self.present)
            try outbox.beginSession()
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [1])
            #expect(outbox.entries.map(\.isFailed) == [false, true, true])
            var refused = outbox.entries[0]
            refused.state = .failed(code: "", detail: "")
            outbox.table.put(refused)
            #expect(try outbox.retry(nil).count == 3)
            // The last waits for what becomes of the message to which it replies.
            let flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
            #expect(Self.numbers(flight, outbox) == [1, 2] && flight.last?.restsOn == outbox.entries[0].origin.counter)
            #expect(outbox.entries.map(\.state) == [.sent, .sent, .pending])
        }
    }

    @Test("while the hub has in hand what rests on a refused one, that one keeps its place") func inHand() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), mute = Event.Content.preferenceSet(key: "mute", value: "1")
            var message = Self.entry(3, in: chat, Self.text(.random()), of: Self.present, .sent)
            message.restsOn = 2
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, mute, of: Self.present, .failed(code: "", detail: "")),
                    Self.entry(2, in: chat, .conversationCreated(kind: .group, title: "", participants: []), of: Self.present, .sent), message,
                    Self.entry(4, in: .random(), mute, of: Self.present, .sent),
                ], identity: Self.present)
            try outbox.beginSession()
            var gone: [UInt64] = []
            func take() throws { gone += Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 1).events, outbox) }
            func refuse(_ id: UInt64) {
                var refused = outbox.table[id]!
                refused.state = .failed(code: "", detail: "")
                outbox.table.put(refused)
            }
            for _ in 0..<3 { try take() }
            #expect(gone == [2, 3, 4])
            refuse(2)
            #expect(try outbox.retry([1]).count == 1)
            try take()
            #expect(gone == [2, 3, 4] && outbox.entries.map(\.id) == [1, 2, 3, 4])
            refuse(3)
            try take()
            #expect(gone == [2, 3, 4, 1] && outbox.entries.map { $0.origin.hlc.rawValue >> 16 } == [4, 1, 2, 3])
        }
    }

    /// A creation that the hub refused, with what was sent behind it and has no answer: a message, and a stream of which only one piece rests on it.
    private static func withRefusedCreation(_ side: SideStore) -> Outbox {
        let chat = ConversationID.random(), stream = MessageID.random()
        let contents = [
            .conversationCreated(kind: .group, title: "", participants: []), text(.random()), text(stream, isStreaming: true),
            .chunkAppended(message: stream, index: 0, text: "text"),
        ]
        var entries = contents.enumerated().map { entry(UInt64($0 + 1), in: chat, $1, of: present, $0 == 0 ? .failed(code: "", detail: "") : .sent) }
        for (index, base) in [(1, 1), (2, 1), (3, 3)] as [(Int, UInt64)] { entries[index].restsOn = base }
        return Outbox(side, entries, identity: present)
    }

    @Test("what rests on a refused one is not sent again: a hub that was set back has forgotten the refusal") func refusedBase() async throws {
        try await withSide { (side: SideStore) throws in
            var outbox = Self.withRefusedCreation(side)
            try outbox.beginSession()
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.isEmpty)
            #expect(outbox.entries.allSatisfy(\.isFailed) && outbox.takeSettled().failed == 3)
            #expect(try outbox.retry(nil).count == 4)
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [1, 2, 3, 4])

            // Tried again or given up before the next session, it takes along the same.
            outbox = Self.withRefusedCreation(side)
            #expect(try outbox.retry(nil).count == 4)
            try outbox.beginSession()
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [1, 2, 3, 4])
            outbox = Self.withRefusedCreation(side)
            #expect(try outbox.retry([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [false, true, true, true])
            outbox = Self.withRefusedCreation(side)
            #expect(try outbox.discard([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [true, true, true])
        }
    }

    @Test("a chunk that was refused and is tried again does not rest on a later one") func laterChunk() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), stream = MessageID.random()
            func chunk(_ id: UInt64, _ index: UInt32, _ state: OutboxEntry.State) -> OutboxEntry {
                Self.entry(id, in: chat, .chunkAppended(message: stream, index: index, text: "text"), of: Self.present, state)
            }
            let outbox = Outbox(side, [chunk(1, 0, .pending), chunk(2, 1, .sent)], identity: Self.present)
            try outbox.beginSession()
            let flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events + outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
            #expect(Self.numbers(flight, outbox) == [2, 1] && flight.last?.restsOn == 0)
        }
    }

    @Test("what was accepted once, and has no answer now, bears what was sent behind it: that is not sent with it, or names it") func setBack() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), one = MessageID.random(), stream = MessageID.random()
            let contents = [
                .conversationCreated(kind: .group, title: "", participants: []), Self.text(stream, isStreaming: true),
                .chunkAppended(message: stream, index: 0, text: "text"), Self.text(one), .messageEdited(message: one, text: "other"),
                Self.text(.random(), replyTo: one), Self.text(.random()),
            ]
            func outbox() throws -> Outbox {
                let outbox = Outbox(
                    side, contents.enumerated().map { Self.entry(UInt64($0 + 1), in: chat, $1, of: Self.present, .sent) }, identity: Self.present)
                try outbox.beginSession()
                let flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
                #expect(Self.numbers(flight, outbox) == [1, 2, 3, 4, 5, 6, 7] && flight.map(\.restsOn) == [0, 1, 2, 1, 4, 4, 1])
                return outbox
            }
            // Refused, and the line breaks.
            var set = try outbox()
            var refused = set.entries[3]
            refused.state = .failed(code: "", detail: "")
            set.table.put(refused)
            let entries = set.entries
            try set.beginSession()
            #expect(Self.numbers(try set.take(bytesMax: 1 << 20, eventsMax: 100).events, set) == [1, 2, 3])
            #expect(Self.numbers(try set.take(bytesMax: 1 << 20, eventsMax: 100).events, set) == [7])
            #expect(set.entries.map(\.isFailed) == [false, false, false, true, true, true, false])
            // Tried again, or given up, before that.
            set = Outbox(side, entries, identity: Self.present)
            #expect(try set.retry(nil).count == 3)
            set = Outbox(side, entries, identity: Self.present)
            #expect(try set.discard([4]).count == 1)
            #expect(set.entries.map(\.isFailed) == [false, false, false, true, true, false])
        }
    }

    @Test("a chunk that was sent under an id before waits for the one before it, which is offered anew, and fails with it", arguments: [false, true])
    func chunks(_ isRefused: Bool) async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), stream = MessageID.random()
            func chunk(_ id: UInt64, _ identity: ReplicaIdentity, _ state: OutboxEntry.State) -> OutboxEntry {
                Self.entry(id, in: chat, .chunkAppended(message: stream, index: UInt32(id), text: "text"), of: identity, state)
            }
            let end = Event.Content.messageCompleted(message: stream, finishReason: nil, usage: nil)
            let outbox = Outbox(
                side, [chunk(1, Self.present, .pending), chunk(2, Self.before, .sent), Self.entry(3, in: chat, end, of: Self.present, .pending)],
                identity: Self.present)
            try outbox.beginSession()
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [1])
            if isRefused {
                var refused = outbox.entries[0]
                refused.state = .failed(code: "", detail: "")
                outbox.table.put(refused)
            } else {
                Self.accept([1], outbox)
            }
            let next = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
            #expect(isRefused ? outbox.entries[1].isFailed : Self.numbers(next, outbox) == [2])
        }
    }

    @Test("a chunk that was refused and written again bears nothing") func writtenAgain() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), stream = MessageID.random()
            func chunk(_ id: UInt64, _ index: UInt32, _ state: OutboxEntry.State) -> OutboxEntry {
                Self.entry(id, in: chat, .chunkAppended(message: stream, index: index, text: "text"), of: Self.present, state)
            }
            var last = chunk(3, 1, .sent)
            last.restsOn = 2
            let interrupt = Self.entry(4, in: chat, .messageInterrupted(message: stream, reason: ""), of: Self.present, .pending)
            let outbox = Outbox(side, [chunk(1, 0, .failed(code: "", detail: "")), last, interrupt], identity: Self.present)
            try outbox.beginSession()
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [3, 4])
        }
    }

    @Test("with a creation of another id that was refused fails what was sent behind it, when it is tried again") func creationOfBefore() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random()
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, .conversationCreated(kind: .group, title: "", participants: []), of: Self.before, .failed(code: "", detail: "")),
                    Self.entry(2, in: chat, Self.text(.random()), of: Self.present, .sent),
                ], identity: Self.present)
            #expect(try outbox.retry([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [false, true])
        }
    }

    @Test("with a message that had failed for want of a lost one, and is given up, goes what was sent behind it") func discardedOrphan() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), ids = (0..<3).map { _ in MessageID.random() }
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, Self.text(ids[0]), of: Self.present, .pending),
                    Self.entry(2, in: chat, Self.text(ids[1], replyTo: ids[0]), of: Self.before, .sent),
                    Self.entry(3, in: chat, Self.text(ids[2], replyTo: ids[1]), of: Self.before, .sent),
                ], identity: Self.present)
            #expect(try outbox.discard([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [true, false])
            #expect(try outbox.discard([2]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [true])
        }
    }

    @Test("what rests on what rests on a refused offer fails too") func orphans() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), one = MessageID.random(), two = MessageID.random()
            let outbox = Outbox(
                side,
                [
                    Self.entry(1, in: chat, Self.text(one), of: Self.present, .failed(code: "", detail: "")),
                    Self.entry(2, in: chat, Self.text(two, replyTo: one, isStreaming: true), of: Self.before, .sent),
                    Self.entry(3, in: chat, .chunkAppended(message: two, index: 0, text: "text"), of: Self.before, .sent),
                ], identity: Self.present)
            try outbox.beginSession()
            #expect(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events.isEmpty)
            #expect(outbox.entries.allSatisfy { $0.isFailed })
        }
    }

    @Test("a chunk that was sent under an id before fails at once with the one before it, which is tried again") func chunkOfBefore() async throws {
        try await withSide { (side: SideStore) throws in
            let chat = ConversationID.random(), stream = MessageID.random()
            func chunk(_ index: UInt32, _ identity: ReplicaIdentity, _ state: OutboxEntry.State) -> OutboxEntry {
                Self.entry(UInt64(index) + 1, in: chat, .chunkAppended(message: stream, index: index, text: "text"), of: identity, state)
            }
            var last = chunk(2, Self.before, .sent)
            last.restsOn = 2
            let outbox = Outbox(
                side,
                [
                    chunk(0, Self.present, .failed(code: "", detail: "")), chunk(1, Self.before, .sent), last,
                    Self.entry(4, in: chat, Self.text(.random()), of: Self.present, .sent),
                ], identity: Self.present)
            #expect(try outbox.retry([1]).count == 1)
            #expect(outbox.entries.map(\.isFailed) == [false, true, true, false])
        }
    }

    @Test("an entry that a hub says it has recorded, and then refuses, is unanswered when it is tried again") func acceptedAndRefused() async throws {
        try await withSide { (side: SideStore) throws in
            let outbox = Outbox(side, [Self.entry(1, in: .random(), Self.text(.random()), of: Self.present, .sent)], identity: Self.present)
            let (log, origin) = (outbox.entries[0].event.log, outbox.entries[0].origin)
            func answer(_ accepted: [Accepted], _ refused: [Refused]) throws {
                _ = try outbox.answered(accepted, refused, newNonce: { _ in Self.present.nonce }, standing: { _ in .awaited })
            }
            func accepted(_ counter: UInt64, seq: Seq) -> Accepted {
                Accepted(log: log, replica: origin.replica, counter: counter, seq: seq, hlc: origin.hlc, isDuplicate: seq == 0)
            }
            func tryAgain() throws {
                #expect(outbox.entries[0].isFailed)
                #expect(try outbox.retry(nil).count == 1)
                let flight = try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events
                #expect(Self.numbers(flight, outbox) == [1] && outbox.entries[0].isUnanswered)
            }
            try answer([accepted(origin.counter, seq: 9)], [])
            #expect(!outbox.entries[0].isUnanswered)
            try answer([], [Refused(log: log, replica: origin.replica, counter: origin.counter, code: "too_large", detail: "")])
            try tryAgain()
            let next = outbox.entries[0].origin.counter
            try answer([accepted(next, seq: 9)], [])
            try answer([accepted(next, seq: 0)], [])
            try tryAgain()
            let last = outbox.entries[0].origin.counter
            try answer([accepted(last, seq: 9)], [])
            try answer([], [Refused(log: log, replica: origin.replica, counter: last, code: RefusalCode.originConflict.rawValue, detail: "")])
            #expect(Self.numbers(try outbox.take(bytesMax: 1 << 20, eventsMax: 100).events, outbox) == [1] && outbox.entries[0].isUnanswered)
        }
    }
}
