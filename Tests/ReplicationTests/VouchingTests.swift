import ConversationStore
import Testing

@testable import Replication

@Suite("What vouches for events") struct VouchingTests {
    @Test("events that no head vouches for end the session, whoever left it out", .timeLimit(.minutes(20)), arguments: [false, true]) func withoutHead(
        _ isFlushed: Bool
    ) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            if isFlushed { try world.hubStore.log.flush() }
            let liar = Between(world.hub, device) { frame in
                guard case .events(var events) = frame.asEvents else { return frame }
                for place in events.logs.indices { events.logs[place].head = nil }
                return .events(events)
            }
            try await eventually { liar.failure != nil }
            #expect(liar.failure == .badPeer)
            // An honest hub is believed afterwards.
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat)?.messages.last?.text == "pay 10")
        }
    }

    @Test("a cursor of another hub than WELCOME named is not kept: it would be held against the true one for ever") func otherHub() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            _ = try await world.hubStore.append(message("hello", in: chat, by: bob))
            let device = try world.device(ada)
            let liar = Between(world.hub, device) { frame in
                guard case .welcome(var welcome) = frame else { return frame }
                welcome.store = StoreID(bytes: [UInt8](repeating: 7, count: 16))!
                return .welcome(welcome)
            }
            try await eventually { liar.failure != nil || liar.hasEnded || liar.isSettled }
            #expect(liar.failure == .badPeer)
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat)?.messages.last?.text == "hello")
        }
    }

    /// What somebody between says who leaves out heads, changes a message, and breaks off before anybody could notice.
    private func breakOff(
        _ world: World, _ device: Replica, _ change: @escaping @Sendable (inout RecordedEvent) -> Void, scope: Scope = .mine,
        asked: @escaping @Sendable (Frame) -> Frame? = { $0 }, until: () throws -> Bool
    ) async throws {
        let liar = Between(world.hub, device, scope, asked: asked) { frame in
            guard case .events(var events) = frame.asEvents else {
                if case .caughtUp = frame { return nil }
                return frame
            }
            for place in events.logs.indices { events.logs[place].head = nil }
            for place in events.items.indices {
                guard var event = try? EventCodec.decode(envelope: events.items[place].envelope, body: events.items[place].body) else { continue }
                change(&event)
                (events.items[place].envelope, events.items[place].body) = EventCodec.encode(event)
            }
            return .events(events)
        }
        try await eventually(until)
        liar.end()
        try await eventually { liar.hasEnded }
    }

    private static func rewrite(_ event: inout RecordedEvent, _ text: String, to other: String) {
        guard case .messageSent(var message) = event.event.content, message.text == text else { return }
        message.text = other
        event.event.content = .messageSent(message)
    }

    @Test("what came without a head before a session broke off is not held against the next hub: the doubtful is kept aside", .timeLimit(.minutes(20)))
    func brokenOff() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("vouched for", to: chat, from: bob)
            let device = try world.device(ada)
            try await world.sync(device)
            let cursor = device.cursor
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            _ = try await world.hubStore.append(message("as it was", in: other, by: bob))
            try await breakOff(world, device, { Self.rewrite(&$0, "pay 10", to: "pay 99") }) {
                try device.store.timeline(of: chat)?.messages.last?.text == "pay 99" && device.store.timeline(of: other)?.messages.last?.text == "as it was"
            }
            let healed = try await world.heal(device)
            #expect(try healed.evidence == nil)
            for id in [chat, other] {
                #expect(try healed.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
                #expect(try healed.store.timeline(of: id) == world.hubStore.timeline(of: id))
            }
            let lost = try healed.lostEvents()
            #expect(lost.count == 1 && "\(lost[0].event.content)".contains("pay 99"))
            #expect(cursor != nil && healed.cursor?.position ?? 0 > cursor?.position ?? .max)
            #expect(try healed.store.isFold())
        }
    }

    /// A session with a hub that cannot read the log of which something is doubtful.
    private func settleBlind(_ world: World, _ device: Replica, _ chat: ConversationID) async throws {
        let welcome = Monitor<Welcome?>(nil), end = world.hubStore.log.lastPosition
        let blind = Between(
            world.hub, device, before: { frame in if case .heads = frame { .unreadable(Unreadable([.conversation(chat)])) } else { nil } }
        ) { frame in
            switch frame {
            case .welcome(let new): welcome.withLock { $0 = new }
            case .heads:
                return welcome.withLock { welcome in
                    welcome.map { .caughtUp(CaughtUp(cursor: Cursor(store: $0.store, incarnation: $0.incarnation, position: end))) }
                }
            case .events, .segment: return nil
            default: break
            }
            return frame
        }
        try await eventually { blind.hasEnded || blind.isSettled }
        #expect(blind.isSettled)
        blind.end()
        try await eventually { blind.hasEnded }
    }

    @Test("what it made itself, and somebody said that they had recorded, is offered though the hub could not read the log in the session between")
    func ownUnreadMeanwhile() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            // The newest, by which a cursor is known.
            _ = try await world.hubStore.append(message("hello", in: other, by: bob))
            let own = message("mine", in: chat, by: ada)
            try device.append(own)
            // It was sent, and is nowhere.
            _ = try device.hello(token: "", scope: .mine)
            let origin = try #require(device.outbox.first?.origin)
            let taken: @Sendable (inout RecordedEvent) -> Void = { if $0.log == .conversation(chat) { ($0.event, $0.origin) = (own, origin) } }
            let kept: @Sendable (Frame) -> Frame? = { frame in
                guard case .hello(var hello) = frame else { if case .push = frame { return nil } else { return frame } }
                hello.pushed = []
                return .hello(hello)
            }
            try await breakOff(world, device, taken, asked: kept) { try device.store.timeline(of: other)?.messages.count == 1 && device.outbox.isEmpty }
            try await settleBlind(world, device, chat)
            let healed = try await world.heal(device)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["pay 10", "mine"])
            #expect(try healed.outbox.isEmpty && healed.evidence == nil && healed.lostEvents().isEmpty)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("nor against one that could not read it in the session between", .timeLimit(.minutes(20))) func unreadMeanwhile() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("vouched for", to: chat, from: bob)
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            try await breakOff(world, device, { Self.rewrite(&$0, "pay 10", to: "pay 99") }) {
                try device.store.timeline(of: chat)?.messages.last?.text == "pay 99"
            }
            try await settleBlind(world, device, chat)
            let healed = try await world.heal(device)
            #expect(try healed.evidence == nil && healed.lostEvents().count == 1)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("a log that somebody made up is let go of, and so is an event behind what the hub has", .timeLimit(.minutes(20))) func madeUp() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("one", in: chat, by: bob))
            let liar = Between(world.hub, device) { frame in
                guard case .events(var events) = frame.asEvents, let item = events.items.last,
                    var event = try? EventCodec.decode(envelope: item.envelope, body: item.body)
                else { if case .caughtUp = frame { return nil } else { return frame } }
                for place in events.logs.indices { events.logs[place].head = nil }
                // Before the newest by the hub's clock, so that this is the one that HELLO names.
                event.seq += 1
                event.hlc = HLC(rawValue: event.hlc.rawValue - 1)
                event.origin.counter += 1
                event.event.content = .messageSent(Event.Message(id: .random(), role: .user, text: "two"))
                let (envelope, body) = EventCodec.encode(event)
                events.items.append(EventsFrame.Item(envelope: envelope, body: body, commitment: nil))
                return .events(events)
            }
            try await eventually { try device.store.timeline(of: chat)?.messages.map(\.text) == ["one", "two"] }
            liar.end()
            try await eventually { liar.hasEnded }
            let healed = try await world.heal(device)
            #expect(try healed.store.timeline(of: chat)?.messages.map(\.text) == ["one"])
            #expect(try healed.evidence == nil && healed.lostEvents().count == 1)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("nor is it held against a hub that offers the log, as its user left and came back", .timeLimit(.minutes(20))) func offered() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let other = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("one", in: chat, by: bob))
            let liar = Between(world.hub, device) { frame in
                if case .caughtUp = frame { return nil }
                guard case .events(var events) = frame.asEvents, let item = events.items.last,
                    var event = try? EventCodec.decode(envelope: item.envelope, body: item.body), event.log == .conversation(chat)
                else { return frame }
                for place in events.logs.indices { events.logs[place].head = nil }
                event.hlc = HLC(rawValue: event.hlc.rawValue - 1)
                for number in 0..<3 {
                    event.seq += 1
                    event.origin.counter += 1
                    event.event.content = .messageSent(Event.Message(id: .random(), role: .user, text: "made up \(number)"))
                    let (envelope, body) = EventCodec.encode(event)
                    events.items.append(EventsFrame.Item(envelope: envelope, body: body, commitment: nil))
                }
                return .events(events)
            }
            try await eventually { try device.store.log.lastSeq(of: .conversation(chat)) == 5 }
            // Later by the hub's clock: this is what HELLO names, and the cursor holds.
            _ = try await world.hubStore.append(message("later", in: other, by: bob))
            try await eventually { try device.store.log.lastSeq(of: .conversation(other)) == 2 }
            liar.end()
            try await eventually { liar.hasEnded }
            for content in [Event.Content.participantLeft(ada), .participantJoined(ada)] {
                _ = try await world.hubStore.append(Event(conversation: chat, author: bob, content: content))
            }
            let healed = try await world.heal(device)
            #expect(try healed.evidence == nil && healed.lostEvents().count == 3)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("a head vouches only for events that came with it", .timeLimit(.minutes(20))) func elsewhere() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let other = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            let device = try world.device(ada)
            try await world.sync(device)
            let isLate = Monitor(true)
            let liar = Between(world.hub, device) { frame in
                if case .caughtUp = frame, isLate.withLock({ $0 }) { return nil }
                guard case .events(var events) = frame.asEvents else { return frame }
                for place in events.logs.indices where events.logs[place].log == .conversation(chat) { events.logs[place].head = nil }
                if events.logs.contains(where: { $0.log == .conversation(other) }), !events.logs.contains(where: { $0.log == .conversation(chat) }) {
                    events.logs.append(LogNote(log: .conversation(chat), head: LogHead(size: 2, root: DamagedLogs.unknownRoot)))
                    isLate.withLock { $0 = false }
                }
                return .events(events)
            }
            _ = try await world.hubStore.append(message("one", in: chat, by: bob))
            try await eventually { try device.store.log.lastSeq(of: .conversation(chat)) == 2 }
            _ = try await world.hubStore.append(message("two", in: other, by: bob))
            try await eventually { liar.hasEnded }
            #expect(liar.failure == .badPeer)
            let healed = try await world.heal(device)
            #expect(try healed.evidence == nil)
        }
    }

    @Test("own events among them are asked about again as they were sent; what was made up in this replica's name is not sent", .timeLimit(.minutes(20)))
    func ownAmongThem() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            _ = try device.append(Event(conversation: chat, author: ada, content: .custom(name: "note", payload: [1])))
            _ = try device.append(message("agreed", in: chat, by: ada))
            try await breakOff(
                world, device,
                {
                    Self.rewrite(&$0, "pay 10", to: "pay 99")
                    // The third of its lane was never made.
                    if case .messageSent(let message) = $0.event.content, message.text == "agreed" { $0.origin.counter = 3 }
                }, until: { try device.store.log.lastSeq(of: .conversation(chat)) == 4 })
            let healed = try await world.heal(device)
            #expect(healed.outbox.isEmpty)
            #expect(try healed.evidence == nil)
            let events = try world.hubStore.log.events(in: .conversation(chat))
            #expect(events.count { if case .custom = $0.event.content { true } else { false } } == 1)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["pay 10", "agreed"])
            #expect(try healed.store.timeline(of: chat) == world.hubStore.timeline(of: chat))
        }
    }

    @Test("a hub that contradicts what was vouched for is refused with evidence, whatever it sent without heads before", .timeLimit(.minutes(20)))
    func forked() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("as it was", to: chat, from: bob)
            var device = try world.device(ada)
            try await world.sync(device)
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            try await breakOff(world, device, { Self.rewrite(&$0, "pay 10", to: "pay 99") }) {
                try device.store.timeline(of: chat)?.messages.last?.text == "pay 99"
            }
            try world.rewriteHub { event in
                var event = event
                Self.rewrite(&event, "as it was", to: "as it was not")
                return event
            }
            var code: ReplicaError.Code?
            for _ in 0..<3 where code == nil {
                let session = world.follow(device)
                try await eventually { session.end != nil }
                if case .failed(let error as ReplicaError) = session.end { code = error.code }
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, ada)
            }
            #expect(code == .forked)
            #expect(try device.evidence?.contains(chat.description) ?? false)
            #expect(try device.store.timeline(of: chat)?.messages.first?.text == "as it was")
        }
    }

    @Test("a newest part that somebody changed is asked for anew, and nobody is blamed", .timeLimit(.minutes(20))) func part() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<40 { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
            let device = try world.device(ada)
            let scope = Scope.newest(conversations: 1, messages: 5)
            let first = world.follow(device, scope: scope)
            try await eventually { first.isSettled }
            first.connection.end()
            try await eventually { first.end != nil }
            _ = try await world.hubStore.append(message("pay 10", in: chat, by: bob))
            try await breakOff(world, device, { Self.rewrite(&$0, "pay 10", to: "pay 99") }, scope: scope) {
                try device.store.timeline(of: chat, .newest, limit: 1)?.messages.last?.text == "pay 99"
            }
            let healed = try await world.heal(device, scope: scope)
            #expect(try healed.evidence == nil)
            #expect(try healed.store.timeline(of: chat, .newest, limit: 1)?.messages.last?.text == "pay 10")
            let lost = try healed.lostEvents()
            #expect(lost.isEmpty || "\(lost[0].event.content)".contains("pay 99"))
        }
    }

    @Test("an own event that a hub took and kept back is asked for when the next one says that it is old", .timeLimit(.minutes(20)))
    func keptBack() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            _ = try device.append(message("mine", in: chat, by: ada))
            let liar = Between(world.hub, device) { frame in
                // The answer is lost with it: else the outbox would ask for what it was promised.
                switch frame {
                case .events, .segment, .accepted: nil
                default: frame
                }
            }
            try await eventually { try world.hubStore.timeline(of: chat)?.messages.last?.text == "mine" }
            try await Task.sleep(for: .milliseconds(300))
            liar.end()
            try await world.sync(device)
            #expect(try device.store.timeline(of: chat)?.messages.last?.state == .complete)
        }
    }
}
