import ConversationStore
import Testing

import EventLog
@testable import Replication

/// Conversations whose people, title and attributes are more than a message carries: each must cost nobody anything but itself.
@Suite("States that are too large") struct LargeStateTests {
    /// A conversation of bob's with some 5 MB of attributes, and enough messages that a page begins behind it.
    private func large(_ world: World, isFromJoining: Bool) async throws -> ConversationID {
        let chat = try await world.hubStore.createConversation(.group, author: bob, participants: isFromJoining ? [] : [ada])
        let value = noise(4096)
        var events = (0..<20).map { number in
            let attributes = (10..<74).map { Event.Attribute(name: "a\(10 + number)-\($0)", value: value) }
            return Event(conversation: chat, author: bob, content: .conversationUpdated(title: nil, attributes: attributes))
        }
        if isFromJoining {
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            events.append(Event(conversation: chat, author: bob, content: .conversationUpdated(title: nil, attributes: [attribute])))
            events.append(Event(conversation: chat, author: bob, content: .participantJoined(ada)))
        }
        events += (0..<60).map { message("\($0)", in: chat, by: bob) }
        for event in events { _ = try await world.hubStore.append(event) }
        return chat
    }

    @Test("are sent event by event, or not at all where they must come first", arguments: [Scope.mine, .newest(conversations: 5, messages: 10)])
    func devices(_ scope: Scope) async throws {
        try await withWorld { world in
            let first = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            _ = try await world.hubStore.append(message("first", in: first, by: bob))
            let whole = try await large(world, isFromJoining: false), joined = try await large(world, isFromJoining: true)
            let last = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            _ = try await world.hubStore.append(message("last", in: last, by: bob))
            let device = try world.device(ada)
            let session = world.follow(device, scope: scope)
            try await eventually { session.isSettled || session.end != nil }
            #expect(session.end == nil)
            #expect(session.unreadable == [.conversation(joined)])
            for (chat, text) in [(first, "first"), (whole, "59"), (last, "last")] {
                #expect(try device.store.timeline(of: chat)?.messages.last?.text == text)
            }
            #expect(try device.store.log.lastSeq(of: .conversation(whole)) == 81)
            // What is said later comes, too.
            _ = try await world.hubStore.append(message("more", in: whole, by: bob))
            try await eventually { try device.store.timeline(of: whole)?.messages.last?.text == "more" }
            session.connection.end()
            try await eventually { session.end != nil }
        }
    }

    @Test("go once to who asks for their newest messages again and again") func again() async throws {
        try await withWorld { world in
            let chat = try await large(world, isFromJoining: false)
            let peer = try await RawPeer(world.hub, ada) { ($0.scope, $0.credit) = (.newest(conversations: 0, messages: 1), 1 << 30) }
            peer.forget()
            let fetch = Frame.fetch([Fetch(log: .conversation(chat), from: 0, through: 10)])
            peer.send(fetch)
            try await eventually { peer.frames.contains { $0.lastSeq == 81 } }
            peer.send(fetch)
            // Something that comes behind it.
            _ = try await world.hubStore.append(message("more", in: chat, by: bob))
            try await eventually { peer.frames.contains { $0.lastSeq == 82 } }
            #expect(peer.frames.count { $0.secret != nil } == 1)
        }
    }
}

extension Frame {
    private var logs: [LogNote] {
        switch self {
        case .segment(let segment): segment.logs
        case .events(let events): events.logs
        default: []
        }
    }

    /// The size of a head that it tells.
    fileprivate var lastSeq: UInt64? { logs.last?.head?.size }
    /// What only who is sent a log's first event is told.
    fileprivate var secret: [UInt8]? { logs.first { !$0.secret.isEmpty }?.secret }
}
