import ConversationStore
import Testing

@testable import Replication

/// Devices that are set back to a copy of themselves, and go on from there.
@Suite("Devices that are restored from a copy") struct RestoredDeviceTests {
    private func texts(_ world: World, _ chat: ConversationID) throws -> [String] {
        try world.hubStore.log.events(in: .conversation(chat)).compactMap {
            switch $0.event.content {
            case .messageSent(let message): message.text
            case .messageEdited(_, let text): text
            case .participantLeft(let user): "\(user) left"
            default: nil
            }
        }
    }

    /// Writes some messages that only the hub has then; answers the device as it was before.
    private func loseMessages(_ count: Int, of device: Replica, in chat: ConversationID, _ world: World) async throws -> Replica {
        let copy = try world.copy(device)
        for index in 0..<count { try device.append(message("lost \(index)", in: chat, by: ada)) }
        try await world.sync(device)
        try device.close()
        return try world.open(copy, ada)
    }

    @Test("what it writes then comes in the order in which it was written", arguments: [1, 2, 5])
    func order(_ lost: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            var device = try world.device(ada)
            try await world.sync(device)
            device = try await loseMessages(lost, of: device, in: chat, world)
            let id = MessageID.random()
            try device.append(Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: id, role: .user, text: "one"))))
            try device.append([
                Event(conversation: chat, author: ada, content: .messageEdited(message: id, text: "one, edited")), message("two", in: chat, by: ada),
                Event(conversation: chat, author: ada, content: .participantLeft(eve)), message("not for eve", in: chat, by: ada),
            ])
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            let lostTexts = (0..<lost).map { "lost \($0)" }
            #expect(try texts(world, chat) == lostTexts + ["one", "one, edited", "two", "eve left", "not for eve"])
            let other = try world.device(eve)
            try await world.sync(other)
            #expect(try other.store.timeline(of: chat)?.messages.contains { $0.text == "not for eve" } == false)
        }
    }

    @Test("whoever comes and goes in between does not stay")
    func comingAndGoing() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            var device = try world.device(ada)
            try await world.sync(device)
            device = try await loseMessages(1, of: device, in: chat, world)
            try device.append([
                Event(conversation: chat, author: ada, content: .participantJoined(eve)),
                Event(conversation: chat, author: ada, content: .participantLeft(eve)),
                message("not for eve", in: chat, by: ada),
            ])
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try texts(world, chat).suffix(2) == ["eve left", "not for eve"])
            #expect(try !world.hubStore.participants(of: chat).contains(eve))
        }
    }

    @Test("what it says again, as the lost life had said it under the same counters, is said again", arguments: [false, true])
    func sayingAgain(isSynced: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let id = try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try world.device(ada)
            try await world.sync(device)
            func event(_ content: Event.Content) -> Event { Event(conversation: chat, author: ada, content: content) }
            let leaving = event(.participantLeft(eve)), reaction = event(.reactionSet(message: id, emoji: "x", isOn: true))
            let copy = try world.copy(device)
            try device.append([leaving, event(.participantJoined(eve)), reaction, event(.reactionSet(message: id, emoji: "x", isOn: false))])
            try await world.sync(device)
            try device.close()
            device = try world.open(copy, ada)
            if isSynced { try await world.sync(device) }
            try device.append([leaving, message("not for eve", in: chat, by: ada), reaction])
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try texts(world, chat) == ["hello", "eve left", "eve left", "not for eve"])
            for store in [world.hubStore, device.store] {
                let page = try #require(try store.timeline(of: chat))
                #expect(try !store.participants(of: chat).contains(eve) && page.messages[0].reactions.map(\.emoji) == ["x"])
            }
        }
    }

    @Test("a hub takes nothing of a lane behind a counter that was another event's, in whatever PUSH it comes, but what it has")
    func lanes() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let known = message("of a lost life", in: chat, by: ada)
            let first = try await RawPeer(world.hub, ada)
            func push(_ event: Event, _ counter: UInt64, isFirst: Bool = true, to peer: RawPeer) async throws -> String {
                let origin = Origin(replica: peer.replica, counter: counter, hlc: HLC(milliseconds: 5))
                let (envelope, body) = EventCodec.encode(
                    RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
                peer.forget()
                peer.send(.push([PushedEvent(envelope: envelope, body: body, isFirstSending: isFirst)]))
                try await eventually { peer.answers > 0 }
                return peer.refused.first?.code ?? "accepted"
            }
            #expect(try await push(known, 2, to: first) == "accepted")
            first.end()
            let second = try await RawPeer(world.hub, ada)
            #expect(try await push(message("a", in: chat, by: ada), 2, to: second) == "origin_conflict")
            #expect(try await push(message("b", in: chat, by: ada), 3, to: second) == "origin_conflict")
            #expect(try await push(known, 2, isFirst: false, to: second) == "accepted")
            #expect(try await push(message("elsewhere", in: other, by: ada), 3, to: second) == "accepted")
            second.end()
            // What has no mark is asked about anew.
            let third = try await RawPeer(world.hub, ada)
            #expect(try await push(message("b", in: chat, by: ada), 3, to: third) == "accepted")
            third.end()
        }
    }

    @Test("nothing that it writes under its new id overtakes what went under the old one, and is answered later")
    func otherIDs() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            var device = try world.device(ada)
            try await world.sync(device)
            let copy = try world.copy(device)
            try device.append([message("lost", in: chat, by: ada), message("lost", in: other, by: ada)])
            try await world.sync(device)
            try device.close()
            device = try world.open(copy, ada)
            try device.append([message("one", in: chat, by: ada), message("two", in: other, by: ada)])
            _ = try device.hello(token: "", scope: .mine)
            // Of the two that went the answer to the first alone arrived.
            let first = device.outbox[0]
            _ = try device.answered(
                [],
                [
                    Refused(
                        log: first.event.log, replica: first.origin.replica, counter: first.origin.counter, code: RefusalCode.originConflict.rawValue,
                        detail: "")
                ])
            #expect(device.outbox[1].state == .sent && device.outbox[1].origin.replica == first.origin.replica)
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, ada)
            try device.append(message("three", in: other, by: ada))
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try texts(world, other) == ["lost", "two", "three"])
        }
    }

    @Test("nor does it at a hub that was set back, where an edit waits for its message's answer")
    func offers() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            let id = MessageID.random()
            for content in [
                Event.Content.messageSent(Event.Message(id: id, role: .user, text: "hi")), .messageEdited(message: id, text: "hi, edited"),
                .participantLeft(bob),
            ] {
                try device.append(Event(conversation: chat, author: ada, content: content))
                try await world.sync(device)
            }
            try world.restoreHub()
            try device.append(message("not for bob", in: chat, by: ada))
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try texts(world, chat) == ["hi", "hi, edited", "bob left", "not for bob"])
        }
    }

    @Test("a leaving that a hub has not decided, as it knew no cursor of the device, is none that its lost life was told of")
    func leaving() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob, eve])
            let other = try world.device(ada)
            var device = try world.device(ada)
            try await world.sync(device)
            let copy = try world.copy(device)
            func leave(_ user: UserID) -> Event { Event(conversation: chat, author: ada, content: .participantLeft(user)) }
            try await world.sync(other)
            try other.append(leave(eve))
            try await world.sync(other)
            // A repeat: its counter has a mark, and no event.
            try device.append(leave(eve))
            try await world.sync(device)
            try device.close()
            device = try world.open(copy, ada)
            try device.append([leave(bob), message("not for bob", in: chat, by: ada)])
            device = try await world.heal(device, scope: .conversations([chat]))
            #expect(device.outbox.isEmpty)
            #expect(try texts(world, chat) == ["eve left", "bob left", "not for bob"])
        }
    }

    @Test("what a hub that does not take the token has not looked at was not sent: it can be changed and withdrawn")
    func refusedToken() async throws {
        let isTaken = Monitor(false)
        try await withWorld { options in
            options.authenticate = { _, claimed, reply in
                reply(isTaken.withLock { $0 } ? .success(Identity(user: claimed, isService: false)) : .failure(AuthenticationFailure(isExpired: true)))
            }
        } _: { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            isTaken.withLock { $0 = true }
            let device = try world.device(ada)
            try await world.sync(device)
            isTaken.withLock { $0 = false }
            let first = try device.append(message("a typo", in: chat, by: ada)), second = try device.append(message("regretted", in: chat, by: ada))
            for _ in 0..<2 {
                let session = world.follow(device)
                try await eventually { session.end != nil }
                #expect(device.outbox.map(\.state) == [.pending, .pending])
            }
            try device.edit(first.id, text: "mended")
            try device.discard([second.id])
            isTaken.withLock { $0 = true }
            try await world.sync(device)
            #expect(try texts(world, chat) == ["mended"] && device.outbox.isEmpty)
        }
    }

    @Test("what the lost life had offered under ids that it took is offered again when the hub loses it once more", arguments: [1, 3], [false, true])
    func offeredByTheLostLife(_ times: Int, isDamaged: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let id = try await world.hubStore.send("hello", to: chat, from: bob)
            var device = try world.device(ada)
            try await world.sync(device)
            let copy = try world.copy(device)
            let made = ["a", "b"].map { Event(conversation: chat, author: ada, content: .reactionSet(message: id, emoji: $0, isOn: true)) }
            try world.backUpHub()
            try device.append(made)
            device = try await world.heal(device)
            for _ in 0..<times {
                try world.restoreHub()
                try world.backUpHub()
                device = try await world.heal(device)
            }
            try device.close()
            if isDamaged {
                // It cannot tell which counters it has given out, and takes an id that is of no family.
                try SideDamageTests.spoil(copy, SyncTables.lanes, LogID.conversation(chat).key)
                #expect(try Replica.healSide(at: copy) != nil)
            }
            device = try await world.heal(world.open(copy, ada))
            #expect(try device.store.log.lastSeq(of: .conversation(chat)) == 4)
            try world.restoreHub()
            device = try await world.heal(device)
            #expect(try world.hubStore.log.events(in: .conversation(chat)).dropFirst(2).map(\.event) == made)
            #expect(try device.outbox.isEmpty && device.lostEvents().isEmpty)
        }
    }

    @Test("what another device of its user made is kept, and offered by that device alone") func ofAnother() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let device = try world.device(ada), other = try world.device(ada)
            try await world.sync(device)
            try await world.sync(other)
            try world.backUpHub()
            try other.append(message("mine", in: chat, by: ada))
            try await world.sync(other)
            try await world.sync(device)
            try world.restoreHub()
            let healed = try await world.heal(device)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
            #expect(try healed.outbox.isEmpty && healed.lostEvents().count == 1)
            _ = try await world.heal(other)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 2)
        }
    }
}
