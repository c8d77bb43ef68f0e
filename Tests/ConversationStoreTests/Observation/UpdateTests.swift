import Testing

@testable import ConversationStore
@testable import EventLog

@Suite("Observing") struct UpdateTests {
    @Test("a timeline's updates: at once what is, then each change with the seqs that it covers; a slow reader gets one update for many") func timeline()
        async throws
    {
        let scratch = Scratch()
        let store = try scratch.open()
        var early = store.timelineUpdates(of: chat(1)).makeAsyncIterator()
        let later = Task {
            try await Task.sleep(for: .milliseconds(20))
            try await store.group()
        }
        let created = try #require(try await early.next())
        try await later.value
        #expect(created.covers == 1...1 && created.page.messages == [])
        try await store.send("a", to: chat(1), from: ann)
        #expect(try await early.next()?.covers == 2...2)
        for number in 0..<300 { try await store.send("\(number)", to: chat(1), from: ann) }
        try await store.group(2)
        let many = try #require(try await early.next())
        #expect(many.covers == 3...302 && many.page.messages.count == 50 && many.page.messages.last?.text == "299")
        var late = store.timelineUpdates(of: chat(1), limit: 2).makeAsyncIterator()
        let now = try #require(try await late.next())
        #expect(now.covers == 1...302 && now.page.messages.map(\.text) == ["298", "299"])
        // What does not concern the conversation wakes nobody; a preference is in another log.
        try await store.append(Event(conversation: chat(1), author: ann, content: .preferenceSet(key: "pinned", value: "yes")))
        try await store.append(Event(conversation: chat(1), author: bob, content: .receiptRead(upTo: now.page.messages[1].id)))
        let read = try #require(try await late.next())
        #expect(read.covers == 303...303 && read.page.receipts.readBy(now.page.messages[1]) == [bob])
        try store.close()
    }

    @Test("a lobby's updates: on all that changes a row, whoever did it, and on nothing else") func lobby() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        var updates = store.lobbyUpdates(of: bob).makeAsyncIterator()
        let empty = try #require(try await updates.next())
        #expect(empty.page.rows == [] && empty.covers == 0...0)
        var last = empty
        func next(_ what: String) async throws -> LobbyPage {
            let update = try #require(try await updates.next(), "\(what)")
            #expect(update.covers.lowerBound == last.covers.upperBound + 1, "\(what)")
            #expect(update.covers.upperBound == store.log.lastPosition, "\(what)")
            #expect(update.page == (try store.lobby(of: bob)) && update.page != last.page, "\(what)")
            last = update
            return update.page
        }
        func append(_ content: Event.Content, by author: UserID = ann, in number: UInt64 = 1) async throws {
            try await store.append(Event(conversation: chat(number), author: author, content: content))
        }
        try await store.group(1)
        #expect(try await next("created").rows.map(\.title) == ["talk 1"])
        try await store.send("hi", to: chat(1), from: ann, id: message(1))
        #expect(try await next("sent").rows[0].unread == 1)
        try await append(.messageEdited(message: message(1), text: "hello"))
        #expect(try await next("edited").rows[0].lastMessage?.snippet == "hello")
        try await append(.preferenceSet(key: "pinned", value: "yes"), by: bob)
        #expect(try await next("preference").rows[0].preferences == ["pinned": "yes"])
        try await append(.receiptRead(upTo: message(1)), by: bob)
        #expect(try await next("read").rows[0].unread == 0)
        try await append(.conversationUpdated(title: "new", attributes: []))
        #expect(try await next("title").rows[0].title == "new")
        try await append(.participantJoined(UserID("eve")!))
        #expect(try await next("joined").rows[0].participants.count == 4)
        let answer = try await store.startMessage(in: chat(1), from: bot)
        #expect(try await next("streaming").rows[0].lastMessage?.state == .streaming)
        try await answer.append("text")
        try await answer.flush()
        #expect(try await next("chunk").rows[0].lastMessage?.snippet == "text")
        try await answer.complete()
        #expect(try await next("complete").rows[0].lastMessage?.state == .complete)
        // None of these is seen in bob's lobby; the next change covers them.
        try await append(.receiptRead(upTo: message(1)), by: bot)
        try await append(.preferenceSet(key: "muted", value: "1"), by: ann)
        try await store.createConversation(.direct, id: chat(7), author: ann)
        try await store.send("not his", to: chat(7), from: ann)
        try await append(.messageDeleted(message: message(1)))
        try await store.group(2)
        #expect(try await next("another conversation").rows.count == 2)
        try await append(.participantLeft(bob), by: bob)
        #expect(try await next("left").rows.map(\.conversation) == [chat(2)])
        try await append(.participantJoined(bob))
        #expect(try await next("came back").rows.count == 2)
        try await append(.participantLeft(bob))
        #expect(try await next("removed").rows.count == 1)
        try await store.append([
            Submission(Event(conversation: chat(1), author: ann, content: .participantJoined(bob))), text("hello", in: chat(1)),
            Submission(Event(conversation: chat(1), author: ann, content: .participantLeft(bob))), text("secret", in: chat(2)),
        ])
        #expect(try await next("joined and left").rows[0].lastMessage?.snippet == "secret")
        try store.close()
    }

    @Test("chunks: all that is, then as it comes, then the end with its reason; from an index on; nothing of a message that is not there") func chunks()
        async throws
    {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        func all(_ id: MessageID, from index: UInt32 = 0) async throws -> [MessageChunk] {
            var result: [MessageChunk] = []
            for try await chunk in store.chunks(of: id, in: chat(1), from: index) { result.append(chunk) }
            return result
        }
        let answer = try await store.startMessage(in: chat(1), from: bot)
        for piece in ["a", "b", "c"] { try await answer.append(piece) }
        try await answer.flush()
        var live = store.chunks(of: answer.id, in: chat(1), from: 1).makeAsyncIterator()
        #expect(try await live.next() == .text(index: 1, "b"))
        #expect(try await live.next() == .text(index: 2, "c"))
        let later = Task {
            try await Task.sleep(for: .milliseconds(20))
            try await store.send("between", to: chat(1), from: ann)
            try await answer.append("d")
        }
        #expect(try await live.next() == .text(index: 3, "d"))
        try await later.value
        try await answer.complete(finishReason: "length")
        #expect(try await live.next() == .ended(.complete, reason: "length"))
        #expect(try await live.next() == nil)
        #expect(try await all(answer.id, from: 3) == [.text(index: 3, "d"), .ended(.complete, reason: "length")])
        #expect(try await all(answer.id, from: 4) == [.ended(.complete, reason: "length")])
        #expect(try await all(message(99)) == [])
        try await store.send("whole", to: chat(1), from: ann, id: message(1))
        #expect(try await all(message(1)) == [.ended(.complete, reason: nil)])
        let stopped = try await store.startMessage(in: chat(1), from: bot)
        try await stopped.append("x")
        try await stopped.interrupt(reason: "stop")
        #expect(try await all(stopped.id) == [.text(index: 0, "x"), .ended(.interrupted, reason: "stop")])
        try await store.append(Event(conversation: chat(1), author: bot, content: .messageDeleted(message: stopped.id)))
        #expect(try await all(stopped.id) == [.ended(.deleted, reason: nil)], "what was deleted is not told again")
        let deleted = try await store.startMessage(in: chat(1), from: bot)
        async let rest = all(deleted.id)
        try await store.append(Event(conversation: chat(1), author: bot, content: .messageDeleted(message: deleted.id)))
        #expect(try await rest.last == .ended(.deleted, reason: nil))
        try store.close()
    }

    @Test("the end of a stream never comes before its last text, however closely they follow one another", .timeLimit(.minutes(20))) func endLast() async throws
    {
        let scratch = Scratch()
        let store = try scratch.open(.tiny)
        try await store.group()
        for round in 0..<environment("FRONT_ROUNDS", default: 150) {
            let id = MessageID.random()
            try await store.append(
                Event(conversation: chat(1), author: bot, content: .messageSent(.init(id: id, role: .assistant, text: "", isStreaming: true))))
            let readers = (0..<6).map { _ in
                Task {
                    var text = ""
                    for try await chunk in store.chunks(of: id, in: chat(1)) {
                        switch chunk {
                        case .text(_, let piece): text += piece
                        case .ended(let state, let reason): return "\(text)|\(state)|\(reason ?? "-")"
                        }
                    }
                    return text
                }
            }
            if round % 3 == 0 { await Task.yield() }
            let pieces = ["one", "two", "three"].enumerated().map {
                Submission(Event(conversation: chat(1), author: bot, content: .chunkAppended(message: id, index: UInt32($0.offset), text: $0.element)))
            }
            let end = Submission(Event(conversation: chat(1), author: bot, content: .messageCompleted(message: id, finishReason: "stop", usage: nil)))
            try await store.append(Array(pieces.prefix(round % 2)))
            try await store.append(pieces.dropFirst(round % 2) + [end])
            for reader in readers { #expect(try await reader.value == "onetwothree|complete|stop") }
        }
        try store.close()
    }

    @Test("a relaxed store shows what was written last within its interval, without another commit", .timeLimit(.minutes(20))) func relaxed() async throws {
        let scratch = Scratch()
        let store = try scratch.open(ConversationStoreOptions(durability: .relaxed(interval: .milliseconds(50))))
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let (chunks, events) = (Monitor(0), Monitor(0))
        let readers = [
            Task { for try await _ in store.chunks(of: answer.id, in: chat(1)) { chunks.withLock { $0 += 1 } } },
            Task { for try await _ in store.events() { events.withLock { $0 += 1 } } },
        ]
        // Nothing is committed until both have seen what was.
        for round in 1...15 {
            try await answer.append("\(round)")
            try await answer.flush()
            try await eventually("piece \(round) is seen") { chunks.withLock { $0 } == round && events.withLock { $0 } == round + 2 }
        }
        try await answer.complete()
        try await eventually("the end is seen") { chunks.withLock { $0 } == 16 && events.withLock { $0 } == 18 }
        try store.close()
        for reader in readers { try await reader.value }
    }

    @Test("closing ends every observer, a cancelled task its own; none stays behind", .timeLimit(.minutes(20))) func ends() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let counted = Monitor(0)
        func observers() -> [Task<Void, any Error>] {
            [
                Task { for try await _ in store.timelineUpdates(of: chat(1)) { counted.withLock { $0 += 1 } } },
                Task { for try await _ in store.timelineUpdates(of: chat(404)) { counted.withLock { $0 += 1 } } },
                Task { for try await _ in store.lobbyUpdates(of: ann) { counted.withLock { $0 += 1 } } },
                Task { for try await _ in store.events() { counted.withLock { $0 += 1 } } },
                Task { for try await _ in store.chunks(of: answer.id, in: chat(1)) { counted.withLock { $0 += 1 } } },
            ]
        }
        let cancelled = (0..<20).flatMap { _ in observers() }
        try await eventually("all have begun") { counted.withLock { $0 } >= 20 * 4 }
        for (index, task) in cancelled.enumerated() {
            task.cancel()
            if index % 7 == 0 { try await store.send("x", to: chat(1), from: ann) }
        }
        for task in cancelled { try await task.value }
        #expect(store.changes.observers == 0)
        // One that was cancelled before it began.
        let never = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            var updates = store.timelineUpdates(of: chat(1)).makeAsyncIterator()
            return try await updates.next() == nil
        }
        #expect(try await never.value)
        let open = (0..<20).flatMap { _ in observers() }
        try await Task.sleep(for: .milliseconds(20))
        let writers = (0..<4).map { _ in Task { while true { try await store.send("busy", to: chat(1), from: ann) } } }
        try await Task.sleep(for: .milliseconds(20))
        try store.close()
        for task in open { try await task.value }
        for task in writers { _ = await task.result }
        #expect(store.changes.observers == 0)
        for task in observers() { try await task.value }
        #expect(store.changes.observers == 0)
    }
}
