import ConversationStore
import Testing

@testable import EventLog
@testable import Replication

/// Who writes for whom.
@Suite("Service accounts") struct ServiceTests {
    private static func pushed(_ event: Event, _ replica: ReplicaID, _ counter: UInt64) -> PushedEvent {
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 5))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: true)
    }

    @Test("A service writes for those who take part, nobody else for another", arguments: [Scope.mine, .everything])
    func writing(_ scope: Scope) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let service = try await RawPeer(hub, eve) { $0.scope = scope }
            let events = [ada, bob, eve].map { message("for \($0.string)", in: chat, by: $0) }
            service.send(.push(events.enumerated().map { Self.pushed($1, service.replica, UInt64($0) + 1) }))
            try await eventually { service.answers == 3 }
            #expect(service.accepted.map(\.counter) == [1, 2] && service.refused.map(\.code) == [RefusalCode.notParticipant.rawValue])
            let other = try await RawPeer(hub, bob)
            other.send(.push([Self.pushed(message("forged", in: chat, by: ada), other.replica, 1)]))
            try await eventually { other.answers == 1 }
            #expect(other.refused.map(\.code) == [RefusalCode.forbidden.rawValue])
            for peer in [service, other] { peer.end() }
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["for ada", "for bob"])
        }
    }

    @Test("who types is told to a service's own sessions where it takes part, and nowhere else") func typing() async throws {
        try await withWorld { world in
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let its = try await world.hubStore.createConversation(.assistant, author: ada, participants: [eve])
            let other = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let service = try await RawPeer(hub, eve) { $0.scope = .everything }
            let user = try await RawPeer(hub, ada)
            for chat in [other, its] { user.send(.typing(Typing(conversation: chat, user: ada, isTyping: true))) }
            func typed() -> [ConversationID] {
                service.frames.compactMap { frame in if case .typing(let typing) = frame { typing.conversation } else { nil } }
            }
            try await eventually { !typed().isEmpty }
            #expect(typed() == [its])
            for peer in [service, user] { peer.end() }
        }
    }

    @Test("A service's replica is a copy of everything, and writes in users' names; a user's does not") func proxy() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let proxy = try world.open(world.directory + "/proxy", eve, isService: true)
            // Also before it has seen anything.
            let other = ConversationID.random()
            try proxy.append([
                Event(conversation: other, author: ada, content: .conversationCreated(kind: .direct, title: nil, participants: [bob])),
                message("by ada", in: other, by: ada), message("by bob", in: other, by: bob),
            ])
            #expect(throws: Refusal(.notParticipant)) { try proxy.append(message("by eve", in: other, by: eve)) }
            #expect(throws: Refusal(.unknownConversation)) { try proxy.append(message("too early", in: chat, by: bob)) }

            let connection = InProcess.connect(proxy, to: hub) { _ in }
            try await eventually { try proxy.store.participants(of: chat).contains(bob) && proxy.outbox.isEmpty }
            try proxy.append([message("answer", in: chat, by: bob)])
            connection.outboxChanged()
            try await eventually { proxy.outbox.isEmpty }
            connection.end()
            for store in [world.hubStore, proxy.store] {
                #expect(try store.timeline(of: chat)?.messages.map(\.text) == ["answer"])
                #expect(try store.timeline(of: other)?.messages.map { "\($0.author) \($0.text)" } == ["ada by ada", "bob by bob"])
            }

            // It stays one, and who comes in may write in the same breath.
            try proxy.close()
            let later = try world.open(world.directory + "/proxy", eve)
            try later.append([
                Event(conversation: chat, author: ada, content: .participantJoined(eve)), message("by eve", in: chat, by: eve),
            ])
            let session = InProcess.connect(later, to: hub, scope: .mine) { _ in }
            try await eventually { later.outbox.isEmpty }
            session.end()
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["answer", "by eve"])

            let device = try world.device(ada)
            #expect(throws: Refusal(.forbidden, "this is the replica of ada")) { try device.append(message("forged", in: chat, by: bob)) }
        }
    }

    @Test("Who says to be a service without the claim is sent away, and what it wrote stays") func pretender() async throws {
        try await withWorld { world in
            let replica = try world.open(world.directory + "/pretender", ada, isService: true)
            let chat = ConversationID.random()
            try replica.append(Event(conversation: chat, author: bob, content: .conversationCreated(kind: .direct, title: nil, participants: [ada])))
            let session = world.follow(replica)
            try await eventually { session.end != nil }
            let bye: Bye? = if case .ended(let bye) = session.end { bye } else { nil }
            #expect(bye?.code == .forbidden)
            #expect(replica.outbox.map(\.event.author) == [bob])
            #expect(try world.hubStore.timeline(of: chat) == nil)
        }
    }

    @Test("A user's replica does not become a service's") func turning() async throws {
        try await withWorld { world in
            let path = world.directory + "/device"
            let device = try world.open(path, ada)
            try await world.sync(device)
            try device.close()
            #expect { try world.open(path, ada, isService: true) } throws: { ($0 as? ReplicaError)?.code == .otherUser }
            #expect(try !world.open(path, ada).isService)
        }
    }

    @Test("What is damaged of a service's replica is had again, also of conversations in which it takes no part") func repair() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            _ = try world.hubStore.log.appendBlocking((0..<1500).map { Submission(message("message \($0) \(MessageID.random())", in: chat, by: ada)) })
            try world.hubStore.log.flush()
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let path = world.directory + "/proxy"
            let proxy = try world.open(path, eve, isService: true)
            let connection = InProcess.connect(proxy, to: hub) { _ in }
            try await eventually { proxy.isWhole && proxy.store.log.lastPosition >= 1501 }
            connection.end()
            try proxy.close()
            try world.damage(path)
            let session = try await world.repair(path, through: hub)
            #expect(session.isWhole(repaired: 1), "\(String(describing: session.end))")
            #expect(try world.open(path, eve).isService)
        }
    }

    @Test("Damage to what says whose a service's replica is does not cost its outbox") func damage() async throws {
        try await withWorld { world in
            let path = world.directory + "/proxy"
            let proxy = try world.open(path, eve, isService: true)
            let chat = ConversationID.random()
            try proxy.append([
                Event(conversation: chat, author: ada, content: .conversationCreated(kind: .direct, title: nil, participants: [bob])),
                message("by bob", in: chat, by: bob),
            ])
            try proxy.close()
            try SideDamageTests.spoil(path, SyncTables.state, ReplicaState.Key.user)
            let (pending, _) = try #require(try Replica.healSide(at: path, user: eve))
            #expect(pending == 2)
            let healed = try world.open(path, eve)
            #expect(healed.isService && healed.outbox.map(\.event.author) == [ada, bob])
        }
    }

    @Test("A full copy stays one: what it holds beside the user's own would look lost") func fullCopy() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.assistant, author: ada, participants: [bob])
            let hub = try Hub(store: world.hubStore, options: .anyUser(services: [eve]))
            let copy = try world.open(world.directory + "/copy", eve)
            func end(_ scope: Scope) async throws -> ReplicaEvent? {
                let session = World.Session()
                session.connection = InProcess.connect(copy, to: hub, scope: scope) { event in session.log.withLock { $0.append(event) } }
                try await eventually { session.isSettled || session.end != nil }
                if session.end == nil { session.connection.end() }
                try await eventually { session.end != nil }
                return session.end
            }
            _ = try await end(.everything)
            let head = try copy.store.log.head(of: .conversation(chat))
            #expect(head != nil)
            for scope in [Scope.mine, .newest(conversations: 1, messages: 1)] {
                guard case .failed(let error as ReplicaError) = try await end(scope), error.code == .otherScope else {
                    Issue.record("it was not refused")
                    return
                }
            }
            _ = try await end(.everything)
            #expect(try copy.store.log.head(of: .conversation(chat)) == head && copy.lostEvents().isEmpty)
        }
    }
}
