import ConversationStore
import Testing

@testable import Replication

/// Newest parts that the hub shows anew, and those that were shown before.
@Suite struct JoiningTests {
    private let newest = Scope.newest(conversations: 5, messages: 10)

    private func begin(_ world: World) async throws -> ConversationID {
        let chat = try await world.hubStore.createConversation(.group, title: "Long", author: ada, participants: [bob])
        for index in 0..<100 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
        return chat
    }

    private func shown(_ device: Replica, _ chat: ConversationID) throws -> [String] {
        try #require(try device.store.timeline(of: chat, limit: 3000)).messages.map(\.text)
    }

    @Test("What was erased that a restored hub has lost takes nothing of what the hub has instead", arguments: [5, 60]) func erased(_ since: Int) async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            try world.backUpHub()
            for index in 0..<4 { try await world.hubStore.send("lost \(index)", to: chat, from: ada) }
            try world.hubStore.log.erase(log: .conversation(chat), seq: 103)
            var device = try await world.heal(world.device(bob), scope: newest)
            try world.restoreHub()
            for index in 0..<since { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device, scope: newest)
            #expect(try shown(device, chat) == (94..<100).map { "message \($0)" } + (0..<since).map { "new \($0)" })
            device = try await world.heal(device)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            #expect(try device.store.isFold())
        }
    }

    @Test("What a state told of an erased body that a restored hub has again is not held against it") func erasedBelow() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            try world.backUpHub()
            try world.hubStore.log.erase(log: .conversation(chat), seq: 91)
            // The state ends with that message.
            var device = try await world.heal(world.device(bob), scope: newest)
            try world.restoreHub()
            for index in 0..<20 { try await world.hubStore.send("new \(index)", to: chat, from: ada) }
            device = try await world.heal(device, scope: newest)
            #expect(try shown(device, chat) == (90..<100).map { "message \($0)" } + (0..<20).map { "new \($0)" })
            device = try await world.heal(device)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            #expect(try device.store.timeline(of: chat, limit: 300) == world.hubStore.timeline(of: chat, limit: 300))
        }
    }

    /// What a hub sends to who asks for the newest messages, and for some seqs.
    private func frames(_ world: World, _ chat: ConversationID, page: UInt64, between: ClosedRange<Seq>?) async throws -> [Frame] {
        let peer = try await RawPeer(world.hub, bob) { $0.scope = .newest(conversations: 0, messages: 1) }
        peer.forget()
        peer.send(.fetch([Fetch(log: .conversation(chat), from: 0, through: page)]))
        func isThere(_ seq: Seq) -> Bool {
            peer.frames.contains { frame in
                guard case .events(let events) = frame.asEvents else { return false }
                return events.items.contains { (try? EventCodec.decode(envelope: $0.envelope, body: $0.body))?.seq == seq }
            }
        }
        let last = try world.hubStore.log.lastSeq(of: .conversation(chat))
        try await eventually { isThere(last) }
        if let between {
            peer.send(.fetch([Fetch(log: .conversation(chat), from: between.lowerBound, through: between.upperBound)]))
            try await eventually { isThere(between.upperBound) }
        }
        peer.end()
        return peer.frames
    }

    @Test("A part that comes once more in a session, and begins behind what is shown by then, is asked for from there, once") func comesAgain() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            let device = try await world.heal(world.device(bob), scope: newest)
            for index in 100..<150 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            // Events 102 to 151, of which the page has the last three.
            var bridges: [Fetch] = []
            func keep(_ frame: Frame) throws {
                bridges += try device.keep(frame).bridges.map(\.wish)
            }
            let frames = try await frames(world, chat, page: 3, between: 102...148)
            for frame in frames {
                switch frame.asEvents {
                case .base: try keep(frame)
                case .events(let events):
                    // In small messages.
                    for item in events.items {
                        let seq = try EventCodec.decode(envelope: item.envelope, body: item.body).seq
                        try keep(.events(EventsFrame(items: [item], logs: events.logs.filter { $0.head?.size == seq })))
                    }
                default: break
                }
                #expect(try shown(device, chat).prefix(10).elementsEqual((90..<100).map { "message \($0)" }))
            }
            #expect(bridges == [Fetch(log: .conversation(chat), from: 102, through: 148)])
            #expect(try shown(device, chat) == (90..<150).map { "message \($0)" })
            // And so the next process finds it.
            let path = device.store.log.path
            try device.close()
            #expect(try shown(world.open(path, bob), chat) == (90..<150).map { "message \($0)" })
        }
    }

    @Test("What came of the events between is there when the line breaks: it does not come again") func breaksOff() async throws {
        try await withWorld { world in
            let chat = try await begin(world)
            var device = try await world.heal(world.device(bob), scope: newest)
            for index in 100..<150 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            let frames = try await frames(world, chat, page: 3, between: 102...140)
            for frame in frames { _ = try device.keep(frame) }
            #expect(try shown(device, chat) == (90..<139).map { "message \($0)" })
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, bob)
            #expect(try shown(device, chat) == (90..<139).map { "message \($0)" })
            device = try await world.heal(device, scope: .newest(conversations: 5, messages: 3))
            #expect(try shown(device, chat) == (90..<150).map { "message \($0)" })
            device = try await world.heal(device)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }
}
