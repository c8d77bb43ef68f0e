import ConversationStore
import StoreTesting
import Testing

@testable import Replication

/// Damaged runs that the hub does not hold: it encoded them for a replica out of several of its own, or the replica made them of what came.
@Suite struct EncodedRunTests {
    /// Conversations of ada's and of others', their events mixed in two runs of the hub; and ada's closed device, which holds runs of just her events.
    private func fill(
        _ world: World, events: Int = 12_000, chats count: Int = 40, beginnings: (ConversationID) async throws -> Void = { _ in }
    ) async throws -> (path: String, chats: [ConversationID]) {
        var adas: [ConversationID] = []
        var others: [ConversationID] = []
        for _ in 0..<count {
            adas.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada, eve]))
            others.append(try await world.hubStore.createConversation(.group, author: eve, participants: [bob]))
        }
        try await beginnings(adas[0])
        try world.hubStore.log.flush()
        var random = SeededGenerator(seed: 11)
        for _ in 0..<2 {
            let messages = (0..<events).map { index in
                let text = "message \(index) " + String(random.next(), radix: 36)
                let chat = random.chance(0.5) ? random.element(adas) : random.element(others)
                let id = MessageID(high: random.next(), low: random.next())
                return Submission(message(text, in: chat, by: adas.contains(chat) ? bob : eve, id: id))
            }
            _ = try world.hubStore.log.appendBlocking(messages)
            try world.hubStore.log.flush()
        }
        let device = try world.device(ada)
        try await world.sync(device)
        try device.close()
        return (device.store.log.path, adas)
    }

    /// Where its largest run lies among a device's.
    private func largest(_ path: String, _ world: World) throws -> (number: Int, bytes: [UInt8]) {
        let run = try #require(try world.runs(path).enumerated().max { $0.element.count < $1.element.count })
        return (run.offset, run.element)
    }

    /// A run's sections: header, ids, columns, each frame of texts.
    private func sections(_ run: [UInt8]) -> [Range<Int>] {
        func number(_ offset: Int) -> Int { (0..<4).reduce(0) { $0 | Int(run[offset + $1]) << ($1 * 8) } }
        let frames = number(28)
        var end = 48 + frames * 16 + 8
        var sections = [0..<end]
        for size in [number(16), number(20)] + (0..<frames).map({ number(48 + $0 * 16) }) {
            sections.append(end..<end + size)
            end += size
        }
        return sections
    }

    private func expectSilence(_ path: String, _ world: World, asked: @escaping @Sendable (Frame) -> Frame = { $0 }) async throws {
        let session = try await world.repair(path, asked: asked)
        guard case .done(repaired: 0, isWhole: false)? = session.end else {
            Issue.record("\(String(describing: session.end))")
            return
        }
        #expect(session.repairs == 0)
    }

    @Test func oneByteOfARunThatTheHubEncodedCostsNoMoreThan128KiB() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, events: 14_000)
            let (number, sound) = try largest(path, world)
            #expect(sound.count > 200 << 10)
            for position in stride(from: 1, through: world.hubStore.log.lastPosition, by: 1000) {
                #expect(try world.hubStore.log.storedRun(containing: position)?.bytes.count != sound.count)
            }
            let sections = sections(sound)
            #expect(sections.count >= 4 && sections.last!.upperBound == sound.count)
            var places = sections.map { $0.lowerBound + $0.count / 2 }
            places += [0, 5, 9, sections[1].lowerBound, sections[2].lowerBound, sections[3].lowerBound - 1, sound.count - 1]
            for place in places {
                _ = try EventStore.damageRun(at: path, number: number) { $0[place] ^= 0x10 }
                let session = try await world.repair(path)
                #expect(session.isWhole(repaired: 1), "byte \(place): \(String(describing: session.end))")
                #expect(session.bytes <= RepairSession.bytesMax && session.repairs == 1)
                #expect(try largest(path, world).bytes == sound)
            }
            #expect(try EventStore.verify(at: path).problems.isEmpty)
            let device = try world.open(path, ada)
            try await world.sync(device)
            #expect(device.isWhole)
        }
    }

    @Test func theLargestQuestionAndAnswerFit() {
        let id = MessageID(high: 1, low: 1)
        let spans = (1...WireLimits.spansMax).map { number in
            EventSpan(log: .conversation(ConversationID(high: id.high, low: UInt64(number))), firstSeq: 1_000_000, count: 16)
        }
        let run = DamagedRun(log: spans[0].log, seq: 1, position: 1 << 30, byteCount: 900_000, checks: Array(repeating: .max, count: 220), spans: spans)
        let block = [UInt8](repeating: 1, count: RunBlocks.blockBytes)
        let blocks = (0..<WireLimits.repairBytesMax / block.count).map { RunBlock(number: $0, bytes: block) }
        let frames: [Frame] = [.fetch([], damaged: [run]), .repair(RepairFrame(position: 1 << 30, blocks: blocks))]
        #expect(frames.reduce(0) { $0 + $1.encoded().count } < RepairSession.bytesMax - 4096)
    }

    @Test func aRunOfTheDevicesOwnIsHealedWhileItTellsItsOrder() async throws {
        try await withWorld { world in
            let (path, chats) = try await fill(world, events: 100, chats: 8)
            // What came live, in one run that goes from conversation to conversation and back: each round waits for the one before, which a slow device would
            // otherwise be given together with it, one conversation after the other; and what a flush seals while it goes on could be one round.
            let device = try world.open(path, ada, flushes: false)
            let live = world.follow(device)
            try await eventually { live.isSettled }
            // Among them others' events, or what the hub seals ten seconds later were the same run.
            let others = try await world.hubStore.createConversation(.group, author: eve, participants: [bob])
            for round in 0..<43 {
                try await world.hubStore.send("not for ada", to: others, from: bob)
                for index in round * 7..<round * 7 + 7 {
                    try await world.hubStore.send(String(repeating: "live \(index) ", count: index), to: chats[index % 7], from: bob)
                }
                let last = LogID.conversation(chats[6])
                let lastSeq = try world.hubStore.log.lastSeq(of: last)
                try await eventually { try device.store.log.lastSeq(of: last) == lastSeq }
            }
            #expect(live.end == nil)
            live.connection.end()
            try await eventually { live.end != nil }
            try device.close()
            let (number, sound) = try largest(path, world)
            let sections = sections(sound)
            _ = try EventStore.damageRun(at: path, number: number) { $0[sections.last!.lowerBound] ^= 1 }
            let session = try await world.repair(path)
            #expect(session.isWhole(repaired: 1) && session.bytes <= RepairSession.bytesMax)
            #expect(try largest(path, world).bytes == sound)
            // Where the order itself is damaged, the events are asked for.
            _ = try EventStore.damageRun(at: path, number: number) { $0[sections[2].lowerBound] ^= 1 }
            try await expectSilence(path, world)
            try await world.expectSalvaged(path)
        }
    }

    @Test func whoLeftIsAnsweredUpToTheLeaving() async throws {
        try await withWorld { world in
            let (path, chats) = try await fill(world, events: 4000)
            for chat in chats { try await world.hubStore.append(Event(conversation: chat, author: bob, content: .participantLeft(ada))) }
            for chat in chats { try await world.hubStore.send("not for ada", to: chat, from: bob) }
            let (number, sound) = try largest(path, world)
            _ = try EventStore.damageRun(at: path, number: number) { $0[sound.count / 2] ^= 1 }
            let session = try await world.repair(path)
            #expect(session.isWhole(repaired: 1) && session.bytes <= RepairSession.bytesMax)
        }
    }

    @Test func whoCameLaterIsAnsweredWhatItHas() async throws {
        try await withWorld { world in
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            let (path, chats) = try await fill(world, events: 4000) { chat in
                let store = world.hubStore
                try await store.append(Event(conversation: chat, author: bob, content: .conversationUpdated(title: nil, attributes: [attribute])))
                try await store.append(Event(conversation: chat, author: bob, content: .participantLeft(ada)))
                try await store.send("not for ada", to: chat, from: bob)
                try await store.append(Event(conversation: chat, author: bob, content: .participantJoined(ada)))
            }
            let (number, sound) = try largest(path, world)
            _ = try EventStore.damageRun(at: path, number: number) { $0[sections(sound).last!.lowerBound] ^= 1 }
            let session = try await world.repair(path)
            #expect(session.isWhole(repaired: 1) && session.bytes <= RepairSession.bytesMax)

            // From the joining on, and not from before.
            let log = LogID.conversation(chats[0])
            let joined = try #require(try world.hubStore.log.events(in: log).first { $0.event.content == .participantJoined(ada) }?.seq)
            for (first, answers) in [(joined, 1), (joined - 1, 0), (1, 0)] {
                let spans = [EventSpan(log: log, firstSeq: first, count: 20), EventSpan(log: .conversation(chats[1]), firstSeq: 1, count: 20)]
                #expect(try await self.answers(world, ada, spans).count == answers)
            }
        }
    }

    @Test func aHubOfBeforeOrOneThatErasedIsNotAnswering() async throws {
        try await withWorld { world in
            let (path, chats) = try await fill(world, events: 4000)
            let (number, sound) = try largest(path, world)
            _ = try EventStore.damageRun(at: path, number: number) { $0[sound.count / 2] ^= 1 }
            // It skips the field that it does not know.
            try await expectSilence(path, world) { frame in
                guard case .fetch(let wishes, var damaged) = frame else { return frame }
                for index in damaged.indices { damaged[index].spans = [] }
                return .fetch(wishes, damaged: damaged)
            }
            // Of both runs.
            let log = LogID.conversation(chats[3])
            for seq in [20, 21, try world.hubStore.log.lastSeq(of: log)] as [Seq] { try world.hubStore.log.erase(log: log, seq: seq) }
            try await expectSilence(path, world)
        }
    }

    @Test func aHubThatLiesAboutWhatItEncodedChangesNothing() async throws {
        try await withWorld { world in
            let (path, _) = try await fill(world, events: 4000)
            let (number, sound) = try largest(path, world)
            _ = try EventStore.damageRun(at: path, number: number) { $0[sound.count / 2] ^= 1 }
            let session = try await world.repair(path) { frame in
                guard case .repair(var repair) = frame else { return [frame] }
                repair.blocks[0].bytes[9] ^= 1
                return [.repair(repair)]
            }
            guard case .done(repaired: 0, isWhole: false)? = session.end else {
                Issue.record("\(String(describing: session.end))")
                return
            }
            try await world.expectSalvaged(path)
        }
    }

    /// What a hub says of a run of these events that has one byte spoiled.
    private func answers(_ world: World, _ user: UserID, _ spans: [EventSpan], as claimed: [EventSpan]? = nil) async throws -> [Frame] {
        let events = try spans.flatMap { try world.hubStore.log.events(in: $0.log, range: $0.firstSeq...$0.firstSeq + Seq($0.count) - 1) }
        var bytes = try SegmentEncoder().encode(events, at: 5)
        bytes[bytes.count - 1] ^= 1
        let damaged = DamagedRun(
            log: spans[0].log, seq: spans[0].firstSeq, position: 5, byteCount: bytes.count, checks: RunBlocks.checks(of: bytes), spans: claimed ?? spans)
        let peer = try await RawPeer(world.hub, user) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
        peer.forget()
        peer.send(.fetch([], damaged: [damaged]))
        peer.send(.ping(1))
        try await eventually { peer.frames.contains(.pong(1)) || peer.bye != nil }
        let frames = peer.frames
        peer.end()
        return frames.filter { $0 != .pong(1) }
    }

    @Test func strangersAndNonsenseGetSilence() async throws {
        try await withWorld { world in
            let (_, chats) = try await fill(world, events: 1000, chats: 3)
            let own = chats.map { EventSpan(log: .conversation($0), firstSeq: 1, count: 50) }
            let other = try await world.hubStore.createConversation(.direct, author: bob, participants: [eve])
            let others = EventSpan(log: .conversation(other), firstSeq: 1, count: 1)
            #expect(try await answers(world, ada, own).count == 1)
            #expect(try await answers(world, bob, own + [others]).count == 1)
            #expect(try await answers(world, UserID("carl")!, own) == [])
            #expect(try await answers(world, ada, own + [others]) == [])
            // What is not there, a log twice, with a hole, overlapping; more than a run holds; in another order.
            func changed(_ change: (inout [EventSpan]) -> Void) -> [EventSpan] {
                var spans = own
                change(&spans)
                return spans
            }
            let nonsense: [[EventSpan]] = [
                changed { $0[1].log = .conversation(.random()) }, changed { $0[1].log = .user(ada) }, changed { $0.append($0[0]) },
                changed { $0.append(EventSpan(log: $0[0].log, firstSeq: 52, count: 1)) },
                changed { $0.append(EventSpan(log: $0[0].log, firstSeq: 50, count: 1)) },
                changed { $0.append(EventSpan(log: $0[0].log, firstSeq: 51, count: SegmentCodec.eventsMax - 150)) },
                changed { $0.append(EventSpan(log: $0[0].log, firstSeq: 51, count: SegmentCodec.eventsMax)) },
                changed { $0[2].firstSeq = WireLimits.seqMax }, changed { $0[2].count = SegmentCodec.eventsMax }, changed { $0.reverse() },
                changed { $0[0].count = 49 }, Array(repeating: own[0], count: WireLimits.spansMax), [],
            ]
            for spans in nonsense {
                let said = try await answers(world, ada, own, as: spans)
                #expect(said == [])
            }
            let many = Array(repeating: own[0], count: WireLimits.spansMax + 1)
            guard case .bye(let bye)? = try await answers(world, ada, own, as: many).first else {
                Issue.record("it was taken")
                return
            }
            #expect(bye.code == .protocolError)
            // A log in two parts, as it is in a run of what came one after the other.
            let parts = [own[0], own[1], EventSpan(log: own[0].log, firstSeq: 51, count: 30)]
            #expect(try await answers(world, ada, parts).count == 1)
        }
    }

    @Test func readingForAPeerCostsItsAllowance() async throws {
        try await withWorld { world in
            let (_, chats) = try await fill(world, events: 1000, chats: 3)
            let spans = chats.map { EventSpan(log: .conversation($0), firstSeq: 1, count: 150) }
            let events = try spans.flatMap { try world.hubStore.log.events(in: $0.log, range: 1...150) }
            let bytes = try SegmentEncoder().encode(events, at: 5)
            var damaged = DamagedRun(log: spans[0].log, seq: 1, position: 5, byteCount: bytes.count, checks: RunBlocks.checks(of: bytes))
            let peer = try await RawPeer(world.hub, ada) { $0.cursor = Cursor(store: world.hubStore.log.id, incarnation: 0, position: 0) }
            peer.forget()
            let base = SegmentCodec.eventsMax
            #expect(try await peer.cost(of: damaged) == base)
            // What others may not see, and nonsense, costs the same as if it were not there.
            damaged.spans = spans + [EventSpan(log: .user(bob), firstSeq: 1, count: 1)]
            #expect(try await peer.cost(of: damaged) == base + 4 * 16)
            damaged.spans = [spans[0], spans[1], spans[0]]
            #expect(try await peer.cost(of: damaged) == base + 3 * 16)
            // The runs that are read, the events that are encoded, and their bytes; also where nothing differs and nothing is said.
            damaged.spans = spans
            let cost = try await peer.cost(of: damaged)
            let bytesMin = events.reduce(0) { if case .messageSent(let message) = $1.event.content { $0 + message.text.utf8.count } else { $0 } }
            #expect(base + 3 * 16 + 1000 + 450 + bytesMin / 64...base + 3 * 16 + 2100 + 450 + (bytesMin + 450 * 200) / 64 ~= cost)
            #expect(peer.bye == nil && peer.frames.isEmpty)
            peer.end()
        }
    }
}
