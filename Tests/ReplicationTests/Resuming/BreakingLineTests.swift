import ConversationStore
import Testing

@testable import Replication

/// Lines that break before a large message is through.
@Suite struct BreakingLineTests {
    /// Until all is held and sent, over lines that no message of so many bytes gets through, in either direction.
    ///
    /// - Returns: how many sessions it took.
    private func sync(_ world: World, _ device: inout Replica, _ user: UserID, over bytesMax: Int) async throws -> Int {
        for round in 1...60 {
            let record = try await Line(
                world.hub, device, isLost: { _, frame in frame.encoded().count > bytesMax },
                isLostUp: { _, frame in frame.encoded().count > bytesMax }
            ).run()
            if let failure = record.failure { Issue.record("\(failure)") }
            if record.isSettled { return round }
            // Each is a process of its own.
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, user)
        }
        Issue.record("it does not come to its end")
        return 0
    }

    /// What cannot be compressed to much less.
    private func noise(_ count: Int) -> String { String(decoding: (0..<count).map { _ in UInt8.random(in: 33...126) }, as: UTF8.self) }

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

    @Test("One session that ends early, or one that brought something, does not make messages small") func once() async throws {
        try await withWorld { world in
            let talks = try await Talks(world, count: 20, rounds: 3)
            let device = try world.device(bob)
            func session(_ isLost: @escaping @Sendable (Line.Record, Frame) -> Bool) async throws -> UInt64? {
                try await Line(world.hub, device, isLost: isLost).run().hello?.messageBytes
            }
            let early: @Sendable (Line.Record, Frame) -> Bool = { record, frame in record.down.count > 0 && frame.hasEvents }
            #expect(try await session(early) == 0)
            #expect(try await session { record, _ in record.eventsSent > 0 } == 0)
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
