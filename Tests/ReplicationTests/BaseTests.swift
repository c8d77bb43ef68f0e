import ConversationStore
@testable import Replication
import Testing

/// What goes in the same flight as an event on which it rests, and that is refused.
@Suite struct BaseTests {
    private func event(_ chat: ConversationID, _ content: Event.Content, by author: UserID = bob) -> Event {
        Event(conversation: chat, author: author, content: content)
    }

    private func codes(_ device: Replica) -> [String] {
        device.outbox.map { entry in if case .failed(let code, _) = entry.state { code } else { "\(entry.state)" } }
    }

    @Test("a message in the same flight as a refused creation does not land in the conversation that has the id")
    func refusedCreation() async throws {
        try await withWorld { world in
            let device = try world.device(bob)
            // Another conversation of the same user under the same id, of which the device knows nothing yet.
            let chat = ConversationID.random()
            try device.append([
                event(chat, .conversationCreated(kind: .group, title: "mine", participants: [eve])), message("for eve's eyes", in: chat, by: bob),
                event(chat, .conversationUpdated(title: "still mine", attributes: [])),
            ])
            _ = try await world.hubStore.append(event(chat, .conversationCreated(kind: .group, title: "ada's", participants: [bob]), by: ada))
            try await world.sync(device)
            #expect(codes(device) == ["conversation_conflict", "unknown_conversation", "unknown_conversation"])
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
            // They say so for ever, and can be given up.
            try await world.sync(device)
            #expect(device.outbox.count == 3)
            try device.discard()
            try device.append(message("for ada", in: chat, by: bob))
            try await world.sync(device)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["for ada"])
        }
    }

    @Test("what goes with an accepted creation, or one that repeats what is there, is taken", arguments: [false, true])
    func acceptedCreation(_ isRepeat: Bool) async throws {
        try await withWorld { world in
            let device = try world.device(bob)
            let chat = ConversationID.random(), created = event(chat, .conversationCreated(kind: .group, title: nil, participants: [eve]))
            if isRepeat { _ = try await world.hubStore.append(created) }
            try device.append([created, message("hello", in: chat, by: bob)])
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["hello"])
        }
    }

    @Test("chunks of a beginning that was refused do not go on with another device's stream, where each has the next index")
    func refusedBeginning() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: bob)
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            let id = MessageID.random()
            func beginning(_ text: String) -> Event { event(chat, .messageSent(Event.Message(id: id, role: .assistant, text: text, isStreaming: true))) }
            func chunk(_ index: UInt32, _ text: String) -> Event { event(chat, .chunkAppended(message: id, index: index, text: text)) }
            let end = event(chat, .messageCompleted(message: id, finishReason: "stop", usage: nil))
            try first.append(beginning(""))
            try await world.sync(first)
            try second.append([beginning("otherwise "), chunk(0, "b0 "), chunk(1, "b1 "), end])
            try await world.sync(second)
            #expect(codes(second) == ["message_conflict", "unknown_message", "chunk_gap", "unknown_message"])
            try first.append([chunk(0, "a0 "), chunk(1, "a1"), end])
            try await world.sync(first)
            #expect(first.outbox.isEmpty)
            let message = try world.hubStore.timeline(of: chat)?.messages[0]
            #expect(message?.text == "a0 a1" && message?.state == .complete)
        }
    }

    @Test("on what an event rests is remembered where its answer was lost, and the base given up")
    func rememberedBase() async throws {
        try await withWorld { world in
            let device = try world.device(bob)
            let chat = ConversationID.random()
            try device.append([
                event(chat, .conversationCreated(kind: .group, title: "mine", participants: [])), message("lost", in: chat, by: bob),
            ])
            #expect(try device.takePushed(bytesMax: 1 << 20).map(\.restsOn) == [0, 1])
            _ = try await world.hubStore.append(event(chat, .conversationCreated(kind: .group, title: "ada's", participants: [bob]), by: ada))
            // The hub hears of the creation alone, and the line breaks.
            let creation = device.outbox[0]
            let peer = try await RawPeer(world.hub, bob) { hello in (hello.nonce, hello.replica) = (creation.nonce, creation.origin.replica) }
            peer.send(.push([creation.pushed(isFirstSending: true, sessionReplica: creation.origin.replica)]))
            try await eventually { peer.refused.count == 1 }
            peer.end()
            _ = try device.answered([], peer.refused)
            try device.discard()
            let path = device.store.log.path
            try device.close()
            let again = try world.open(path, bob)
            try await world.sync(again)
            #expect(codes(again) == ["unknown_conversation"])
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
        }
    }

    @Test("an event that rests on itself, or on a later one, is malformed")
    func badBase() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob)
            let peer = try await RawPeer(world.hub, bob)
            for (counter, base) in [(1, 1), (1, UInt64.max), (3, 2)] as [(UInt64, UInt64)] {
                var entry = OutboxEntry(
                    id: 1, event: message("hello", in: chat, by: bob), origin: Origin(replica: peer.replica, counter: counter, hlc: HLC(milliseconds: 5)),
                    nonce: [])
                entry.restsOn = base
                peer.send(.push([entry.pushed(isFirstSending: true, sessionReplica: peer.replica)]))
            }
            try await eventually { peer.answers == 3 }
            // The last rests on what was never handled: a hub that was set back may have known it.
            #expect(peer.refused.map(\.code) == ["malformed", "malformed"] && peer.accepted.map(\.counter) == [3])
        }
    }

    private func sent(_ device: Replica) throws { _ = try device.takePushed(bytesMax: 1 << 20) }

    @Test("what a restored device makes under a counter and an id that its lost life used lands nowhere, with all that rests on it")
    func restoredDevice() async throws {
        try await withWorld { world in
            let first = try world.device(ada)
            try await world.sync(first)
            let path = try world.copy(first)
            let chat = ConversationID.random()
            try first.append(event(chat, .conversationCreated(kind: .group, title: "first", participants: [bob]), by: ada))
            try await world.sync(first)
            let second = try world.open(path, ada)
            try second.append([
                event(chat, .conversationCreated(kind: .group, title: "second", participants: [eve]), by: ada), message("for eve", in: chat, by: ada),
                message("for eve, too", in: chat, by: ada),
            ])
            let healed = try await world.heal(second)
            #expect(codes(healed)[0] == "conversation_conflict")
            #expect(healed.outbox.count == 3 && healed.outbox.allSatisfy { $0.isFailed || $0.isWaiting })
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
        }
    }

    @Test("an edit of a message that a restored hub lost, and whose id another has there now, does not change that", arguments: [false, true])
    func editOfALostMessage(_ isUnanswered: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            try world.backUpHub()
            let id = MessageID.random()
            try first.append(message("first", in: chat, by: bob, id: id))
            try await world.sync(first)
            try first.append(event(chat, .messageEdited(message: id, text: "first, edited")))
            if isUnanswered { try sent(first) } else { try await world.sync(first) }
            try world.restoreHub()
            try second.append(message("second", in: chat, by: bob, id: id))
            try await world.sync(second)
            let healed = try await world.heal(first)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["second"])
            #expect(codes(healed)[0] == "message_conflict")
            #expect(healed.outbox.count == 2 && healed.outbox.allSatisfy { $0.isFailed || $0.isWaiting })
        }
    }

    @Test("what was written in a conversation that a restored hub lost does not land in another's of the same id", arguments: [false, true])
    func messageInALostConversation(_ isUnanswered: Bool) async throws {
        try await withWorld { world in
            let first = try world.device(bob), second = try world.device(bob)
            for device in [first, second] { try await world.sync(device) }
            try world.backUpHub()
            let chat = ConversationID.random()
            try first.append([
                event(chat, .conversationCreated(kind: .group, title: "first", participants: [ada])), message("one", in: chat, by: bob),
            ])
            try await world.sync(first)
            try first.append(message("two", in: chat, by: bob))
            if isUnanswered { try sent(first) }
            try world.restoreHub()
            try second.append(event(chat, .conversationCreated(kind: .group, title: "second", participants: [eve])))
            try await world.sync(second)
            let healed = try await world.heal(first)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
            #expect(codes(healed)[0] == "conversation_conflict")
            #expect(healed.outbox.count == 3 && healed.outbox.allSatisfy { $0.isFailed || $0.isWaiting })
        }
    }

    @Test("where nobody took the ids, a restored hub gets all back in its order", arguments: [false, true])
    func allComesBack(_ isUnanswered: Bool) async throws {
        try await withWorld { world in
            let device = try world.device(bob)
            try await world.sync(device)
            try world.backUpHub()
            let chat = ConversationID.random(), id = MessageID.random()
            try device.append([
                event(chat, .conversationCreated(kind: .group, title: nil, participants: [ada])), message("one", in: chat, by: bob, id: id),
            ])
            try await world.sync(device)
            try device.append(event(chat, .messageEdited(message: id, text: "one, edited")))
            try await world.sync(device)
            try device.append([message("two", in: chat, by: bob), event(chat, .messageEdited(message: id, text: "one, edited twice"))])
            if isUnanswered { try sent(device) }
            try device.append(message("three", in: chat, by: bob))
            try world.restoreHub()
            let healed = try await world.heal(device)
            #expect(healed.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["one, edited twice", "two", "three"])
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("what waits for a creation that is given up fails as what it is: of no conversation")
    func givenUp() async throws {
        try await withWorld { world in
            let device = try world.device(bob), chat = ConversationID.random(), id = MessageID.random()
            try device.append([
                event(chat, .conversationCreated(kind: .group, title: nil, participants: [])), message("one", in: chat, by: bob, id: id),
                event(chat, .messageEdited(message: id, text: "one, edited")),
            ])
            try device.discard([device.outbox[0].id])
            #expect(codes(device) == ["unknown_conversation", "unknown_message"])
        }
    }

    @Test("offers that wait for one another do not wait for what was sent behind them")
    func offersBeforeWhatWaitsForThem() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let device = try world.device(bob)
            try await world.sync(device)
            try world.backUpHub()
            let one = MessageID.random(), two = MessageID.random()
            try device.append(message("one", in: chat, by: bob, id: one))
            try await world.sync(device)
            var reply = Event.Message(id: two, role: .user, text: "two")
            reply.replyTo = one
            try device.append(event(chat, .messageSent(reply)))
            try await world.sync(device)
            try device.append(event(chat, .messageDeleted(message: two)))
            try sent(device)
            try device.append(message("three", in: chat, by: bob))
            try world.restoreHub()
            let healed = try await world.heal(device)
            #expect(healed.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["one", "", "three"])
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }
}
