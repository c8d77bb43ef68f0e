import ConversationStore
import Foundation
import Testing

@testable import Replication

/// Bodies that were erased at a hub or at a device, and hubs and devices that were set back.
@Suite struct ErasureTests {
    private func title(_ text: String, of chat: ConversationID, by author: UserID) -> Event {
        Event(conversation: chat, author: author, content: .conversationUpdated(title: text, attributes: []))
    }

    private func expectSame(_ world: World, _ device: Replica, _ chat: ConversationID) throws {
        #expect(device.holes.isEmpty && device.isWhole && device.outbox.isEmpty)
        #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        #expect(try device.store.isFold())
    }

    @Test("I3: what a restored device made is not taken for an erased event of its lost life", arguments: [false, true])
    func sameCounter(_ isMessage: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let first = try world.device(bob)
            try await world.sync(first)
            let path = try world.copy(first)
            try first.append(isMessage ? message("the first life's", in: chat, by: bob) : title("the first life's", of: chat, by: bob))
            try await world.sync(first)
            try world.hubStore.log.erase(log: .conversation(chat), seq: 2)

            var second = try world.open(path, bob)
            try second.append(isMessage ? message("the second life's", in: chat, by: bob) : title("the second life's", of: chat, by: bob))
            second = try await world.heal(second)
            try expectSame(world, second, chat)
            let events = try events(of: chat, world.hubStore)
            #expect(events.count == 3)
            #expect(events.last?.isErased == false)
        }
    }

    @Test("Of an erased event the envelope tells whether it is the outbox's own")
    func erasedEnvelope() throws {
        let chat = ConversationID.random()
        let replica = ReplicaID(high: 1, low: 1)
        let entry = OutboxEntry(
            id: 1, event: title("own", of: chat, by: bob), origin: Origin(replica: replica, counter: 1, hlc: HLC(rawValue: 7)), nonce: [])
        func recorded(_ content: Event.Content, hlc: UInt64) -> RecordedEvent {
            RecordedEvent(
                log: .conversation(chat), seq: 2, position: 2, origin: Origin(replica: replica, counter: 1, hlc: HLC(rawValue: hlc)),
                hlc: HLC(rawValue: 9), event: Event(conversation: chat, author: bob, content: content), targetSeq: nil, isErased: true)
        }
        let erased = Event.Content.conversationUpdated(title: nil, attributes: [])
        #expect(entry.isRecorded(as: recorded(erased, hlc: 7)))
        #expect(!entry.isRecorded(as: recorded(erased, hlc: 8)))
        #expect(!entry.isRecorded(as: recorded(.custom(name: "", payload: []), hlc: 7)))
    }

    private func events(of chat: ConversationID, _ store: ConversationStore) throws -> [RecordedEvent] {
        var events: [RecordedEvent] = []
        try store.log.forEachEvent(in: .conversation(chat)) { event in
            events.append(event)
            return true
        }
        return events
    }

    @Test("A device that erased what a restored hub has lost takes the others that stand there now, or later", arguments: [1, 6])
    func rewindOverErased(_ first: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await world.hubStore.send("kept", to: chat, from: ada)
            try world.backUpHub()
            for index in 0..<4 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            var device = try world.device(bob)
            try await world.sync(device)
            try device.store.log.erase(log: .conversation(chat), seq: 4)
            try world.restoreHub()
            for index in 0..<first { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device)
            for index in first..<8 { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device)
            try expectSame(world, device, chat)
            #expect(try device.lostEvents().count == 4)
        }
    }

    @Test("A log that comes anew forgets nothing of its device's own, should the hub be set back once more before it has come")
    func setBackWhileAnew() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try world.backUpHub()
            let empty = world.directory + "/backup-empty"
            try FileManager.default.moveItem(atPath: world.directory + "/backup", toPath: empty)
            var device = try world.device(bob)
            try await world.sync(device)
            try device.append(message("bob's own", in: chat, by: bob))
            try await world.sync(device)
            try world.backUpHub()
            for index in 0..<3 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            try await world.sync(device)
            try device.store.log.erase(log: .conversation(chat), seq: 4)
            try world.restoreHub()
            for index in 0..<6 { try await world.hubStore.send("new \(index)", to: chat, from: ada) }

            // The device cuts off what was lost, then learns that it lacks a salt, and drops the log.
            for _ in 0..<3 where try device.store.log.lastSeq(of: .conversation(chat)) > 0 {
                let session = world.follow(device)
                try await eventually { session.isSettled || session.end != nil }
                guard case .mustReopen = session.end else { break }
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, bob)
            }
            try #require(try device.store.log.lastSeq(of: .conversation(chat)) == 0)
            try FileManager.default.moveItem(atPath: empty, toPath: world.directory + "/backup")
            try world.restoreHub()
            device = try await world.heal(device)
            try expectSame(world, device, chat)
            let texts = try events(of: chat, world.hubStore).compactMap { event -> String? in
                if case .messageSent(let message) = event.event.content { message.text } else { nil }
            }
            #expect(texts == ["bob's own"])
        }
    }

    @Test("What was lost has not come again because another event, of which the body is gone, has its origin")
    func lostUnderAnotherOrigin() throws {
        let chat = ConversationID.random()
        let origin = Origin(replica: ReplicaID(high: 1, low: 1), counter: 1, hlc: HLC(rawValue: 7))
        func recorded(_ content: Event.Content, isErased: Bool = false) -> RecordedEvent {
            RecordedEvent(
                log: .conversation(chat), seq: 2, position: 2, origin: origin, hlc: HLC(rawValue: 9),
                event: Event(conversation: chat, author: bob, content: content), targetSeq: nil, isErased: isErased)
        }
        let lost = recorded(title("lost", of: chat, by: bob).content)
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let side = try SideStore(directory: directory, tables: SyncTables.names)
        defer { side.close() }
        var events = try LostEvents(side)
        events.add([lost])
        #expect(events.found(as: lost) == [lost])
        #expect(events.found(as: recorded(.conversationUpdated(title: nil, attributes: []), isErased: true)) == [lost])
        #expect(events.found(as: recorded(.custom(name: "", payload: []), isErased: true)).isEmpty)
        #expect(events.found(as: recorded(title("another", of: chat, by: bob).content)).isEmpty)
        events.remove([lost])
        #expect(events.isEmpty)
    }

    @Test("Under a secret that lacks a salt a body goes, and the leaf stays")
    func movedSalts() throws {
        let chat = ConversationID.random()
        let whole = PuncturedSeeds(root: Hash256(bytes: [UInt8](repeating: 7, count: 32))!)
        var punctured = whole
        punctured.forget(1)
        let events = (1...3 as ClosedRange<Seq>).map { seq in
            RecordedEvent(
                log: .conversation(chat), seq: seq, position: seq, origin: Origin(replica: ReplicaID(high: 1, low: 1), counter: seq, hlc: HLC(rawValue: seq)),
                hlc: HLC(rawValue: seq), event: message("\(seq)", in: chat, by: ada), targetSeq: nil)
        }
        #expect(Salts.hasAll(of: events, whole) && !Salts.hasAll(of: events, punctured))
        let moved = try Salts.move(events, from: whole, to: punctured)
        #expect(moved.map(\.isErased) == [false, true, false])
        let roots = try [HeadCache.extend(CompactRange(), with: events, seeds: whole), HeadCache.extend(CompactRange(), with: moved, seeds: punctured)]
            .map { $0.root() }
        #expect(roots[0] == roots[1])
    }

    @Test("A state that a hub made after an erasure is not held against it by who has the body")
    func baseAfterErasure() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            _ = try await world.hubStore.append(title("to be erased", of: chat, by: ada))
            let long = String(repeating: "words ", count: 4000)
            for index in 0..<100 {
                try await world.hubStore.send("\(index) \(long)", to: chat, from: ada)
                // Else a flush that comes of itself could make one run of all, which goes as it lies: what is filled is to come in parts.
                if index == 39 || index == 99 { try world.hubStore.log.flush() }
            }
            var device = try world.device(bob)
            device = try await world.heal(device, scope: .newest(conversations: 5, messages: 10))
            try await fillSome(of: chat, device, world)
            let held = try device.store.log.lastSeq(of: .conversation(chat))
            #expect(held > 2 && held < 90)
            #expect(device.holes.map(\.seqs) == [held + 1...92])
            try world.hubStore.log.erase(log: .conversation(chat), seq: 2)
            device = try await world.heal(device, scope: .newest(conversations: 5, messages: 11))
            device = try await world.heal(device)
            try expectSame(world, device, chat)
        }
    }

    /// Fills a hole, until the line breaks.
    private func fillSome(of chat: ConversationID, _ device: Replica, _ world: World) async throws {
        let replica = Monitor<ReplicaConnection?>(nil)
        let isCut = Monitor(false)
        let hub = world.hub.connect(
            send: { message in
                if case .segment(let segment)? = try? Frame(decoding: message), let last = try? SegmentCodec.decode(segment.run).last, last.seq > 60 {
                    isCut.withLock { $0 = true }
                }
                if isCut.withLock({ $0 }) { return }
                replica.withLock { $0 }?.receive(message)
            }, close: { _ in })
        let isConnected = Monitor(false)
        let connection = device.connect(
            token: "", scope: .newest(conversations: 5, messages: 10), send: { hub.receive($0) }, close: { _ in }
        ) { event in
            if case .connected = event { isConnected.withLock { $0 = true } }
        }
        replica.withLock { $0 = connection }
        connection.start()
        try await eventually { isConnected.withLock { $0 } }
        connection.fill(.conversation(chat))
        try await eventually { try device.store.log.lastSeq(of: .conversation(chat)) > 2 }
        connection.disconnected()
        hub.disconnected()
    }
}
