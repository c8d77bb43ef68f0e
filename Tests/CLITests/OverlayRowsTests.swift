import ConversationStore
import Foundation
import Testing

@testable import convstore

@Suite("Rows of what is not confirmed") struct OverlayRowsTests {
    private static let (ada, bob, chat) = (UserID("ada")!, UserID("bob")!, ConversationID(high: 1, low: 1))
    private static let now: UInt64 = 1_700_000_000_000

    private static func pending(_ counter: UInt64, _ content: Event.Content, in conversation: ConversationID = chat, failure: Refusal? = nil) -> PendingEvent {
        PendingEvent(
            Event(conversation: conversation, author: ada, content: content),
            origin: Origin(replica: ReplicaID(high: 7, low: 7), counter: counter, hlc: HLC(milliseconds: WallClock.milliseconds() + counter)),
            failure: failure)
    }

    private static func text(_ counter: UInt64, _ text: String, failure: Refusal? = nil) -> PendingEvent {
        pending(counter, .messageSent(.init(id: MessageID(high: 9, low: counter), role: .user, text: text)), failure: failure)
    }

    private func store(_ folder: Folder, _ texts: [String]) throws -> ConversationStore {
        let store = try ConversationStore.open(at: folder["store"])
        var contents: [Event.Content] = [.conversationCreated(kind: .group, title: "plans", participants: [Self.bob])]
        for text in texts { contents.append(.messageSent(.init(id: .random(), role: .user, text: text))) }
        _ = try store.log.appendBlocking(contents.map { Submission(Event(conversation: Self.chat, author: Self.bob, content: $0)) })
        _ = try store.log.appendBlocking([Submission(Event(conversation: Self.chat, author: Self.bob, content: .participantJoined(Self.ada)))])
        return store
    }

    private func objects(_ lines: [JSONLine]) throws -> [[String: Any]] {
        try lines.map { line in try #require(try JSONSerialization.jsonObject(with: Data(line.finished())) as? [String: Any]) }
    }

    @Test("JSON: pending and failed rows have no seq, failed ones a code; the others have just the model's fields") func json() throws {
        let folder = try Folder()
        let store = try store(folder, ["one"])
        let refusal = Refusal(.notParticipant, "who")
        let confirmed = try objects(JSONLine.lines(of: #require(try store.timeline(of: Self.chat)), goesForwards: false))
        store.setPending([Self.text(1, "no", failure: refusal), Self.text(2, "hi")], of: Self.chat)
        let rows = try objects(JSONLine.lines(of: #require(try store.timeline(of: Self.chat)), goesForwards: false))
        #expect(rows.count == 3 && rows[0] as NSDictionary == confirmed[0] as NSDictionary)
        #expect(rows[1]["state"] as? String == "failed" && rows[1]["seq"] is NSNull && rows[1]["code"] as? String == "not_participant")
        #expect(rows[1]["detail"] as? String == "who")
        #expect(rows[2]["state"] as? String == "pending" && rows[2]["seq"] is NSNull && Set(rows[2].keys) == Set(confirmed[0].keys))
        let lobby = try objects([JSONLine(#require(try store.lobbyRow(of: Self.chat, for: Self.ada)))])[0]
        let last = try #require(lobby["last_message"] as? [String: Any])
        #expect(last["state"] as? String == "pending" && last["seq"] is NSNull && lobby["state"] as? String == "failed")
        #expect(lobby["code"] as? String == "not_participant" && lobby["detail"] as? String == "who")
        let one = try #require(try store.timeline(of: Self.chat)?.messages.first).id
        store.setPending([Self.pending(3, .messageEdited(message: one, text: "no"), failure: refusal)], of: Self.chat)
        let edited = try objects(JSONLine.lines(of: #require(try store.timeline(of: Self.chat)), goesForwards: false))[0]
        #expect(edited["failed_writes"] as? [[String: String]] == [["type": "message.edited", "code": "not_participant", "detail": "who"]])
        #expect(Set(edited.keys) == Set(confirmed[0].keys).union(["failed_writes"]) && edited["text"] as? String == "one" && edited["code"] == nil)
        store.setPending(
            [
                Self.pending(3, .messageEdited(message: one, text: "won")), Self.pending(4, .messageEdited(message: one, text: "two")),
                Self.pending(5, .reactionSet(message: one, emoji: "👍", isOn: true)), Self.pending(6, .receiptRead(upTo: one)),
                Self.text(7, "hi"), Self.pending(8, .messageDeleted(message: MessageID(high: 9, low: 7))),
            ], of: Self.chat)
        let waiting = try objects(JSONLine.lines(of: #require(try store.timeline(of: Self.chat)), goesForwards: false))
        #expect(waiting[0]["pending_writes"] as? [[String: String]] == [["type": "message.edited"], ["type": "reaction.set"]])
        #expect(waiting[0]["text"] as? String == "two" && waiting[0]["state"] as? String == "complete" && waiting[0]["seq"] is Int)
        #expect(Set(waiting[0].keys) == Set(confirmed[0].keys).union(["pending_writes"]) && waiting[1]["pending_writes"] == nil)
        // Under an id that the hub has given to another message, what is done is done to one's own.
        store.setPending(
            [
                Self.pending(1, .messageSent(.init(id: one, role: .user, text: "mine")), failure: Refusal(.messageConflict)),
                Self.pending(2, .messageEdited(message: one, text: "my two")),
            ], of: Self.chat)
        let twins = try objects(JSONLine.lines(of: #require(try store.timeline(of: Self.chat)), goesForwards: false))
        #expect(twins[0] as NSDictionary == confirmed[0] as NSDictionary && twins[1]["text"] as? String == "my two")
        store.setPending([Self.pending(3, .messageDeleted(message: one))], of: Self.chat)
        let deleted = try objects([JSONLine(#require(try store.lobbyRow(of: Self.chat, for: Self.ada)))])[0]["last_message"] as? [String: Any]
        #expect(deleted?["state"] as? String == "deleted" && deleted?["pending_writes"] as? [[String: String]] == [["type": "message.deleted"]])
        #expect(LobbyView(try store.lobby(of: Self.ada).rows, of: Self.ada).lines(columns: 60, now: Self.now).contains { $0.contains("(sending) (deleted)") })
        store.setPending([Self.text(4, "hi")], of: Self.chat)
        #expect(try objects([JSONLine(#require(try store.lobbyRow(of: Self.chat, for: Self.ada)))])[0]["state"] == nil)
        // Who was put out learns of it all the same.
        _ = try store.log.appendBlocking([Submission(Event(conversation: Self.chat, author: Self.bob, content: .participantLeft(Self.ada)))])
        store.setPending([Self.text(5, "too late", failure: refusal)], of: Self.chat)
        #expect(try store.lobby(of: Self.ada).rows.map(\.unconfirmed) == [.failed(refusal)])
        store.setPending([], of: Self.chat)
        #expect(try store.lobby(of: Self.ada).rows.isEmpty && store.lobbyRow(of: Self.chat, for: Self.ada) == nil)
        let offline = ConversationID(high: 2, low: 2)
        store.setPending([Self.pending(1, .conversationCreated(kind: .direct, title: nil, participants: []), in: offline)], of: offline)
        #expect(try objects([JSONLine(#require(try store.lobbyRow(of: offline, for: Self.ada)))])[0]["state"] as? String == "pending")
        try store.close()
    }

    @Test("JSON: a page with a hole says so behind its rows and before where it goes on; what lies below is stale") func hole() throws {
        let folder = try Folder()
        let store = try store(folder, ["one", "two"])
        let events = try store.log.events(in: .conversation(Self.chat))
        let other = try ConversationStore.open(at: folder["other"])
        let secret = try store.log.secret(of: .conversation(Self.chat))
        _ = try other.log.adoptBlocking(Array(events[..<2]), secrets: [.conversation(Self.chat): secret])
        _ = try store.log.appendBlocking([
            Submission(Event(conversation: Self.chat, author: Self.ada, content: .messageSent(.init(id: .random(), role: .user, text: "new"))))
        ])
        let newest = try store.log.events(in: .conversation(Self.chat), range: 5...5)
        other.setPreview(try Preview(base: store.encodedBase(of: Self.chat, at: 4), baseSeq: 4, events: newest), of: Self.chat)
        let whole = try objects(JSONLine.lines(of: #require(try other.timeline(of: Self.chat)), goesForwards: false))
        #expect(whole.map { $0["text"] as? String } == ["one", "new", nil] && whole[0]["stale"] as? Bool == true && whole[1]["stale"] == nil)
        #expect(whole[2]["hole"] as? [UInt64] == [3, 4])
        // What is done below the hole is not shown on what is there, but said.
        let old = try #require(try other.timeline(of: Self.chat)?.messages.first).id
        other.setPending(
            [
                Self.pending(1, .reactionSet(message: old, emoji: "👍", isOn: true)),
                Self.pending(2, .messageEdited(message: old, text: "no"), failure: Refusal(.notAuthor)),
            ], of: Self.chat)
        let done = try objects(JSONLine.lines(of: #require(try other.timeline(of: Self.chat)), goesForwards: false))[0]
        #expect(done["pending_writes"] as? [[String: String]] == [["type": "reaction.set"]] && (done["failed_writes"] as? [Any])?.count == 1)
        #expect(done["text"] as? String == "one" && done["stale"] as? Bool == true)
        #expect(try other.message(in: Self.chat, id: old)?.pendingWrites == [.reactionSet])
        other.setPending([], of: Self.chat)
        let part = try objects(JSONLine.lines(of: #require(try other.timeline(of: Self.chat, .newest, limit: 1)), goesForwards: false))
        #expect(part.count == 3 && part[1]["hole"] as? [UInt64] == [3, 4] && part[2]["next"] as? UInt64 == 5)
        let page = try #require(try other.timeline(of: Self.chat))
        let lines = ChatView(try Chat(page, in: other)).lines(columns: 60, now: Self.now)
        #expect(lines.contains { $0.contains("@3 to @4 are not here yet") } && lines.contains { $0.contains("(may have changed)") })
        try other.close()
        try store.close()
    }

    @Test("People are told what is on its way and what failed, on lines that fit", arguments: [20, 40, 80])
    func people(columns: Int) throws {
        let folder = try Folder()
        let store = try store(folder, ["one"])
        store.setPending(
            [Self.text(1, "\u{1B}[31m漢字 " + String(repeating: "long ", count: 30), failure: Refusal(.notParticipant, "\u{1B}")), Self.text(2, "漢字")],
            of: Self.chat)
        let page = try #require(try store.timeline(of: Self.chat))
        let lines =
            ChatView(try Chat(page, in: store)).lines(columns: columns, now: Self.now)
            + LobbyView(try store.lobby(of: Self.ada).rows, of: Self.ada).lines(columns: columns, now: Self.now)
        for line in lines {
            #expect(DisplayWidth.of(line) <= columns && !line.unicodeScalars.contains { $0.value < 0x20 }, "\(line)")
        }
        // What failed has the lobby's line to itself.
        #expect(lines.count { $0.contains("(sending)") } == 1)
        #expect(lines.count { $0.contains("(failed: ") } == 2)
        for content in [Event.Content.messageEdited(message: page.messages[0].id, text: "two"), .messageDeleted(message: page.messages[0].id)] {
            store.setPending([Self.pending(3, content)], of: Self.chat)
            let changed = ChatView(try Chat(#require(try store.timeline(of: Self.chat)), in: store)).lines(columns: columns, now: Self.now)
            #expect(changed.count { $0.contains("(sending)") } == 1)
        }
        try store.close()
    }

    @Test("A watch shows each once as pending and once as sent") func watch() throws {
        let folder = try Folder()
        let store = try store(folder, ["one"])
        var (timeline, lobby) = (TimelineWatch(Self.chat, limit: 50), LobbyWatch(Self.ada, limit: 50))
        #expect(try timeline.update(from: store).map(\.message.text) == ["one"])
        #expect(try lobby.update(from: store).count == 1)
        let event = Self.text(1, "hi")
        store.setPending([event], of: Self.chat)
        #expect(try timeline.update(from: store).map(\.message.state) == [.pending])
        #expect(try lobby.update(from: store).count == 1)
        #expect(try timeline.update(from: store).isEmpty && lobby.update(from: store).isEmpty)
        _ = try store.log.appendBlocking([Submission(event.event, origin: event.origin)])
        let changes = try timeline.update(from: store)
        #expect(changes.map(\.message.state) == [.complete] && changes[0].before?.state == .pending)
        #expect(try lobby.update(from: store).count == 1)
        #expect(try timeline.update(from: store).isEmpty && lobby.update(from: store).isEmpty)
        try store.close()
    }

    @Test("A watch tells of what waits for a message, and of what failed, also where the message was not shown before") func watchChanges() throws {
        let folder = try Folder()
        let store = try store(folder, ["one", "two", "three"])
        let ids = try #require(try store.timeline(of: Self.chat)).messages.map(\.id)
        store.setPending([Self.pending(1, .reactionSet(message: ids[1], emoji: "👍", isOn: true))], of: Self.chat)
        var watch = TimelineWatch(Self.chat, limit: 1)
        #expect(try watch.update(from: store).map(\.message.text) == ["three"] && watch.update(from: store).isEmpty)
        let edit = Self.pending(2, .messageEdited(message: ids[0], text: "two"))
        store.setPending([edit], of: Self.chat)
        var changes = try watch.update(from: store)
        #expect(changes.map(\.message.id) == [ids[0], ids[1]])
        #expect(changes.map(\.message.pendingWrites) == [[.messageEdited], []] && changes[0].before == nil)
        var failed = edit
        failed.failure = Refusal(.notAuthor)
        store.setPending([failed], of: Self.chat)
        changes = try watch.update(from: store)
        #expect(changes.map(\.message.id) == [ids[0]] && changes[0].message.failedWrites.count == 1 && changes[0].before?.pendingWrites.count == 1)
        store.setPending([], of: Self.chat)
        changes = try watch.update(from: store)
        #expect(changes.map(\.message.id) == [ids[0]] && changes[0].message.failedWrites.isEmpty && changes[0].message.text == "one")
        // What is pending itself, and above the page, is no news; nor is a failed change that lies further back than is remembered.
        let own = Self.text(4, "own"), last = Self.text(6, "last")
        let ownEdit = Self.pending(5, .messageEdited(message: MessageID(high: 9, low: 4), text: "mine"))
        store.setPending([failed, own, ownEdit, last], of: Self.chat)
        watch = TimelineWatch(Self.chat, limit: 1)
        #expect(try watch.update(from: store).map(\.message.text) == ["last"] && watch.update(from: store).isEmpty)
        // What was written since is, though a page does not hold all of it; and so is what is withdrawn of it.
        let more = [Self.text(7, "a"), Self.text(8, "b"), Self.text(9, "c")]
        store.setPending([failed, own, ownEdit, last] + more, of: Self.chat)
        #expect(try watch.update(from: store).map(\.message.text) == ["a", "b", "c"] && watch.update(from: store).isEmpty)
        store.setPending([failed, ownEdit] + more.dropFirst(), of: Self.chat)
        changes = try watch.update(from: store)
        #expect(changes.map(\.message.text) == ["last", "a"] && changes.allSatisfy(\.isWithdrawn))
        // With a page of none all is news from then on.
        var none = TimelineWatch(Self.chat, limit: 0)
        #expect(try none.update(from: store).isEmpty)
        store.setPending([failed, ownEdit] + more, of: Self.chat)
        #expect(try none.update(from: store).map(\.message.text).contains("a"))
        // So it is in a conversation that the hub does not have yet.
        let new = ConversationID(high: 1, low: 2)
        let creation = Self.pending(20, .conversationCreated(kind: .group, title: nil, participants: [Self.bob]), in: new)
        let said = (21...24).map { counter in
            Self.pending(counter, .messageSent(.init(id: MessageID(high: 9, low: counter), role: .user, text: "\(counter)")), in: new)
        }
        store.setPending([creation, said[0]], of: new)
        var early = TimelineWatch(new, limit: 1)
        #expect(try early.update(from: store).map(\.message.text) == ["21"])
        store.setPending([creation] + said, of: new)
        #expect(try early.update(from: store).map(\.message.text) == ["22", "23", "24"])
        for _ in 0..<20 {
            let texts = (0..<60).map { Event.Content.messageSent(.init(id: .random(), role: .user, text: "\($0)")) }
            _ = try store.log.appendBlocking(texts.map { Submission(Event(conversation: Self.chat, author: Self.bob, content: $0)) })
            #expect(try watch.update(from: store).allSatisfy { $0.message.id != ids[0] })
        }
        #expect(try watch.update(from: store).isEmpty)
        try store.close()
    }
}
