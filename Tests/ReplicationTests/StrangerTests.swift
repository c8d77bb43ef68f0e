import ConversationStore
import EventLog
import Testing

@testable import Replication

/// What a hub tells who never took part in a conversation.
@Suite("Strangers") struct StrangerTests {
    private static func contents() -> [Event.Content] {
        let id = MessageID(high: 1, low: 2)
        return [
            .messageSent(Event.Message(id: id, role: .user, text: "hello")), .messageSent(Event.Message(id: id, role: .user, text: "", isStreaming: true)),
            .chunkAppended(message: id, index: 0, text: "x"), .messageCompleted(message: id, finishReason: nil, usage: nil),
            .messageInterrupted(message: id, reason: "r"), .messageEdited(message: id, text: "y"), .messageDeleted(message: id),
            .reactionSet(message: id, emoji: "👍", isOn: true), .receiptDelivered(upTo: id), .receiptRead(upTo: id), .participantJoined(eve),
            .participantLeft(eve), .participantLeft(ada), .conversationUpdated(title: "t", attributes: []), .preferenceSet(key: "pinned", value: "1"),
            .custom(name: "n", payload: [1]),
        ]
    }

    private static func pushed(_ content: Event.Content, in chat: ConversationID, _ replica: ReplicaID, _ counter: UInt64, isFirst: Bool) -> PushedEvent {
        let event = Event(conversation: chat, author: eve, content: content)
        let origin = Origin(replica: replica, counter: counter, hlc: HLC(milliseconds: 5))
        let (envelope, body) = EventCodec.encode(
            RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
        return PushedEvent(envelope: envelope, body: body, isFirstSending: isFirst)
    }

    /// What is told of a conversation, without its name.
    private static func told(_ hub: Hub, of chat: ConversationID) async throws -> (refused: [Refused], accepted: [Accepted], sizes: [Int]) {
        let peer = try await RawPeer(hub, eve) { $0.takesUnreadable = true }
        peer.forget()
        var pushes = 0
        func push(_ counter: UInt64, _ content: Event.Content, isFirst: Bool) async throws {
            peer.send(.push([pushed(content, in: chat, peer.replica, counter, isFirst: isFirst)]))
            pushes += 1
            try await eventually { peer.answers == pushes }
        }
        for (index, content) in contents().enumerated() { try await push(UInt64(index) + 100, content, isFirst: true) }
        // Repeats, counters that were left out, and those that were used for something else.
        for (index, content) in contents().enumerated() {
            try await push(UInt64(index) + 100, content, isFirst: false)
            try await push(UInt64(index) + 1, content, isFirst: false)
            try await push(UInt64(index) + 101, content, isFirst: true)
        }
        peer.send(.heads(HeadsFrame(heads: [HeadsFrame.Item(log: .conversation(chat), head: LogHead(size: 1, root: CompactRange().root()))], isProbe: true)))
        peer.send(.fetch([Fetch(log: .conversation(chat), from: 1, through: 0), Fetch(log: .conversation(chat), from: 0, through: 5)]))
        peer.send(.ping(5))
        try await eventually { peer.frames.contains(.pong(5)) }
        let answers = (
            peer.refused.map { Refused(log: .user(eve), replica: $0.replica, counter: $0.counter, code: $0.code, detail: $0.detail) },
            peer.accepted.map {
                Accepted(log: .user(eve), replica: $0.replica, counter: $0.counter, seq: $0.seq, hlc: $0.hlc, isDuplicate: $0.isDuplicate)
            },
            peer.frames.map { $0.encoded().count }
        )
        peer.end()
        return answers
    }

    @Test("are told the same of a conversation that is there and of one that is not, whatever they push; who takes or took part learns more")
    func oracle() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<20 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            let there = try await Self.told(world.hub, of: chat)
            // Its lanes of the user's own log begin anew, as in another world.
            try await withWorld { other in
                let absent = try await Self.told(other.hub, of: .random())
                #expect(there.refused == absent.refused)
                #expect(there.accepted == absent.accepted)
                #expect(there.sizes == absent.sizes)
            }
            #expect(!there.refused.isEmpty && !there.refused.contains { $0.code == "not_participant" })
            // Who left is told what is so.
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantJoined(eve)))
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantLeft(eve)))
            let peer = try await RawPeer(world.hub, eve) { hello in
                hello.nonce = [UInt8](16..<32)
                hello.replica = Replicas.id(user: eve, nonce: hello.nonce)
            }
            let replica = Replicas.id(user: eve, nonce: [UInt8](16..<32))
            peer.send(.push([Self.pushed(.custom(name: "n", payload: []), in: chat, replica, 1, isFirst: true)]))
            try await eventually { peer.answers == 1 }
            #expect(peer.refused.first?.code == "not_participant")
            peer.end()
        }
    }

    @Test("learn nothing of a conversation either that the hub cannot read", arguments: [false, true]) func unreadable(ofColumns: Bool) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<20 { try await world.hubStore.send("message \(index)", to: chat, from: ada) }
            try world.hubStore.log.flush()
            try world.reopenHub(log: { _ in }) { path in _ = try EventStore.damageRun(at: path, number: 0) { $0[ofColumns ? 100 : $0.count / 2] ^= 0x10 } }
            let there = try await Self.told(world.hub, of: chat)
            // That an id is taken cannot be hidden. What comes behind is answered as ever, and when they have come in.
            let peer = try await RawPeer(world.hub, eve) { $0.takesUnreadable = true }
            let creation = Event.Content.conversationCreated(kind: .group, title: nil, participants: [])
            for (index, content) in [creation, .conversationUpdated(title: nil, attributes: []), .custom(name: "n", payload: [])].enumerated() {
                peer.send(.push([Self.pushed(content, in: chat, peer.replica, 1000 + UInt64(index), isFirst: true)]))
                try await eventually { peer.answers == index + 1 }
            }
            #expect(peer.refused.map(\.code) == ["conversation_conflict", "malformed", "unknown_conversation"])
            #expect(!peer.frames.contains { if case .unreadable = $0 { true } else { false } })
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantJoined(eve)))
            peer.send(.push([Self.pushed(.custom(name: "n", payload: []), in: chat, peer.replica, 1003, isFirst: true)]))
            try await eventually { peer.answers == 4 }
            #expect(peer.accepted.count == 1)
            peer.end()
            try await withWorld { other in
                let absent = try await Self.told(other.hub, of: .random())
                #expect(there.refused == absent.refused)
                #expect(there.accepted == absent.accepted)
                #expect(there.sizes == absent.sizes)
            }
        }
    }
}
