import ConversationStore
import Testing

@testable import Replication

/// Events of a newer version: what this one does not know of them is given on byte for byte.
@Suite struct NewerFieldsTests {
    /// Envelopes and bodies with fields behind the known ones; and a kind of its own, with references, in a user's log.
    private func events(in chat: ConversationID) throws -> [RecordedEvent] {
        let log = LogID.conversation(chat)
        func encoded(_ event: Event, _ seq: Seq, _ log: LogID, envelope: [UInt8], body: [UInt8]) throws -> RecordedEvent {
            let origin = Origin(replica: ReplicaID(high: 5, low: 5), counter: seq, hlc: HLC(milliseconds: seq))
            let plain = RecordedEvent(log: log, seq: seq, position: 0, origin: origin, hlc: HLC(milliseconds: 1000 + seq), event: event, targetSeq: nil)
            let bytes = EventCodec.encode(plain)
            return try EventCodec.decode(envelope: bytes.envelope + envelope, body: bytes.body + body)
        }
        let created = Event(conversation: chat, author: ada, content: .conversationCreated(kind: .group, title: "t", participants: [bob]))
        var events = [
            try encoded(created, 1, log, envelope: [14 << 3, 7], body: [6 << 3, 9]),
            try encoded(message("hi", in: chat, by: ada), 2, log, envelope: [], body: [6 << 3 | 2, 2, 1, 2, 7 << 3, 1]),
            try encoded(message("", in: chat, by: bob), 3, log, envelope: [15 << 3 | 2, 1, 1], body: []),
        ]
        for seq in 4...60 as ClosedRange<Seq> {
            events.append(try encoded(message("message \(seq)", in: chat, by: ada), seq, log, envelope: [], body: seq % 9 == 0 ? [8 << 3, 1] : []))
        }
        // 77 of kind 9: a field of one byte, so that it can be set in the bytes. References stand behind it.
        let unknown = Event(conversation: chat, author: ada, content: .unknown(kind: 77, body: [1 << 3, 5, 9 << 3, 1]))
        let references: [UInt8] = [10 << 3 | 2, 16] + [UInt8](0..<16) + [11 << 3, 3]
        events.append(try encoded(unknown, 61, log, envelope: references, body: []))
        events.append(try encoded(unknown, 1, .user(ada), envelope: references, body: []))
        return events
    }

    @Test func aHubAndItsReplicasHaveTheSameBytes() async throws {
        try await withWorld { world in
            let chat = ConversationID.random()
            let made = try events(in: chat)
            _ = try world.hubStore.log.adoptBlocking(made, secrets: [:])
            let logs = [LogID.conversation(chat), .user(ada)]
            for isArchived in [false, true] {
                if isArchived { try world.hubStore.log.flush() }
                for log in logs {
                    let wanted = made.filter { $0.log == log }.map { EventCodec.encode($0) }
                    let kept = try world.hubStore.log.events(in: log).map { EventCodec.encode($0) }
                    // What was sent live in the first round stands behind them.
                    #expect(kept.prefix(wanted.count).map(\.envelope) == wanted.map(\.envelope))
                    #expect(kept.prefix(wanted.count).map(\.body) == wanted.map(\.body))
                }
                let device = try world.device(ada)
                try await world.sync(device)
                for log in logs {
                    let head = try world.hubStore.log.head(of: log)
                    #expect(try head != nil && device.store.log.head(of: log) == head)
                    #expect(try device.store.log.events(in: log).map(\.newer) == world.hubStore.log.events(in: log).map(\.newer))
                }
                #expect(try device.store.log.events(in: logs[0]).count { $0.newer != nil } == 10)
                // A few events as they are, and through the device's own archive.
                try await world.hubStore.send("live", to: chat, from: bob)
                try await world.sync(device)
                try device.store.log.flush()
                #expect(try device.store.log.head(of: logs[0]) == world.hubStore.log.head(of: logs[0]))
            }
        }
    }

    @Test func whatADevicePushesKeepsItsFields() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let peer = try await RawPeer(world.hub, ada)
            let origin = Origin(replica: peer.replica, counter: 1, hlc: HLC(milliseconds: 5))
            let event = message("new", in: chat, by: ada)
            let plain = EventCodec.encode(
                RecordedEvent(log: .conversation(chat), seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil))
            for _ in 0..<2 {
                peer.send(.push([PushedEvent(envelope: plain.envelope + [14 << 3, 1], body: plain.body + [6 << 3, 2], isFirstSending: false)]))
                try await eventually { peer.answers > 0 }
                #expect(peer.accepted.last?.seq == 2)
                peer.forget()
            }
            let kept = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 2))
            let bytes = EventCodec.encode(kept)
            #expect(bytes.envelope.suffix(2) == [14 << 3, 1] && bytes.body.suffix(2) == [6 << 3, 2])
            // The same origin without them is another event.
            peer.send(.push([PushedEvent(envelope: plain.envelope, body: plain.body, isFirstSending: false)]))
            try await eventually { peer.answers > 0 }
            #expect(peer.refused.map(\.code) == ["origin_conflict"])
            peer.end()
        }
    }
}
