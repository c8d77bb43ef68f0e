import ConversationStore
import Foundation
import Replication
import Testing

/// A replica whose bytes are damaged asks its hub for just what is missing.
@Suite struct DamageTests {
    /// Five conversations in several runs, as damage of one leaves what stands before it and behind it; and an event that waits to be sent.
    private func talked(in world: World) async throws -> (chats: [ConversationID], device: Replica, pending: OutboxEntry) {
        var chats: [ConversationID] = []
        for _ in 0..<5 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: [bob])) }
        let device = try world.device(ada)
        for round in 0..<3 {
            for index in 0..<60 { try await world.hubStore.send("round \(round), message \(index)", to: chats[index % 5], from: bob) }
            try await world.sync(device)
            try device.store.log.flush()
        }
        return (chats, device, try device.append(message("made before the damage was found", in: chats[0], by: ada)))
    }

    /// A session that breaks off behind so many of the hub's frames.
    private func sync(_ device: Replica, with hub: Hub, framesMax: Int) async throws {
        let frames = Monitor(0)
        let line = Between(hub, device) { frame in
            frames.withLock {
                $0 += 1
                return $0 <= framesMax ? frame : nil
            }
        }
        try await eventually { frames.withLock { $0 > framesMax } || line.isSettled || line.hasEnded }
        line.lose()
        try await eventually { line.hasEnded }
    }

    @Test func whatIsDamagedComesAgainFromTheHub() async throws {
        try await withWorld { world in
            let (chats, device, pending) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            let runs = try EventStore.damageRun(at: path, number: 1)
            #expect(runs >= 3)
            #expect(try !EventStore.verify(at: path).problems.isEmpty)

            let (saved, _, lost) = try Replica.salvage(at: path)
            #expect(saved > 0 && !lost.isEmpty)
            let held = try #require(try HeldParts(of: path))
            let log = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
            let parts = try held.beside(log)
            #expect(!parts.isEmpty)
            for part in parts {
                let last = try log.lastSeq(of: .conversation(part.conversation))
                let hole = try #require(part.hole)
                #expect(hole.lowerBound == last + 1 && part.firstSeq.map { $0 == hole.upperBound + 1 } ?? (part.events == 0), "\(part)")
                #expect(try last + UInt64(hole.count + part.events) == world.hubStore.log.lastSeq(of: .conversation(part.conversation)), "\(part)")
            }
            try log.close()
            let healed = try world.open(path, ada)
            #expect(healed.outbox.map(\.event) == [pending.event])
            #expect(!healed.isWhole)
            let session = world.follow(healed)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            let received = session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            #expect(received < 100)
            for chat in chats {
                #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try healed.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
            }
            #expect(healed.outbox.isEmpty && healed.isWhole)
            #expect(try healed.store.isFold())
        }
    }

    @Test("of a log whose row or secret is damaged, its first and its last event come again; no other log's", arguments: EventStore.LogRecord.allCases, [1, 3])
    func logRecords(_ kind: EventStore.LogRecord, _ count: Int) async throws {
        try await withWorld { world in
            let (chats, device, pending) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            for number in 0..<count { #expect(try EventStore.damageRecord(at: path, kind, number: number) == 5) }
            #expect(try !EventStore.verify(at: path).problems.isEmpty)

            let (saved, aside, _) = try Replica.salvage(at: path)
            #expect(saved - aside == (5 - count) * 37)
            let healed = try world.open(path, ada)
            #expect(healed.outbox.map(\.event) == [pending.event])
            #expect(!healed.isWhole)
            // The hub goes on meanwhile, in all of them.
            for chat in chats { try await world.hubStore.send("later", to: chat, from: bob) }
            let session = world.follow(healed)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            let received = session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            // Where it is asked for while the hub has something new to say of the log, all of that log comes.
            #expect(count + 6...count * 38 + 6 ~= received)
            for chat in chats {
                #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try healed.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
            }
            #expect(healed.outbox.isEmpty && healed.isWhole)
            #expect(try healed.store.isFold())
            try healed.close()
            #expect(try EventStore.verify(at: path).problems.isEmpty)
        }
    }

    @Test("a journal's header, or pages of the archive's tree, that are damaged cost a few events, and not all", arguments: ["journal.", "archive"])
    func damageOutsideOfRecords(_ prefix: String) async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            let file = try #require(try FileManager.default.contentsOfDirectory(atPath: path).sorted().first { $0.hasPrefix(prefix) })
            // Of the archive one page after the other, until it cannot be opened, or no longer be read.
            let offsets: [UInt64] = prefix == "archive" ? Array(stride(from: 8192 + 20, to: try size(path + "/" + file), by: 4096)) : [40]
            var tried = 0, dear = 0
            for offset in offsets {
                try flip(path + "/" + file, at: offset)
                defer { try? flip(path + "/" + file, at: offset) }
                let copy = "\(world.directory)/copy-\(offset)"
                try FileManager.default.copyItem(atPath: path, toPath: copy)
                if (try? EventStore.verify(at: copy).problems.isEmpty) ?? false { continue }
                tried += 1
                _ = try Replica.salvage(at: copy)
                var healed = try world.open(copy, ada), received = 0, isSettled = false
                for _ in 0..<5 where !isSettled {
                    let session = world.follow(healed)
                    try await eventually { session.isSettled || session.end != nil }
                    isSettled = session.isSettled
                    session.connection.end()
                    try await eventually { session.end != nil }
                    received += session.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
                    if isSettled { continue }
                    try healed.close()
                    healed = try world.open(copy, ada)
                }
                if received > 20 { dear += 1 }
                for chat in chats { #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat))) }
                #expect(healed.outbox.isEmpty && healed.isWhole)
            }
            // All comes again without the page with the archive's own state, or one that leads to all runs.
            #expect(tried > 0 && dear <= (prefix == "archive" ? 2 : 0))
        }
    }

    @Test("what damage took from before a history that begins with the joining is asked for once, and given up when that is shown")
    func damageBeforeAHistory() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [])
            for index in 0..<60 { try await world.hubStore.send("before \(index)", to: chat, from: ada) }
            try await world.hubStore.append([Submission(Event(conversation: chat, author: ada, content: .participantJoined(bob)))])
            let device = try world.device(bob)
            for round in 0..<3 {
                for index in 0..<20 { try await world.hubStore.send("round \(round), message \(index)", to: chat, from: ada) }
                try await world.sync(device)
                try device.store.log.flush()
            }
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            try await world.hubStore.append(
                [Submission(Event(conversation: chat, author: ada, content: .conversationUpdated(title: nil, attributes: [attribute])))])
            try await world.sync(device)
            let path = device.store.log.path
            try device.close()
            #expect(try EventStore.damageRun(at: path, number: 0) > 2)
            _ = try Replica.salvage(at: path)
            let healed = try world.open(path, bob)
            #expect(!healed.isWhole)
            let session = world.follow(healed)
            try await eventually { session.isSettled || session.end != nil }
            #expect(session.isSettled && healed.isWhole)
            // Behind it a conversation goes on as ever.
            try await world.hubStore.send("later", to: chat, from: ada)
            try await eventually { try healed.store.timeline(of: chat, .newest, limit: 1)?.messages.map(\.text) == ["later"] }
            session.connection.end()
            try await eventually { session.end != nil }
            let frames = session.log.withLock { $0.count { if case .received = $0 { true } else { false } } }
            #expect(frames < 10)
            let fresh = try world.device(bob)
            try await world.sync(fresh)
            #expect(try healed.store.timeline(of: chat, .newest, limit: 50)?.messages == fresh.store.timeline(of: chat, .newest, limit: 50)?.messages)
        }
    }

    @Test("an event that the device itself erased, and of which damage took what was left, comes again from the hub")
    func erasedHere() async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            // In the second of three rounds.
            try device.store.log.erase(log: .conversation(chats[0]), seq: 18)
            let path = device.store.log.path
            try device.close()
            #expect(try EventStore.damageRun(at: path, number: 1) >= 3)
            _ = try Replica.salvage(at: path)
            let healed = try await world.heal(world.open(path, ada))
            #expect(healed.isWhole)
            for chat in chats {
                #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
                #expect(try healed.store.timeline(of: chat, .newest, limit: 100) == world.hubStore.timeline(of: chat, .newest, limit: 100))
            }
        }
    }

    @Test("a sync that breaks off while gaps are filled, and what follows them was skipped, loses nothing of that")
    func brokenOffWhileFilling() async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            #expect(try EventStore.damageRun(at: path, number: 1) >= 3)
            _ = try Replica.salvage(at: path)
            for chat in chats { for index in 0..<3 { try await world.hubStore.send("later \(index)", to: chat, from: bob) } }
            for count in 2...9 {
                let copy = "\(world.directory)/copy-\(count)"
                try FileManager.default.copyItem(atPath: path, toPath: copy)
                let broken = try world.open(copy, ada)
                try await sync(broken, with: world.hub, framesMax: count)
                try broken.close()
                let healed = try await world.heal(world.open(copy, ada))
                for chat in chats {
                    #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)), "cut behind \(count)")
                }
            }
        }
    }

    @Test("what stands behind a gap is taken, though the process was killed when that had just been filled")
    func killedBehindAGap() async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            #expect(try EventStore.damageRecord(at: path, .secret, number: 2, removes: true) == 5)
            _ = try Replica.salvage(at: path)
            // As the first events come, with their secrets, and nothing else is done any more.
            let salvaged = try EventStore.open(at: path)
            for chat in chats where try salvaged.lastSeq(of: .conversation(chat)) == 0 {
                let first = try #require(try world.hubStore.log.event(in: .conversation(chat), at: 1))
                let secret = try world.hubStore.log.secret(of: .conversation(chat))
                _ = try salvaged.adoptBlocking([first], secrets: [.conversation(chat): secret])
            }
            try salvaged.close()
            let healed = try await world.heal(world.open(path, ada))
            #expect(healed.isWhole)
            for chat in chats { #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat))) }
        }
    }

    @Test("a secret that is out of reach is missed, not made up: no honest hub is blamed for that")
    func missingSecret() async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            #expect(try EventStore.damageRecord(at: path, .secret, number: 2, removes: true) == 5)
            #expect { try world.open(path, ada) } throws: { ($0 as? EventLogError)?.code == .damaged }
            let (saved, aside, _) = try Replica.salvage(at: path)
            #expect(saved - aside == 4 * 37)
            for chat in chats { try await world.hubStore.send("later", to: chat, from: bob) }
            let healed = try await world.heal(world.open(path, ada))
            for chat in chats { #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat))) }
        }
    }

    @Test("a journal's last frame that is damaged looks unfinished: what it held comes again, though a cursor vouched for it")
    func lastFrame() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.open(world.directory + "/unflushed", ada, flushes: false)
            try await world.sync(device)
            for index in 0..<3 {
                try await world.hubStore.send("message \(index)", to: chat, from: bob)
                try await world.sync(device)
            }
            let path = world.directory + "/killed", journal = path + "/journal.0"
            try FileManager.default.copyItem(atPath: device.store.log.path, toPath: path)
            let last = try #require(try Data(contentsOf: URL(fileURLWithPath: journal)).lastIndex { $0 != 0 })
            try flip(journal, at: UInt64(last - 8))
            let damaged = try world.open(path, ada)
            #expect(try damaged.store.log.lastSeq(of: .conversation(chat)) < world.hubStore.log.lastSeq(of: .conversation(chat)))
            let healed = try await world.heal(damaged)
            #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
        }
    }

    @Test("what filled a gap and was lost with a journal's end comes again, though the gap was done with and an old cursor stands", arguments: [false, true])
    func lostAgain(_ isRow: Bool) async throws {
        try await withWorld { world in
            let (chats, device, _) = try await talked(in: world)
            let path = device.store.log.path
            try device.close()
            if isRow { _ = try EventStore.damageRecord(at: path, .row, number: 1) } else { _ = try EventStore.damageRun(at: path, number: 1) }
            _ = try Replica.salvage(at: path)
            var shorter = 0
            for count in 1...9 {
                let copy = "\(world.directory)/copy-\(count)", killed = "\(world.directory)/killed-\(count)"
                try FileManager.default.copyItem(atPath: path, toPath: copy)
                let broken = try world.open(copy, ada, flushes: false)
                try await sync(broken, with: world.hub, framesMax: count)
                try FileManager.default.copyItem(atPath: copy, toPath: killed)
                let lengths = try chats.map { try broken.store.log.lastSeq(of: .conversation($0)) }
                try broken.close()
                for name in try FileManager.default.contentsOfDirectory(atPath: killed) where name.hasPrefix("journal.") {
                    let journal = killed + "/" + name
                    let last = try Data(contentsOf: URL(fileURLWithPath: journal)).lastIndex { $0 != 0 } ?? 0
                    if last > 4096 { try flip(journal, at: UInt64(last - 8)) }
                }
                let damaged = try world.open(killed, ada)
                if try chats.map({ try damaged.store.log.lastSeq(of: .conversation($0)) }) != lengths { shorter += 1 }
                let healed = try await world.heal(damaged)
                #expect(healed.isWhole)
                for chat in chats {
                    #expect(try healed.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)), "cut behind \(count)")
                }
            }
            #expect(shorter > 0)
        }
    }

    @Test("a newest part that went into its log, and was lost there with a journal's end, comes again")
    func lostPart() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            for index in 0..<20 { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
            let device = try world.open(world.directory + "/parts", ada, flushes: false), scope = Scope.newest(conversations: 1, messages: 3)
            let first = world.follow(device, scope: scope)
            try await eventually { first.isSettled }
            first.connection.end()
            try await eventually { first.end != nil }
            try #require(try device.store.log.lastSeq(of: .conversation(chat)) == 0)
            // All that fills it comes, and no cursor behind it.
            let isFilling = Monitor(false)
            let line = Between(world.hub, device, scope) { frame in
                if case .caughtUp = frame, isFilling.withLock({ $0 }) { return nil }
                return frame
            }
            try await eventually { line.isSettled }
            isFilling.withLock { $0 = true }
            line.fill(.conversation(chat))
            try await eventually { device.holes.isEmpty }
            line.lose()
            try await eventually { line.hasEnded }
            let killed = world.directory + "/killed", journal = killed + "/journal.0"
            try FileManager.default.copyItem(atPath: device.store.log.path, toPath: killed)
            let last = try #require(try Data(contentsOf: URL(fileURLWithPath: journal)).lastIndex { $0 != 0 })
            try flip(journal, at: UInt64(last - 8))
            let damaged = try world.open(killed, ada)
            try #require(try damaged.store.log.lastSeq(of: .conversation(chat)) < 21)
            let healed = try await world.heal(damaged, scope: scope)
            #expect(try healed.store.timeline(of: chat, .newest, limit: 3)?.messages.map(\.text) == (17..<20).map { "message \($0)" })
        }
    }

    @Test("what a damaged replica has of a hub's lost days is offered again, and kept, though it cannot be opened or its rows are gone", arguments: [0, 1, 2])
    func damagedBesideARestoredHub(_ damage: Int) async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            for index in 0..<3 { try device.append(message("mine \(index)", in: chat, by: ada)) }
            let own = ConversationID.random()
            try device.append(Event(conversation: own, author: ada, content: .conversationCreated(kind: .group, title: "own", participants: [])))
            try await world.sync(device)
            try await world.hubStore.send("theirs", to: chat, from: bob)
            try await world.sync(device)
            try world.restoreHub()
            let path = device.store.log.path
            try device.close()
            switch damage {
            case 0:
                let journal = try #require(try FileManager.default.contentsOfDirectory(atPath: path).first { $0.hasPrefix("journal.") })
                try flip(path + "/" + journal, at: 40)
            case 1: try flip(path + "/key", at: 60)
            default: for number in 0..<2 { #expect(try EventStore.damageRecord(at: path, .row, number: number) == 2) }
            }
            #expect((try? EventStore.verify(at: path).problems.isEmpty) != true)
            _ = try Replica.salvage(at: path)
            let healed = try await world.heal(world.open(path, ada))
            #expect(healed.outbox.isEmpty)
            #expect(try world.hubStore.timeline(of: chat)?.messages.map(\.text) == ["mine 0", "mine 1", "mine 2"])
            #expect(try world.hubStore.timeline(of: own) != nil)
            #expect(try healed.lostEvents().count == 1)
        }
    }

    private func size(_ path: String) throws -> UInt64 {
        try #require(try FileManager.default.attributesOfItem(atPath: path)[.size] as? UInt64)
    }

    private func flip(_ path: String, at offset: UInt64) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.seek(toOffset: offset)
        let byte = try #require(try file.read(upToCount: 1)?.first)
        try file.seek(toOffset: offset)
        try file.write(contentsOf: [byte ^ 1])
        try file.close()
    }
}
