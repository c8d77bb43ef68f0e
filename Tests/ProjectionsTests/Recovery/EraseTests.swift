import ConversationStore
import Foundation
import Testing

@testable import TalkWriter
import StoreTesting

@Suite("Erased and damaged") struct EraseTests {
    private static let secret = "the-word-that-must-go"

    /// Whether any screen shows a text.
    private static func shows(_ text: String, _ store: ConversationStore, _ chat: ConversationID) throws -> Bool {
        let messages = try store.timeline(of: chat, limit: .max)?.messages ?? []
        let window = try store.contextWindow(of: chat, budget: 1 << 30)?.messages ?? []
        let rows = try Talk.users.compactMap { try store.lobbyRow(of: chat, for: $0) }
        let details = (messages + window).map { "\($0.reactions) \($0.interruptedReason ?? "") \($0.finishReason ?? "")" }
        return "\(messages) \(window) \(details) \(rows)".contains(text)
    }

    private static func isOnDisk(_ text: String, _ path: String) throws -> Bool {
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            if try Data(contentsOf: URL(filePath: path + "/" + name)).range(of: Data(text.utf8)) != nil { return true }
        }
        return false
    }

    /// What of a message is erased.
    enum Part: CaseIterable { case message, edit, chunk, interruption, title, reaction, preference }

    @Test("What is erased is on no screen at once, in no file after compacting, and the state is the fold of what is left", arguments: Part.allCases)
    func erase(_ part: Part) async throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        let (ann, bob) = (Talk.users[0], Talk.users[1])
        let chat = try await store.createConversation(.group, title: "talk", author: ann, participants: [bob])
        for number in 0..<40 { try await store.send("before \(number)", to: chat, from: bob) }
        let text = Self.secret
        let id = MessageID.random()
        func append(_ content: Event.Content) async throws -> Seq { try await store.append(Event(conversation: chat, author: ann, content: content)).seq }
        var seq: Seq
        var log = LogID.conversation(chat)
        var state = MessageState.complete
        switch part {
        case .message:
            seq = try await append(.messageSent(Event.Message(id: id, role: .user, text: text)))
            state = .erased
        case .edit:
            seq = try await append(.messageSent(Event.Message(id: id, role: .user, text: "first")))
            seq = try await append(.messageEdited(message: id, text: text))
            state = .erased
        case .chunk, .interruption:
            _ = try await append(.messageSent(Event.Message(id: id, role: .assistant, text: "", isStreaming: true)))
            _ = try await append(.chunkAppended(message: id, index: 0, text: "one "))
            seq = try await append(.chunkAppended(message: id, index: 1, text: part == .chunk ? text : "two "))
            _ = try await append(.chunkAppended(message: id, index: 2, text: "three"))
            let end = try await append(.messageInterrupted(message: id, reason: part == .chunk ? "stop" : text))
            if part == .interruption { seq = end }
            state = part == .chunk ? .erased : .interrupted
        case .title:
            seq = try await append(.messageSent(Event.Message(id: id, role: .user, text: "plain")))
            seq = try await append(.conversationUpdated(title: text, attributes: [Event.Attribute(name: "topic", value: text)]))
        case .reaction:
            seq = try await append(.messageSent(Event.Message(id: id, role: .user, text: "plain")))
            seq = try await append(.reactionSet(message: id, emoji: text, isOn: true))
        case .preference:
            seq = try await append(.messageSent(Event.Message(id: id, role: .user, text: "plain")))
            seq = try await append(.preferenceSet(key: "draft", value: text))
            log = .user(ann)
        }
        let unread = try store.lobbyRow(of: chat, for: bob)?.unread
        #expect(try Self.shows(text, store, chat))
        if Bool.random() { try store.log.flush() }
        try store.log.erase(log: log, seq: seq)

        func check(_ store: ConversationStore, _ when: Comment) throws {
            #expect(try Self.shows(text, store, chat) == false, when)
            let message = try #require(try store.message(in: chat, id: id))
            #expect(message.state == state, when)
            if state == .erased { #expect(message.text.isEmpty, when) }
            let row = try #require(try store.lobbyRow(of: chat, for: bob))
            #expect(row.unread == unread, when)
            #expect(row.lastMessage?.id == id && row.lastMessage?.state == state, when)
            if state == .erased { #expect(row.lastMessage?.snippet == "", when) }
            if part == .title { #expect(row.title == "talk", when) }
            #expect(try store.isFold(), when)
        }
        try check(store, "erased")
        try await store.send("after", to: chat, from: bob)
        try await store.append(Event(conversation: chat, author: bob, content: .messageDeleted(message: store.timeline(of: chat)!.messages.last!.id)))
        #expect(try store.isFold())
        try store.close()
        _ = try EventStore.compact(at: scratch.store)
        #expect(try Self.isOnDisk(text, scratch.store) == false)
        store = try scratch.open()
        #expect(try Self.shows(text, store, chat) == false)
        #expect(try store.isFold())
        #expect(try store.message(in: chat, id: id)?.state == state)
        try store.close()
    }

    @Test("A text that an edit replaced or a deletion took is in no row; a later edit of an erased message is shown")
    func replaced() async throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        let ann = Talk.users[0]
        let chat = try await store.createConversation(.group, author: ann)
        let id = try await store.send(Self.secret, to: chat, from: ann)
        let seq = try #require(try store.message(in: chat, id: id)?.seq)
        try store.log.erase(log: .conversation(chat), seq: seq)
        try await store.append(Event(conversation: chat, author: ann, content: .messageEdited(message: id, text: "anew")))
        #expect(try store.message(in: chat, id: id)?.state == .complete)
        #expect(try store.message(in: chat, id: id)?.text == "anew")
        #expect(try store.lobbyRow(of: chat, for: ann)?.lastMessage?.snippet == "anew")
        #expect(try store.isFold())
        try await store.append(Event(conversation: chat, author: ann, content: .messageDeleted(message: id)))
        #expect(try store.message(in: chat, id: id)?.state == .deleted)
        #expect(try store.isFold())
        try store.close()
    }

    @Test("Where an event cannot be read nothing is erased, and the store goes on") func damaged() async throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        let ann = Talk.users[0]
        var chats: [ConversationID] = []
        for _ in 0..<2 {
            let chat = try await store.createConversation(.group, author: ann)
            try await store.send(Self.secret, to: chat, from: ann)
            try store.log.flush()
            chats.append(chat)
        }
        try store.close()
        _ = try EventStore.damageRun(at: scratch.store, number: 0)
        store = try scratch.open(.existing)
        let log = LogID.conversation(chats[1])
        let head = try store.log.head(of: log)
        #expect { try store.log.erase(log: log, seq: 2) } throws: {
            ($0 as? EventLogError)?.code == .damaged && "\($0)".contains("nothing was erased")
        }
        #expect { try store.log.erase(log: log, seq: 9) } throws: { ($0 as? EventLogError)?.code == .noSuchLog }
        #expect { try store.log.erase(log: log, seq: 1) } throws: { ($0 as? EventLogError)?.code == .invalidArgument }
        for _ in 0..<2 {
            #expect(try store.log.event(in: log, at: 2)?.isErased == false)
            #expect(try Self.shows(Self.secret, store, chats[1]))
            #expect(try store.log.head(of: log) == head)
            try await store.createConversation(.group, author: ann)
            try store.close()
            store = try scratch.open(.existing)
        }
        try store.close()
    }

    @Test("A damaged row that opening must go on with is built anew from the log, where the store may write (I4)")
    func damagedRowBehindTheArchive() async throws {
        let scratch = try Scratch()
        let ann = UserID("ann")!
        var store = try scratch.open()
        let chat = try await store.createConversation(.group, author: ann, participants: [UserID("bob")!])
        let draft = String(repeating: "a draft that a row holds as it is; ", count: 20)
        try await store.append(Event(conversation: chat, author: ann, content: .preferenceSet(key: "draft", value: draft)))
        try store.close()
        // A store that knows no projections leaves their rows behind.
        let log = try EventStore.open(at: scratch.store)
        _ = try await log.append([Submission(Event(conversation: chat, author: ann, content: .preferenceSet(key: "pinned", value: "yes")))])
        try log.close()
        let path = scratch.store + "/archive"
        var bytes = try Data(contentsOf: URL(filePath: path))
        // In the run it is compressed.
        let place = try #require(bytes.range(of: Data(draft.utf8.prefix(100))))
        bytes[place.lowerBound] ^= 1
        try bytes.write(to: URL(filePath: path))
        store = try scratch.open(.existing)
        #expect(try store.lobbyRow(of: chat, for: ann)?.preferences == ["draft": draft, "pinned": "yes"])
        #expect(try store.isFold())
        try store.close()
    }

    @Test("Flipped bytes in a closed store's archive: right rows or a typed error, never wrong ones and never a trap (I7)")
    func damage() throws {
        let scratch = try Scratch()
        var store = try scratch.open(projections: [KindCounts.self])
        try store.take(FoldTests.talk(31, 1500))
        let recount = Recount(try store.events())
        let lobbies = try Talk.users.map { try store.lobby(of: $0, limit: .max) }
        let timelines = try recount.conversations.keys.map { try #require(try store.timeline(of: $0, limit: .max)) }
        try store.close()
        let path = scratch.store + "/archive"
        let sound = try Data(contentsOf: URL(filePath: path))
        let pristine = scratch.path + "/pristine"
        try FileManager.default.copyItem(atPath: scratch.store, toPath: pristine)
        var random = SeededGenerator(seed: 5)
        var errors = 0
        for round in 0..<effort("CONVSTORE_FLIPS", share: 60) {
            var bytes = sound
            for _ in 0..<(round % 3 == 0 ? 20 : 3) { bytes[random.below(bytes.count)] ^= 1 << UInt8(random.below(8)) }
            try FileManager.default.removeItem(atPath: scratch.store)
            try FileManager.default.copyItem(atPath: pristine, toPath: scratch.store)
            try bytes.write(to: URL(filePath: path))
            // Each on its own: one that cannot be read does not hide another.
            func attempt(_ body: () throws -> Void) {
                do {
                    try body()
                } catch {
                    errors += 1
                    if !(error is EventLogError) { Issue.record("round \(round): \(error)") }
                }
            }
            var isHidden = false
            attempt {
                store = try scratch.open(round % 2 == 0 ? .readOnly : .existing, projections: [KindCounts.self])
                for (user, lobby) in zip(Talk.users, lobbies) {
                    attempt {
                        let got = try store.lobby(of: user, limit: .max)
                        // A damaged key hides a row, which nothing but a fold anew tells.
                        if got != lobby, Set(got.rows).isSubset(of: lobby.rows) { isHidden = true } else { #expect(got == lobby, "round \(round)") }
                    }
                }
                for page in timelines {
                    attempt {
                        let got = try store.timeline(of: page.conversation, limit: .max)
                        if got == nil { isHidden = true } else { #expect(got == page, "round \(round)") }
                    }
                }
                for name in store.projectionNames {
                    attempt {
                        let isFold = try store.isFold(name)
                        #expect(!isFold || !isHidden || name == KindCounts.name, "\(name), round \(round)")
                    }
                }
                attempt { try store.close() }
            }
        }
        #expect(errors > 0)
    }
}
