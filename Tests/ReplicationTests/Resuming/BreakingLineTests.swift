import ConversationStore
import Testing

@testable import Replication

/// Lines that break before a large message is through.
@Suite struct BreakingLineTests {
    /// Until all is held and sent, over lines that no message of so many bytes gets through, in either direction.
    ///
    /// - Returns: how many sessions it took.
    private func sync(
        _ world: World, _ device: inout Replica, _ user: UserID, _ scope: Scope = .mine, over bytesMax: Int, between: () async throws -> Void = {}
    ) async throws -> Int {
        for round in 1...60 {
            let record = try await Line(
                world.hub, device, scope, isLost: { _, frame in frame.encoded().count > bytesMax },
                isLostUp: { _, frame in frame.encoded().count > bytesMax }
            ).run()
            if let failure = record.failure { Issue.record("\(failure)") }
            if record.isSettled { return round }
            // Each is a process of its own.
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, user)
            try await between()
        }
        Issue.record("it does not come to its end")
        return 0
    }

    @Test("All comes all the same, whether the hub's runs could go as they lie or not", .timeLimit(.minutes(20)), arguments: [false, true])
    func down(_ others: Bool) async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 20, rounds: 1, others: others)
            for _ in 0..<3 {
                for _ in 0..<10 { _ = try await world.hubStore.append(talks.ids.map { Submission(message(noise(1500), in: $0, by: ada)) }) }
                try world.hubStore.log.flush()
            }
            // What is not in the archive yet.
            for _ in 0..<10 { _ = try await world.hubStore.append(talks.ids.map { Submission(message(noise(1500), in: $0, by: ada)) }) }
            var device = try world.device(bob)
            let rounds = try await sync(world, &device, bob, over: 100_000)
            // The first screen, and what it takes to see that the line breaks; then all at once.
            #expect(rounds <= 7)
            try expectSame(device, world)
            // A line that holds is used as such again.
            let whole = try await Line(world.hub, device).run()
            #expect(whole.hello?.messageBytes == 0)
        }
    }

    @Test("So does a history that begins with a joining, and what is written meanwhile", .timeLimit(.minutes(20)), arguments: [false, true])
    func joined(_ isWritten: Bool) async throws {
        try await withWorld({ $0.progressBytes = 1 }) { world in
            let talks = try await Talks(world, count: 3, rounds: 1)
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            let id = ConversationID.random()
            let changes: [Event.Content] = [.conversationUpdated(title: nil, attributes: [attribute]), .participantJoined(bob)]
            _ = try await world.hubStore.append(
                [Submission(Talks.creation(id, [eve]))] + changes.map { Submission(Event(conversation: id, author: ada, content: $0)) })
            // A part of the lot is told, and what is written meanwhile goes before the rest of it.
            try world.hubStore.log.flush()
            let texts = (0..<400).map { _ in noise(1500) }
            _ = try await world.hubStore.append(texts.map { Submission(message($0, in: id, by: ada)) })
            try world.hubStore.log.flush()
            var device = try world.device(bob)
            // Of what comes in small messages the line carries a part.
            let rounds = try await sync(world, &device, bob, over: 60_000) { if isWritten { try await talks.write(world, "meanwhile", to: talks.ids) } }
            #expect(rounds <= 7)
            #expect(try device.store.timeline(of: id, limit: 500)?.messages.map(\.text) == texts)
        }
    }

    @Test("A line that carries some small messages at a time carries all in the end", .timeLimit(.minutes(20))) func some() async throws {
        try await withWorld { world in
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            var ids: [ConversationID] = []
            for _ in 0..<2 {
                let id = ConversationID.random()
                ids.append(id)
                let changes: [Event.Content] = [.conversationUpdated(title: nil, attributes: [attribute]), .participantJoined(bob)]
                _ = try await world.hubStore.append(
                    [Submission(Talks.creation(id, id == ids[0] ? [eve] : [bob]))]
                        + changes.prefix(id == ids[0] ? 2 : 0).map { Submission(Event(conversation: id, author: ada, content: $0)) })
            }
            for _ in 0..<150 { _ = try await world.hubStore.append(ids.map { Submission(message(noise(1500), in: $0, by: ada)) }) }
            try world.hubStore.log.flush()
            for _ in 0..<150 { _ = try await world.hubStore.append(ids.map { Submission(message(noise(1500), in: $0, by: ada)) }) }
            var device = try world.device(bob)
            var sent = 0
            var rounds = 0
            var isSettled = false
            while !isSettled, rounds < 60 {
                rounds += 1
                let record = try await Line(world.hub, device) { record, frame in record.bytesDown + frame.encoded().count > 120_000 }.run()
                if let failure = record.failure { Issue.record("\(failure)") }
                sent += record.eventsSent
                isSettled = record.isSettled
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, bob)
            }
            // 900 KB of what cannot be compressed to less than five sixths.
            #expect(isSettled && rounds <= 20)
            #expect(sent <= 800)
            for id in ids { #expect(try device.store.timeline(of: id, limit: 500)?.messages.count == 300) }
        }
    }

    @Test("Pages that are asked for are cut, too", .timeLimit(.minutes(20))) func pages() async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 3, rounds: 1)
            for _ in 0..<100 { _ = try await world.hubStore.append(talks.ids.map { Submission(message(noise(1500), in: $0, by: ada)) }) }
            var device = try world.device(bob)
            let rounds = try await sync(world, &device, bob, .newest(conversations: 3, messages: 80), over: 60_000)
            #expect(rounds <= 7)
            for id in talks.ids { #expect(try device.store.timeline(of: id, limit: 500)?.messages.count == 80) }
        }
    }

    @Test("A cursor holds though a line breaks between two messages of a newest part", .timeLimit(.minutes(20))) func parts() async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 3, rounds: 8)
            let device = try world.device(bob)
            let scope = Scope.newest(conversations: 3, messages: 5)
            #expect(try await Line(world.hub, device, scope).run().isSettled)
            for _ in 0..<100 { _ = try await world.hubStore.append(message(noise(1500), in: talks.ids[0], by: ada)) }
            let first = try await Line(
                world.hub, device, scope, isLost: { record, frame in frame.hasEvents && record.eventsSent > 20 }, hello: { $0.messageBytes = 16 << 10 }
            ).run()
            #expect(!first.isSettled && first.eventsSent < 100)
            let second = try await Line(world.hub, device, scope).run()
            #expect(second.isSettled && !second.isGone && second.eventsReceived == 100 - first.eventsReceived)
        }
    }

    @Test("Of what is cut the head comes with the last message alone", arguments: [false, true]) func heads(_ isArchived: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for _ in 0..<5 { _ = try await world.hubStore.append((0..<100).map { Submission(message(noise(100 + $0), in: chat, by: bob)) }) }
            if isArchived { try world.hubStore.log.flush() }
            let peer = try await RawPeer(world.hub, ada) { $0.messageBytes = 1 }
            let frames = peer.frames.filter(\.hasEvents)
            let haveHeads = frames.map { $0.names(.conversation(chat), size: $0.recorded.last!.seq) }
            #expect(haveHeads.count > 5 && haveHeads.firstIndex(of: true) == haveHeads.count - 1)
            peer.end()
        }
    }

    @Test("And all goes: what was written without a network", .timeLimit(.minutes(20))) func up() async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 4, rounds: 1)
            var device = try world.device(bob)
            try await world.sync(device)
            for _ in 0..<30 { for id in talks.ids { _ = try device.append(message(noise(5000), in: id, by: bob)) } }
            let rounds = try await sync(world, &device, bob, over: 60_000)
            #expect(rounds <= 6 && device.outbox.isEmpty)
            try expectSame(device, world)
        }
    }

    @Test("One session that ends early does not make messages small") func once() async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 20, rounds: 3)
            let device = try world.device(bob)
            func session(_ isLost: @escaping @Sendable (Line.Record, Frame) -> Bool) async throws -> UInt64? {
                try await Line(world.hub, device, isLost: isLost).run().hello?.messageBytes
            }
            let early: @Sendable (Line.Record, Frame) -> Bool = { record, frame in record.down.count > 0 && frame.hasEvents }
            #expect(try await session(early) == 0)
            #expect(try await session { _, _ in false } == 0)
            for _ in 0..<2 {
                try await talks.write(world, "more", to: talks.ids)
                #expect(try await session(early) == 0)
            }
            #expect(try await session(early) == 128 << 10)
            #expect(try await session(early) == 128 << 10)
            #expect(try await session(early) == 16 << 10)
            #expect(try await session { _, _ in false } == 16 << 10)
            #expect(try await session(early) == 0)
            try expectSame(device, world)
        }
    }
}
