import ConversationStore
import Testing

@testable import Replication

/// Who leaves a conversation while a hub has something for them.
@Suite struct LeavingTests {
    private func seqs(_ peer: RawPeer, of chat: ConversationID) throws -> [Seq] {
        try peer.frames.flatMap { frame -> [Seq] in
            guard case .events(let events) = frame else { return [] }
            return try events.items.map { try EventCodec.decode(envelope: $0.envelope, body: $0.body) }.filter { $0.log == .conversation(chat) }.map(\.seq)
        }
    }

    @Test("what was wanted before somebody came back is not sent from before the coming, where the history begins there") func comingBack() async throws {
        let threads = Monitor<[@Sendable () -> Void]>([])
        try await withWorld { options in
            options.execution.longAtOnce = 1
            options.execution.runLong = { body in threads.withLock { $0.append(body) } }
            // On a busy machine anything may take so long that the rest goes in a turn.
            let now = options.execution.now()
            options.execution.now = { now }
        } _: { world in
            let hub = world.hubStore
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            func add(_ content: Event.Content, to chat: ConversationID) async throws {
                _ = try await hub.append(Event(conversation: chat, author: ada, content: content))
            }
            let chat = try await hub.createConversation(.group, author: ada, participants: [bob])
            try await add(.conversationUpdated(title: nil, attributes: [attribute]), to: chat)
            try await add(.participantLeft(bob), to: chat)
            let other = try await hub.createConversation(.group, author: ada, participants: [bob])
            // The screen waits for a turn, and all else behind it.
            let peer = try await RawPeer(world.hub, bob) {
                $0.scope = .conversations([chat, other])
                $0.wantsFirstScreen = true
            }
            try await eventually { threads.withLock { $0.count } == 1 }
            for _ in 0..<3 { _ = try await hub.append(message("not for bob", in: chat, by: ada)) }
            try await add(.participantJoined(bob), to: chat)
            try await eventually { peer.frames.contains { if case .heads = $0 { true } else { false } } }
            try await eventually {
                for body in threads.withLock({ threads in
                    defer { threads = [] }
                    return threads
                }) { body() }
                return try !seqs(peer, of: other).isEmpty
            }
            peer.send(.ping(1))
            try await eventually { peer.frames.contains(.pong(1)) }
            #expect(try seqs(peer, of: chat).allSatisfy { $0 < 4 || $0 > 6 })
            peer.end()
        }
    }

    @Test("whoever wanted all of a history that is closed meanwhile is sent it from their joining on", arguments: [true, false])
    func closed(_ hasScreen: Bool) async throws {
        try await withWorld { world in
            let hub = world.hubStore
            let chat = try await hub.createConversation(.group, author: ada, participants: [bob])
            _ = try await hub.append(message("before bob", in: chat, by: ada))
            for content in [Event.Content.participantLeft(bob), .participantJoined(bob)] {
                _ = try await hub.append(Event(conversation: chat, author: ada, content: content))
            }
            _ = try await hub.append(message("for bob", in: chat, by: ada))
            let peer = try await RawPeer(world.hub, bob, takesMore: false) {
                $0.scope = .conversations([chat])
                $0.wantsFirstScreen = hasScreen
            }
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            _ = try await hub.append(Event(conversation: chat, author: ada, content: .conversationUpdated(title: nil, attributes: [attribute])))
            peer.takesMore.withLock { $0 = true }
            peer.drained()
            func isCaughtUp() -> Bool { peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            // A hub hears of a commit when it has the time.
            try await eventually { try peer.bye != nil || isCaughtUp() && seqs(peer, of: chat).contains(6) }
            #expect(try seqs(peer, of: chat) == [4, 5, 6])
            let bases = peer.frames.compactMap { frame -> Seq? in if case .base(let base) = frame { base.seq } else { nil } }
            #expect(bases == [3])
            peer.end()
        }
    }

    @Test("of a log that goes on behind a leaving, a part is told by the position of the leaving") func progress() async throws {
        try await withWorld { world in
            let hub = world.hubStore
            let chat = try await hub.createConversation(.group, author: ada, participants: [bob])
            _ = try await hub.append(message("one", in: chat, by: ada))
            _ = try await hub.append(Event(conversation: chat, author: ada, content: .participantLeft(bob)))
            _ = try await hub.append(message("without bob", in: chat, by: ada))
            let end = hub.log.lastPosition
            let peer = try await RawPeer(world.hub, bob) {
                let cursor = Cursor(store: hub.log.id, incarnation: world.hub.incarnation, position: end)
                $0.cursor = Cursor(store: hub.log.id, incarnation: 0, position: 0)
                $0.progress = PartialCursor(cursor: cursor, wholeFrom: end, partFrom: end, partThrough: 0)
                $0.takesProgress = true
            }
            let root = try #require(try world.hub.heads.tree(of: .conversation(chat), through: 2)).root()
            let head = HeadsFrame.Item(log: .conversation(chat), head: LogHead(size: 2, root: root))
            peer.send(.heads(HeadsFrame(heads: [head], isProbe: false, isLast: true)))
            try await eventually { peer.bye != nil || peer.frames.contains { if case .caughtUp = $0 { true } else { false } } }
            #expect(peer.bye == nil)
            #expect(try seqs(peer, of: chat) == [3])
            peer.end()
        }
    }
}
