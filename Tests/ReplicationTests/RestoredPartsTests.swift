import ConversationStore
import Foundation
import Testing

@testable import Replication

/// Hubs that were set back, and devices that hold newest parts of logs, or whose logs are damaged.
@Suite struct RestoredPartsTests {
    private let newest = Scope.newest(conversations: 5, messages: 10)

    /// A conversation of 101 events, in a hub that is backed up.
    private func begin(_ world: World) async throws -> ConversationID {
        let chat = try await world.hubStore.createConversation(.group, title: "Long", author: ada, participants: [bob])
        for index in 0..<100 { try await world.hubStore.send("message \(index)", to: chat, from: index % 2 == 0 ? ada : bob) }
        return chat
    }

    private func expectSame(_ world: World, _ device: Replica, _ chat: ConversationID) throws {
        #expect(device.holes.isEmpty && device.isWhole && device.outbox.isEmpty)
        #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        #expect(try device.store.timeline(of: chat, .newest, limit: 300) == world.hubStore.timeline(of: chat, .newest, limit: 300))
        #expect(try device.store.isFold())
    }

    private func texts(_ events: [RecordedEvent]) -> [String] {
        events.compactMap { if case .messageSent(let message) = $0.event.content { message.text } else { nil } }
    }

    @Test("a newest part that a restored hub never had is fetched anew", arguments: [false, true])
    func newestPart(_ isOneBehindTheCursor: Bool) async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try world.device(bob)
            if isOneBehindTheCursor { device = try await world.heal(device, scope: newest) }
            try world.backUpHub()
            let session = world.follow(device, scope: newest)
            try await eventually { session.isSettled }
            let cursor = device.cursor
            try device.append(message("bob's, lost", in: chat, by: bob))
            session.connection.outboxChanged()
            for index in 0..<4 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            try await eventually { try texts(newestEvents(device, chat)).contains("lost 3") && device.outbox.isEmpty && device.cursor != cursor }
            session.connection.end()
            try await eventually { session.end != nil }
            try world.restoreHub()
            try await world.hubStore.send("after the restoring", to: chat, from: ada)

            device = try await world.heal(device, scope: newest)
            let page = try world.hubStore.timeline(of: chat, .newest, limit: 10)!.messages.map(\.text)
            #expect(page.suffix(2) == ["after the restoring", "bob's, lost"])
            #expect(try device.store.timeline(of: chat, .newest, limit: 10)!.messages.map(\.text) == page)
            #expect(try texts(device.lostEvents()).sorted() == (0..<4).map { "lost \($0)" })
            #expect(try device.evidence?.contains("contradict") ?? true)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
        }
    }

    @Test("of a newest part that a restored hub has the beginning of, that stays, however much was said since", arguments: [0, 5, 60])
    func beginning(_ since: Int) async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: newest)
            for index in 0..<3 { try await world.hubStore.send("kept \(index)", to: chat, from: ada) }
            try world.backUpHub()
            for index in 0..<4 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            device = try await world.heal(device, scope: newest)
            try world.restoreHub()
            for index in 0..<since { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device, scope: newest)
            let shown = try device.store.timeline(of: chat, .newest, limit: 300)!.messages.map(\.text)
            #expect(shown == (90..<100).map { "message \($0)" } + (0..<3).map { "kept \($0)" } + (0..<since).map { "new \($0)" })
            #expect(try texts(device.lostEvents()).sorted() == (0..<4).map { "lost \($0)" })
            device = try await world.heal(device)
            try expectSame(world, device, chat)
        }
    }

    @Test(
        "what a restored hub has below the page that it brings is fetched: should the hub lose it once more, it is offered, or told of",
        arguments: [false, true])
    func belowThePage(_ isWithoutID: Bool) async throws {
        try await withWorld { world in
            let newest = Scope.newest(conversations: 5, messages: 20)
            func say(_ count: Int) async throws {
                _ = try await world.hubStore.append((0..<count).map { Submission(message("\($0)", in: chat, by: bob)) })
            }
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            try await say(20)
            try world.backUpHub()
            try await say(24)
            var device = try await world.heal(world.device(ada), scope: newest)
            // What has no id nothing would know as a repeat.
            let note = Event(conversation: chat, author: ada, content: .custom(name: "note", payload: [1]))
            let own = isWithoutID ? note : message("own", in: chat, by: ada)
            try device.append(own)
            device = try await world.heal(device, scope: newest)
            try await say(10)
            device = try await world.heal(device, scope: newest)
            let copy = try world.copy(device)
            try world.restoreHub()
            try world.backUpHub()
            try await say(10)
            // Another device with the same events offers it, and much follows.
            _ = try await world.heal(world.open(copy, ada), scope: newest)
            try await say(170)
            device = try await world.heal(device, scope: newest)
            #expect(try device.lostEvents().allSatisfy { $0.event != own } && device.suspectEvents().isEmpty)
            #expect(device.outbox.isEmpty)
            try expectSame(world, device, chat)
            let before = try device.lostEvents().count
            try world.restoreHub()
            try await say(300)
            device = try await world.heal(device, scope: newest)
            #expect(try world.hubStore.log.events(in: .conversation(chat)).filter { $0.event == own }.count == 1)
            #expect(try device.suspectEvents().isEmpty && device.lostEvents().allSatisfy { $0.event != own })
            #expect(try device.lostEvents().count == before + 180)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
        }
    }

    @Test("of a newest part that begins behind what a restored hub has, one's own is offered, and others' told of") func beginsBehind() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            try world.backUpHub()
            for index in 0..<30 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            var device = try await world.heal(world.device(bob), scope: newest)
            try device.append(message("bob's, lost", in: chat, by: bob))
            device = try await world.heal(device, scope: newest)
            try world.restoreHub()
            for index in 0..<100 { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device, scope: newest)
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 1)!.messages.map(\.text) == ["bob's, lost"])
            #expect(try shown(device.store, chat).suffix(2) == ["new 99", "bob's, lost"])
            #expect(try texts(device.lostEvents()).sorted() == (20..<30).map { "lost \($0)" })
            #expect(try device.doubtfulEvents().isEmpty)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
        }
    }

    @Test("what lies in a hole when all else is compared is told of as doubtful, and judged by what fills that", arguments: [false, true])
    func judgedLater(_ isCutOff: Bool) async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: newest)
            // As the process that was told what the hub has there leaves it that ends before it could write down what follows.
            let held = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 50))
            var lost = held
            lost.seq = 60
            (lost.origin.replica, lost.origin.counter) = (device.state.withLock { $0.outbox.identity.replica }, 900)
            lost.event = message("bob's, lost", in: chat, by: bob)
            let path = device.store.log.path
            // It stands elsewhere by now.
            var moved = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 40))
            moved.seq = 70
            try device.side.write { try Lost.put([held, lost, moved], in: SyncTables.suspects, &$0) }
            try device.close()
            let doubtful = ["bob's, lost", "message 38", "message 48"]
            #expect(try aside(path) == doubtful)
            if isCutOff {
                // Of what fills the hole the hub sends the first half, and says that this was all.
                let connection = Monitor<ReplicaConnection?>(nil)
                let hub = world.hub.connect(send: { message in connection.withLock { $0 }?.receive(message) }, close: { _ in })
                device = try world.open(path, bob)
                let session = device.connect(
                    token: "", scope: newest,
                    send: { message in
                        guard case .fetch(let wishes, _)? = try? Frame(decoding: message), wishes.contains(where: { $0.from > 0 }) else {
                            return hub.receive(message)
                        }
                        hub.receive(Frame.fetch([Fetch(log: .conversation(chat), from: 1, through: 55)]).encoded())
                    }, close: { _ in hub.disconnected() }, observe: { _ in })
                connection.withLock { $0 = session }
                let log = device.store.log, state = device.state
                // It moves when the hub says so: what was kept is counted before.
                let place = state.withLock { $0.place }
                session.start()
                try await eventually { try log.lastSeq(of: .conversation(chat)) == 55 && state.withLock { $0.place } > place }
                session.disconnected()
                connection.withLock { $0 = nil }
                #expect(try device.lostEvents().isEmpty)
                #expect(try device.suspectEvents().map(\.seq) == [60, 70])
                try device.close()
            }
            device = try await world.heal(world.open(path, bob), scope: newest)
            #expect(try aside(path).isEmpty && device.lostEvents().isEmpty)
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 1)!.messages.map(\.text) == ["bob's, lost"])
            try expectSame(world, device, chat)
        }
    }

    @Test("what lies in a hole and may have to be offered is told before what was written since is sent") func offeredBeforeTheRest() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: newest)
            // As a sync leaves it that found the hub set back, and broke off.
            let id = MessageID.random()
            var lost = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 60))
            (lost.origin.replica, lost.origin.counter) = (device.state.withLock { $0.outbox.identity.replica }, 900)
            lost.event = message("bob's, lost", in: chat, by: bob, id: id)
            try device.side.write { try Lost.put([lost], in: SyncTables.suspects, &$0) }
            try device.dropCursor()
            try device.append([
                Event(conversation: chat, author: bob, content: .messageEdited(message: id, text: "edited")), message("later", in: chat, by: bob),
            ])
            device = try await world.heal(device, scope: newest)
            #expect(device.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 2)!.messages.map(\.text) == ["edited", "later"])
            try expectSame(world, device, chat)
        }
    }

    @Test("that a hub says that it has sent all, before it has read that a hole is asked for, does not count") func crossing() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            let device = try await world.heal(world.device(bob), scope: newest)
            let held = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 50))
            try device.side.write { try Lost.put([held], in: SyncTables.suspects, &$0) }
            let connection = Monitor<ReplicaConnection?>(nil), ends = Monitor(0)
            let hub = world.hub.connect(
                send: { message in
                    if case .caughtUp? = try? Frame(decoding: message) { ends.withLock { $0 += 1 } }
                    connection.withLock { $0 }?.receive(message)
                }, close: { _ in })
            // What the device says from the FETCH of the hole on is under way for long.
            let onItsWay = Monitor<[[UInt8]]?>(nil), isSettled = Monitor(false)
            let session = device.connect(
                token: "", scope: newest,
                send: { message in
                    let isHeld = onItsWay.withLock { held in
                        if case .fetch(let wishes, _)? = try? Frame(decoding: message), wishes.contains(where: { $0.from == 1 }) { held = held ?? [] }
                        held?.append(message)
                        return held != nil
                    }
                    if !isHeld { hub.receive(message) }
                }, close: { _ in hub.disconnected() },
                observe: { event in if case .settled = event { isSettled.withLock { $0 = true } } })
            connection.withLock { $0 = session }
            session.start()
            try await eventually { onItsWay.withLock { $0?.count ?? 0 } >= 2 }
            let before = ends.withLock { $0 }
            try await world.hubStore.send("meanwhile", to: chat, from: ada)
            try await eventually { try shown(device.store, chat).last == "meanwhile" && ends.withLock { $0 } > before }
            let messages = onItsWay.withLock { held in
                defer { held = nil }
                return held!
            }
            for message in messages { hub.receive(message) }
            try await eventually { isSettled.withLock { $0 } }
            try expectSame(world, device, chat)
            #expect(try device.suspectEvents().isEmpty)
            session.end()
            connection.withLock { $0 = nil }
        }
    }

    /// A device with a message of its own that the hub's backup lacks.
    private func losing(_ world: World, _ chat: ConversationID) async throws -> Replica {
        let device = try await world.heal(world.device(bob), scope: newest)
        try world.backUpHub()
        try device.append(message("bob's, lost", in: chat, by: bob))
        return try await world.heal(device, scope: newest)
    }

    @Test("what a restored hub lost of one's own is pending while another conversation comes that tells what else it lost") func pendingMeanwhile() async throws
    {
        try await withWorld { world in
            let other = try await begin(world)
            let chat = try await begin(world)
            let device = try await losing(world, chat)
            let held = try #require(try world.hubStore.log.event(in: .conversation(other), at: 50))
            try device.side.write { try Lost.put([held], in: SyncTables.suspects, &$0) }
            try world.restoreHub()
            let connection = Monitor<ReplicaConnection?>(nil), isAsked = Monitor(false)
            let hub = world.hub.connect(send: { message in connection.withLock { $0 }?.receive(message) }, close: { _ in })
            let session = device.connect(
                token: "", scope: newest,
                send: { message in
                    if case .fetch(let wishes, _)? = try? Frame(decoding: message), wishes.contains(where: { $0.from == 1 }) {
                        return isAsked.withLock { $0 = true }
                    }
                    hub.receive(message)
                }, close: { _ in hub.disconnected() }, observe: { _ in })
            connection.withLock { $0 = session }
            session.start()
            try await eventually { isAsked.withLock { $0 } }
            #expect(try shown(device.store, chat) == ["message 97", "message 98", "message 99", "(pending) bob's, lost"])
            session.end()
            connection.withLock { $0 = nil }
        }
    }

    /// What a reader beside the device sees of a conversation: its last texts, with what of them is pending.
    private func seen(_ path: String, _ chat: ConversationID) throws -> [String] {
        let overlay = try #require(try ReplicaOverlay(of: path))
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
        defer { try? store.close() }
        try overlay.show(in: store)
        return try shown(store, chat)
    }

    private func shown(_ store: ConversationStore, _ chat: ConversationID) throws -> [String] {
        try #require(try store.timeline(of: chat, .newest, limit: 4)).messages.map { ($0.unconfirmed == nil ? "" : "(pending) ") + $0.text }
    }

    /// The texts that are kept aside of a device.
    private func aside(_ path: String) throws -> [String] {
        let kept = try #require(try KeptAside(of: path))
        let log = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
        defer { try? log.close() }
        return try texts(kept.lost + kept.doubtful(in: log)).sorted()
    }

    @Test("what a restored hub lost is seen, or kept aside, wherever the session that finds it breaks off") func breaksOffComparing() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await losing(world, chat)
            try await world.hubStore.send("ada's, lost", to: chat, from: ada)
            device = try await world.heal(device, scope: newest)
            try world.restoreHub()
            for index in 0..<2 { try await world.hubStore.send("new \(index)", to: chat, from: ada) }

            // Of all that the hub says the device is not told that this was all.
            let path = device.store.log.path
            #expect(try seen(path, chat).suffix(2) == ["bob's, lost", "ada's, lost"])
            let replica = Monitor<ReplicaConnection?>(nil)
            let isThere = Monitor(false)
            let hub = world.hub.connect(
                send: { message in
                    if case .caughtUp? = try? Frame(decoding: message) { return isThere.withLock { $0 = true } }
                    replica.withLock { $0 }?.receive(message)
                }, close: { _ in })
            let connection = device.connect(token: "", scope: newest, send: { hub.receive($0) }, close: { _ in hub.disconnected() }) { _ in }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { isThere.withLock { $0 } }
            let all = ["message 99", "new 0", "new 1", "(pending) bob's, lost"]
            try await eventually { try shown(device.store, chat) == all }
            #expect(try seen(path, chat) == all)
            #expect(try aside(path) == ["ada's, lost", "bob's, lost"])
            // As a process leaves it that is killed now.
            let killed = try world.copy(device)
            connection.end()
            replica.withLock { $0 = nil }
            #expect(try seen(killed, chat) == all)
            device = try world.open(killed, bob)
            #expect(try shown(device.store, chat) == all)
            #expect(try texts(device.doubtfulEvents()).sorted() == ["ada's, lost", "bob's, lost"] && device.lostEvents().isEmpty)
            device = try await world.heal(device, scope: newest)
            #expect(try shown(device.store, chat) == ["message 99", "new 0", "new 1", "bob's, lost"])
            #expect(try aside(killed) == ["ada's, lost"])
        }
    }

    @Test("what a restored hub lost and got back from its maker before it was missed is not told of as lost") func gotBackBefore() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: newest), other = try await world.heal(world.device(bob), scope: newest)
            try world.backUpHub()
            for index in 0..<2 { try device.append(message("lost \(index)", in: chat, by: bob)) }
            device = try await world.heal(device, scope: newest)
            other = try await world.heal(other, scope: newest)
            try world.restoreHub()
            // They stand elsewhere by then.
            try await world.hubStore.send("new", to: chat, from: ada)
            device = try await world.heal(device, scope: newest)
            other = try await world.heal(other, scope: newest)
            for device in [device, other] {
                #expect(try shown(device.store, chat) == ["message 99", "new", "lost 0", "lost 1"])
                #expect(try device.lostEvents().isEmpty)
            }
        }
    }

    @Test("what the next opening offers again is in the outbox, and seen, before it") func offersBeforeTheOpening() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await losing(world, chat)
            try world.restoreHub()
            let session = world.follow(device, scope: newest)
            try await eventually { session.end != nil }
            #expect({ if case .mustReopen = session.end { true } else { false } }(), "\(String(describing: session.end))")
            let path = device.store.log.path
            #expect(try shown(device.store, chat).last == "(pending) bob's, lost")
            #expect(try seen(path, chat).last == "(pending) bob's, lost")
            #expect(try ReplicaOverlay(of: path)?.outbox.map(\.state) == [.pending])
            #expect(try aside(path).isEmpty)
            try device.close()
            device = try world.open(path, bob)
            #expect(device.outbox.map(\.state) == [.pending])
        }
    }

    private func newestEvents(_ device: Replica, _ chat: ConversationID) throws -> [RecordedEvent] {
        try device.store.timeline(of: chat, .newest, limit: 10)!.messages.map {
            RecordedEvent(
                log: .conversation(chat), seq: $0.seq, position: 0, origin: Origin(replica: ReplicaID(high: 0, low: 0), counter: 0, hlc: HLC(rawValue: 0)),
                hlc: HLC(rawValue: 0), event: message($0.text, in: chat, by: ada), targetSeq: nil)
        }
    }

    @Test(
        "a copy of a running hub that was written to before it was served is not taken for that hub",
        arguments: [true, false], [Scope.mine, .newest(conversations: 5, messages: 10)])
    func writtenBehindTheCopy(_ isTold: Bool, _ scope: Scope) async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: scope)
            try world.backUpHub()
            try device.append(message("bob's own", in: chat, by: bob))
            device = try await world.heal(device, scope: scope)
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, bob)
            try await world.restoreHub(writing: [message("behind the copy", in: chat, by: ada), message("and more", in: chat, by: ada)], isTold: isTold)
            device = try await world.heal(device, scope: scope)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
            #expect(try device.store.timeline(of: chat, .newest, limit: 3)!.messages.map(\.text) == ["behind the copy", "and more", "bob's own"])
        }
    }

    @Test func damageAndARestoredHubTogetherComeRight() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            try world.backUpHub()
            var device = try await damagedDevice(world, chat)
            try world.restoreHub()
            try await world.hubStore.send("after the restoring", to: chat, from: ada)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
            #expect(try texts(device.lostEvents()).contains("round 2, 9"))
        }
    }

    @Test func damageANewestPartAndARestoredHubTogetherComeRight() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            let other = try await world.hubStore.createConversation(.group, title: "Other", author: ada, participants: [bob])
            for index in 0..<60 { try await world.hubStore.send("other \(index)", to: other, from: ada) }
            try world.backUpHub()
            for index in 0..<3 { try await world.hubStore.send("other, lost \(index)", to: other, from: ada) }
            var device = try await damagedDevice(world, chat, Scope.conversations([chat]))
            device = try await world.heal(device, scope: Scope.newest(conversations: 1, messages: 5))
            try world.restoreHub()
            try await world.hubStore.send("after the restoring", to: chat, from: ada)
            device = try await world.heal(device)
            try expectSame(world, device, chat)
            try expectSame(world, device, other)
        }
    }

    /// A device with a damaged run in the middle of its log, which was set right without its hub.
    private func damagedDevice(_ world: World, _ chat: ConversationID, _ scope: Scope = .mine) async throws -> Replica {
        let device = try await world.heal(world.device(bob), scope: scope)
        for round in 0..<3 {
            for index in 0..<10 { try await world.hubStore.send("round \(round), \(index)", to: chat, from: ada) }
            _ = try await world.heal(device, scope: scope)
            try device.store.log.flush()
        }
        let path = device.store.log.path
        try device.close()
        #expect(try EventStore.damageRun(at: path, number: 1) >= 3)
        let (saved, _, lost) = try Replica.salvage(at: path)
        #expect(saved > 0 && !lost.isEmpty)
        let salvaged = try world.open(path, bob)
        #expect(!salvaged.isWhole)
        return salvaged
    }

    @Test func whatARestoredHubLostIsOfferedAgainByTheDeviceThatMadeItOnly() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var first = try await world.heal(world.device(bob)), second = try await world.heal(world.device(bob))
            try world.backUpHub()
            try first.append(Event(conversation: chat, author: bob, content: .custom(name: "note", payload: [1])))
            first = try await world.heal(first)
            second = try await world.heal(second)
            try world.restoreHub()
            try await world.hubStore.send("after the restoring", to: chat, from: ada)
            // The one that did not make it comes first.
            second = try await world.heal(second)
            #expect(try second.lostEvents().count == 1)
            first = try await world.heal(first)
            second = try await world.heal(second)
            let notes = try world.hubStore.log.events(in: .conversation(chat)).filter { if case .custom = $0.event.content { true } else { false } }
            #expect(notes.count == 1)
            #expect(try second.lostEvents().isEmpty)
            for device in [first, second] { try expectSame(world, device, chat) }
        }
    }
}
