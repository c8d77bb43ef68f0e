import ConversationStore
import Testing

@testable import EventLog
@testable import Replication

/// A log of a replica's own contradicts itself, though every checksum matches: memory failed, or somebody can compute them.
@Suite("A replica that contradicts itself") struct ContradictionTests {
    enum Forged: CaseIterable { case head, text }

    /// A device that was synced, of which the second of three conversations was forged.
    private func forged(_ what: Forged, in world: World) async throws -> (path: String, chats: [ConversationID]) {
        var chats: [ConversationID] = []
        for _ in 0..<3 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
        for index in 0..<30 { try await world.hubStore.send("pay \(index)", to: chats[index % 3], from: bob) }
        let device = try world.device(ada)
        try await world.sync(device)
        try device.append(message("agreed", in: chats[0], by: ada))
        try await world.sync(device)
        let path = device.store.log.path
        try device.close()
        switch what {
        case .head: try EventStore.forgeHead(at: path, of: .conversation(chats[1]))
        case .text: try Self.forgeText(at: path, "pay 13", "pay 99")
        }
        let report = try EventStore.verify(at: path)
        #expect(report.isOnlyContradicted && report.contradicted == [.conversation(chats[1])], "\(report.problems)")
        return (path, chats)
    }

    private static func forgeText(at path: String, _ text: String, _ other: String) throws {
        let archive = try Archive(directory: path, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        var runs: [(key: [UInt8], value: [UInt8])] = []
        try archive.environment.read { transaction in
            try transaction.forEach(archive.runs, from: []) { key, value in
                runs.append((Array(key), Array(value)))
                return true
            }
        }
        for (key, value) in runs {
            let position = key.reduce(Position(0)) { $0 << 8 | Position($1) }
            let run = try value.withUnsafeBytes { try DecodedRun($0, at: position, decompressor: ZstdDecompressor()) }
            let events = try run.order.map { try Self.replace(text, other, in: run.recorded(at: Int($0))) }
            let forged = try SegmentEncoder().encode(events, at: position)
            try archive.environment.write { try $0.put(archive.runs, key, forged) }
        }
    }

    private static func replace(_ text: String, _ other: String, in event: RecordedEvent) -> RecordedEvent {
        guard case .messageSent(var message) = event.event.content, message.text == text else { return event }
        var event = event
        message.text = other
        event.event.content = .messageSent(message)
        return event
    }

    @Test("I6: the log comes again, and is what it was; salvage does not make what was forged its new truth", arguments: Forged.allCases)
    func mended(_ what: Forged) async throws {
        try await withWorld { world in
            let (path, chats) = try await forged(what, in: world)
            let (saved, aside, lost) = try Replica.salvage(at: path)
            #expect(saved == 34 && aside == 11 && lost.count == 1 && lost[0].contains("do not lead to its head at seq 11"), "\(saved) \(aside) \(lost)")
            let device = try world.open(path, ada)
            #expect(device.cursor != nil && !device.isWhole)
            try await world.sync(device)
            #expect(device.isWhole && device.holes.isEmpty)
            for chat in chats {
                #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try device.store.timeline(of: chat) == world.hubStore.timeline(of: chat))
            }
            #expect(try device.evidence == nil && device.lostEvents().isEmpty && !device.hasSuspects())
            try device.close()
            #expect(try EventStore.verify(at: path).problems == [])
        }
    }

    @Test("I6: a hub that sends other events for it is a fork", arguments: Forged.allCases)
    func forked(_ what: Forged) async throws {
        try await withWorld { world in
            let (path, _) = try await forged(what, in: world)
            _ = try Replica.salvage(at: path)
            let device = try world.open(path, ada)
            try world.rewriteHub { Self.replace("pay 16", "pay 61", in: $0) }
            let session = world.follow(device)
            try await eventually { session.isSettled || session.end != nil }
            guard case .failed(let error as ReplicaError)? = session.end else {
                Issue.record("it went on: \(String(describing: session.end))")
                return
            }
            #expect(error.code == .forked)
            #expect(try device.evidence != nil && !device.isWhole)
        }
    }

    @Test("I6: what damage took and came again is vouched for as before: a hub that forks behind it is one however often it is asked")
    func forkedBehindHealing() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<40 { try await world.hubStore.send("pay \(index)", to: chat, from: bob) }
            var device = try world.device(ada)
            let path = device.store.log.path
            try await world.sync(device)
            try device.close()
            try await world.hubStore.send("agreed", to: chat, from: bob)
            device = try world.open(path, ada)
            try await world.sync(device)
            try device.close()
            let runs = try EventStore.damageRun(at: path, number: .max)
            _ = try EventStore.damageRun(at: path, number: 0) { $0[$0.count / 2] ^= 0x10 }
            let (_, aside, lost) = try Replica.salvage(at: path)
            #expect(runs == 2 && aside == 1 && !lost.isEmpty, "\(runs) \(aside) \(lost)")
            try world.rewriteHub { Self.replace("agreed", "refused", in: $0) }
            try await world.hubStore.send("paid", to: chat, from: bob)
            for time in 0..<3 {
                device = try world.open(path, ada)
                let session = world.follow(device)
                try await eventually { session.isSettled || session.end != nil }
                guard case .failed(let error as ReplicaError)? = session.end else {
                    Issue.record("the hub is believed at the \(time + 1)th time: \(String(describing: session.end))")
                    return
                }
                #expect(error.code == .forked && device.isWhole)
                #expect(try device.store.timeline(of: chat)?.messages.last?.text == "agreed" && device.lostEvents().isEmpty)
                try device.close()
            }
            #expect(try EventStore.verify(at: path).problems == [])
        }
    }

    @Test("A replica is vouched for when a cursor has come behind all that it holds, and not before") func vouched() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            #expect(!device.isVouched)
            try await world.sync(device)
            #expect(device.isVouched)
            try await world.hubStore.send("one", to: chat, from: bob)
            let session = Between(world.hub, device) { if case .caughtUp = $0 { nil } else { $0 } }
            try await eventually { device.store.log.lastPosition == 2 }
            session.end()
            try await eventually { session.hasEnded }
            #expect(!device.isVouched)
            try await world.sync(device)
            #expect(device.isVouched)
        }
    }
}
