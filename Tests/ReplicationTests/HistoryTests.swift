import ConversationStore
import Testing

@testable import Replication

/// Conversations whose history begins, for who comes later, with the joining.
@Suite struct HistoryTests {
    /// A conversation with such a history, and where eve came in.
    private func conversation(_ world: World) async throws -> (id: ConversationID, joinedSeq: Seq) {
        let id = try await world.hubStore.createConversation(.group, title: "Board", author: ada, participants: [bob])
        try await setHistory(ConversationHistory.fromJoining.rawValue, of: id, world)
        for index in 0..<40 { try await world.hubStore.send("before \(index)", to: id, from: ada) }
        let joined = try await world.hubStore.append(Event(conversation: id, author: ada, content: .participantJoined(eve)))
        for index in 0..<40 { try await world.hubStore.send("after \(index)", to: id, from: ada) }
        return (id, joined.seq)
    }

    private func setHistory(_ value: String?, of id: ConversationID, _ world: World) async throws {
        let attribute = Event.Attribute(name: ConversationHistory.attribute, value: value)
        _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: .conversationUpdated(title: nil, attributes: [attribute])))
    }

    private func texts(_ store: ConversationStore, _ id: ConversationID) throws -> [String] {
        try store.timeline(of: id, limit: 1000)?.messages.map(\.text) ?? []
    }

    private func settle(_ world: World, _ device: Replica, _ scope: Scope = .mine) async throws {
        let session = world.follow(device, scope: scope)
        try await eventually { session.isSettled || session.end != nil }
        #expect(session.end == nil)
        session.connection.end()
        try await eventually { session.end != nil }
    }

    private let after = (0..<40).map { "after \($0)" }

    @Test("Nor does what comes instead tell when something was said, who said it last, and who has read it")
    func nothingAboutBefore() async throws {
        try await withWorld { world in
            let id = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await setHistory(ConversationHistory.fromJoining.rawValue, of: id, world)
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [eve])
            let before = MessageID.random()
            _ = try await world.hubStore.append(message("before", in: id, by: ada, id: before))
            _ = try await world.hubStore.append(Event(conversation: id, author: bob, content: .receiptRead(upTo: before)))
            _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: .participantJoined(eve)))
            let device = try world.device(eve)
            try await settle(world, device)
            #expect(try device.store.lobby(of: eve).rows.map(\.conversation) == [other, id])
            #expect(try device.store.timeline(of: id)?.receipts.marks == [])
            #expect(try world.hubStore.timeline(of: id)?.receipts.marks.map(\.user) == [bob])
        }
    }

    @Test("Nothing from before goes to who came later, whatever is asked for; nor what opens it", arguments: [false, true])
    func nothingFromBefore(_ wantsFirstScreen: Bool) async throws {
        try await withWorld { world in
            let (id, joinedSeq) = try await conversation(world)
            try world.hubStore.log.flush()
            let peer = try await RawPeer(world.hub, eve) { $0.wantsFirstScreen = wantsFirstScreen }
            let log = LogID.conversation(id)
            peer.send(.fetch([Fetch(log: log, from: 1, through: 0)]))
            peer.send(.fetch([Fetch(log: log, from: joinedSeq - 1, through: joinedSeq + 3)]))
            peer.send(.fetch([Fetch(log: log, from: 0, through: 1000)]))
            try await eventually { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            var seqs: Set<Seq> = []
            var bases = 0
            for frame in peer.frames {
                switch frame {
                case .base(let base):
                    bases += 1
                    #expect(base.isFirst && base.seq == joinedSeq - 1)
                    #expect(!String(decoding: base.base, as: UTF8.self).contains("before"))
                    let seeds = try #require(PuncturedSeeds(secret: base.secret))
                    let own = try #require(PuncturedSeeds(secret: world.hubStore.log.secret(of: log)))
                    for seq in 1..<joinedSeq { #expect(seeds.leaf(at: seq - 1) == nil) }
                    for seq in joinedSeq...joinedSeq + 100 { #expect(seeds.leaf(at: seq - 1) == own.leaf(at: seq - 1)) }
                case .segment(let segment):
                    for event in try SegmentCodec.decode(segment.run) { seqs.insert(event.seq) }
                    #expect(segment.logs.allSatisfy { $0.secret.isEmpty })
                case .events(let events):
                    for item in events.items { seqs.insert(try EventCodec.decode(envelope: item.envelope, body: item.body).seq) }
                    #expect(events.logs.allSatisfy { $0.secret.isEmpty })
                default: break
                }
            }
            #expect(bases > 0)
            #expect(seqs == Set(joinedSeq...joinedSeq + 40))
            peer.end()
        }
    }

    @Test("A device shows what follows the joining, lacks nothing, and goes on with it")
    func device() async throws {
        try await withWorld { world in
            let (id, joinedSeq) = try await conversation(world)
            var device = try world.device(eve)
            try await settle(world, device)
            #expect(try texts(device.store, id) == after)
            #expect(device.holes.isEmpty)
            let first = try #require(try device.store.timeline(of: id, .around(joinedSeq), limit: 10))
            #expect(!first.hasBefore && first.hole == nil)
            #expect(try device.store.lobby(of: eve).rows.map(\.unread) == [40])
            // The hub's own store shows the whole, as the model does; they agree from what she reads or writes on.
            #expect(try world.hubStore.lobby(of: eve).rows.map(\.unread) == [80])
            // With whom it was created has everything.
            let whole = try world.device(bob)
            try await settle(world, whole)
            #expect(try texts(whole.store, id).count == 80)

            let path = device.store.log.path
            try device.close()
            device = try world.open(path, eve)
            #expect(try texts(device.store, id) == after)
            let session = world.follow(device)
            try await eventually { session.isSettled || session.end != nil }
            try await world.hubStore.send("live", to: id, from: ada)
            try await eventually { try texts(device.store, id) == after + ["live"] }
            _ = try device.append(message("mine", in: id, by: eve))
            session.connection.outboxChanged()
            try await eventually { try texts(world.hubStore, id).last == "mine" }
            try await eventually { try texts(device.store, id) == after + ["live", "mine"] }
            for store in [device.store, world.hubStore] { #expect(try store.lobby(of: eve).rows.map(\.unread) == [0]) }
            session.connection.end()
            try await eventually { session.end != nil }
            #expect(device.holes.isEmpty)
        }
    }

    @Test("A newest part whose history turns out to begin further down stays on the screen until that has come, and what comes must lead to it")
    func beginsFurtherDown() async throws {
        try await withWorld { world in
            let id = try await world.hubStore.createConversation(.group, title: "Board", author: ada, participants: [bob])
            for index in 0..<10 { try await world.hubStore.send("before \(index)", to: id, from: ada) }
            try await world.hubStore.append(Event(conversation: id, author: ada, content: .participantJoined(eve)))
            for index in 0..<40 { try await world.hubStore.send("after \(index)", to: id, from: ada) }
            let scope = Scope.newest(conversations: 1, messages: 5)
            let device = try world.device(eve)
            try await settle(world, device, scope)
            #expect(try texts(device.store, id) == after.suffix(5))
            try await setHistory(ConversationHistory.fromJoining.rawValue, of: id, world)

            let session = world.follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            #expect(device.holes.first?.seqs.lowerBound == 1)
            session.connection.fill(.conversation(id))
            try await eventually { try session.end != nil || texts(device.store, id).count > 5 }
            #expect(session.end == nil && device.holes.isEmpty)
            #expect(try texts(device.store, id) == after)
            try await world.hubStore.send("live", to: id, from: ada)
            try await eventually { try texts(device.store, id) == after + ["live"] }
            session.connection.end()
            try await eventually { session.end != nil }
        }
    }

    @Test("What is asked for while a history begins later comes from there on if it is opened before the answer (seed 17579)", arguments: [false, true])
    func openedMeanwhile(_ wantsPage: Bool) async throws {
        try await withWorld { world in
            let (id, _) = try await conversation(world)
            let log = LogID.conversation(id)
            let clock = Monitor<UInt64>(1_000_000)
            var options = HubOptions.anyUser()
            // Nothing is given back to an allowance before the clock goes on.
            options.execution.now = { Instant(wallMilliseconds: clock.withLock { $0 }, monotonicMilliseconds: clock.withLock { $0 }) }
            let hub = try Hub(store: world.hubStore, options: options)
            let peer = try await RawPeer(hub, eve)
            func isCaughtUp() -> Bool { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            try await eventually { isCaughtUp() }
            peer.forget()
            peer.spendAllBut(1)
            peer.send(.fetch((wantsPage ? [Fetch(log: log, from: 0, through: 5)] : []) + [Fetch(log: log, from: 3, through: 0)]))
            peer.send(.ping(1))
            try await eventually { peer.frames.contains(.pong(1)) }
            #expect(peer.frames == [.pong(1)])
            try await setHistory(nil, of: id, world)
            clock.withLock { $0 += 5000 }
            hub.tick()
            try await eventually { isCaughtUp() }
            var seqs: Set<Seq> = []
            for frame in peer.frames {
                switch frame {
                case .segment(let segment): for event in try SegmentCodec.decode(segment.run) { seqs.insert(event.seq) }
                case .events(let events):
                    for item in events.items { seqs.insert(try EventCodec.decode(envelope: item.envelope, body: item.body).seq) }
                default: break
                }
            }
            #expect(try seqs == Set(3...world.hubStore.log.lastSeq(of: log)))
            peer.end()
        }
    }

    @Test("What was recorded before its user came in anew leaves the outbox, and is kept aside")
    func recordedBefore() async throws {
        try await withWorld { world in
            let id = try await world.hubStore.createConversation(.group, author: ada, participants: [eve])
            try await setHistory(ConversationHistory.fromJoining.rawValue, of: id, world)
            let device = try world.device(eve)
            try await settle(world, device)
            try device.append(message("before", in: id, by: eve))
            // The hub records it, and the line breaks before it has said so.
            let hub = world.hub.connect(send: { _ in }, close: { _ in })
            let connection = device.connect(token: "", send: { hub.receive($0) }, close: { _ in }) { _ in }
            connection.start()
            try await eventually { try texts(world.hubStore, id) == ["before"] }
            connection.disconnected()
            hub.disconnected()
            for content in [Event.Content.participantLeft(eve), .participantJoined(eve)] {
                _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: content))
            }
            try await world.hubStore.send("after", to: id, from: ada)
            try await settle(world, device)
            #expect(device.outbox.isEmpty)
            #expect(try texts(device.store, id) == ["after"])
            #expect(try device.lostEvents().map(\.event.content.kind) == [.messageSent])
        }
    }

    @Test("What was set aside from before its user came in anew is kept as lost, by a session that goes on from its cursor too")
    func setAsideBefore() async throws {
        try await withWorld { world in
            let (id, _) = try await conversation(world)
            var device = try world.device(eve)
            try await settle(world, device)
            let before = try #require(try world.hubStore.log.event(in: .conversation(id), at: 10))
            try device.side.write { try Lost.put([before], in: SyncTables.suspects, &$0) }
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, eve)
            try await settle(world, device)
            #expect(try device.suspectEvents().isEmpty)
            #expect(try device.lostEvents().map(\.event) == [before.event])
        }
    }

    @Test("Who came later opens no history to themselves, whatever the attribute is set to; who sees the whole does")
    func opening() async throws {
        try await withWorld { world in
            let (id, _) = try await conversation(world)
            func update(_ value: String?, by author: UserID, _ others: [Event.Attribute] = []) -> Event {
                let attributes = others + [Event.Attribute(name: ConversationHistory.attribute, value: value)]
                return Event(conversation: id, author: author, content: .conversationUpdated(title: "Open", attributes: attributes))
            }
            let device = try world.device(eve)
            try await settle(world, device)
            for event in [
                update(nil, by: eve), update("whole", by: eve, [Event.Attribute(name: "colour", value: "red")]),
                update(ConversationHistory.fromJoining.rawValue, by: eve),
            ] {
                try device.append(event)
                try await settle(world, device)
                #expect(device.outbox.last?.state == .failed(code: "forbidden", detail: "history"))
            }
            #expect(device.outbox.count == 3)
            // Of anything else she may change what she sees.
            try device.append(Event(conversation: id, author: eve, content: .conversationUpdated(title: "Her title", attributes: [])))
            try await settle(world, device)
            #expect(device.outbox.count == 3)
            #expect(try world.hubStore.lobbyRow(of: id, for: ada)?.title == "Her title")
            let other = try world.device(eve)
            try await settle(world, other)
            #expect(try texts(other.store, id) == after)

            let founder = try world.device(bob)
            try await settle(world, founder)
            try founder.append(update(nil, by: bob))
            try await settle(world, founder)
            #expect(founder.outbox.isEmpty)
            // Now she sees the whole, and may close it to who comes after her, which is to herself, too.
            try other.append(update(ConversationHistory.fromJoining.rawValue, by: eve))
            try await settle(world, other)
            #expect(other.outbox.isEmpty)
            try other.append(update(nil, by: eve))
            try await settle(world, other)
            #expect(other.outbox.last?.state == .failed(code: "forbidden", detail: "history"))
        }
    }

    @Test("A change of the history that was recorded is a repeat for ever, though its author would not be allowed to now")
    func openingAgain() async throws {
        try await withWorld { world in
            let id = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(bob)
            try await settle(world, device)
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            try device.append(Event(conversation: id, author: bob, content: .conversationUpdated(title: nil, attributes: [attribute])))
            // The hub records it, and the line breaks before it has said so.
            let hub = world.hub.connect(send: { _ in }, close: { _ in })
            let connection = device.connect(token: "", send: { hub.receive($0) }, close: { _ in }) { _ in }
            connection.start()
            try await eventually { try world.hubStore.history(of: id) == .fromJoining }
            connection.disconnected()
            hub.disconnected()
            for content in [Event.Content.participantLeft(bob), .participantJoined(bob)] {
                _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: content))
            }
            try await settle(world, device)
            #expect(device.outbox.isEmpty)
        }
    }

    @Test("A hub that was restored from a backup is told from one that rewrote what is seen of it")
    func restored() async throws {
        try await withWorld { world in
            let (id, _) = try await conversation(world)
            try world.backUpHub()
            try await world.hubStore.send("lost", to: id, from: ada)
            var device = try world.device(eve)
            try await settle(world, device)
            #expect(try texts(device.store, id) == after + ["lost"])
            try world.restoreHub()
            try await world.hubStore.send("anew", to: id, from: ada)
            device = try await world.heal(device)
            #expect(try texts(device.store, id) == after + ["anew"])
            #expect(device.holes.isEmpty)
        }
    }

    @Test("Who was there before, left and came again sees what follows the last joining; a history that is opened is seen whole")
    func again() async throws {
        try await withWorld { world in
            let (id, _) = try await conversation(world)
            _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: .participantLeft(eve)))
            try await world.hubStore.send("meanwhile", to: id, from: ada)
            // Who left sees what was there between joining and leaving, on a new device too.
            let left = try world.device(eve)
            try await settle(world, left)
            #expect(try texts(left.store, id) == after)
            _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: .participantJoined(eve)))
            try await world.hubStore.send("again", to: id, from: ada)
            for device in [left, try world.device(eve)] {
                try await settle(world, device)
                #expect(try texts(device.store, id) == ["again"])
                #expect(device.holes.isEmpty)
            }
            try await setHistory(nil, of: id, world)
            let whole = try world.device(eve)
            try await settle(world, whole)
            #expect(try texts(whole.store, id).count == 82)
            // So does who showed a part of it, when all is compared.
            try await settle(world, left, .conversations([id]))
            #expect(try texts(left.store, id).count == 82)
            #expect(try whole.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
        }
    }

    @Test("what says where a history begins cannot be erased: who joined later would be sent what was before") func erasure() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            func update(_ attribute: Event.Attribute) async throws {
                let content = Event.Content.conversationUpdated(title: nil, attributes: [attribute])
                try await world.hubStore.append(Event(conversation: chat, author: ada, content: content))
            }
            try await update(Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue))
            try await update(Event.Attribute(name: "colour", value: "blue"))
            #expect { try world.hubStore.log.erase(log: .conversation(chat), seq: 2) } throws: { ($0 as? EventLogError)?.code == .invalidArgument }
            try world.hubStore.log.erase(log: .conversation(chat), seq: 3)
            #expect(try world.hubStore.history(of: chat) == .fromJoining)
        }
    }
}
