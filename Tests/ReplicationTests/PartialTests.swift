import ConversationStore
import Foundation
@testable import Replication
import Testing

/// Devices that hold only a part of what their user has.
@Suite struct PartialTests {
    /// A long conversation, and one that is older and shorter.
    private func conversations(_ world: World) async throws -> (long: ConversationID, old: ConversationID) {
        let old = try await world.hubStore.createConversation(.group, title: "Old", author: ada, participants: [bob])
        for index in 0..<60 { try await world.hubStore.send("old \(index)", to: old, from: ada) }
        let long = try await world.hubStore.createConversation(.group, title: "Long", author: ada, participants: [bob])
        for index in 0..<100 { try await world.hubStore.send("long \(index)", to: long, from: ada) }
        return (long, old)
    }

    private func settle(_ world: World, _ device: Replica, _ scope: Scope) async throws {
        let session = world.follow(device, scope: scope)
        try await eventually { session.isSettled || session.end != nil }
        #expect(session.end == nil)
        session.connection.end()
        try await eventually { session.end != nil }
    }

    @Test("The newest conversations come to who asks for them, be it a first screen or not", arguments: [false, true])
    func newest(wantsFirstScreen: Bool) async throws {
        try await withWorld { world in
            let (long, _) = try await conversations(world)
            let peer = try await RawPeer(world.hub, bob) {
                $0.scope = .newest(conversations: 1, messages: 3)
                $0.wantsFirstScreen = wantsFirstScreen
            }
            try await eventually { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            let bases = peer.frames.compactMap { frame in if case .base(let base) = frame { base } else { nil } }
            #expect(bases.map(\.log) == [.conversation(long)])
        }
    }

    @Test("An answer longer than a page is shown, be it at its end or not", arguments: [(5000, false), (5000, true), (40_000, true)] as [(UInt32, Bool)])
    func longAnswer(_ count: UInt32, isComplete: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            for index in 0..<20 { try await world.hubStore.send("question \(index)", to: chat, from: bob) }
            let id = MessageID.random()
            var contents: [Event.Content] = [.messageSent(Event.Message(id: id, role: .assistant, text: "", isStreaming: true))]
            contents += (0..<count).map { .chunkAppended(message: id, index: $0, text: "word ") }
            if isComplete { contents.append(.messageCompleted(message: id, finishReason: "stop", usage: nil)) }
            _ = try await world.hubStore.append(contents.map { Submission(Event(conversation: chat, author: ada, content: $0)) })
            let device = try world.device(bob), scope = Scope.newest(conversations: 1, messages: 3)
            try await settle(world, device, scope)
            let expected = String(repeating: "word ", count: Int(count))
            #expect(try device.store.timeline(of: chat, limit: 10)!.messages.map(\.text) == [expected])
            try await world.hubStore.send("thanks", to: chat, from: bob)
            try await settle(world, device, scope)
            #expect(try device.store.timeline(of: chat, limit: 10)!.messages.map(\.text) == [expected, "thanks"])
        }
    }

    @Test func aSessionThatEndsEarlyAfterAWiderScopeLosesNothing() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            try await settle(world, device, .newest(conversations: 1, messages: 1))
            #expect(device.cursor != nil)
            // The line breaks behind WELCOME.
            let isWelcomed = Monitor(false)
            let replica = Monitor<ReplicaConnection?>(nil)
            let hub = world.hub.connect(
                send: { message in
                    let isFirst = isWelcomed.withLock { known in
                        defer { known = true }
                        return !known
                    }
                    if isFirst { replica.withLock { $0 }?.receive(message) }
                }, close: { _ in })
            let isConnected = Monitor(false)
            let connection = device.connect(token: "", scope: .mine, send: { hub.receive($0) }, close: { _ in }) { event in
                if case .connected = event { isConnected.withLock { $0 = true } }
            }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { isConnected.withLock { $0 } }
            connection.disconnected()
            hub.disconnected()
            try await settle(world, device, .mine)
            for id in [long, old] {
                #expect(try device.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
            }
        }
    }

    @Test func anOwnMessageInAConversationHeldInPartIsAnswered() async throws {
        try await withWorld { world in
            let (long, _) = try await conversations(world)
            let device = try world.device(bob)
            let scope = Scope.newest(conversations: 1, messages: 5)
            try await settle(world, device, scope)
            try device.append(message("mine", in: long, by: bob))
            try await settle(world, device, scope)
            #expect(device.outbox.isEmpty)
            #expect(try device.store.timeline(of: long, .newest, limit: 2)?.messages.map(\.text) == ["long 99", "mine"])
        }
    }

    @Test func whatComesWithoutItsBeginningIsFetchedBeforeAnythingIsSettled() async throws {
        try await withWorld { world in
            let (_, old) = try await conversations(world)
            let device = try world.device(bob)
            let scope = Scope.newest(conversations: 1, messages: 5)
            try await settle(world, device, scope)
            try await world.hubStore.send("late", to: old, from: ada)
            try await settle(world, device, scope)
            #expect(try device.store.timeline(of: old, .newest, limit: 1)?.messages.map(\.text) == ["late"])
        }
    }

    @Test func whatHappenedInConversationsThatAreHeldComesHoweverManyChanged() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            let scope = Scope.newest(conversations: 1, messages: 5)
            try await settle(world, device, scope)
            try await world.hubStore.send("late", to: old, from: ada)
            try await settle(world, device, scope)
            // Two have changed since, and one was the newest.
            try await world.hubStore.send("later", to: old, from: ada)
            try await world.hubStore.send("newest", to: long, from: ada)
            try await settle(world, device, scope)
            #expect(try device.store.timeline(of: old, .newest, limit: 1)?.messages.map(\.text) == ["later"])
            #expect(try device.store.lobby(of: bob).rows.map(\.unread) == world.hubStore.lobby(of: bob).rows.map(\.unread))
        }
    }

    @Test("Of what was said at length in a conversation that is not held a page comes alone; of what is held in part, all")
    func offersLongCatchUps() async throws {
        try await withWorld({ $0.offeredEvents = 20 }) { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob), scope = Scope.newest(conversations: 1, messages: 5)
            try await settle(world, device, scope)
            for index in 0..<200 { try await world.hubStore.send("beside \(index)", to: old, from: ada) }
            for index in 0..<30 { try await world.hubStore.send("held \(index)", to: long, from: ada) }
            let before = world.hub.statistics.eventsSent
            let session = world.follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            #expect(world.hub.statistics.eventsSent - before == 35)
            // Both go on, and nothing is wanted any more.
            for id in [long, old] { try await world.hubStore.send("live", to: id, from: ada) }
            try await eventually { try [long, old].allSatisfy { try device.store.timeline(of: $0, .newest, limit: 1)?.messages.map(\.text) == ["live"] } }
            session.connection.end()
            try await eventually { session.end != nil }
            let (page, held) = (try device.store.timeline(of: old, limit: 300)!.messages, try device.store.timeline(of: long, limit: 300)!.messages)
            #expect(page.map(\.text) == (195..<200).map { "beside \($0)" } + ["live"])
            #expect(held.map(\.text) == (95..<100).map { "long \($0)" } + (0..<30).map { "held \($0)" } + ["live"])
            #expect(try device.store.lobby(of: bob).rows.map(\.unread) == world.hubStore.lobby(of: bob).rows.map(\.unread))
            // A long page is no more than the run.
            try await settle(world, device, .newest(conversations: 1, messages: 50))
            for index in 0..<30 { try await world.hubStore.send("more \(index)", to: long, from: ada) }
            let again = world.hub.statistics.eventsSent
            try await settle(world, device, .newest(conversations: 1, messages: 50))
            #expect(world.hub.statistics.eventsSent - again == 30)
        }
    }

    @Test func anOwnConversationThatIsNoneOfTheNewestIsAnswered() async throws {
        try await withWorld { world in
            let (long, _) = try await conversations(world)
            let device = try world.device(bob)
            let own = ConversationID.random()
            try device.append(Event(conversation: own, author: bob, content: .conversationCreated(kind: .group, title: nil, participants: [])))
            try await settle(world, device, .conversations([long]))
            #expect(device.outbox.count == 1)
            try await world.hubStore.send("newer", to: long, from: ada)
            try await settle(world, device, .newest(conversations: 1, messages: 5))
            #expect(device.outbox.isEmpty)
            #expect(try device.store.lobby(of: bob).rows.contains { $0.conversation == own && $0.unconfirmed == nil })
        }
    }

    @Test("A scope of fewer, shorter or more newest parts takes nothing away of what was shown") func keeps() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            func texts(_ id: ConversationID) throws -> [String] { try #require(try device.store.timeline(of: id, limit: 300)).messages.map(\.text) }
            try await settle(world, device, .newest(conversations: 2, messages: 5))
            #expect(try texts(long) == (95..<100).map { "long \($0)" } && texts(old) == (55..<60).map { "old \($0)" })
            for index in 100..<103 { try await world.hubStore.send("long \(index)", to: long, from: ada) }
            try await settle(world, device, .newest(conversations: 1, messages: 2))
            #expect(try texts(long) == (95..<103).map { "long \($0)" } && texts(old) == (55..<60).map { "old \($0)" })
            // More than before: the parts are compared.
            try await settle(world, device, .newest(conversations: 3, messages: 2))
            #expect(try texts(long) == (95..<103).map { "long \($0)" } && texts(old) == (55..<60).map { "old \($0)" })
            try await settle(world, device, .newest(conversations: 1, messages: 9))
            #expect(try texts(long) == (94..<103).map { "long \($0)" } && texts(old) == (51..<60).map { "old \($0)" })
        }
    }

    @Test("However much was said since, a scope of more or longer parts takes nothing away of what was shown", arguments: [3, 40, 1_200], [2, 30])
    func widens(since: Int, messages: Int) async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            func texts(_ id: ConversationID) throws -> [String] { try #require(try device.store.timeline(of: id, limit: 3000)).messages.map(\.text) }
            try await settle(world, device, .newest(conversations: 2, messages: 5))
            for index in 100..<100 + since { try await world.hubStore.send("long \(index)", to: long, from: ada) }
            let before = try texts(old)
            try await settle(world, device, .newest(conversations: 3, messages: UInt64(messages)))
            let first = min(95, 100 + since - messages)
            #expect(try texts(long) == (first..<100 + since).map { "long \($0)" })
            #expect(try texts(old).suffix(5) == before)
            try await settle(world, device, .mine)
            for id in [long, old] {
                #expect(try device.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
            }
            #expect(try device.lostEvents().isEmpty && device.store.isFold())
        }
    }

    @Test func whatIsShownStaysUntilTheHubHasShownItAnew() async throws {
        try await withWorld { world in
            let (long, _) = try await conversations(world)
            let device = try world.device(bob)
            try await settle(world, device, .newest(conversations: 1, messages: 5))
            let shown = try device.store.timeline(of: long, limit: 300)?.messages.map(\.text)
            // Asked for anew; the line breaks behind BASE.
            let replica = Monitor<ReplicaConnection?>(nil)
            let hasBase = Monitor(false)
            let hub = world.hub.connect(
                send: { message in
                    if hasBase.withLock({ $0 }) { return }
                    replica.withLock { $0 }?.receive(message)
                    if case .base? = try? Frame(decoding: message) { hasBase.withLock { $0 = true } }
                }, close: { _ in })
            let isEnded = Monitor(false)
            let connection = device.connect(
                token: "", scope: .newest(conversations: 1, messages: 7), send: { hub.receive($0) }, close: { _ in isEnded.withLock { $0 = true } }
            ) { _ in }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { hasBase.withLock { $0 } }
            connection.disconnected()
            hub.disconnected()
            try await eventually { isEnded.withLock { $0 } }
            #expect(try device.store.timeline(of: long, limit: 300)?.messages.map(\.text) == shown)
            try await settle(world, device, .newest(conversations: 1, messages: 7))
            #expect(try device.store.timeline(of: long, limit: 300)?.messages.count == 7)
        }
    }

    @Test func whatIsAcceptedOutsideOfTheScopeKeepsNoSyncWaiting() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            try await world.sync(device)
            try device.append(message("outside", in: old, by: bob))
            try await settle(world, device, .conversations([long]))
            // What the narrower scope leaves out is still there.
            #expect(try device.store.log.head(of: .conversation(old))?.size == 61)
            #expect(try device.lostEvents().isEmpty)
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
            #expect(try device.store.timeline(of: old, .newest, limit: 1)?.messages.map(\.text) == ["outside"])
        }
    }

    @Test("what was accepted outside of the scope is known as that, also to the next process; asked again, the hub has it still")
    func acceptedElsewhere() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob)
            try await world.sync(device)
            try device.append(message("outside", in: old, by: bob))
            #expect(!device.outbox[0].isAccepted)
            for _ in 0..<2 {
                try await settle(world, device, .conversations([long]))
                #expect(device.outbox.map(\.isAccepted) == [true])
                #expect(try ReplicaOverlay(of: device.store.log.path)?.outbox.map(\.isAccepted) == [true])
            }
            #expect(try world.hubStore.timeline(of: old, .newest, limit: 1)?.messages.map(\.text) == ["outside"])
            try await world.sync(device)
            #expect(device.outbox.isEmpty)
        }
    }

    @Test("when one of the newest conversations is left, the next newest comes in its place", arguments: [false, true])
    func leftOneOfTheNewest(isConnected: Bool) async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for number in 0..<8 {
                chats.append(try await world.hubStore.createConversation(.group, title: "Chat \(number)", author: ada, participants: [bob]))
                for index in 0..<30 { try await world.hubStore.send("message \(index)", to: chats[number], from: ada) }
            }
            let scope = Scope.newest(conversations: 3, messages: 5)
            let device = try world.device(bob)
            func here() throws -> Set<Int> {
                Set(try chats.indices.filter { try device.store.timeline(of: chats[$0], limit: 100)?.messages.last?.text == "message 29" })
            }
            var session = world.follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            #expect(try here() == [5, 6, 7])
            var gone: Set<Int> = []
            // What was none of the newest makes room for none; who comes back and leaves again has left.
            for (left, comes, isAgain) in [([0, 7], [4], false), ([4, 6], [2, 3], false), ([3], [1], true)] {
                if !isConnected {
                    session.connection.end()
                    try await eventually { session.end != nil }
                }
                let before = try here()
                var events: [Event] = []
                for number in left {
                    let contents: [Event.Content] = isAgain ? [.participantLeft(bob), .participantJoined(bob), .participantLeft(bob)] : [.participantLeft(bob)]
                    events += contents.map { Event(conversation: chats[number], author: ada, content: $0) }
                }
                _ = try await world.hubStore.append(events.map { Submission($0) })
                if !isConnected { session = world.follow(device, scope: scope) }
                try await eventually { try before.union(comes).isSubset(of: here()) }
                try await eventually { session.isSettled || session.end != nil }
                #expect(session.end == nil)
                gone.formUnion(left)
                #expect(try here().subtracting(gone) == before.union(comes).subtracting(gone))
                for number in try here().subtracting(gone) {
                    #expect(try device.store.timeline(of: chats[number], limit: 100)!.messages.map(\.text) == (25..<30).map { "message \($0)" })
                }
            }
            session.connection.end()
            try await eventually { session.end != nil }
        }
    }

    @Test("a second leaving of a conversation in one session makes room, too") func leftTwice() async throws {
        try await withWorld { world in
            var chats: [ConversationID] = []
            for number in 0..<4 {
                chats.append(try await world.hubStore.createConversation(.group, title: "Chat \(number)", author: ada, participants: [bob]))
                for index in 0..<10 { try await world.hubStore.send("message \(index)", to: chats[number], from: ada) }
            }
            let device = try world.device(bob), scope = Scope.newest(conversations: 2, messages: 5)
            func here() throws -> [Int] { try chats.indices.filter { try device.store.timeline(of: chats[$0], limit: 100) != nil } }
            let session = world.follow(device, scope: scope)
            try await eventually { session.isSettled }
            #expect(try here() == [2, 3])
            func change(_ number: Int, _ content: Event.Content) async throws {
                _ = try await world.hubStore.append(Event(conversation: chats[number], author: ada, content: content))
                let position = world.hubStore.log.lastPosition
                try await eventually { session.end != nil || device.cursor.map { $0.position >= position } ?? false }
            }
            try await change(2, .participantLeft(bob))
            #expect(try here().contains(1))
            try await change(2, .participantJoined(bob))
            try await change(3, .participantLeft(bob))
            #expect(try !here().contains(0))
            try await change(2, .participantLeft(bob))
            #expect(try here().contains(0))
            session.connection.end()
            try await eventually { session.end != nil }
        }
    }

    @Test("who comes again into a conversation that was none of the newest is sent its newest messages, and what follows")
    func cameAgain() async throws {
        try await withWorld { world in
            let (long, old) = try await conversations(world)
            let device = try world.device(bob), scope = Scope.newest(conversations: 1, messages: 5)
            try await settle(world, device, scope)
            let expected = (56..<60).map { "old \($0)" }
            for content in [Event.Content.participantLeft(bob), .participantJoined(bob)] {
                _ = try await world.hubStore.append(Event(conversation: old, author: ada, content: content))
            }
            let session = world.follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            #expect(try device.store.timeline(of: old, limit: 100)!.messages.map(\.text).suffix(4) == expected)
            try await world.hubStore.send("again", to: old, from: ada)
            try await eventually { try device.store.timeline(of: old, limit: 100)!.messages.map(\.text).suffix(5) == expected + ["again"] }
            session.connection.end()
            try await eventually { session.end != nil }
            for id in [old, long] {
                #expect(try device.store.timeline(of: id, limit: 100)!.messages.count <= 6)
                #expect(try device.store.log.lastSeq(of: .conversation(id)) == 0)
            }
        }
    }

    @Test("an own message that came with a part is shown once, also where a process ended before it left the outbox")
    func endsBeforeItLeavesTheOutbox() async throws {
        try await withWorld { world in
            let (long, _) = try await conversations(world)
            let scope = Scope.newest(conversations: 1, messages: 5)
            var device = try await world.heal(world.device(bob), scope: scope)
            try device.append(message("mine", in: long, by: bob))
            let session = world.follow(device, scope: scope)
            try await eventually { device.outbox.isEmpty || device.outbox[0].state == .sent }
            var entry = device.outbox.first
            try await eventually { device.outbox.isEmpty }
            session.connection.end()
            try await eventually { session.end != nil }
            // The answer may have been quicker than this test.
            if entry == nil {
                let sent = try #require(device.parts.flatMap(\.events).last)
                entry = OutboxEntry(id: 1, event: sent.event, origin: sent.origin, nonce: device.state.withLock { $0.outbox.identity.nonce })
                (entry!.state, entry!.wasSent) = (.sent, true)
            }
            try device.side.write { try $0.put(SyncTables.outbox, Outbox.key(entry!.id), entry!.encoded()) }
            let path = device.store.log.path
            try device.close()
            let overlay = try #require(try ReplicaOverlay(of: path))
            #expect(overlay.outbox.count == 1)
            let reader = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
            try overlay.show(in: reader)
            #expect(try reader.timeline(of: long, limit: 100)!.messages.map(\.text).count { $0 == "mine" } == 1)
            try reader.close()
            device = try world.open(path, bob)
            #expect(device.outbox.isEmpty)
            #expect(try device.store.timeline(of: long, limit: 100)!.messages.map(\.text).count { $0 == "mine" } == 1)
        }
    }

    @Test func aBaseThatCannotBeReadIsNotKept() async throws {
        try await withWorld { world in
            _ = try await conversations(world)
            let device = try world.device(bob)
            let replica = Monitor<ReplicaConnection?>(nil)
            let hub = world.hub.connect(
                send: { message in
                    guard case .base(var base)? = try? Frame(decoding: message) else {
                        replica.withLock { $0 }?.receive(message)
                        return
                    }
                    base.base = [250, 1, 2]
                    replica.withLock { $0 }?.receive(Frame.base(base).encoded())
                }, close: { _ in })
            let hasFailed = Monitor(false)
            let connection = device.connect(
                token: "", scope: .newest(conversations: 1, messages: 5), send: { hub.receive($0) }, close: { _ in hub.disconnected() }
            ) { event in
                if case .failed = event { hasFailed.withLock { $0 = true } }
            }
            replica.withLock { $0 = connection }
            connection.start()
            try await eventually { hasFailed.withLock { $0 } }
            let path = device.store.log.path
            try device.close()
            let again = try world.open(path, bob)
            #expect(again.holes.isEmpty)
            try await world.sync(again)
        }
    }
}
