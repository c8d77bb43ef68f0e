import ConversationStore
import Testing

@testable import Replication

/// What takes a hub long for one peer does not hold up others.
@Suite struct TurnsTests {
    /// Threads that do not begin before they are told to.
    private final class HeldThreads: Sendable {
        private let held = Monitor<[@Sendable () -> Void]>([])

        var count: Int { held.withLock { $0.count } }
        func hold(_ options: inout HubOptions) {
            options.execution.longAtOnce = 1
            options.execution.runLong = { [held] body in held.withLock { $0.append(body) } }
            // On a busy machine anything may take so long that the rest goes in a turn.
            let now = options.execution.now()
            options.execution.now = { now }
        }
        /// How many began.
        func letGo() -> Int {
            let bodies = held.withLock { held in
                defer { held = [] }
                return held
            }
            for body in bodies { body() }
            return bodies.count
        }
    }

    private func isCaughtUp(_ peer: RawPeer) -> Bool { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }

    @Test("who lacks much is sent some at once, and the rest in turns; others are sent what they lack meanwhile, and told of what happens")
    func feeding() async throws {
        let threads = HeldThreads()
        try await withWorld(threads.hold) { world in
            let long = try await world.hubStore.createConversation(.group, author: ada, participants: [])
            // A frame each, and more of them than go at once.
            let text = String(repeating: "a", count: EventLimits.textBytesMax)
            for _ in 0..<14 { _ = try await world.hubStore.append(message(text, in: long, by: ada)) }
            let short = try await world.hubStore.createConversation(.group, author: bob, participants: [eve])
            let one = try await RawPeer(world.hub, ada) {
                $0.scope = .conversations([long])
                $0.credit = 16 << 20
            }
            try await eventually { threads.count == 1 }
            #expect(!isCaughtUp(one))
            // It waits until this is caught up.
            let other = try await RawPeer(world.hub, bob)
            other.forget()
            _ = try await world.hubStore.append(message("live", in: short, by: eve))
            try await eventually { isCaughtUp(other) }
            #expect(!isCaughtUp(one) && threads.count == 1)
            try await eventually {
                _ = threads.letGo()
                return isCaughtUp(one)
            }
            one.end()
            other.end()
        }
    }

    @Test("events that a peer's transport does not take wait until it does, and for them nobody else", arguments: [true, false])
    func clogged(_ isTold: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let slow = try await RawPeer(world.hub, bob) { $0.scope = .conversations([chat]) }
            let other = try await RawPeer(world.hub, ada) { $0.scope = .conversations([chat]) }
            for peer in [slow, other] {
                try await eventually { isCaughtUp(peer) }
                peer.forget()
            }
            // What is committed while the one before it is sent may come with that, and once more when it is told of.
            func events(_ peer: RawPeer) -> Int {
                var seen: Set<[UInt8]> = []
                for case .events(let events) in peer.frames { seen.formUnion(events.items.map(\.envelope)) }
                return seen.count
            }
            slow.takesMore.withLock { $0 = false }
            for number in 0..<3 { _ = try await world.hubStore.append(message("\(number)", in: chat, by: ada)) }
            try await eventually { events(other) == 3 && isCaughtUp(other) }
            slow.send(.ping(7))
            world.hub.tick()
            try await eventually { slow.frames.contains(.pong(7)) }
            #expect(slow.frames == [.pong(7)])
            slow.takesMore.withLock { $0 = true }
            if isTold { slow.drained() }
            try await eventually {
                // It looks each second: what it saw in between it may be noting only now.
                if !isTold { world.hub.tick() }
                return isCaughtUp(slow)
            }
            #expect(events(slow) == 3)
            slow.end()
            other.end()
        }
    }

    @Test("what has come since a page was asked for is on it, and is not sent behind it once more") func page() async throws {
        let threads = HeldThreads()
        try await withWorld(threads.hold) { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for number in 0..<10 { _ = try await world.hubStore.append(message("\(number)", in: chat, by: ada)) }
            let peer = try await RawPeer(world.hub, bob) { $0.scope = .newest(conversations: 1, messages: 3) }
            _ = try await world.hubStore.append(message("live", in: chat, by: ada))
            try await eventually { threads.count == 1 }
            #expect(!isCaughtUp(peer))
            try await eventually {
                _ = threads.letGo()
                return isCaughtUp(peer)
            }
            let seqs = try peer.frames.flatMap { frame -> [Seq] in
                guard case .events(let events) = frame else { return [] }
                return try events.items.map { try EventCodec.decode(envelope: $0.envelope, body: $0.body).seq }
            }
            #expect(seqs == [10, 11, 12])
            peer.end()
        }
    }

    @Test("heads are hashed in a turn, and what is asked behind them waits; others do not") func comparing() async throws {
        let threads = HeldThreads()
        try await withWorld(threads.hold) { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let (one, other) = (try await RawPeer(world.hub, ada), try await RawPeer(world.hub, bob))
            let head = HeadsFrame.Item(log: .conversation(chat), head: LogHead(size: 1, root: CompactRange().root()))
            one.send(.heads(HeadsFrame(heads: [head], isProbe: true)))
            one.send(.ping(1))
            other.send(.ping(2))
            try await eventually { other.frames.contains(.pong(2)) && threads.count == 1 }
            #expect(!one.frames.contains(.pong(1)))
            #expect(threads.letGo() == 1)
            try await eventually { one.frames.contains(.pong(1)) }
            #expect(one.frames.contains { if case .heads = $0 { true } else { false } })
            one.end()
            other.end()
        }
    }

    @Test("who has had fewer turns goes first, for some turns, and else who asked first; so many at once as there are threads") func order() {
        let held = Monitor<[@Sendable () -> Void]>([])
        var execution = Execution.tasks
        execution.longAtOnce = 2
        execution.runLong = { body in held.withLock { $0.append(body) } }
        let turns = Turns(execution)
        let taken = Monitor<[String]>([])
        @Sendable func ask(_ name: String, after count: Int, again: Int = 0) {
            turns.take(after: count) {
                taken.withLock { $0.append(name) }
                if again > 0 { ask(name, after: count + 1, again: again - 1) }
            }
        }
        ask("many", after: Turns.rankMax + 5, again: 1)
        ask("a", after: 0, again: 2)
        ask("b", after: 0, again: 1)
        ask("as many", after: Turns.rankMax)
        ask("c", after: 1)
        let bodies = held.withLock { $0 }
        #expect(bodies.count == 2)
        for body in bodies { body() }
        #expect(taken.withLock { $0 } == ["a", "b", "c", "a", "b", "a", "many", "as many", "many"])
        // Its threads have ended.
        ask("d", after: 0)
        #expect(held.withLock { $0.count } == 3)
    }
}
