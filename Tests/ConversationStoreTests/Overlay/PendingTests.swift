import Testing

@testable import ConversationStore
@testable import Projections

@Suite("What is pending") struct PendingTests {
    @Test("A message stands after the confirmed ones, as pending, in the order made; the lobby shows it as the last, and goes by it") func messages()
        async throws
    {
        let outbox = try Outbox()
        try await outbox.begin(3, in: 1)
        try await outbox.begin(3, in: 2)
        let replica = outbox.replica
        #expect(try replica.lobby(of: ann).rows.map(\.conversation) == [chat(2), chat(1)])
        replica.setPending([outbox.text("one", id: message(1)), outbox.text("two", id: message(2))], of: chat(1))
        let page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["0", "1", "2", "one", "two"])
        #expect(page.messages.map(\.state) == [.complete, .complete, .complete, .pending, .pending])
        #expect(page.messages.map { $0.unconfirmed == nil } == [true, true, true, false, false])
        #expect(page.messages.map(\.seq) == [2, 3, 4, 5, 6] && page.seq == 4)
        let rows = try replica.lobby(of: ann).rows
        #expect(rows.map(\.conversation) == [chat(1), chat(2)])
        #expect(rows[0].lastMessage?.state == .pending && rows[0].lastMessage?.snippet == "two" && rows[0].unread == 0 && rows[0].unconfirmed == nil)
        // One's own message is unread by others, as it will be.
        #expect(try replica.lobbyRow(of: chat(1), for: bob)?.unread == 2)
        #expect(try replica.message(in: chat(1), id: message(2))?.text == "two")
        #expect(try replica.contextWindow(of: chat(1), budget: 1000)?.messages.last?.text == "two")
        // Page by page across the border, both ways.
        var lobby = try replica.lobby(of: ann, limit: 1)
        #expect(lobby.rows.map(\.conversation) == [chat(1)])
        lobby = try replica.lobby(of: ann, after: lobby.next, limit: 1)
        #expect(lobby.rows.map(\.conversation) == [chat(2)] && lobby.next == nil)
        let newest = try #require(try replica.timeline(of: chat(1), .newest, limit: 3))
        #expect(newest.messages.map(\.text) == ["2", "one", "two"] && newest.hasBefore && !newest.hasAfter)
        #expect(try replica.timeline(of: chat(1), .before(5), limit: 2)?.messages.map(\.text) == ["1", "2"])
        let after = try #require(try replica.timeline(of: chat(1), .after(3), limit: 2))
        #expect(after.messages.map(\.text) == ["2", "one"] && after.hasAfter)
        replica.setPending([], of: chat(1))
        #expect(try replica.timeline(of: chat(1))?.messages.count == 3 && replica.overlaidConversations == [])
        #expect(try replica.lobby(of: ann).rows.map(\.conversation) == [chat(2), chat(1)])
        try outbox.close()
    }

    @Test("By a message that was refused its author has read nothing, and it is nobody's to read") func refused() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let replica = outbox.replica
        #expect(try replica.lobbyRow(of: chat(1), for: ann)?.unread == 1)
        let id = MessageID.random()
        let refused = outbox.pending(.messageSent(.init(id: id, role: .user, text: "refused")), failure: Refusal(.messageConflict))
        replica.setPending([refused], of: chat(1))
        for _ in 0..<2 {
            let row = try #require(try replica.lobbyRow(of: chat(1), for: ann))
            #expect(row.unread == 1 && row.lastMessage?.snippet != "2")
            #expect(try replica.timeline(of: chat(1), .unread(ann), limit: 2)?.messages.map(\.text) == ["2", row.lastMessage?.snippet ?? "?"])
            replica.setPending([refused, outbox.pending(.messageDeleted(message: id))], of: chat(1))
        }
        replica.setPending([outbox.pending(.messageSent(.init(id: id, role: .user, text: "sent")))], of: chat(1))
        #expect(try replica.lobbyRow(of: chat(1), for: ann)?.unread == 0)
        try outbox.close()
    }

    @Test("Beside it a receipt that is pending counts what was read, however full the newest page is", arguments: 13...18 as ClosedRange<UInt64>)
    func refusedAndRead(_ count: UInt64) async throws {
        let outbox = try Outbox()
        let replica = outbox.replica
        let id = ConversationID(high: 9, low: count)
        _ = try await replica.createConversation(.group, id: id, author: bob, participants: [ann])
        for number in 0..<count { _ = try await replica.send("\(number)", to: id, from: bob) }
        let last = try #require(try replica.timeline(of: id)?.messages.last)
        let refused = outbox.pending(.messageSent(.init(id: .random(), role: .user, text: "refused")), in: id, failure: Refusal(.messageConflict))
        replica.setPending([refused], of: id)
        #expect(try replica.lobbyRow(of: id, for: ann)?.unread == count)
        replica.setPending([refused, outbox.pending(.receiptRead(upTo: last.id), in: id)], of: id)
        #expect(try replica.lobbyRow(of: id, for: ann)?.unread == 0)
        try outbox.close()
    }

    @Test("Edits, deletions, reactions, titles, receipts, preferences, joins and streams change what is shown as they will") func others() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let replica = outbox.replica
        let digest = try replica.digest()
        let streamed = MessageID.random()
        #expect(try replica.lobbyRow(of: chat(1), for: ann)?.unread == 1)
        let events = [
            outbox.pending(.messageEdited(message: message(1001), text: "edited")),
            outbox.pending(.reactionSet(message: message(1000), emoji: "👍", isOn: true)),
            outbox.pending(.receiptRead(upTo: message(1002))),
            outbox.pending(.conversationUpdated(title: "new", attributes: [])),
            outbox.pending(.preferenceSet(key: "pinned", value: "1")),
            outbox.pending(.participantJoined(UserID("eve")!)),
            outbox.pending(.messageSent(.init(id: streamed, role: .user, text: "", isStreaming: true))),
            outbox.pending(.chunkAppended(message: streamed, index: 0, text: "so ")),
            outbox.pending(.chunkAppended(message: streamed, index: 1, text: "far")),
            outbox.pending(.receiptRead(upTo: .random())),
            outbox.pending(.messageDeleted(message: message(1000)), by: bob),
        ]
        replica.setPending(events, of: chat(1))
        let page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["", "edited", "2", "so far"])
        #expect(page.messages.map(\.state) == [.deleted, .complete, .complete, .pending])
        #expect(page.messages[1].isEdited && page.messages[0].unconfirmed == nil && page.messages[3].chunks == 2)
        #expect(page.receipts.readBy(page.messages[2]) == [ann])
        let row = try #require(try replica.lobbyRow(of: chat(1), for: ann))
        #expect(row.title == "new" && row.unread == 0 && row.preferences == ["pinned": "1"] && row.participants.count == 4)
        #expect(try replica.lobby(of: UserID("eve")!).rows.map(\.title) == ["new"])
        #expect(try replica.participants(of: chat(1)).count == 4)
        #expect(try replica.receipts(of: chat(1))?.marks.map(\.user) == [ann])
        // A reaction alone, as the deletion above took it away again.
        replica.setPending([events[1]], of: chat(1))
        #expect(try replica.message(in: chat(1), id: message(1000))?.reactions == [Message.Reaction(emoji: "👍", users: [ann])])
        #expect(try replica.digest() == digest && replica.isFold())
        try outbox.close()
    }

    @Test("A conversation that was made offline is in its author's lobby, as pending, with its messages; then as all others") func created() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let replica = outbox.replica
        let events = [
            outbox.pending(.conversationCreated(kind: .group, title: "offline", participants: [bob]), in: chat(9)),
            outbox.text("hi", id: message(9), in: chat(9)),
        ]
        replica.setPending(events, of: chat(9))
        let rows = try replica.lobby(of: ann).rows
        #expect(rows.map(\.title) == ["offline", "talk 1"] && rows[0].unconfirmed == .pending && rows[0].lastMessage?.state == .pending)
        #expect(try replica.timeline(of: chat(9))?.messages.map(\.text) == ["hi"])
        #expect(try replica.timeline(of: chat(9))?.seq == 0)
        var refused = events
        refused[0].failure = Refusal(.conversationConflict)
        refused[1].isWaiting = true
        replica.setPending(refused, of: chat(9))
        #expect(try replica.lobbyRow(of: chat(9), for: ann)?.unconfirmed == .failed(Refusal(.conversationConflict)))
        #expect(try replica.timeline(of: chat(9))?.messages.map(\.state) == [.pending])
        replica.setPending(events, of: chat(9))
        try outbox.accept(events)
        try outbox.adopt()
        let row = try #require(try replica.lobbyRow(of: chat(9), for: ann))
        #expect(row.unconfirmed == nil && row.lastMessage?.state == .complete && replica.overlaidConversations == [])
        try outbox.close()
    }

    @Test("A failed message stays, with the hub's reason; any other failed event changes nothing, and is told of") func failed() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let replica = outbox.replica
        let refusal = Refusal(.notParticipant, "gone")
        var sent = outbox.text("hello", id: message(1), failure: refusal)
        replica.setPending(
            [
                sent, outbox.pending(.messageEdited(message: message(1001), text: "no"), failure: Refusal(.messageDeleted)),
                outbox.pending(.conversationUpdated(title: "no", attributes: []), failure: refusal),
                outbox.pending(.preferenceSet(key: "pinned", value: "1"), failure: refusal),
                outbox.pending(.participantLeft(ann), failure: refusal), outbox.text("more", id: message(2)),
            ], of: chat(1))
        let page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["0", "1", "2", "hello", "more"])
        #expect(page.messages.map(\.state) == [.complete, .complete, .complete, .failed, .pending])
        #expect(page.messages[3].unconfirmed == .failed(refusal))
        let row = try #require(try replica.lobbyRow(of: chat(1), for: ann))
        #expect(row.title == "talk 1" && row.preferences.isEmpty && row.lastMessage?.state == .pending)
        #expect(page.messages[1].failedWrites == [FailedWrite(kind: .messageEdited, refusal: Refusal(.messageDeleted))] && page.messages[0].details == nil)
        #expect(page.messages[1].state == .complete && page.messages[1].unconfirmed == nil && page.messages[1].pendingWrites.isEmpty)
        #expect(row.unconfirmed == .failed(refusal))
        #expect(try replica.unsettledSeqs(in: chat(1)) == [page.messages[1].seq])
        // What a model is told was said.
        #expect(try replica.contextWindow(of: chat(1), budget: 1000)?.messages.map(\.text) == ["0", "1", "2", "more"])
        replica.setPending([sent], of: chat(1))
        #expect(try replica.lobbyRow(of: chat(1), for: ann)?.lastMessage?.unconfirmed == .failed(refusal))
        sent.failure = nil
        replica.setPending([sent], of: chat(1))
        #expect(try replica.lobbyRow(of: chat(1), for: ann)?.lastMessage?.state == .pending)
        try outbox.close()
    }

    @Test("I3: a message is there once, never twice and never not, while it passes from pending to confirmed", .timeLimit(.minutes(20)))
    func noFlicker() async throws {
        let outbox = try Outbox()
        try await outbox.begin(40)
        let replica = outbox.replica
        let made = Monitor(0)
        let isDone = Flag()
        let readers = (0..<3).map { reader in
            Task.detached {
                var reads = 0
                while !isDone.isSet || reads == 0 {
                    let least = made.withLock { $0 }
                    let page = try #require(try replica.timeline(of: chat(1), .newest, limit: 400))
                    let numbers = page.messages.filter { $0.id.high == 0xBB }.map(\.id.low)
                    #expect(numbers == Array(0..<UInt64(numbers.count)) && numbers.count >= least)
                    let states = page.messages.map { $0.unconfirmed == nil }
                    #expect(states == states.filter { $0 } + states.filter { !$0 })
                    #expect(page.messages.map(\.seq) == page.messages.map(\.seq).sorted())
                    let row = try #require(try replica.lobby(of: ann).rows.first)
                    #expect(row.unread == 0 || least == 0)
                    reads += 1
                    if reader == 0 { await Task.yield() }
                }
                return reads
            }
        }
        var pending: [PendingEvent] = []
        var random = Seeded(3)
        for number in 0..<300 {
            let stale = pending
            pending.append(outbox.text("\(number)", id: MessageID(high: 0xBB, low: UInt64(number))))
            replica.setPending(pending, of: chat(1))
            made.withLock { $0 = number + 1 }
            guard Int.random(in: 0..<3, using: &random) == 0 else { continue }
            let count = Int.random(in: 1...pending.count, using: &random)
            try outbox.accept(Array(pending[..<count]))
            try outbox.adopt()
            // The outbox learns of it only now, and may say once more what it said before.
            if Bool.random(using: &random) { replica.setPending(stale + pending.dropFirst(stale.count), of: chat(1)) }
            pending.removeFirst(count)
            if Bool.random(using: &random) { replica.setPending(pending, of: chat(1)) }
        }
        isDone.set()
        for reader in readers { #expect(try await reader.value > 0) }
        try outbox.close()
    }

    @Test("An outbox that is behind the log when the store opens doubles nothing") func behind() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let events = [outbox.text("a", id: message(1)), outbox.text("b", id: message(2)), outbox.text("c", id: message(3))]
        try outbox.accept(Array(events[..<2]))
        try outbox.adopt()
        outbox.replica.setPending(events, of: chat(1))
        let page = try #require(try outbox.replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["0", "1", "2", "a", "b", "c"] && page.messages.map { $0.unconfirmed == nil }.last == false)
        try outbox.close()
    }

    @Test("A thousand pending events are folded once a change, and lobbies find their place among many conversations", .timeLimit(.minutes(20)))
    func many() async throws {
        let outbox = try Outbox()
        for number in 1...30 { try await outbox.begin(1, in: UInt64(number)) }
        let events = (0..<1000).map { outbox.text("\($0)") }
        for count in stride(from: 10, through: 1000, by: 10) { outbox.replica.setPending(Array(events[..<count]), of: chat(1)) }
        let replica = outbox.replica
        func state() throws -> Conversations { try replica.view { try replica.overlays.state(of: chat(1), over: $0) } }
        let made = try state()
        for _ in 0..<100 {
            #expect(try replica.timeline(of: chat(1), .newest, limit: 10)?.messages.last?.text == "999")
            #expect(try replica.lobby(of: ann, limit: 3).rows.first?.conversation == chat(1))
        }
        #expect(try state() === made, "what was folded once is read again")
        for number in 2...20 { outbox.replica.setPending([outbox.text("late", in: chat(UInt64(number)))], of: chat(UInt64(number))) }
        var found: [ConversationID] = []
        var cursor: LobbyCursor?
        repeat {
            let page = try outbox.replica.lobby(of: bob, after: cursor, limit: 4)
            found += page.rows.map(\.conversation)
            cursor = page.next
        } while cursor != nil
        #expect(found == ((2...20).reversed() + [1] + (21...30).reversed()).map { chat(UInt64($0)) })
        try outbox.close()
    }

    @Test("Observers of the conversation and of its people's lobbies hear of it") func observers() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        let replica = outbox.replica
        var timeline = replica.timelineUpdates(of: chat(1)).makeAsyncIterator()
        var lobby = replica.lobbyUpdates(of: bob).makeAsyncIterator()
        #expect(try await timeline.next()?.covers == 1...4)
        #expect(try await lobby.next()?.page.rows.count == 1)
        let event = outbox.text("hi", id: message(1))
        replica.setPending([event], of: chat(1))
        let update = try #require(try await timeline.next())
        #expect(update.page.messages.last?.state == .pending && update.covers == 4...4)
        #expect(try await lobby.next()?.page.rows.first?.lastMessage?.state == .pending)
        try outbox.accept([event])
        try outbox.adopt()
        let confirmed = try #require(try await timeline.next())
        #expect(confirmed.page.messages.last?.state == .complete && confirmed.covers == 5...5)
        #expect(try await lobby.next()?.page.rows.first?.lastMessage?.state == .complete)
        var new = replica.timelineUpdates(of: chat(5)).makeAsyncIterator()
        let later = Task {
            try await Task.sleep(for: .milliseconds(20))
            replica.setPending([outbox.pending(.conversationCreated(kind: .group, title: "x", participants: []), in: chat(5))], of: chat(5))
        }
        #expect(try await new.next()?.covers == 0...0)
        try await later.value
        try outbox.close()
    }

    @Test("What is pending lies over a rebuilt state as over the one before") func rebuilt() async throws {
        let outbox = try Outbox()
        try await outbox.begin()
        outbox.replica.setPending([outbox.text("hi")], of: chat(1))
        let before = try outbox.replica.timeline(of: chat(1))
        let isDone = Flag()
        let reader = Task.detached { [replica = outbox.replica] in
            while !isDone.isSet {
                let page = try replica.timeline(of: chat(1))
                #expect(page == before)
            }
        }
        for _ in 0..<5 { try outbox.replica.rebuild() }
        isDone.set()
        try await reader.value
        #expect(try outbox.replica.timeline(of: chat(1)) == before)
        try outbox.close()
    }

    @Test("A preview from the first event on needs no base; what is pending lies over it; a base with a hole, too") func preview() async throws {
        let outbox = try Outbox()
        try await outbox.hub.group(1)
        for place in 0..<6 { try await outbox.hub.send("\(place)", to: chat(1), from: bob, id: message(UInt64(place))) }
        let events = try outbox.hub.log.events(in: .conversation(chat(1)))
        let replica = outbox.replica
        replica.setPreview(try Preview(base: nil, baseSeq: 0, events: Array(events[..<4])), of: chat(1))
        var page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["0", "1", "2"] && page.hole == nil && page.seq == 4)
        replica.setPreview(try Preview(base: outbox.hub.encodedBase(of: chat(1), at: 4), baseSeq: 4, events: Array(events[4...])), of: chat(1))
        replica.setPending(
            [
                outbox.pending(.receiptRead(upTo: message(4))), outbox.text("mine"),
                outbox.pending(.messageEdited(message: message(0), text: "?")),
            ], of: chat(1))
        page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["3", "4", "5", "mine"] && page.hole == 1...4 && !page.hasBefore && page.seq == 7)
        #expect(page.receipts.readBy(page.messages[1]) == [ann])
        #expect(try replica.timeline(of: chat(1), .newest, limit: 2)?.hole == nil)
        #expect(try replica.lobby(of: bob).rows.map(\.unread) == [1])
        #expect(try replica.lobby(of: ann).rows.first?.lastMessage?.state == .pending)
        try outbox.adopt()
        page = try #require(try replica.timeline(of: chat(1)))
        #expect(page.messages.map(\.text) == ["?", "1", "2", "3", "4", "5", "mine"] && page.hole == nil)
        try outbox.close()
    }
}
