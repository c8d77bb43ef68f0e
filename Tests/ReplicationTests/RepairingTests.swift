import ConversationStore
import Foundation
import StoreTesting
import Testing

@testable import Replication

/// A replica of which bytes of runs are damaged, and the hub that has them.
@Suite struct RepairingTests {
    /// Conversations of ada's, their events mixed, in so many large runs of the hub; and a closed device that holds the same runs.
    private func fill(_ world: World, runs: Int, events: Int, people: [UserID] = [bob]) async throws -> (path: String, chat: ConversationID) {
        var chats: [ConversationID] = []
        for _ in 0..<5 { chats.append(try await world.hubStore.createConversation(.group, author: ada, participants: people)) }
        try world.hubStore.log.flush()
        var random = SeededGenerator(seed: 7)
        for _ in 0..<runs {
            let messages = (0..<events).map { index in
                let text = "message \(index) " + String(random.next(), radix: 36)
                return Submission(message(text, in: chats[index % 5], by: ada, id: MessageID(high: random.next(), low: random.next())))
            }
            _ = try world.hubStore.log.appendBlocking(messages)
            try world.hubStore.log.flush()
        }
        let device = try world.device(ada)
        try await world.sync(device)
        try device.close()
        return (device.store.log.path, chats[0])
    }

    @Test func oneByteOfTheLargestRunCostsNoMoreThan128KiB() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, runs: 1, events: 32_768)
            let run = try #require(try world.hubStore.log.storedRun(containing: world.hubStore.log.lastPosition))
            #expect(run.eventCount == 32_768 && run.bytes.count > 600 << 10)
            try world.damage(path)
            let session = try await world.repair(path)
            #expect(session.isWhole(repaired: 1), "\(String(describing: session.end))")
            #expect(session.bytes <= RepairSession.bytesMax)

            // Wherever the byte lies: what is asked and answered about it.
            let sound = try #require(try world.hubStore.log.storedRun(containing: run.firstPosition, movedTo: 77)).bytes
            let peer = try await RawPeer(world.hub, ada) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
            let places = [0, 5, 9, 13, 17, 21, 25, 29, 33, 41, 50, 54, 60, 100] + stride(from: 0, to: sound.count, by: sound.count / 8) + [sound.count - 1]
            for place in places {
                var spoiled = sound
                spoiled[place] ^= 0x10
                let question = Frame.fetch([], damaged: [DamagedRun(run, at: 77, bytes: spoiled)])
                peer.forget()
                peer.send(question)
                try await eventually { !peer.frames.isEmpty }
                guard case .repair(let answer)? = peer.frames.first else {
                    Issue.record("byte \(place)")
                    break
                }
                #expect(question.encoded().count + Frame.repair(answer).encoded().count < 16 << 10)
                #expect(answer.position == 77 && RunBlocks.put(answer.blocks, into: &spoiled) && spoiled == sound, "byte \(place)")
            }
            peer.end()
        }
    }

    @Test func severalRunsAreRepairedInOneSessionAndTheReplicaGoesOn() async throws {
        try await withWorld { world in
            let (path, chat) = try await fill(world, runs: 3, events: 1500)
            for number in 0..<3 { try world.damage(path, number) { $0[700 * (number + 1)] ^= 1 } }
            let session = try await world.repair(path)
            #expect(session.isWhole(repaired: 3) && session.bytes <= RepairSession.bytesMax)
            let device = try world.open(path, ada)
            try await world.hubStore.send("later", to: chat, from: bob)
            let live = world.follow(device)
            try await eventually { live.isSettled || live.end != nil }
            let received = live.log.withLock { $0.reduce(0) { if case .received(let events, _) = $1 { $0 + events } else { $0 } } }
            #expect(received == 1 && live.end == nil)
            live.connection.end()
        }
    }

    @Test func aHubThatLiesChangesNothing() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, runs: 1, events: 1500)
            try world.damage(path) { $0[700] ^= 1 }
            let lies: [@Sendable (RepairFrame) -> [Frame]] = [
                { frame in
                    var frame = frame
                    frame.blocks[0].bytes[700] ^= 3
                    return [.repair(frame)]
                },
                { frame in [.repair(RepairFrame(position: frame.position, blocks: [])), .repair(frame)] },
                { frame in [.repair(RepairFrame(position: frame.position + 1, blocks: frame.blocks))] },
                { frame in [.repair(RepairFrame(position: frame.position, blocks: Array(repeating: frame.blocks[0], count: 17)))] },
                { _ in [] },
            ]
            for lie in lies {
                let session = try await world.repair(path) { frame in if case .repair(let repair) = frame { lie(repair) } else { [frame] } }
                guard case .done(repaired: 0, isWhole: false)? = session.end else {
                    Issue.record("\(String(describing: session.end))")
                    continue
                }
            }
            // A hub that never answers, and one that says what cannot be.
            for code in [Bye.Code.goingAway, .protocolError] {
                let session = try await world.repair(path) { frame in if case .repair = frame { [.bye(Bye(code))] } else { [frame] } }
                guard case .ended(let bye)? = session.end else {
                    Issue.record("\(String(describing: session.end))")
                    continue
                }
                #expect(bye.code == code)
            }
            // One of before, which skips the field that it does not know.
            let session = try await world.repair(path, asked: { frame in if case .fetch = frame { .fetch([]) } else { frame } })
            guard case .done(repaired: 0, isWhole: false)? = session.end else {
                Issue.record("\(String(describing: session.end))")
                return
            }
            try await world.expectSalvaged(path)
        }
    }

    @Test func whatIsSoundOrNoReplicaIsNotRepaired() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, runs: 1, events: 20)
            #expect(try Repair.begin(at: path) == nil)
            let directory = world.directory
            #expect(throws: ReplicaError.self) { try Repair.begin(at: directory + "/hub") }
        }
    }

    @Test func whatOnlyLeadsToARecordIsSetRightWithoutAnything() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, runs: 1, events: 2000, people: (0..<400).map { UserID("someone-\($0)")! })
            let url = URL(fileURLWithPath: path + "/archive")
            var mended = 0
            for page in 2..<(try Data(contentsOf: url).count / 4096) {
                var bytes = try Data(contentsOf: url)
                let start = page * 4096
                guard start + 4096 <= bytes.count, bytes[start..<start + 8].elementsEqual((0..<8).map { UInt8(truncatingIfNeeded: page >> ($0 * 8)) }),
                    bytes[start + 10] == 4, !bytes[start + 16..<start + 20].elementsEqual(Array("CVR1".utf8))
                else { continue }
                bytes[start + 1] ^= 0x20
                try bytes.write(to: url)
                // What was let go may look like that, too.
                guard try !EventStore.verify(at: path).problems.isEmpty else { continue }
                mended += 1
                let repair = try #require(try Repair.begin(at: path))
                #expect(repair.isWhole && repair.restored == 0 && !repair.asksHub)
                repair.close()
                #expect(try EventStore.verify(at: path).problems.isEmpty)
            }
            #expect(mended > 0)
        }
    }

    @Test func strangersLearnNothing() async throws {
        try await withWorld { world in
            _ = try await fill(world, runs: 1, events: 300)
            // A run in which eve has a conversation too, and one that is hers alone.
            // In one commit: a flush that comes of itself must not come between them.
            let (common, adas) = (ConversationID.random(), ConversationID.random())
            let created: [Submission] = [
                Submission(Event(conversation: common, author: eve, content: .conversationCreated(kind: .group, title: nil, participants: [ada]))),
                Submission(Event(conversation: adas, author: ada, content: .conversationCreated(kind: .direct, title: nil, participants: [bob]))),
                Submission(message("not for eve", in: adas, by: ada, id: .random())),
            ]
            try await world.hubStore.append(created, isAtomic: true)
            try world.hubStore.log.flush()
            let mixed = try #require(try world.hubStore.log.storedRun(containing: world.hubStore.log.lastPosition))
            #expect(mixed.slices.count == 2)
            let evesFirst = world.hubStore.log.lastPosition + 1
            try await world.hubStore.send("for both", to: common, from: eve)
            try world.hubStore.log.flush()
            let shared = try #require(try world.hubStore.log.storedRun(containing: evesFirst))
            let others = try #require(try world.hubStore.log.storedRun(containing: 6))

            func answers(_ user: UserID, _ damaged: DamagedRun, scope: Scope = .mine) async throws -> [Frame] {
                let peer = try await RawPeer(world.hub, user) { hello in
                    hello.scope = scope
                    hello.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0)
                }
                peer.forget()
                peer.send(.fetch([], damaged: [damaged]))
                peer.send(.ping(1))
                try await eventually { peer.frames.contains(.pong(1)) }
                let frames = peer.frames
                peer.end()
                return frames.filter { $0 != .pong(1) }
            }
            func spoiled(_ run: StoredRun, _ log: LogID? = nil) -> DamagedRun {
                var bytes = run.bytes
                bytes[bytes.count - 1] ^= 1
                var damaged = DamagedRun(run, at: 1, bytes: bytes)
                if let log, let slice = run.slices.first(where: { $0.log == log }) { (damaged.log, damaged.seq) = (slice.log, slice.firstSeq) }
                return damaged
            }
            // Of a log that is not there, of runs of others, and of one that is only in part eve's: the same silence, whatever the checks say.
            let absent = DamagedRun(log: .conversation(.random()), seq: 1, position: 1, byteCount: others.bytes.count, checks: spoiled(others).checks)
            for damaged in [absent, spoiled(others), spoiled(mixed), spoiled(mixed, .conversation(common))] {
                #expect(try await answers(eve, damaged) == [])
            }
            for (user, run) in [(eve, shared), (ada, shared), (ada, mixed), (ada, others), (bob, others)] {
                guard case .repair(let repair)? = try await answers(user, spoiled(run)).first else {
                    Issue.record("\(user) is not answered")
                    continue
                }
                #expect(repair.blocks.map(\.number) == [(run.bytes.count - 1) / RunBlocks.blockBytes])
            }
            // What the scope leaves out is not spoken of, nor what differs in nothing or in everything.
            #expect(try await answers(ada, spoiled(others), scope: .conversations([])) == [])
            #expect(try await answers(ada, DamagedRun(others, at: 1, bytes: others.bytes)) == [])
            // Who has left has what was before.
            try await world.hubStore.append(Event(conversation: common, author: ada, content: .participantLeft(eve)))
            try await world.hubStore.send("behind the leaving", to: common, from: ada)
            try world.hubStore.log.flush()
            let late = try #require(try world.hubStore.log.storedRun(containing: world.hubStore.log.lastPosition))
            #expect(try await answers(eve, spoiled(shared)).count == 1)
            #expect(try await answers(eve, spoiled(late)) == [])
        }
    }

    @Test func whoCameLaterGetsNoRunFromBefore() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .conversationUpdated(title: nil, attributes: [attribute])))
            try await world.hubStore.send("before", to: chat, from: ada)
            try world.hubStore.log.flush()
            let before = try #require(try world.hubStore.log.storedRun(containing: 1))
            try await world.hubStore.append(Event(conversation: chat, author: ada, content: .participantJoined(eve)))
            var bytes = before.bytes
            bytes[0] ^= 1
            for (user, count) in [(eve, 0), (bob, 1)] {
                let peer = try await RawPeer(world.hub, user) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
                peer.send(.fetch([], damaged: [DamagedRun(before, at: 1, bytes: bytes)]))
                peer.send(.ping(1))
                try await eventually { peer.frames.contains(.pong(1)) }
                #expect(peer.frames.count { if case .repair = $0 { true } else { false } } == count)
                peer.end()
            }
        }
    }

    @Test func whatDiffersInTooMuchIsNotAnsweredAndAskingCostsTheAllowance() async throws {
        try await withWorld { world in
            _ = try await fill(world, runs: 1, events: 8000)
            let run = try #require(try world.hubStore.log.storedRun(containing: world.hubStore.log.lastPosition))
            #expect(run.bytes.count > WireLimits.repairBytesMax * 2)
            let peer = try await RawPeer(world.hub, ada) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
            peer.forget()
            let most = WireLimits.repairBytesMax / RunBlocks.blockBytes
            for count in [most, most + 1] {
                var bytes = run.bytes
                for block in 0..<count { bytes[block * RunBlocks.blockBytes] ^= 1 }
                peer.send(.fetch([], damaged: [DamagedRun(run, at: 1, bytes: bytes)]))
            }
            peer.send(.ping(1))
            try await eventually { peer.frames.contains(.pong(1)) }
            let repairs = peer.frames.compactMap { if case .repair(let repair) = $0 { repair.blocks.count } else { nil } }
            #expect(repairs == [most])
            // As much for what is not there: of many questions most wait, for longer than anybody looks.
            let absent = DamagedRun(log: .user(eve), seq: 1, position: 1, byteCount: 1, checks: [1])
            for _ in 0..<40 { peer.send(.fetch([], damaged: Array(repeating: absent, count: WireLimits.damagedMax))) }
            try await eventually { await peer.footprint() > 200 }
            #expect(peer.bye == nil)
            peer.end()
        }
    }
}

extension DamagedRun {
    /// A run as a replica has it at a position, with other bytes.
    fileprivate init(_ run: StoredRun, at position: Position, bytes: [UInt8]) {
        self.init(
            log: run.slices[0].log, seq: run.slices[0].firstSeq, position: position, byteCount: bytes.count, checks: RunBlocks.checks(of: bytes))
    }
}
