import ConversationStore
import Foundation
import StoreTesting
import Testing

@testable import EventLog
@testable import Replication

/// Bytes of the file `sync` of a replica or a hub go bad. CONVSTORE_DAMAGES=N does N of them instead of CI's share.
@Suite("Damaged side stores of replicas and hubs") struct SideDamageTests {
    /// A replica of ada's: synced, with one event sent without an answer and three that were not sent.
    private func begin(_ world: World) async throws -> (path: String, chat: ConversationID, texts: [String]) {
        let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
        let device = try world.device(ada)
        try await world.sync(device)
        for index in 0..<40 { try await world.hubStore.send("from bob \(index)", to: chat, from: bob) }
        try device.append(message("accepted", in: chat, by: ada))
        try await world.sync(device)
        try device.append(message("without an answer", in: chat, by: ada))
        _ = try device.hello(token: "", scope: .mine)
        for index in 0..<3 { try device.append(message("not sent \(index)", in: chat, by: ada)) }
        let path = device.store.log.path
        try device.close()
        return (path, chat, ["without an answer", "not sent 0", "not sent 1", "not sent 2"])
    }

    private func texts(_ entries: [OutboxEntry]) -> [String] {
        entries.compactMap { if case .messageSent(let message) = $0.event.content { message.text } else { nil } }
    }

    private func expectSame(_ world: World, _ device: Replica, _ chat: ConversationID, sent: [String]) throws {
        #expect(device.outbox.isEmpty && device.isWhole && device.holes.isEmpty)
        #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        #expect(try device.store.isFold())
        let own = try world.hubStore.timeline(of: chat, .newest, limit: 100)!.messages.map(\.text).filter { !$0.hasPrefix("from bob") }
        #expect(own.sorted() == (["accepted"] + sent).sorted())
    }

    private func identity(_ path: String) throws -> ReplicaID {
        let device = try Replica.open(at: path, user: ada)
        defer { try? device.close() }
        return device.state.withLock { $0.outbox.identity.replica }
    }

    /// Puts bytes that match no checksum in the place of a record.
    static func spoil(_ path: String, _ table: String, _ key: [UInt8]) throws {
        let side = try SideStore(directory: path, tables: SyncTables.names)
        defer { side.close() }
        let table = try #require(try side.environment.tables([table])[0])
        try side.environment.write { try $0.put(table, key, [UInt8](repeating: 9, count: 40)) }
    }

    @Test("records of another table under a table's name, as a damaged page may show them, keep no replica from being opened")
    func anothersRecords() async throws {
        try await withWorld { world in
            let (path, chat, texts) = try await begin(world)
            let side = try SideStore(directory: path, tables: SyncTables.names)
            var records: [(key: [UInt8], value: [UInt8])] = []
            try side.read { transaction in
                try transaction.forEach(SyncTables.outbox) { key, value in
                    records.append((key, value))
                    return true
                }
            }
            let tables = [SyncTables.previews, SyncTables.ahead, SyncTables.lost, SyncTables.suspects, SyncTables.offers]
            try side.write { transaction in
                for table in tables { for (key, value) in records { try transaction.put(table, key, value) } }
            }
            side.close()
            try Self.spoil(path, SyncTables.lanes, LogID.conversation(chat).key)
            let (_, _, lost) = try Replica.salvage(at: path, user: ada)
            for table in tables { #expect(lost.contains { $0.contains("\(records.count) records of the table \(table)") }, "\(lost)") }
            let device = try await world.heal(world.open(path, ada))
            try expectSame(world, device, chat, sent: texts)
        }
    }

    @Test("I1: what is sound of the outbox is kept, and the rest is told, whatever bytes are damaged") func campaign() async throws {
        try await withWorld { world in
            let count = ProcessInfo.processInfo.environment["CONVSTORE_DAMAGES"].flatMap { Int($0) } ?? 60
            let (path, _, texts) = try await begin(world)
            let file = URL(fileURLWithPath: SideStore.path(path))
            let sound = try Data(contentsOf: file)
            var (healed, complete) = (0, 0)
            for seed in 0..<UInt64(count) {
                var random = SeededGenerator(seed: seed)
                var bytes = sound
                let pages = bytes.count / 4096
                switch seed % 4 {
                case 0: bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
                // A page's head, and then its records, which stand at its end.
                case 1: bytes[Int.random(in: 0..<pages, using: &random) * 4096 + Int.random(in: 0..<64, using: &random)] ^= 1 << UInt8(seed & 7)
                case 2: bytes[Int.random(in: 1...pages, using: &random) * 4096 - Int.random(in: 1...256, using: &random)] ^= 1 << UInt8(seed & 7)
                default:
                    let at = Int.random(in: 0..<bytes.count, using: &random)
                    for index in at..<min(bytes.count, at + 1024) { bytes[index] ^= UInt8.random(in: 1...255, using: &random) }
                }
                try? FileManager.default.removeItem(atPath: file.path + "-lock")
                try bytes.write(to: file)
                if try EventStore.verify(at: path).isSound {
                    let overlay = try #require(try ReplicaOverlay(of: path))
                    #expect(self.texts(overlay.outbox) == texts, "seed \(seed)")
                    continue
                }
                healed += 1
                let remains = try #require(try SideRemains(of: path))
                let (pending, lost) = try #require(try Replica.healSide(at: path, user: ada))
                #expect(try EventStore.verify(at: path).problems == [], "seed \(seed)")
                let device = try Replica.open(at: path, user: ada)
                defer { try? device.close() }
                let kept = self.texts(device.outbox)
                #expect(kept.count == pending && kept == texts.filter { kept.contains($0) }, "seed \(seed): \(kept)")
                #expect(kept.count == texts.count || !lost.isEmpty, "seed \(seed): \(kept)")
                #expect(self.texts(remains.outbox) == kept && !remains.problems.isEmpty, "seed \(seed)")
                #expect(device.cursor == nil)
                if kept == texts { complete += 1 }
            }
            #expect(healed > count / 3 && complete > healed / 5, "\(complete) of \(healed)")
            try sound.write(to: file)
        }
    }

    @Test("A damaged entry of the outbox takes no other with it, and the replica stays who it was") func entry() async throws {
        try await withWorld { world in
            let (path, chat, all) = try await begin(world)
            let before = try identity(path)
            try Self.spoil(path, SyncTables.outbox, Outbox.key(3))
            #expect(throws: EventLogError.self) { try Replica.open(at: path, user: ada) }
            let (pending, lost) = try #require(try Replica.healSide(at: path))
            #expect(pending == 3 && lost == ["sync: records of the table outbox that cannot be read: 1; sound: 3"])
            let device = try await world.heal(try world.open(path, ada))
            #expect(device.state.withLock { $0.outbox.identity.replica } == before)
            try expectSame(world, device, chat, sent: all.filter { $0 != "not sent 0" })
        }
    }

    @Test("Without all counters that it gave out a replica takes a new id; nothing is sent twice", arguments: [true, false])
    func counters(_ isNonce: Bool) async throws {
        try await withWorld { world in
            let (path, chat, all) = try await begin(world)
            let before = try identity(path)
            // The hub has what the device has no answer to.
            let copy = world.directory + "/copy"
            try EventStore.copy(from: path, to: copy)
            try await world.sync(try world.open(copy, ada))
            try Self.spoil(path, isNonce ? SyncTables.state : SyncTables.lanes, isNonce ? ReplicaState.Key.nonce : LogID.conversation(chat).key)
            #expect(try EventStore.verify(at: path).damaged == [.side])
            let (pending, lost) = try #require(try Replica.healSide(at: path))
            #expect(pending == 4 && lost.count == 1)
            let device = try await world.heal(try world.open(path, ada))
            #expect(device.state.withLock { $0.outbox.identity.replica } != before)
            #expect(try Identities.own(device.side, device.state.withLock { $0.outbox.identity }).ids.contains(before))
            try expectSame(world, device, chat, sent: all)
        }
    }

    @Test("Where nothing can be read, a replica begins anew under its user's name, compares, and loses none of its log") func nothing() async throws {
        try await withWorld { world in
            let (path, chat, _) = try await begin(world)
            try Data(repeating: 0, count: 40_000).write(to: URL(fileURLWithPath: SideStore.path(path)))
            let error = #expect(throws: EventLogError.self) { try Replica.healSide(at: path) }
            #expect(error?.message.contains("--user") ?? false)
            let (pending, lost) = try #require(try Replica.healSide(at: path, user: ada))
            #expect(pending == 0 && lost == ["sync: nothing of it can be read; what it held is not known"])
            let device = try world.open(path, ada)
            #expect(device.store.log.lastPosition == 42)
            try device.append(message("after the damage", in: chat, by: ada))
            let session = world.follow(device)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            let received = session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            #expect(received <= 1, "only what is new: \(received)")
            try expectSame(world, device, chat, sent: ["after the damage"])
        }
    }

    @Test("Log and side store are damaged: both are healed") func both() async throws {
        try await withWorld { world in
            let (path, chat, all) = try await begin(world)
            #expect(try EventStore.damageRun(at: path, number: 0) > 0)
            try Self.spoil(path, SyncTables.lanes, LogID.conversation(chat).key)
            #expect(try EventStore.verify(at: path).damaged == [.log, .side])
            let (_, _, lost) = try Replica.salvage(at: path, user: ada)
            #expect(lost.contains { $0.contains("lanes") })
            let device = try await world.heal(try world.open(path, ada))
            try expectSame(world, device, chat, sent: all)
        }
    }

    @Test("A newest part with a gap is not shown; what of it the hub has comes again", arguments: [0, 3] as [Seq])
    func newestPart(_ place: Seq) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<60 { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
            let newest = Scope.newest(conversations: 5, messages: 10)
            var device = try await world.heal(try world.device(ada), scope: newest)
            let path = device.store.log.path
            #expect(device.holes.map(\.seqs) == [1...51])
            try device.close()
            try Self.spoil(path, SyncTables.previews, chat.bytes + withUnsafeBytes(of: (place == 0 ? 0 : 51 + place).bigEndian) { Array($0) })
            let (_, lost) = try #require(try Replica.healSide(at: path))
            #expect(lost.count == 1)
            device = try world.open(path, ada)
            #expect(device.holes.isEmpty)
            device = try await world.heal(device, scope: newest)
            #expect(device.holes.map(\.seqs) == [1...51])
            #expect(try device.store.timeline(of: chat, .newest, limit: 10) != nil)
            #expect(try device.lostEvents().isEmpty)
            device = try await world.heal(device)
            try expectSameLog(world, device, chat)
        }
    }

    @Test("as many records as there should be, of another table, make no part whole, no counters known, and nothing one's own")
    func strangersInPlaces() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<60 { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
            let newest = Scope.newest(conversations: 5, messages: 10)
            var device = try await world.heal(try world.device(ada), scope: newest)
            try device.append(message("mine", in: chat, by: ada))
            device = try await world.heal(device, scope: newest)
            let (path, replica) = (device.store.log.path, device.state.withLock { $0.outbox.identity.replica })
            let others = try #require(device.parts.first?.events[2])
            try device.close()
            let side = try SideStore(directory: path, tables: SyncTables.names)
            let stranger = (key: Array("user".utf8), value: Array("ada".utf8))
            try side.write { transaction in
                let event = chat.bytes + withUnsafeBytes(of: others.seq.bigEndian) { Array($0) }
                for (table, key) in [(SyncTables.previews, event), (SyncTables.lanes, LogID.conversation(chat).key)] {
                    #expect(try transaction.get(table, key) != nil)
                    try transaction.delete(table, key)
                    try transaction.put(table, stranger.key, stranger.value)
                }
                try transaction.put(SyncTables.offers, Lost.key(others), others.kept)
            }
            side.close()
            try Self.spoil(path, SyncTables.ahead, LogID.conversation(chat).key)
            _ = try #require(try Replica.healSide(at: path))
            device = try world.open(path, ada)
            #expect(device.state.withLock { $0.outbox.identity.replica } != replica)
            #expect(device.outbox.isEmpty && device.parts.isEmpty)
            device = try await world.heal(device, scope: newest)
            #expect(try device.store.timeline(of: chat, .newest, limit: 1)?.messages.map(\.text) == ["mine"])
            #expect(try world.hubStore.timeline(of: chat, .newest, limit: 300)!.messages.count == 61)
            device = try await world.heal(device)
            try expectSameLog(world, device, chat)
            #expect(try device.lostEvents().isEmpty)
        }
    }

    private func expectSameLog(_ world: World, _ device: Replica, _ chat: ConversationID) throws {
        #expect(device.holes.isEmpty && device.isWhole)
        #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
    }

    @Test("A hub makes its damaged side store anew: to devices it is one that was restored", arguments: [9000, 0, -1])
    func hub(_ size: Int) async throws {
        try await withWorld { world in
            let (path, chat, all) = try await begin(world)
            let device = try Replica.open(at: path, user: ada)
            let cursor = try #require(device.cursor)
            try device.close()
            #expect(world.hub.openings.holds(cursor.position, in: cursor.incarnation, now: world.hubStore.log.lastPosition))
            // An opening behind the cursor's: without it the cursor would seem to be of the last one.
            try world.reopenHub(log: { _ in }) { _ in }
            let told = Monitor<[String]>([])
            try world.reopenHub(log: { line in told.withLock { $0.append(line) } }) { hub in
                if size >= 0 { try File(SideStore.path(hub), O_RDWR).truncate(to: size) } else { try Self.spoil(hub, SyncTables.incarnations, Outbox.key(1)) }
                #expect(try EventStore.verify(at: hub).damaged == [.side])
                #expect(throws: (any Error).self) { try Replica.healSide(at: hub, user: ada) }
            }
            #expect(told.withLock { $0.contains { $0.contains("anew") } })
            #expect(!world.hub.openings.holds(0, in: cursor.incarnation, now: .max))
            try expectSame(world, await world.heal(try world.open(path, ada)), chat, sent: all)
            #expect(try EventStore.verify(at: world.directory + "/hub").damaged == [])
        }
    }
}
