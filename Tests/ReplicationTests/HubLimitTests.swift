import ConversationStore
import Testing

@testable import Replication

/// What one peer may cost a hub.
@Suite struct HubLimitTests {
    /// An event whose envelope says the same in another order.
    private func unsorted(_ pushed: PushedEvent) -> [UInt8] {
        // The log is the first field, of 18 bytes.
        Array(pushed.envelope.dropFirst(18) + pushed.envelope.prefix(18))
    }

    @Test("an event that cannot be read is refused if it can be said whose it is; else the session ends") func unreadable() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let peer = try await RawPeer(world.hub, ada)
            let origin = Origin(replica: peer.replica, counter: 4, hlc: HLC(milliseconds: 5))
            let recorded = RecordedEvent(
                log: .conversation(chat), seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: message("x", in: chat, by: ada), targetSeq: nil)
            let (envelope, body) = EventCodec.encode(recorded)
            let sound = PushedEvent(envelope: envelope, body: body, isFirstSending: true)
            peer.send(.push([PushedEvent(envelope: unsorted(sound), body: body, isFirstSending: true)]))
            try await eventually { peer.answers > 0 }
            #expect(peer.refused == [Refused(log: .conversation(chat), replica: peer.replica, counter: 4, code: "malformed", detail: peer.refused[0].detail)])
            #expect(peer.bye == nil)
            peer.send(.push([sound, PushedEvent(envelope: [1, 2, 3], body: body, isFirstSending: true)]))
            try await eventually { peer.bye != nil }
            #expect(peer.bye?.code == .protocolError && peer.answers == 1)
            #expect(try world.hubStore.log.lastSeq(of: .conversation(chat)) == 1)
        }
    }

    @Test("names and heads that a peer makes up are not remembered") func madeUp() async throws {
        try await withWorld { world in
            _ = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let peer = try await RawPeer(world.hub, ada) {
                $0.scope = .newest(conversations: 5, messages: 5)
                $0.credit = WireLimits.creditMin
                $0.cursor = Cursor(store: world.hub.store.log.id, incarnation: 0, position: 1)
            }
            let nothing = CompactRange().root()
            for number in 0..<50 as Range<UInt64> {
                let heads = (0..<100 as Range<UInt64>).map {
                    HeadsFrame.Item(log: .conversation(ConversationID(high: number, low: $0)), head: LogHead(size: 0, root: nothing))
                }
                peer.send(.heads(HeadsFrame(heads: heads, isProbe: false, isLast: number % 2 == 1)))
            }
            peer.send(.ping(77))
            try await eventually { peer.frames.contains(.pong(77)) }
            #expect(await peer.footprint() < 20)
            peer.end()
        }
    }

    @Test("who has named a log that is not there is sent nothing of that log, and all of others") func denied() async throws {
        try await withWorld { world in
            let unknown = ConversationID.random()
            let peer = try await RawPeer(world.hub, ada)
            let head = HeadsFrame.Item(log: .conversation(unknown), head: LogHead(size: 1, root: CompactRange().root()))
            peer.send(.heads(HeadsFrame(heads: [head], isProbe: true)))
            try await eventually { peer.frames.contains { if case .heads = $0 { true } else { false } } }
            func logs() -> Set<LogID> {
                Set(peer.frames.flatMap { frame -> [LogID] in if case .events(let events) = frame.asEvents { events.logs.map(\.log) } else { [] } })
            }
            try await world.hubStore.append(
                [Submission(Event(conversation: unknown, author: bob, content: .conversationCreated(kind: .group, title: nil, participants: [ada])))])
            let other = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            try await eventually { logs().contains(.conversation(other)) }
            #expect(!logs().contains(.conversation(unknown)))
            peer.end()
            // In a session of its own it gets both.
            let again = try await RawPeer(world.hub, ada)
            #expect(again.frames.contains { if case .segment = $0 { true } else if case .events(let events) = $0 { events.items.count == 2 } else { false } })
            again.end()
        }
    }

    @Test("what a peer has a hub read beyond its allowance waits, and is answered in the end") func allowance() {
        func isLeft(_ allowance: WorkAllowance, at now: Instant) -> Bool {
            var allowance = allowance
            return allowance.isLeft(at: now)
        }
        var allowance = WorkAllowance(at: 0)
        #expect(isLeft(allowance, at: 0))
        allowance.spend(Effort(events: WorkAllowance.eventsMax + WorkAllowance.eventsPerSecond))
        #expect(!isLeft(allowance, at: 0) && !isLeft(allowance, at: 1000) && isLeft(allowance, at: 1001))
        allowance.spend(Effort(events: .max))
        #expect(!isLeft(allowance, at: 20_000) && isLeft(allowance, at: 20_001))
        // A pause of whatever length gives no more than the most.
        var rested = WorkAllowance(at: 0)
        _ = rested.isLeft(at: 3_600_000)
        rested.spend(Effort(events: WorkAllowance.eventsMax))
        #expect(!isLeft(rested, at: 3_600_000))
    }

    @Test("who has used up the allowance is answered later, in order; PONG tells that all before it is answered") func waits() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            // Its allowance grows from here on.
            let begin = ContinuousClock.now
            let peer = try await RawPeer(world.hub, ada)
            peer.overspend(WorkAllowance.eventsPerSecond * 6)
            let probe = HeadsFrame.Item(log: .conversation(chat), head: LogHead(size: 1, root: CompactRange().root()))
            peer.forget()
            peer.send(.heads(HeadsFrame(heads: [probe], isProbe: true)))
            peer.send(.ping(5))
            // Another peer of the same hub does not wait, nor does what this one is sent.
            let other = try await RawPeer(world.hub, bob)
            other.send(.ping(6))
            try await eventually { other.frames.contains(.pong(6)) }
            // What the session began with may come still.
            func answers() -> [String] { peer.frames.map(\.name).filter { ["HEADS", "PONG"].contains($0) } }
            let isEarly = answers().isEmpty
            // On a machine that stood still for so long it is no longer early.
            #expect(isEarly || ContinuousClock.now - begin > .seconds(5))
            try await eventually {
                world.hub.tick()
                return peer.frames.contains(.pong(5))
            }
            #expect(answers() == ["HEADS", "PONG"])
            peer.end()
            other.end()
        }
    }

    @Test("states that were made once are not made again, but after an erasure") func bases() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<30 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            let cache = BaseCache(store: world.hubStore)
            var effort = Effort()
            let base = try #require(try cache.base(of: chat, at: 20, &effort))
            #expect(effort.events == 20)
            #expect(try cache.base(of: chat, at: 20, &effort) == base && world.hubStore.encodedBase(of: chat, at: 20) == base)
            #expect(effort.events == 20)
            #expect(try cache.base(of: chat, at: 31, &effort) != nil && cache.base(of: chat, at: 32, &effort) == nil)
            #expect(effort.events == 52)
            try world.hubStore.log.erase(log: .conversation(chat), seq: 20)
            let erased = try #require(try cache.base(of: chat, at: 20, &effort))
            #expect(effort.events == 72 && erased != base)
        }
    }

    @Test("Small messages that a peer asks for have the same run read again and again: its allowance pays for that", arguments: [false, true])
    func smallMessages(_ areSmall: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for _ in 0..<5 { _ = try await world.hubStore.append((0..<100).map { Submission(message(noise(100 + $0), in: chat, by: bob)) }) }
            try world.hubStore.log.flush()
            let clock = Monitor<UInt64>(1_000_000)
            var options = HubOptions.anyUser()
            options.execution.now = { Instant(wallMilliseconds: clock.withLock { $0 }, monotonicMilliseconds: clock.withLock { $0 }) }
            let hub = try Hub(store: world.hubStore, options: options)
            let peer = try await RawPeer(hub, ada) { if areSmall { $0.messageBytes = 1 } }
            let all = peer.frames
            #expect(all.allSatisfy { !areSmall || $0.recorded.count < 50 })
            peer.forget()
            peer.spendAllBut(1)
            peer.send(.fetch([Fetch(log: .conversation(chat), from: 1, through: 0)]))
            peer.send(.ping(1))
            func sent() -> [Seq] { peer.frames.flatMap(\.recorded).map(\.seq) }
            func isCaughtUp() -> Bool { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            // What it takes to find the log is spent first.
            try await eventually { areSmall ? peer.frames.contains(.pong(1)) : isCaughtUp() }
            #expect(areSmall ? sent().isEmpty : sent() == Array(1...501))
            if !areSmall { return }
            clock.withLock { $0 += 1 }
            hub.tick()
            try await eventually { !sent().isEmpty }
            // One message of what a millisecond gives back.
            let first = sent().count
            #expect(1..<50 ~= first && !isCaughtUp())
            for _ in 0..<10 where !isCaughtUp() {
                clock.withLock { $0 += 1000 }
                hub.tick()
                try await Task.sleep(for: .milliseconds(50))
            }
            try await eventually { isCaughtUp() }
            #expect(sent() == Array(1...501))
            // Over a line that has carried much they are large again.
            peer.forget()
            peer.send(.credit(4 << 20))
            peer.send(.fetch([Fetch(log: .conversation(chat), from: 1, through: 0)]))
            try await eventually { isCaughtUp() }
            #expect(sent() == Array(1...501) && peer.frames.contains { $0.eventCount > 90 })
        }
    }
}
