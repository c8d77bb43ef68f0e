import ConversationStore
import Testing

@testable import Replication

@Suite struct OfferTests {
    @Test("nothing is caught up before an offered log is asked for to its end: a hole or a page of it is something else")
    func answers() async throws {
        try await withWorld { world in
            func cursor(_ peer: RawPeer) -> Cursor? {
                peer.frames.lazy.compactMap { frame -> Cursor? in if case .caughtUp(let caughtUp) = frame { caughtUp.cursor } else { nil } }.last
            }
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for number in 0..<4 { try await world.hubStore.send("\(number)", to: chat, from: ada) }
            let first = try await RawPeer(world.hub, bob)
            let held = try #require(cursor(first))
            first.end()
            for content in [Event.Content.participantLeft(bob), .participantJoined(bob)] {
                try await world.hubStore.append(Event(conversation: chat, author: ada, content: content))
            }
            let log = LogID.conversation(chat)
            let peer = try await RawPeer(world.hub, bob) { $0.cursor = held }
            let offers = peer.frames.flatMap { frame -> [LogID] in if case .heads(let heads) = frame, !heads.isProbe { heads.heads.map(\.log) } else { [] } }
            #expect(offers == [log] && cursor(peer) == nil)
            for (number, wish) in [Fetch(log: log, from: 1, through: 5), Fetch(log: log, from: 0, through: 50)].enumerated() {
                peer.send(.fetch([wish]))
                peer.send(.ping(UInt64(number)))
                try await eventually { peer.frames.contains(.pong(UInt64(number))) }
                #expect(cursor(peer) == nil)
            }
            peer.send(.fetch([Fetch(log: log, from: 6, through: 0)]))
            try await eventually { cursor(peer) != nil }
            #expect(cursor(peer)!.position > held.position)
            peer.end()
        }
    }

    @Test("what was sent to a hub that lost what came before it comes behind that, also where that waits", arguments: [false, true], [false, true])
    func keepsTheOrder(_ isReply: Bool, breaksAgain: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try world.backUpHub()
            var device = try await world.heal(world.device(ada))
            let one = MessageID.random()
            try device.append(Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: one, role: .user, text: "one"))))
            try device.append(
                Event(
                    conversation: chat, author: ada,
                    content: isReply
                        ? .messageSent(Event.Message(id: .random(), role: .user, text: "reply", replyTo: one))
                        : .reactionSet(message: one, emoji: "👍", isOn: true)))
            for text in ["two", "three"] { try device.append(message(text, in: chat, by: ada)) }
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try world.restoreHub()
            for text in ["four", "five"] { try device.append(message(text, in: chat, by: ada)) }
            // The line breaks before the hub's answer comes.
            let hub = world.hub.connect(send: { _ in }, close: { _ in })
            let connection = device.connect(token: "", send: { hub.receive($0) }, close: { _ in }) { _ in }
            connection.start()
            try await eventually { device.outbox.allSatisfy { $0.state == .sent } }
            connection.disconnected()
            hub.disconnected()
            if breaksAgain { device = try await breakBehindFirstPush(world, device) }
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            let said = try (2...7).compactMap { try world.hubStore.log.event(in: .conversation(chat), at: $0) }.map { event in
                if case .messageSent(let message) = event.event.content { message.text } else { "reaction" }
            }
            #expect(said == ["one", isReply ? "reply" : "reaction", "two", "three", "four", "five"])
        }
    }

    /// The line breaks, and the device's process begins anew.
    private func cut(_ connection: ReplicaConnection, from hub: HubConnection, _ world: World, _ device: Replica) throws -> Replica {
        connection.disconnected()
        hub.disconnected()
        let path = device.store.log.path
        try device.close()
        return try world.open(path, ada)
    }

    /// Has a device offer what the hub lost: of that the first is answered, and what it sends behind it never comes.
    private func breakBehindFirstPush(_ world: World, _ device: Replica) async throws -> Replica {
        var device = device
        for _ in 0..<2 {
            let replica = Monitor<ReplicaConnection?>(nil)
            let pushed = Monitor(0), isOver = Monitor(false)
            let hub = world.hub.connect(send: { message in replica.withLock { $0 }?.receive(message) }, close: { _ in })
            let connection = device.connect(
                token: "",
                send: { message in
                    var isLost = false
                    if case .push(let events)? = try? Frame(decoding: message) {
                        isLost = pushed.withLock { count in
                            count += events.count
                            return count > events.count
                        }
                    }
                    if !isLost { hub.receive(message) }
                }, close: { _ in isOver.withLock { $0 = true } }
            ) { _ in }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { pushed.withLock { $0 } == 6 || isOver.withLock { $0 } }
            replica.withLock { $0 = nil }
            device = try cut(connection, from: hub, world, device)
        }
        return device
    }

    @Test("offers of two conversations, of which one waits for an answer, keep the order of each where a session breaks off, too", arguments: [false, true])
    func keepsTheOrderOfEach(_ comes: Bool) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<2 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            try world.backUpHub()
            var device = try await world.heal(world.device(ada))
            let (one, two) = (MessageID.random(), MessageID.random())
            // One by one, so that they stand here, and are offered, in this order.
            for (text, chat, id, other) in [
                ("1", 0, one, nil), ("2", 0, .random(), one), ("3", 0, .random(), nil), ("1", 1, two, nil), ("4", 0, .random(), nil), ("2", 1, .random(), two),
            ] as [(String, Int, MessageID, MessageID?)] {
                let message = Event.Message(id: id, role: .user, text: text, replyTo: other)
                try device.append(Event(conversation: chats[chat], author: ada, content: .messageSent(message)))
                device = try await world.heal(device)
            }
            try world.restoreHub()
            // The first of it is on its way when the line breaks.
            for _ in 0..<2 {
                let replica = Monitor<ReplicaConnection?>(nil)
                let isCut = Monitor(false), isOver = Monitor(false)
                let hub = world.hub.connect(send: { message in if !isCut.withLock({ $0 }) { replica.withLock { $0 }?.receive(message) } }, close: { _ in })
                let connection = device.connect(
                    token: "",
                    send: { message in
                        let isPush = if case .push? = try? Frame(decoding: message) { true } else { false }
                        if isPush { isCut.withLock { $0 = true } }
                        if !isPush || comes { hub.receive(message) }
                    }, close: { _ in isOver.withLock { $0 = true } }
                ) { _ in }
                replica.withLock { $0 = connection }
                connection.start()
                try await eventually { isCut.withLock { $0 } || isOver.withLock { $0 } }
                replica.withLock { $0 = nil }
                device = try cut(connection, from: hub, world, device)
            }
            #expect(device.outbox.contains { $0.state == .sent } && device.outbox.contains { $0.state == .pending })
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chats[0])?.messages.map(\.text) == ["1", "2", "3", "4"])
            #expect(try world.hubStore.timeline(of: chats[1])?.messages.map(\.text) == ["1", "2"])
        }
    }

    @Test("what a conversation made twice waits for does not wait for it: its second making, sent in another life, bears nothing that was written before")
    func madeTwice() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try world.backUpHub()
            var device = try await world.heal(world.device(ada))
            func reply(_ text: String, to other: MessageID?, _ id: MessageID) throws {
                try device.append(Event(conversation: chat, author: ada, content: .messageSent(Event.Message(id: id, role: .user, text: text, replyTo: other))))
            }
            let (one, two) = (MessageID.random(), MessageID.random())
            try reply("one", to: nil, one)
            try reply("two", to: one, two)
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            // The hub loses both; what is sent now has no answer.
            try world.restoreHub()
            try reply("three", to: two, MessageID.random())
            try device.append(Event(conversation: chat, author: ada, content: .conversationCreated(kind: .group, title: "again", participants: [bob])))
            device = try await world.heal(device)
            #expect(device.outbox.map(\.isFailed) == [true])
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["one", "two", "three"])
        }
    }

    @Test("what was sent in a conversation that a hub lost waits for its offer, though it was made once more since: another's of the id gets none of it")
    func anothersOfTheID() async throws {
        try await withWorld { world in
            try world.backUpHub()
            var device = try await world.heal(world.device(ada))
            let own = ConversationID.random()
            func create(_ title: String) -> Event {
                Event(conversation: own, author: ada, content: .conversationCreated(kind: .group, title: title, participants: [bob]))
            }
            try device.append([create("mine"), message("one", in: own, by: ada)])
            device = try await world.heal(device)
            try world.restoreHub()
            let theirs = Event(conversation: own, author: bob, content: .conversationCreated(kind: .group, title: "theirs", participants: [ada]))
            try await world.hubStore.append([Submission(theirs)])
            try device.append(message("two", in: own, by: ada))
            let session = world.follow(device)
            try await eventually { session.end != nil }
            let mustReopen = if case .mustReopen? = session.end { true } else { false }
            try #require(mustReopen)
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, ada)
            try device.append(create("once more"))
            device = try await world.heal(device)
            #expect(device.outbox.count == 4 && device.outbox[0].isFailed && device.outbox.allSatisfy { $0.isFailed || $0.isWaiting })
            #expect(try world.hubStore.timeline(of: own)?.messages.isEmpty == true)
        }
    }
}
