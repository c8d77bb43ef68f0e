import ConversationStore
import EventLog
import Testing

@Suite("Appending through the front door") struct AppendTests {
    @Test("one event, a batch, and a repeat: seqs, positions, and where it was") func outcomes() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let event = Event(conversation: chat(1), author: ann, content: .messageSent(.init(id: message(1), role: .user, text: "hi")))
        let first = try await store.append(event)
        #expect(first.seq == 2 && first.position == 2 && first.isDurable)
        let again = try await store.append(event)
        #expect(again == first)
        let outcomes = try await store.append([text("a", in: chat(1)), text("b", in: chat(9)), Submission(event)])
        guard case .accepted(let third) = outcomes[0], case .refused(let refusal) = outcomes[1], case .duplicate(first) = outcomes[2] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(third.seq == 3 && refusal.code == .unknownConversation)
        #expect(try await store.append([]) == [])
        #expect(try await store.send("repeat", to: chat(1), from: ann, id: message(7)) == message(7))
        try await store.send("repeat", to: chat(1), from: ann, id: message(7))
        #expect(try store.timeline(of: chat(1))?.messages.map(\.text) == ["hi", "a", "repeat"])
        try store.close()
    }

    @Test("what breaks a rule throws the refusal that names the rule, and changes nothing") func refusals() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        try await store.send("x", to: chat(1), from: ann, id: message(1))
        let before = try store.digest()
        #expect(await refusal { try await store.send("x", to: chat(2), from: ann) } == .unknownConversation)
        #expect(await refusal { try await store.send("x", to: chat(1), from: UserID("eve")!) } == .notParticipant)
        #expect(await refusal { try await store.send("other", to: chat(1), from: ann, id: message(1)) } == .messageConflict)
        #expect(await refusal { try await store.send("x", to: chat(1), from: ann, replyTo: message(9)) } == .unknownMessage)
        #expect(await refusal { try await store.send(String(repeating: "x", count: 1 << 20 | 1), to: chat(1), from: ann) } == .tooLarge)
        #expect(await refusal { try await store.createConversation(.direct, id: chat(1), author: ann) } == .conversationConflict)
        #expect(
            await refusal { try await store.append(Event(conversation: chat(1), author: bob, content: .messageEdited(message: message(1), text: "y"))) }
                == .notAuthor)
        let withdrawn = try await store.append([text("a", in: chat(1)), text("b", in: chat(2))], isAtomic: true)
        #expect(withdrawn[0] == .withdrawn)
        #expect(try store.digest() == before)
        try store.close()
    }

    @Test("an atomic batch over conversations is seen whole or not at all, by a lobby and by all timelines", .timeLimit(.minutes(20)))
    func atomic() async throws {
        let scratch = Scratch()
        let store = try scratch.open(.tiny)
        let chats: [UInt64] = Array(1...8)
        for number in chats { try await store.group(number) }
        let isDone = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<3 {
                group.addTask {
                    for round in 0..<60 {
                        var batch = chats.map { text("\(writer)-\(round)", in: chat($0)) }
                        let isBroken = round % 5 == 4
                        // One in the middle that is refused takes all others with it.
                        if isBroken { batch[4] = text("never", in: chat(99)) }
                        let outcomes = try await store.append(batch, isAtomic: true)
                        for (index, outcome) in outcomes.enumerated() {
                            switch outcome {
                            case .accepted: #expect(!isBroken)
                            case .refused: #expect(isBroken && index == 4)
                            case .withdrawn: #expect(isBroken && index != 4)
                            case .undecided(let damage): Issue.record("\(damage)")
                            case .duplicate: Issue.record("a duplicate")
                            }
                        }
                    }
                }
            }
            group.addTask {
                // A lobby is read in one piece: all its unread counts are of one moment.
                while !isDone.isSet {
                    let counts = Set(try store.lobby(of: bob).rows.map(\.unread))
                    if counts.count != 1 { Issue.record("half a batch: \(counts)") }
                    await Task.yield()
                }
            }
            for _ in 0..<3 { try await group.next() }
            isDone.set()
            try await group.waitForAll()
        }
        for number in chats { #expect(try store.timeline(of: chat(number), limit: 1000)?.messages.count == 144) }
        #expect(try store.isFold())
        try store.close()
    }

    @Test("closing and opening again shows the same, and a closed store says that it is closed, whatever it is asked") func close() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        for number in 0..<200 { try await store.send("message \(number)", to: chat(1), from: number % 2 == 0 ? ann : bob) }
        let (page, lobby, digest) = (try store.timeline(of: chat(1)), try store.lobby(of: ann), try store.digest())
        try store.close()
        try store.close()
        #expect(await failure { try await store.send("late", to: chat(1), from: ann) } == .closed)
        #expect(await failure { try await store.startMessage(in: chat(1), from: bot) } == .closed)
        #expect(await failure { try store.timeline(of: chat(1)) } == .closed)
        #expect(await failure { try store.lobby(of: ann) } == .closed)
        #expect(await failure { try store.lobbyRow(of: chat(1), for: ann) } == .closed)
        #expect(await failure { try store.message(in: chat(1), at: 2) } == .closed)
        #expect(await failure { try store.message(in: chat(1), id: message(1)) } == .closed)
        #expect(await failure { try store.receipts(of: chat(1)) } == .closed)
        #expect(await failure { try store.contextWindow(of: chat(1), budget: 100) } == .closed)
        #expect(await failure { try store.rebuild() } == .closed)
        let again = try scratch.open()
        #expect(try again.timeline(of: chat(1)) == page)
        #expect(try again.lobby(of: ann) == lobby)
        #expect(try again.digest() == digest)
        #expect(await failure { try scratch.open() } == .busy)
        try again.close()
    }
}
