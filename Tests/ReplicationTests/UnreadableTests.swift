import ConversationStore
import Foundation
import Testing

@testable import EventLog
@testable import Replication

extension World.Session {
    /// What the hub said that it cannot read.
    var unreadable: [LogID] { log.withLock { $0.flatMap { event -> [LogID] in if case .unreadable(let logs) = event { logs } else { [] } } } }
    /// Events that came.
    var received: Int { log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } } }
}

/// A hub of which bytes are damaged sends what it can read, and says what it cannot.
@Suite("A hub that cannot read all of its store") struct UnreadableTests {
    /// So many conversations, each in a run of its own.
    private func talked(in world: World, _ count: Int) async throws -> [ConversationID] {
        var chats: [ConversationID] = []
        for _ in 0..<count { try await chats.append(talk(in: world)) }
        return chats
    }

    private func talk(in world: World, _ chat: ConversationID? = nil) async throws -> ConversationID {
        let id = if let chat { chat } else { try await world.hubStore.createConversation(.group, author: bob, participants: [ada]) }
        _ = try await world.hubStore.append((0..<40).map { _ in Submission(message(noise(100), in: id, by: bob)) })
        try world.hubStore.log.flush()
        return id
    }

    /// Damages runs; done once more, it mends them.
    private func damage(_ world: World, _ runs: [Int], ofColumns: Bool = false) throws {
        try world.reopenHub(log: { _ in }) { path in
            for run in runs { _ = try EventStore.damageRun(at: path, number: run) { $0[ofColumns ? 100 : $0.count / 2] ^= 0x10 } }
        }
    }

    /// A session until it has settled, or ended.
    private func session(_ device: Replica, _ world: World, scope: Scope = .mine) async throws -> World.Session {
        let session = world.follow(device, scope: scope)
        try await eventually { session.isSettled || session.end != nil }
        #expect(session.end == nil, "\(String(describing: session.end))")
        return session
    }

    private func end(_ session: World.Session) async throws {
        session.connection.end()
        try await eventually { session.end != nil }
        session.connection = nil
    }

    private func heads(_ world: World) throws -> [Head] {
        var heads: [Head] = []
        try world.hubStore.log.forEachHead { head in
            heads.append(head)
            return true
        }
        return heads
    }

    private func expectEqual(_ device: Replica, _ world: World, but unread: Set<ConversationID> = []) throws {
        for head in try heads(world) {
            if case .conversation(let id) = head.log, unread.contains(id) { continue }
            if case .user(let user) = head.log, user != device.user { continue }
            #expect(try device.store.log.head(of: head.log) == head, "\(head.log)")
        }
    }

    @Test("A new device gets the rest, and what is missing when the hub can read it again", arguments: [false, true], [Scope.mine, .everything])
    func newDevice(ofColumns: Bool, _ scope: Scope) async throws {
        try await withWorld {
            $0.authenticate = HubOptions.anyUser(services: scope == .everything ? [ada] : []).authenticate
        } _: { world in
            let chats = try await talked(in: world, 6)
            try damage(world, [1, 4], ofColumns: ofColumns)
            let unread: Set = [chats[1], chats[4]]
            let device = try scope == .everything ? world.open(world.directory + "/copy", ada, isService: true) : world.device(ada)
            var session = try await session(device, world, scope: scope)
            #expect(Set(session.unreadable) == Set(unread.map { .conversation($0) }))
            try expectEqual(device, world, but: unread)
            // What happens meanwhile comes, as long as the session lasts.
            _ = try await world.hubStore.append(message("live", in: chats[0], by: bob))
            try await eventually { try device.store.log.lastSeq(of: .conversation(chats[0])) == 42 }
            try await end(session)
            // What is held does not come again, also after it was closed.
            let path = device.store.log.path
            try device.close()
            let again = try world.open(path, ada, isService: scope == .everything)
            session = try await self.session(again, world, scope: scope)
            #expect(session.received == 0 && Set(session.unreadable) == Set(unread.map { .conversation($0) }))
            try await end(session)
            try damage(world, [1, 4], ofColumns: ofColumns)
            session = try await self.session(again, world, scope: scope)
            #expect(session.unreadable.isEmpty && session.received == 82)
            try expectEqual(again, world)
            try await end(session)
            session = try await self.session(again, world, scope: scope)
            #expect(session.received == 0)
            try await end(session)
        }
    }

    @Test("A device that held the beginning goes on from there, and its own events are answered") func grown() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 3)
            let device = try world.device(ada)
            try await world.sync(device)
            for chat in chats { _ = try await talk(in: world, chat) }
            try damage(world, [4], ofColumns: true)
            let written = try chats.map { try device.append(message("mine", in: $0, by: ada)) }
            var session = try await session(device, world)
            #expect(session.unreadable == [.conversation(chats[1])])
            try expectEqual(device, world, but: [chats[1]])
            // What is in the log's newest run decides whether its id is new.
            #expect(device.outbox.map(\.event) == [written[1].event] && device.outbox.allSatisfy { !$0.isAccepted && !$0.isFailed })
            try await end(session)
            try damage(world, [4], ofColumns: true)
            session = try await self.session(device, world)
            #expect(session.unreadable.isEmpty && session.received == 41)
            #expect(device.outbox.isEmpty)
            try expectEqual(device, world)
            try await end(session)
        }
    }

    @Test("What waits behind what the hub cannot decide is not awaited, and goes when it can") func behindUndecided() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 2)
            let device = try world.device(ada)
            try await world.sync(device)
            try damage(world, [0], ofColumns: true)
            let id = MessageID.random()
            func event(_ content: Event.Content) -> Event { Event(conversation: chats[0], author: ada, content: content) }
            let written = [
                message("mine", in: chats[0], by: ada, id: id), event(.messageEdited(message: id, text: "mine, edited")),
                event(.preferenceSet(key: "pinned", value: "1")),
            ]
            var session = try await session(device, world)
            try device.append(written + [message("other", in: chats[1], by: ada)])
            session.connection.outboxChanged()
            try await eventually { device.outbox.count == 3 && session.unreadable == [.conversation(chats[0])] }
            try await end(session)
            session = try await self.session(device, world)
            #expect(device.outbox.map(\.event) == written)
            try await end(session)
            try damage(world, [0], ofColumns: true)
            session = try await self.session(device, world)
            #expect(device.outbox.isEmpty)
            try expectEqual(device, world)
            try await end(session)
        }
    }

    @Test("Nor is what waits behind a preference that the hub cannot decide, as it cannot read the user's log") func behindPreference() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 2)
            func preference(_ key: String) -> Event { Event(conversation: chats[0], author: ada, content: .preferenceSet(key: key, value: noise(100))) }
            for key in ["a", "b"] { _ = try await world.hubStore.append(preference(key)) }
            try world.hubStore.log.flush()
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            var written = [preference("own")]
            try device.append(written)
            try await world.sync(device)
            for content in [message("own", in: chats[1], by: ada), message("later", in: chats[0], by: ada)] {
                try world.restoreHub()
                try world.backUpHub()
                try damage(world, [2], ofColumns: true)
                written.append(content)
                try device.append(content)
                // What it made of the log that cannot be read is offered under another id, without an answer.
                device = try await world.heal(device)
            }
            #expect(device.outbox.map(\.event) == [written[0], written[2]])
            try damage(world, [2], ofColumns: true)
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try expectEqual(device, world)
            #expect(try written.allSatisfy { event in try world.hubStore.log.events(in: event.log).contains { $0.event == event } })
        }
    }

    /// One event was accepted before the session had settled.
    private func expectAnswered(_ session: World.Session) throws {
        let told = session.log.withLock { $0 }
        let answered = try #require(told.firstIndex { if case .answered(1, 0) = $0 { true } else { false } })
        let settled = try #require(told.firstIndex { if case .settled = $0 { true } else { false } })
        #expect(answered < settled)
    }

    @Test("What was decided of a log is answered before its device is told that nothing more is") func decidedBefore() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 1)
            let device = try world.device(ada)
            try await world.sync(device)
            let id = MessageID.random()
            _ = try await world.hubStore.append(message(noise(100), in: chats[0], by: bob, id: id))
            try world.hubStore.log.flush()
            try damage(world, [1])
            // What has the second one's id has to be read to be compared with it.
            let written = [message("mine", in: chats[0], by: ada), message("taken", in: chats[0], by: ada, id: id)]
            try device.append(written)
            var session = try await session(device, world)
            try expectAnswered(session)
            #expect(device.outbox.filter { $0.accepted == nil }.map(\.event) == [written[1]])
            try await end(session)
            try damage(world, [1])
            session = try await self.session(device, world)
            #expect(device.outbox.map(\.event) == [written[1]] && device.outbox.allSatisfy(\.isFailed))
            try expectEqual(device, world)
            try await end(session)
        }
    }

    @Test("What the hub can decide is sent in the same session, however much it cannot decide goes before") func behindMany() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 1)
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            let text = noise(60_000)
            // More than what may be on its way at once.
            try device.append((0..<150).map { message("\($0) \(text)", in: chats[0], by: ada) })
            let own = Event(conversation: chats[0], author: ada, content: .preferenceSet(key: "own", value: "1"))
            try device.append(own)
            try await world.sync(device)
            try world.restoreHub()
            try damage(world, [0], ofColumns: true)
            let first = world.follow(device)
            try await eventually { first.end != nil }
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, ada)
            let session = try await session(device, world)
            try expectAnswered(session)
            #expect(try world.hubStore.log.events(in: .user(ada)).map(\.event) == [own])
            #expect(device.outbox.count == 150)
            try await end(session)
            try damage(world, [0], ofColumns: true)
            device = try await world.heal(device)
            #expect(device.outbox.isEmpty)
            try expectEqual(device, world)
        }
    }

    @Test("Of a run of many conversations only those are missing whose texts are damaged") func shared() async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for _ in 0..<40 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            for chat in chats { _ = try await world.hubStore.append((0..<10).map { _ in Submission(message(noise(3000), in: chat, by: bob)) }) }
            try world.hubStore.log.flush()
            try damage(world, [0])
            let device = try world.device(ada)
            let session = try await session(device, world)
            let unread = Set(session.unreadable)
            #expect(1...chats.count / 2 ~= unread.count, "\(unread.count)")
            #expect(try heads(world).allSatisfy { head in try unread.contains(head.log) || device.store.log.head(of: head.log) == head })
            try await end(session)
        }
    }

    @Test("Newest parts of other conversations come, and those of which something cannot be read are asked for each time") func newest() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 4)
            try damage(world, [2], ofColumns: true)
            let device = try world.device(ada)
            let scope = Scope.newest(conversations: 10, messages: 5)
            var session = try await session(device, world, scope: scope)
            #expect(session.unreadable == [.conversation(chats[2])])
            #expect(try device.store.lobby(of: ada, limit: 10).rows.count == 3)
            try await end(session)
            session = try await self.session(device, world, scope: scope)
            #expect(session.unreadable == [.conversation(chats[2])])
            #expect(try device.store.lobby(of: ada, limit: 10).rows.count == 3)
            try await end(session)
            try damage(world, [2], ofColumns: true)
            session = try await self.session(device, world, scope: scope)
            #expect(session.unreadable.isEmpty)
            #expect(try device.store.lobby(of: ada, limit: 10).rows.count == 4)
            try await end(session)
        }
    }

    /// What lies in one run, of which a device holds the first ones.
    private func talkHalf(_ device: Replica, in chat: ConversationID, _ world: World) async throws {
        for half in 0..<2 {
            _ = try await world.hubStore.append((0..<20).map { _ in Submission(message(noise(100), in: chat, by: bob)) })
            if half == 0 { try await world.sync(device) }
        }
        try world.hubStore.log.flush()
    }

    @Test("Nor does it end sessions that what a device holds of a log ends within what cannot be read", arguments: [false, true]) func within(ofColumns: Bool)
        async throws
    {
        try await withWorld { world in
            let chats = try await talked(in: world, 2)
            let device = try world.device(ada)
            try await talkHalf(device, in: chats[0], world)
            try damage(world, [2], ofColumns: ofColumns)
            for round in 0..<3 {
                _ = try await world.hubStore.append(message("round \(round)", in: chats[1], by: bob))
                let own = try device.append(message("mine \(round)", in: chats[1], by: ada))
                let session = try await session(device, world)
                #expect(session.unreadable == [.conversation(chats[0])])
                #expect(!device.outbox.contains { $0.id == own.id })
                try expectEqual(device, world, but: [chats[0]])
                #expect(try device.store.log.lastSeq(of: .conversation(chats[0])) == 61)
                try await end(session)
            }
            try damage(world, [2], ofColumns: ofColumns)
            let session = try await session(device, world)
            #expect(session.unreadable.isEmpty)
            try expectEqual(device, world)
            #expect(try device.lostEvents().isEmpty && device.evidence == nil)
            try await end(session)
        }
    }

    @Test("Where a device's newest event cannot be read, all is compared") func newestHeld() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 2)
            let device = try world.device(ada)
            try await world.sync(device)
            try damage(world, [1], ofColumns: true)
            _ = try await world.hubStore.append(message("more", in: chats[0], by: bob))
            let session = try await session(device, world)
            #expect(session.unreadable.isEmpty)
            try expectEqual(device, world)
            try await end(session)
        }
    }

    @Test("What a hub that was set back cannot read is not taken for lost, and holds nothing else up", arguments: [false, true]) func setBack(isPart: Bool)
        async throws
    {
        try await withWorld { world in
            let chats = try await talked(in: world, 3)
            let device = try world.device(ada)
            try world.backUpHub()
            _ = try await world.hubStore.append(message("lost", in: chats[2], by: bob))
            if isPart {
                // A newest part over a hole.
                let session = world.follow(device, scope: .newest(conversations: 10, messages: 5))
                try await eventually { session.isSettled }
                try await end(session)
            } else {
                try await world.sync(device)
            }
            try world.restoreHub()
            try damage(world, [0], ofColumns: true)
            let shown = try device.store.timeline(of: chats[0])?.messages.map(\.id)
            var healed = device
            for round in 0..<2 {
                let own = try healed.append(message("mine \(round)", in: chats[1], by: ada))
                let path = healed.store.log.path
                let session = world.follow(healed)
                try await eventually { session.isSettled || session.end != nil }
                if case .mustReopen = session.end {
                    try healed.close()
                    healed = try await world.heal(world.open(path, ada))
                } else {
                    #expect(session.end == nil && session.unreadable == (isPart ? [.conversation(chats[0])] : []))
                    try await end(session)
                }
                #expect(!healed.outbox.contains { $0.event == own.event })
                #expect(try healed.store.timeline(of: chats[0])?.messages.map(\.id) == shown)
            }
            try damage(world, [0], ofColumns: true)
            healed = try await world.heal(healed)
            try expectEqual(healed, world)
            #expect(try healed.lostEvents().map(\.log) == [.conversation(chats[2])] && healed.evidence == nil)
            #expect(try healed.suspectEvents().isEmpty)
        }
    }

    @Test("What a hub that was set back cannot compare is compared later, and what it lost of it is offered then", arguments: [false, true], [false, true])
    func comparedLater(atOnce: Bool, ofColumns: Bool) async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 2)
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            let own = (0..<(atOnce ? 3 : 60)).map { message("own \($0)", in: chats[0], by: ada) }
            try device.append(own)
            try await world.sync(device)
            try world.restoreHub()
            _ = try await talk(in: world, chats[0])
            // Its head can be told where the device holds more; within the run that cannot be read it cannot.
            try damage(world, [atOnce ? 2 : 0], ofColumns: ofColumns)
            // What it writes in that conversation may stand at the hub where another event stands here.
            let late = try device.append(message("late", in: chats[0], by: ada))
            let shown = try device.store.timeline(of: chats[0], limit: 500)?.messages.map(\.id)
            for round in 0..<2 {
                let other = try device.append(message("mine \(round)", in: chats[1], by: ada))
                let session = try await session(device, world)
                #expect(session.unreadable == [.conversation(chats[0])])
                #expect(!device.outbox.contains { $0.id == other.id })
                #expect(try device.store.timeline(of: chats[0], limit: 500)?.messages.map(\.id) == shown)
                #expect(device.outbox.map(\.id) == [late.id])
                #expect(try device.lostEvents().isEmpty)
                try await end(session)
            }
            try damage(world, [atOnce ? 2 : 0], ofColumns: ofColumns)
            device = try await world.heal(device)
            try expectEqual(device, world)
            #expect(try device.lostEvents().isEmpty && device.outbox.isEmpty && device.evidence == nil)
            let events = try world.hubStore.log.events(in: .conversation(chats[0])).map(\.event).filter { $0.author == ada }
            #expect(events.filter { $0 != late.event } == own && events.count == own.count + 1)
        }
    }

    @Test("Where a first sync broke off nothing is taken for sent of logs of which it cannot be read where they end", arguments: 0..<6)
    func brokenOff(_ run: Int) async throws {
        try await withWorld {
            ResumeTests.small(&$0)
            // Of the run before the last one some logs are of the first lot, and others not.
            $0.firstLot = 4
        } _: { world in
            var chats: [ConversationID] = []
            for _ in 0..<18 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
            var firsts: [Position] = [1]
            for round in 0..<6 {
                for chat in chats[round * 3..<round * 3 + 3] {
                    _ = try await world.hubStore.append((0..<20).map { _ in Submission(message(noise(200), in: chat, by: bob)) })
                }
                try world.hubStore.log.flush()
                firsts.append(world.hubStore.log.lastPosition + 1)
            }
            let device = try world.device(ada)
            _ = try await Line(world.hub, device, isLost: { record, _ in record.progress.last.map { $0.wholeFrom > 1 && record.progress.count > 2 } ?? false })
                .run()
            try world.reopenHub(log: { _ in }) { path in
                _ = try EventStore.damageRun(at: path, number: run) { bytes in
                    let meta = bytes.withUnsafeBytes { try! DecodedRun.Header($0, at: firsts[run]) }.meta
                    bytes[meta.lowerBound + meta.count / 2] ^= 1
                }
            }
            let session = try await session(device, world)
            let unread = Set(session.unreadable)
            for head in try heads(world) where !unread.contains(head.log) { #expect(try device.store.log.head(of: head.log) == head) }
            #expect(unread.count < 18)
            try await end(session)
        }
    }

    @Test("Where the lobby cannot be read all comes without a first screen") func lobby() async throws {
        try await withWorld { world in
            _ = try await talked(in: world, 3)
            try world.reopenHub(log: { _ in }) { path in _ = try EventStore.damageRows(at: path, of: "conversations") }
            #expect(throws: EventLogError.self) { try world.hubStore.lobby(of: ada, limit: 10) }
            let device = try world.device(ada)
            let session = try await session(device, world)
            #expect(session.unreadable.isEmpty)
            try expectEqual(device, world)
            try await end(session)
        }
    }

    @Test("Of more logs than a device lets itself be told of no hub tells: all else comes, and the session ends", arguments: [false, true])
    func tooMany(writes: Bool) async throws {
        try await withWorld {
            $0.unreadableMax = 1
        } _: { world in
            let chats = try await talked(in: world, 4)
            let device = try world.device(ada)
            if writes {
                try await world.sync(device)
                for chat in chats { _ = try device.append(message("mine", in: chat, by: ada)) }
            }
            try damage(world, [1, 2], ofColumns: true)
            let session = world.follow(device)
            try await eventually { session.end != nil }
            guard case .ended(let bye) = session.end else { return #expect(Bool(false), "\(String(describing: session.end))") }
            #expect(bye.code == .internalError)
            try expectEqual(device, world, but: [chats[1], chats[2]])
            #expect(Set(device.outbox.map(\.event.conversation)) == (writes ? [chats[1], chats[2]] : []))
        }
    }

    @Test("A peer that does not know of that gets the rest, and no cursor") func older() async throws {
        try await withWorld { world in
            let chats = try await talked(in: world, 3)
            try damage(world, [1])
            let peer = try await RawPeer(world.hub, ada)
            try await eventually { peer.bye != nil }
            #expect(peer.bye?.code == .internalError)
            var logs: Set<LogID> = []
            for case .segment(let segment) in peer.frames { try logs.formUnion(SegmentCodec.decode(segment.run).map(\.log)) }
            #expect(logs == [.conversation(chats[0]), .conversation(chats[2])])
            #expect(!peer.frames.contains { if case .caughtUp = $0 { true } else { false } })
        }
    }
}
