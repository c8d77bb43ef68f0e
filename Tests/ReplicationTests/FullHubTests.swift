import ConversationStore
import EventLog
import StoreTesting
import Testing

@testable import Replication

/// A hub whose disk is full.
@Suite("A hub's full disk") struct FullHubTests {
    @Test("A message that there is no room for waits; those of other conversations go on, and its own follow it in order", .timeLimit(.minutes(20)))
    func others() async throws {
        try await withWorld { world in
            let disk = FullDisk(world.directory + "/hub")
            defer { disk.remove() }
            var chats: [ConversationID] = []
            for _ in 0..<4 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
            let (device, other) = (try world.device(ada), try world.device(bob))
            for device in [device, other] { try await world.sync(device) }
            // As large as a text may be: the journal's file, which has what it grows by at once, has no room for it.
            let large = String(repeating: "x", count: 1 << 20)
            _ = try device.append([message(large, in: chats[0], by: ada), message("behind", in: chats[0], by: ada), message("small", in: chats[1], by: ada)])
            disk.set(isFull: true)
            let session = world.follow(device), listening = world.follow(other)
            func texts(_ store: ConversationStore, _ chat: ConversationID) throws -> [Int] {
                try store.timeline(of: chat)?.messages.filter { $0.state == .complete }.map { $0.text.utf8.count } ?? []
            }
            try await eventually { try texts(world.hubStore, chats[1]) == [5] && texts(other.store, chats[1]) == [5] }
            #expect(!world.hub.statistics.isWritable || world.hubStore.log.writeFailures > 0)
            // The session goes on, both ways.
            _ = try device.append([message("later", in: chats[2], by: ada), message("last", in: chats[0], by: ada)])
            session.connection.outboxChanged()
            try await eventually { try texts(world.hubStore, chats[2]) == [5] }
            _ = try await world.hubStore.append(message("from bob", in: chats[3], by: bob))
            try await eventually { try texts(device.store, chats[3]) == [8] }
            #expect(session.end == nil && device.outbox.count == 3)
            #expect(try texts(world.hubStore, chats[0]) == [])
            session.connection.end()
            listening.connection.end()
            try await eventually { session.end != nil && listening.end != nil }
            disk.set(isFull: false)
            try await world.sync(device)
            #expect(try texts(world.hubStore, chats[0]) == [1 << 20, 6, 4] && device.outbox.isEmpty)
        }
    }

    /// A hub that goes by a clock of the test's, in milliseconds.
    private static func hub(of world: World, _ clock: Monitor<UInt64>, _ change: (inout HubOptions) -> Void = { _ in }) throws -> Hub {
        var options = HubOptions.anyUser()
        options.execution.now = { Instant(wallMilliseconds: clock.withLock { $0 }, monotonicMilliseconds: clock.withLock { $0 }) }
        change(&options)
        return try Hub(store: world.hubStore, options: options)
    }

    @Test("A session in which something had no room ends after a while, so that it is sent again; the error is told once, and that it is over")
    func telling() async throws {
        let words = Monitor<[String]>([])
        try await withWorld { world in
            let disk = FullDisk(world.directory + "/hub")
            defer { disk.remove() }
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let clock = Monitor<UInt64>(1_000_000)
            let hub = try Self.hub(of: world, clock) { options in
                // A device that comes to answer late on a busy machine is not taken for silent by this clock.
                options.limits.silenceMilliseconds = 3_600_000
                options.log = { text in words.withLock { $0.append("error: " + text) } }
                options.notice = { text in words.withLock { $0.append("notice: " + text) } }
            }
            let device = try world.device(ada)
            try await world.sync(device)
            disk.set(isFull: true)
            _ = try device.append(message(String(repeating: "x", count: 1 << 20), in: chat, by: ada))
            let small = try await world.hubStore.createConversation(.group, author: bob)
            for _ in 0..<2 {
                let end = Monitor<Bye?>(nil)
                let failures = world.hubStore.log.writeFailures
                let connection = InProcess.connect(device, to: hub) { if case .ended(let bye) = $0 { end.withLock { $0 = bye } } }
                try await eventually { world.hubStore.log.writeFailures > failures && hub.waiting != nil }
                // What is stored meanwhile does not say that there is room for what waits.
                _ = try await world.hubStore.send("small", to: small, from: bob)
                for _ in 0..<6 {
                    clock.withLock { $0 += 9_900 }
                    hub.tick()
                    #expect(!hub.statistics.isWritable)
                    try await Task.sleep(for: .milliseconds(50))
                }
                #expect(end.withLock { $0 } == nil)
                clock.withLock { $0 += 2000 }
                // The hub may have noticed later than this test did.
                try await eventually {
                    clock.withLock { $0 += 20 }
                    hub.tick()
                    return end.withLock { $0 } != nil
                }
                #expect(end.withLock { $0 }?.code == .storeFull)
                connection.disconnected()
            }
            #expect(words.withLock { $0.count } == 1)
            #expect(words.withLock { $0.first?.hasPrefix("error: ") ?? false && $0[0].contains(world.directory + "/hub") && $0[0].contains("free some space") })
            // Nobody writes now; that there is room is noticed all the same.
            disk.set(isFull: false)
            clock.withLock { $0 += 10_000 }
            hub.tick()
            hub.tick()
            #expect(words.withLock { $0.count } == 2 && words.withLock { $0[1].hasPrefix("notice: ") })
            #expect(hub.statistics.isWritable)
        }
    }

    @Test("What had no room keeps a hub from being ready until it is stored, or its device has not sent it for three minutes", arguments: [false, true])
    func waiting(isGivenUp: Bool) async throws {
        try await withWorld { world in
            let disk = FullDisk(world.directory + "/hub")
            defer { disk.remove() }
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let clock = Monitor<UInt64>(1_000_000)
            let hub = try Self.hub(of: world, clock)
            let device = try world.device(ada)
            try await world.sync(device)
            disk.set(isFull: true)
            _ = try device.append(message(String(repeating: "x", count: 1 << 20), in: chat, by: ada))
            let connection = InProcess.connect(device, to: hub) { _ in }
            try await eventually { hub.waiting != nil }
            _ = try await world.hubStore.send("small", to: chat, from: bob)
            connection.disconnected()
            clock.withLock { $0 += 170_000 }
            hub.tick()
            #expect(!hub.statistics.isWritable)
            if isGivenUp {
                clock.withLock { $0 += 11_000 }
                hub.tick()
            } else {
                // No look in between: what is stored waits no more.
                disk.set(isFull: false)
                let again = InProcess.connect(device, to: hub) { _ in }
                // The device may be shown the event before the hub has taken note that it was stored.
                try await eventually { device.outbox.isEmpty && hub.statistics.isWritable }
                again.disconnected()
            }
            #expect(hub.statistics.isWritable)
        }
    }
}
