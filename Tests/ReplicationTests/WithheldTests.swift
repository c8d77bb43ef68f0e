import ConversationStore
import Testing

@testable import Replication

/// A hub that says that it has recorded an event, and never sends it.
@Suite struct WithheldTests {
    @Test("is left after half a minute, and blamed for nothing; the event stays in the outbox") func isLeft() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let clock = Monitor(Instant.now)
            var options = ReplicaOptions()
            options.execution.now = { clock.withLock { $0 } }
            (options.limits.pingAfterMilliseconds, options.limits.silenceMilliseconds) = (.max, .max)
            let device = try Replica.open(at: world.directory + "/withheld", user: bob, options: options)
            try await world.sync(device)
            try device.append(message("mine", in: chat, by: bob))
            let told = Monitor<Position>(0)
            let liar = Between(world.hub, device) { frame in
                if case .caughtUp(let end) = frame { told.withLock { $0 = end.cursor.position } }
                guard case .events(let events) = frame.asEvents else { return frame }
                return events.items.contains { (try? EventCodec.decode(envelope: $0.envelope, body: $0.body))?.event.author == bob } ? nil : frame
            }
            try await eventually { device.outbox.first?.accepted != nil && told.withLock { $0 } == world.hubStore.log.lastPosition }
            for _ in 0..<2 {
                liar.tick()
                #expect(!liar.hasEnded)
                clock.withLock { $0.monotonicMilliseconds += 14_000 }
            }
            try await eventually {
                clock.withLock { $0.monotonicMilliseconds += 1000 }
                liar.tick()
                return liar.hasEnded
            }
            #expect(liar.failure == nil && !liar.isSettled && device.outbox.count == 1)
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            try device.close()
        }
    }

    @Test("What is older than a newest part, and left out, is asked for once and stays a hole that is told of; the next session asks for it again")
    func older() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<100 { try await world.hubStore.append(message("\(index)", in: chat, by: ada)) }
            let device = try world.device(bob)
            let caughtUp = Monitor(0)
            let liar = Between(world.hub, device) { frame in
                switch frame {
                case .caughtUp: caughtUp.withLock { $0 += 1 }
                case .segment, .events: return nil
                default: break
                }
                return frame
            }
            try await eventually { liar.isSettled || liar.hasEnded }
            #expect(liar.failure == nil && caughtUp.withLock { $0 } >= 2, "it was asked")
            #expect(device.holes.map(\.log) == [.conversation(chat)] && device.holes(in: .conversations([])).isEmpty)
            liar.end()
            try await eventually { liar.hasEnded }
            try await world.sync(device)
            #expect(device.holes.isEmpty)
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }
}
