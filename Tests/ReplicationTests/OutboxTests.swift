import ConversationStore
import Foundation
@testable import Replication
import Testing

/// What becomes of a replica's own events.
@Suite struct OutboxTests {
    @Test("a hub that says that it recorded an event where another stands is not believed", arguments: [false, true])
    func aLieAboutARecord(_ isRepeat: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<5 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            let device = try world.device(bob)
            try await world.sync(device)
            let entry = try device.append(message("mine", in: chat, by: bob))
            let replica = Monitor<ReplicaConnection?>(nil)
            let hub = world.hub.connect(send: { message in replica.withLock { $0 }?.receive(message) }, close: { _ in })
            let failure = Monitor<(any Error)?>(nil), closing = Monitor<Bye.Code?>(nil)
            let connection = device.connect(
                token: "",
                send: { message in
                    guard case .hello(var hello)? = try? Frame(decoding: message) else { return hub.receive(message) }
                    // The hub never sees it, and yet it is said to stand at seq 3.
                    hello.pushed = []
                    hub.receive(Frame.hello(hello).encoded())
                },
                close: { bye in
                    closing.withLock { $0 = bye.code }
                    hub.disconnected()
                }
            ) { event in
                if case .failed(let error) = event { failure.withLock { $0 = error } }
                guard case .connected = event, let origin = device.outbox.first?.origin else { return }
                let lie = Accepted(
                    log: .conversation(chat), replica: origin.replica, counter: origin.counter, seq: 3, hlc: origin.hlc, isDuplicate: isRepeat)
                replica.withLock { $0 }?.receive(Frame.accepted([lie]).encoded())
            }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { failure.withLock { $0 } != nil }
            #expect((failure.withLock { $0 } as? ReplicaError)?.code == .badPeer)
            #expect(closing.withLock { $0 } == .protocolError)
            #expect(device.outbox.map(\.id) == [entry.id])
            // An honest hub gets it.
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 1)?.messages.map(\.text) == ["mine"])
        }
    }

    @Test("an edited entry is another event, of the time of its edit; with the text that it had it stays the same")
    func clockOfAnEdit() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada), path = device.store.log.path
            try await world.sync(device)
            try device.close()
            var options = ReplicaOptions()
            options.execution.now = { Instant(wallMilliseconds: 4_000_000_000_000, monotonicMilliseconds: 0) }
            let ahead = try Replica.open(at: path, user: ada, options: options)
            let old = try ahead.append(message("one", in: chat, by: ada))
            try ahead.close()
            // The clock was set right meanwhile.
            let offline = try world.open(path, ada)
            try offline.edit(old.id, text: "one")
            #expect(offline.outbox == [old])
            try offline.edit(old.id, text: "two")
            let new = try #require(offline.outbox.first)
            #expect(new.origin.hlc < old.origin.hlc && new.origin.replica == old.origin.replica)
            #expect(try offline.append(message("three", in: chat, by: ada)).origin.hlc < old.origin.hlc)
            try offline.close()
            let again = try world.open(path, ada)
            #expect(again.outbox.first == new)
            try await world.sync(again)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["two", "three"])
        }
    }

    @Test("a conversation's second making that failed holds back nothing that was written before it, and takes nothing of that with it")
    func failedSecondMaking() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob]), taken = MessageID.random()
            _ = try await world.hubStore.append(message("bob's", in: chat, by: bob, id: taken))
            let device = try world.device(ada)
            try device.append([
                message("mine", in: chat, by: ada, id: taken),
                Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: .random(), role: .user, text: "reply", replyTo: taken))),
                Event(conversation: chat, author: ada, content: .conversationCreated(kind: .group, title: "again", participants: [])),
            ])
            try await world.sync(device)
            #expect(device.outbox.map(\.isFailed) == [true, false, true])
            #expect(device.outbox.map(\.isWaiting) == [false, true, false])
            try device.discard([device.outbox[2].id])
            #expect(device.outbox.map(\.isFailed) == [true, false])
            try device.discard([device.outbox[0].id])
            #expect(device.outbox.map(\.isFailed) == [true])
        }
    }

    @Test("what failed in a conversation that a hub lost is shown in lobby and timeline all the same, until it is discarded or comes again")
    func failedWithItsConversation() async throws {
        try await withWorld { world in
            try world.backUpHub()
            let chat = try await world.hubStore.createConversation(.group, title: "bob's", author: bob, participants: [ada])
            try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try await world.heal(world.device(ada))
            let own = message("mine", in: chat, by: ada)
            try device.append([own, Event(conversation: chat, author: ada, content: .conversationUpdated(title: "ada's", attributes: []))])
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try world.restoreHub()
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true, true])
            func expectShown(_ store: ConversationStore) throws {
                let row = try #require(try store.lobby(of: ada).rows.first)
                #expect(row.conversation == chat && row.participants == [ada] && row.unconfirmed != nil && row.unconfirmed != .pending)
                let messages = try #require(try store.timeline(of: chat)?.messages)
                #expect(messages.map(\.text) == ["mine"] && messages.map(\.author) == [ada])
            }
            try expectShown(device.store)
            // As a reader beside it, or without it, shows it.
            let path = device.store.log.path, overlay = try #require(try ReplicaOverlay(of: path))
            try device.close()
            let reader = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
            try overlay.show(in: reader)
            try expectShown(reader)
            try reader.close()
            device = try world.open(path, ada)
            try expectShown(device.store)
            // Made once more it is shown as that, with what was written in it before.
            let making = Event.Content.conversationCreated(kind: .direct, title: "again", participants: [])
            let again = try device.append(Event(conversation: chat, author: ada, content: making))
            let row = try #require(try device.store.lobby(of: ada).rows.first)
            #expect(row.title == "again" && row.kind == .direct)
            #expect(try device.store.timeline(of: chat)?.messages.map(\.text) == ["mine"])
            try device.discard([again.id])
            try expectShown(device.store)
            try device.discard()
            #expect(try device.store.lobby(of: ada).rows.isEmpty && device.store.timeline(of: chat) == nil)
        }
    }

    @Test("what only speaks of something in a conversation that a hub lost makes no empty conversation of it") func failedReceipt() async throws {
        try await withWorld { world in
            try world.backUpHub()
            let chat = try await world.hubStore.createConversation(.group, title: "bob's", author: bob, participants: [ada])
            let hello = try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try await world.heal(world.device(ada))
            try device.append(Event(conversation: chat, author: ada, content: .receiptRead(upTo: hello)))
            device = try await world.heal(device)
            try world.restoreHub()
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true])
            #expect(try device.store.lobby(of: ada).rows.isEmpty && device.store.timeline(of: chat) == nil)
        }
    }

    @Test("repeats of what is held leave the outbox", arguments: [1, 2])
    func repeats(_ devices: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let sent = try await world.hubStore.send("read me", to: chat, from: ada)
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            for device in [first, second].prefix(devices) {
                try device.append(Event(conversation: chat, author: bob, content: .receiptRead(upTo: sent)))
                try device.append(message("once", in: chat, by: bob, id: id))
                try device.append(Event(conversation: chat, author: bob, content: .participantLeft(eve)))
                try device.append(Event(conversation: chat, author: bob, content: .messageDeleted(message: id)))
                try await world.sync(device)
            }
            for device in [first, second] {
                try await world.sync(device)
                #expect(device.outbox.isEmpty)
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            }
        }
    }

    @Test func whatDependsOnARefusedMessageWaitsWithIt() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            try first.append(message("first's", in: chat, by: bob, id: id))
            var reply = Event.Message(id: .random(), role: .user, text: "a reply")
            reply.replyTo = id
            try second.append([
                message("second's", in: chat, by: bob, id: id), Event(conversation: chat, author: bob, content: .messageEdited(message: id, text: "edited")),
                Event(conversation: chat, author: bob, content: .messageSent(reply)),
            ])
            for device in [first, second] { try await world.sync(device) }
            #expect(second.outbox.map(\.isFailed) == [true, false, false] && second.outbox.map(\.isWaiting) == [false, true, true])
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages.map(\.text) == ["first's"])
        }
    }

    @Test func whatDependsOnAMessageGoesWhenThatIsAcceptedAndNothingOvertakesIt() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let device = try world.device(bob)
            try await world.sync(device)
            let id = MessageID.random(), streamed = MessageID.random(), own = MessageID.random()
            func event(_ content: Event.Content) -> Event { Event(conversation: chat, author: bob, content: content) }
            func sent(_ text: String, id: MessageID = .random(), replyTo: MessageID? = nil, isStreaming: Bool = false) -> Event {
                event(.messageSent(Event.Message(id: id, role: .user, text: text, isStreaming: isStreaming, replyTo: replyTo)))
            }
            try device.append([
                sent("one", id: id), sent("", id: streamed, isStreaming: true), event(.chunkAppended(message: streamed, index: 0, text: "two")),
                event(.messageCompleted(message: streamed, finishReason: "", usage: nil)), event(.messageEdited(message: id, text: "one, edited")),
                sent("names itself", id: own, replyTo: own), sent("three", replyTo: id), sent("four"), event(.participantLeft(eve)), sent("without eve"),
            ])
            var flights: [[UInt64]] = []
            func take() throws {
                let before = device.outbox.filter { $0.state == .sent }.map(\.id)
                _ = try device.takePushed(bytesMax: 1 << 20)
                flights.append(device.outbox.filter { $0.state == .sent && !before.contains($0.id) }.map(\.id))
            }
            try take()
            try take()
            // A stream in one flight with its beginning.
            #expect(flights == [[1, 2, 3, 4], []])
            try await world.sync(device)
            // What names itself is the hub's to refuse.
            #expect(device.outbox.map(\.id) == [6] && device.outbox[0].isFailed)
            let events = try world.hubStore.log.events(in: .conversation(chat))
            let left = events.firstIndex { $0.event.content == .participantLeft(eve) }
            #expect(left == events.count - 2)
            #expect(events.firstIndex { if case .messageEdited = $0.event.content { true } else { false } } == 5)
            let messages = try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages
            #expect(messages.map(\.text) == ["one, edited", "two", "three", "four", "without eve"])
        }
    }

    @Test("thousands of offline messages go in order", arguments: [1, 200])
    func manyOffline(_ conversations: Int) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<conversations { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            let device = try world.device(bob)
            try await world.sync(device)
            let count = Int(ProcessInfo.processInfo.environment["OFFLINE_MESSAGES"] ?? "") ?? 2000
            let clock = ContinuousClock()
            let made = try clock.measure {
                for start in stride(from: 0, to: count, by: 100) {
                    try device.append((start..<start + 100).map { message("\($0)", in: chats[$0 % chats.count], by: bob) })
                }
            }
            let before = clock.now
            try await world.sync(device)
            if count > 2000 { print("OFFLINE \(count) messages in \(conversations): made in \(made), synced in \(clock.now - before)") }
            #expect(device.outbox.isEmpty)
            for (index, chat) in chats.enumerated() {
                let texts = try world.hubStore.timeline(of: chat, .newest, limit: count)?.messages.compactMap { Int($0.text) } ?? []
                #expect(texts == Array(stride(from: index, to: count, by: chats.count)))
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            }
        }
    }

    @Test("of two devices of one user that stream under one id, what the hub has from the other fails visibly", arguments: ["", "opened otherwise"])
    func twoStreamsUnderOneID(_ opening: String) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: bob)
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            func stream(_ texts: [String], _ opening: String, on device: Replica) throws {
                let begin = Event.Message(id: id, role: .assistant, text: opening, isStreaming: true)
                let chunks = texts.enumerated().map { Event.Content.chunkAppended(message: id, index: UInt32($0.offset), text: $0.element) }
                try device.append(([.messageSent(begin)] + chunks).map { Event(conversation: chat, author: bob, content: $0) })
            }
            try stream(["a0 ", "same ", "a2 "], "", on: first)
            try stream(["b0 ", "same ", "b2 ", "b3 "], opening, on: second)
            for device in [first, second, first] { try await world.sync(device) }
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["a0 same a2 "])
            #expect(first.outbox.isEmpty)
            let failed = second.outbox.filter(\.isFailed)
            func text(_ entry: OutboxEntry) -> String? { if case .chunkAppended(_, _, let text) = entry.event.content { text } else { nil } }
            // What follows a chunk that was refused goes on with nothing, though the hub may have the same text there, or be just there.
            #expect(failed.compactMap(text) == ["b0 ", "same ", "b2 ", "b3 "])
            let codes = failed.suffix(4).map { entry -> String in if case .failed(let code, _) = entry.state { code } else { "" } }
            #expect(codes == ["message_conflict", "unknown_message", "message_conflict", "unknown_message"])
            #expect(second.outbox.count == (opening.isEmpty ? 4 : 5))
            // The answer is the same for ever, and its screens say so.
            try second.retry()
            try await world.sync(second)
            #expect(second.outbox.filter(\.isFailed).compactMap(text).contains("b0 "))
            #expect(try second.store.lobby(of: bob).rows[0].unconfirmed != nil)
            try second.discard()
            #expect(try second.store.timeline(of: chat)?.messages == world.hubStore.timeline(of: chat)?.messages)
        }
    }

    @Test("a chunk in whose place another text stands is refused again when it is asked for again, the same text is a repeat")
    func chunkAskedForAgain() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: bob)
            let id = MessageID.random()
            func event(_ content: Event.Content) -> Event { Event(conversation: chat, author: bob, content: content) }
            func chunk(_ text: String) -> Event { event(.chunkAppended(message: id, index: 0, text: text)) }
            _ = try await world.hubStore.append(event(.messageSent(Event.Message(id: id, role: .assistant, text: "", isStreaming: true))))
            _ = try await world.hubStore.append(chunk("ours"))
            func answers(_ counter: UInt64, _ text: String, isFirst: Bool) async throws -> (refused: [String], repeats: [Bool]) {
                let peer = try await RawPeer(world.hub, bob)
                var entry = OutboxEntry(
                    id: 1, event: chunk(text), origin: Origin(replica: peer.replica, counter: counter, hlc: HLC(milliseconds: 5)), nonce: [])
                entry.state = .sent
                peer.send(.push([entry.pushed(isFirstSending: isFirst, sessionReplica: peer.replica)]))
                try await eventually { peer.answers == 1 }
                peer.end()
                return (peer.refused.map(\.code), peer.accepted.map(\.isDuplicate))
            }
            #expect(try await answers(1, "another", isFirst: true) == ([RefusalCode.messageConflict.rawValue], []))
            #expect(try await answers(2, "ours", isFirst: true) == ([], [true]))
            try world.reopenHub(log: { Issue.record("\($0)") }, after: { _ in })
            #expect(try await answers(1, "another", isFirst: false) == ([RefusalCode.messageConflict.rawValue], []))
            #expect(try await answers(2, "ours", isFirst: false) == ([], [true]))
        }
    }
}

extension OutboxTests {
    @Test("what is large does not go with HELLO, which has a deadline, and keeps nothing from coming") func largeEvent() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(bob)
            try await world.sync(device)
            for text in ["small", noise(300 << 10), "behind"] { try device.append(message(text, in: chat, by: bob)) }
            try device.append(message("elsewhere", in: other, by: bob))
            guard let hello = try? device.hello(token: "", scope: .mine) else { return }
            #expect(hello.pushed.count == 1)
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text.utf8.count) == [5, 300 << 10, 6])
            // First of all, too.
            try device.append(message(noise(300 << 10), in: chat, by: bob))
            #expect(try device.hello(token: "", scope: .mine).pushed.isEmpty)
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 5)
        }
    }
}
