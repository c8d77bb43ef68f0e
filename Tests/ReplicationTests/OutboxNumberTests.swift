import ConversationStore
import Foundation
@testable import Replication
import StoreTesting
import Testing

/// The numbers by which a person names entries of an outbox.
@Suite struct OutboxNumberTests {
    @Test("a number that an entry was given names no other one, also when that is gone and the replica was opened again") func neverAgain() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let identity = ReplicaIdentity(user: ada, nonce: [UInt8](repeating: 1, count: 16)), chat = ConversationID.random()
            var clock: UInt64 = 0
            func text() -> (event: Event, hlc: HLC) {
                clock += 1
                let message = Event.Message(id: .random(), role: .user, text: "text")
                return (Event(conversation: chat, author: ada, content: .messageSent(message)), HLC(rawValue: clock << 16))
            }
            var seen: Set<UInt64> = []
            for round in 0..<3 {
                let outbox = try Outbox(side, identity: identity)
                #expect(outbox.isEmpty)
                let made = try outbox.add([text(), text()])
                #expect(seen.isDisjoint(with: made.map(\.id)), "\(round)")
                seen.formUnion(made.map(\.id))
                // What is changed has the number that it had, and is not the newest.
                _ = try outbox.edit(made[0].id, text: "other", hlc: HLC(rawValue: made[0].origin.hlc.rawValue + 1))
                _ = try outbox.discard([made[1].id])
                let again = try Outbox(side, identity: identity)
                #expect(again.entries.map(\.id) == [made[0].id])
                let origin = Origin(replica: .random(), counter: 1, hlc: HLC(rawValue: clock << 16)), said = text().event
                let lost = RecordedEvent(log: said.log, seq: 1, position: 1, origin: origin, hlc: origin.hlc, event: said, targetSeq: nil)
                try again.putFirst([lost])
                #expect(seen.isDisjoint(with: again.entries.map(\.id)), "\(round)")
                seen.formUnion(again.entries.map(\.id))
                #expect(try again.discard(Set(again.entries.map(\.id))).count == 2)
            }
        }
    }

    @Test("what is put behind all others gets a number that none has had") func moved() async throws {
        try await withWorld { world in
            let side = try SideStore(directory: world.directory, tables: SyncTables.names)
            defer { side.close() }
            let chat = ConversationID.random(), present = OutboxOrderTests.present
            func entry(_ id: UInt64, _ content: Event.Content, _ state: OutboxEntry.State) -> OutboxEntry {
                OutboxOrderTests.entry(id, in: chat, content, of: present, state)
            }
            // What was made behind it and is of its lane was sent: it goes behind that.
            let overtaken = entry(1, OutboxOrderTests.text(.random()), .pending), sent = entry(2, OutboxOrderTests.text(.random()), .sent)
            let outbox = Outbox(side, [overtaken, sent], identity: present)
            try outbox.beginSession()
            _ = try outbox.take(bytesMax: 1 << 20, eventsMax: 100)
            let moved = try #require(outbox.entries.last)
            #expect((moved.id, moved.origin.hlc) == (3, overtaken.origin.hlc))
            try side.write { for id in [UInt64(2), 3] { try $0.delete(SyncTables.outbox, Outbox.key(id)) } }
            #expect(try Outbox(side, identity: present).nextID == 4)
        }
    }
}
