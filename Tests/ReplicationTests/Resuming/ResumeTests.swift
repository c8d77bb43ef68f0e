import ConversationStore
import Testing

@testable import Replication

/// A first sync that breaks off goes on where it was, and costs what is missing.
@Suite struct ResumeTests {
    static func small(_ options: inout HubOptions) {
        options.firstLot = 3
        options.progressBytes = 1
        options.firstScreenConversations = 2
        options.firstScreenLobby = 4
    }

    /// Loses a line before the hub's n-th message.
    private func breakOff(_ world: World, _ device: Replica, before count: Int, _ scope: Scope = .mine) async throws -> Line.Record {
        try await Line(world.hub, device, scope) { record, _ in record.down.count >= count }.run()
    }

    @Test("Wherever it breaks off, all comes, and nothing of a log twice", .timeLimit(.minutes(20)))
    func anywhere() async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 40, rounds: 6)
            let whole = try world.device(bob)
            let all = try await Line(world.hub, whole).run()
            try expectSame(whole, world)
            #expect(all.progress.count > 5)
            // Of the first screen nothing is held as a log.
            let screen = all.eventsSent - all.eventsReceived
            for count in 1..<all.down.count {
                let device = try world.device(bob)
                let first = try await breakOff(world, device, before: count)
                #expect(!first.isSettled)
                #expect(device.cursor == nil)
                let second = try await Line(world.hub, device).run()
                #expect(second.isSettled, "\(count)")
                try expectSame(device, world)
                if first.progress.isEmpty { continue }
                #expect(!second.isGone && second.hello?.progress == first.progress.last, "\(count)")
                #expect(first.eventsSent + second.eventsSent <= all.eventsSent + screen, "\(count)")
                #expect(second.named.count <= talks.ids.count * 3 / 4, "\(count)")
                try device.close()
            }
        }
    }

    @Test("However often it breaks off, it comes to its end", .timeLimit(.minutes(20)), arguments: [3, 5, 8], [false, true])
    func again(_ messages: Int, isWritten: Bool) async throws { try await breakOff(messages, isWritten: isWritten) { _, _ in false } }

    @Test("and costs no more where it breaks off before the hub has answered what it was asked first", .timeLimit(.minutes(20)), arguments: [2, 3, 5])
    func early(_ messages: Int) async throws {
        try await breakOff(messages, isWritten: false) { round, frame in if case .pong = frame { round % 2 == 0 } else { false } }
    }

    private func breakOff(_ messages: Int, isWritten: Bool, isLate: @escaping @Sendable (_ round: Int, Frame) -> Bool) async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 40, rounds: 6)
            let whole = try world.device(bob)
            let all = try await Line(world.hub, whole).run()
            var device = try world.device(bob)
            var sent = 0
            var rounds = 0
            /// Whether a session went on with a lot that an earlier one had begun.
            var hasGoneOn = false
            while device.cursor == nil, rounds < 200 {
                rounds += 1
                // The first screen comes as a whole or not at all; then so many messages of what is missing.
                let record = try await Line(
                    world.hub, device,
                    isLost: { [rounds] record, frame in
                        // Without what is late it would wait for ever at the end.
                        if case .caughtUp = frame, isLate(rounds, .pong(0)) { return true }
                        return record.hello?.progress == nil ? record.progress.count > 1 : frame.hasEvents && record.down.count { $0.hasEvents } >= messages
                    },
                    isLate: { [rounds] in isLate(rounds, $0) }
                ).run()
                if let failure = record.failure { Issue.record("\(failure)") }
                sent += record.eventsSent
                if let begun = record.hello?.progress, begun.partThrough > 0 {
                    hasGoneOn = hasGoneOn || record.progress.contains { $0.wholeFrom == begun.wholeFrom && $0.partThrough > begun.partThrough }
                }
                if rounds % 3 == 0 {
                    let path = device.store.log.path
                    try device.close()
                    device = try world.open(path, bob)
                }
                if isWritten, rounds % 4 == 0 { try await talks.write(world, "meanwhile", to: [talks.ids[rounds % 40], talks.ids[39]]) }
            }
            #expect(device.cursor != nil)
            try await world.sync(device)
            try expectSame(device, world)
            #expect(rounds > 3)
            #expect(hasGoneOn || isWritten)
            // The first screen comes twice, once beside the logs; what is written meanwhile comes to a log that is whole from the cursor on.
            #expect(sent <= (isWritten ? 2 * all.eventsSent + 4 * rounds * rounds : all.eventsSent))
        }
    }

    @Test("The lot that was under way goes on as one", .timeLimit(.minutes(20)))
    func together() async throws {
        try await withWorld(Self.small) { world in
            _ = try await Talks(world, count: 40, rounds: 6)
            let device = try world.device(bob)
            let first = try await Line(world.hub, device) { record, _ in record.progress.count { $0.partThrough > 0 && $0.partFrom + 30 < $0.wholeFrom } > 1 }
                .run()
            let begun = try #require(first.progress.last)
            let second = try await Line(world.hub, device) { record, frame in frame.hasEvents && record.down.count { $0.hasEvents } >= 2 }.run()
            #expect(second.hello?.progress == begun)
            #expect(second.progress.contains { $0.partFrom == begun.partFrom && $0.partThrough > begun.partThrough })
        }
    }

    @Test("What it costs does not grow with what is held", .timeLimit(.minutes(20)), arguments: [300, 1200])
    func cost(_ count: Int) async throws {
        try await withWorld({ $0.progressBytes = 4 << 10 }) { world in
            _ = try await Talks(world, count: count, rounds: 5)
            let whole = try world.device(bob)
            let all = try await Line(world.hub, whole).run()
            let device = try world.device(bob)
            let first = try await Line(world.hub, device) { record, _ in record.bytesDown > all.bytesDown * 95 / 100 }.run()
            let second = try await Line(world.hub, device).run()
            try expectSame(device, world)
            #expect(!first.isSettled && !second.isGone)
            // Of each log that is named something was missing when it was told last how far it came.
            let missing = all.eventsReceived - first.eventsReceived
            let untold = first.down.reversed().prefix { if case .progress = $0 { false } else { true } }.reduce(0) { $0 + $1.eventCount }
            #expect(second.named.count <= missing + untold && second.bytesUp < 60 * second.named.count + 1000)
            #expect(second.eventsSent == missing)
        }
    }

    @Test(
        "What happens meanwhile comes too: events, joinings, leavings, erasures, histories, checkpoints", .timeLimit(.minutes(20)),
        arguments: [4, 9, 16, 24, 32])
    func meanwhile(_ count: Int) async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 5)
            let ids = talks.ids
            func change(_ content: Event.Content, in id: ConversationID) async throws {
                _ = try await world.hubStore.append(Event(conversation: id, author: ada, content: content))
            }
            func history(_ id: ConversationID) async throws {
                let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
                try await change(.conversationUpdated(title: nil, attributes: [attribute]), in: id)
            }
            // Some left, some came back, some see what was said since they came.
            for place in stride(from: 0, to: 30, by: 5) {
                try await history(ids[place])
                try await change(.participantLeft(bob), in: ids[place])
                try await change(.participantJoined(bob), in: ids[place])
                try await change(.participantLeft(bob), in: ids[place + 1])
            }
            for round in 0..<4 {
                try await talks.write(world, "later \(round)", to: ids)
                try world.hubStore.log.flush()
            }
            let device = try world.device(bob)
            let first = try await breakOff(world, device, before: count)
            #expect(!first.isSettled)
            for (place, id) in ids.enumerated() {
                switch place % 10 {
                case 0, 1: try await talks.write(world, "behind", to: [id])
                case 2: try await change(.participantLeft(bob), in: id)
                case 3:
                    try await change(.participantLeft(bob), in: id)
                    try await talks.write(world, "unseen", to: [id])
                    try await change(.participantJoined(bob), in: id)
                case 4: try world.hubStore.log.erase(log: .conversation(id), seq: 3)
                case 5: try await history(id)
                case 6: try await change(.participantJoined(bob), in: id)
                default: break
                }
            }
            let new = ConversationID.random()
            _ = try await world.hubStore.append(Talks.creation(new, [bob]))
            _ = try world.hubStore.log.makeCheckpoint()
            let second = try await Line(world.hub, device).run()
            #expect(second.isSettled && second.failure == nil)
            // Nothing came with a hole before it.
            let wishes = second.up.flatMap { frame -> [Fetch] in if case .fetch(let wishes, _) = frame { wishes } else { [] } }
            let offers = second.down.flatMap { frame -> [LogID] in if case .heads(let heads) = frame, !heads.isProbe { heads.heads.map(\.log) } else { [] } }
            #expect(Set(wishes.map(\.log)).isSubset(of: offers))
            // As one that was never broken off.
            let other = try world.device(bob)
            try await world.sync(other)
            try expectSameAs(other, device)
            #expect(first.progress.isEmpty || !second.isGone)
        }
    }

    /// Whether two devices hold and show the same.
    private func expectSameAs(_ one: Replica, _ other: Replica) throws {
        let rows = try one.store.lobby(of: bob, limit: 100).rows
        #expect(try rows == other.store.lobby(of: bob, limit: 100).rows)
        for row in rows {
            let texts = try [one, other].map { try $0.store.timeline(of: row.conversation, limit: 1000)?.messages.map { "\($0.seq) \($0.text)" } ?? [] }
            // Who left sees what was there; of what was erased since, a copy that has it keeps it.
            #expect(texts[0].count == texts[1].count)
        }
    }

    @Test("A hub that was restored meanwhile says so, and all is compared", .timeLimit(.minutes(20)), arguments: [5, 14, 26], [false, true])
    func restored(_ count: Int, isBefore: Bool) async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 5)
            // Behind the backup stands all that is sent, or only a part that comes live.
            if isBefore { try world.backUpHub() }
            try await talks.write(world, "lost", to: talks.ids.suffix(20))
            if !isBefore { try world.backUpHub() }
            let device = try world.device(bob)
            let first = try await breakOff(world, device, before: count)
            try world.restoreHub()
            try await talks.write(world, "instead", to: talks.ids.suffix(10))
            let healed = try await world.heal(device)
            if isBefore, !first.progress.isEmpty {
                let again = try world.device(bob)
                try await world.sync(again)
                try expectSameAs(again, healed)
            } else {
                try expectSame(healed, world)
            }
            #expect(try healed.evidence == nil)
        }
    }

    @Test("Another scope counts on nothing that was sent for the first", .timeLimit(.minutes(20)), arguments: [5, 14, 26])
    func otherScope(_ count: Int) async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 5)
            let device = try world.device(bob)
            let some = Scope.conversations(Array(talks.ids.prefix(20)))
            let first = try await breakOff(world, device, before: count, some)
            #expect(!first.isSettled)
            let second = try await breakOff(world, device, before: count)
            #expect(second.hello?.progress == nil)
            #expect(second.isSettled || device.cursor == nil)
            let third = try await Line(world.hub, device).run()
            #expect(third.isSettled)
            try expectSame(device, world)
        }
    }

    @Test("A hub that does not know of it compares; it is told of nothing, and a replica that does not know of it neither", .timeLimit(.minutes(20)))
    func olderPeers() async throws {
        try await withWorld(Self.small) { world in
            _ = try await Talks(world, count: 30, rounds: 5)
            let device = try world.device(bob)
            let first = try await breakOff(world, device, before: 30)
            #expect(!first.progress.isEmpty)
            let old = try await Line(
                world.hub, device,
                hello: { hello in
                    hello.takesProgress = false
                    hello.progress = nil
                }
            ).run()
            #expect(old.isGone && old.isSettled && old.progress.isEmpty)
            try expectSame(device, world)
            let peer = try await RawPeer(world.hub, bob)
            #expect(!peer.frames.contains { if case .progress = $0 { true } else { false } })
            peer.end()
        }
    }

    @Test("A part is not all: nothing is settled by it, and a liar gains nothing by telling it", .timeLimit(.minutes(20)))
    func notAll() async throws {
        try await withWorld(Self.small) { world in
            _ = try await Talks(world, count: 30, rounds: 5)
            let device = try world.device(bob)
            _ = try await breakOff(world, device, before: 30)
            #expect(device.cursor == nil && device.isHeld)
            try await world.sync(device)
            let cursor = try #require(device.cursor)
            // Who holds all does not go back to a part.
            let told = PartialCursor(cursor: cursor, wholeFrom: cursor.position + 1, partFrom: cursor.position + 1, partThrough: 0)!
            let count = Monitor(0)
            let liar = Between(world.hub, device) { frame in
                guard case .caughtUp = frame else { return frame }
                count.withLock { $0 += 1 }
                return .progress(Progress(told))
            }
            let new = try await world.hubStore.createConversation(.group, author: ada, participants: [bob])
            try await eventually { try device.store.log.lastSeq(of: .conversation(new)) == 1 && count.withLock { $0 > 0 } }
            #expect(!liar.isSettled)
            liar.end()
            try await eventually { liar.hasEnded }
            #expect(liar.failure == nil && device.cursor == cursor)
            try await world.sync(device)
            try expectSame(device, world)
        }
    }

    @Test("What came behind a cursor before the line broke does not come again", .timeLimit(.minutes(20)), arguments: [2, 3, 5])
    func catchingUp(_ messages: Int) async throws {
        try await withWorld(Self.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 1)
            let device = try world.device(bob)
            try await world.sync(device)
            for round in 0..<5 {
                try await talks.write(world, "later \(round)", to: talks.ids)
                try world.hubStore.log.flush()
            }
            let cursor = device.cursor
            let first = try await Line(world.hub, device) { record, frame in frame.hasEvents && record.down.count { $0.hasEvents } >= messages }.run()
            #expect(device.cursor == cursor && first.hello?.progress == nil)
            let second = try await Line(world.hub, device).run()
            #expect(second.hello?.progress?.wholeFrom == 1 && second.hello?.cursor == cursor && !second.isGone)
            #expect(second.eventsSent == 150 - first.eventsSent && first.eventsSent > 0)
            #expect(second.named.count <= 30)
            try expectSame(device, world)
        }
    }

    @Test("A service's copy goes on in the middle of its logs, with runs as they lie", .timeLimit(.minutes(20)), arguments: [1, 3, 5])
    func follower(_ messages: Int) async throws {
        try await withWorld({ $0.authenticate = HubOptions.anyUser(services: [eve]).authenticate }) { world in
            let ids = (0..<40).map { _ in ConversationID.random() }
            _ = try await world.hubStore.append(ids.map { Submission(Talks.creation($0, [bob])) })
            for round in 0..<7 {
                // Not to be compressed to less than what goes as it lies.
                let written = ids.dropFirst(3 * round).map { message(noise(2000), in: $0, by: ada) }
                _ = try await world.hubStore.append(written.map { Submission($0) })
                try world.hubStore.log.flush()
            }
            let whole = try world.open(world.directory + "/whole", eve, isService: true)
            let all = try await Line(world.hub, whole).run()
            let copy = try world.open(world.directory + "/copy", eve, isService: true)
            let first = try await Line(world.hub, copy) { record, frame in frame.hasEvents && record.down.count { $0.hasEvents } > messages }.run()
            #expect(copy.cursor == nil && copy.isHeld)
            let second = try await Line(world.hub, copy).run()
            #expect(second.isSettled && !second.isGone)
            #expect(first.eventsSent + second.eventsSent == all.eventsSent)
            // Logs of which something is missing, and no others: those that were silent by then are whole.
            #expect(second.named.count == 40 - 3 * messages)
            for device in [whole, copy] {
                let heads = try [device.store, world.hubStore].map { store in
                    var heads: [LogID: Hash256] = [:]
                    try store.log.forEachHead { head in
                        heads[head.log] = head.root
                        return true
                    }
                    return heads
                }
                #expect(heads[0] == heads[1] && heads[0].count == 40)
            }
            let log = world.hubStore.log
            let runs = try Set((1...log.lastPosition).compactMap { try log.storedRun(containing: $0)?.bytes })
            #expect(second.down.count { frame in if case .segment(let segment) = frame { runs.contains(segment.run) } else { false } } == 6 - messages)
        }
    }

    @Test("What somebody made up before the line broke is not held against the hub, though a part was told", .timeLimit(.minutes(20)))
    func madeUp() async throws {
        try await withWorld({ options in
            Self.small(&options)
            options.firstLot = 64
        }) { world in
            let talks = try await Talks(world, count: 24, rounds: 8)
            let device = try world.device(bob)
            let changed = Monitor<Set<LogID>>([])
            let isOver = Monitor(false)
            let liar = Between(world.hub, device) { frame in
                if isOver.withLock({ $0 }) { return nil }
                let notes: [LogNote]
                var events: [RecordedEvent]
                switch frame {
                case .progress:
                    // A part is told behind what was made up, and then the line breaks.
                    isOver.withLock { $0 = changed.withLock { !$0.isEmpty } }
                    return frame
                case .events(let some):
                    (notes, events) = (some.logs, some.items.compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body) })
                case .segment(let segment): (notes, events) = (segment.logs, (try? SegmentCodec.decode(segment.run)) ?? [])
                default: return frame
                }
                // In the middle of logs that go on, where nothing tells.
                let headed = Set(talks.ids.dropLast(8).map { LogID.conversation($0) }).union(notes.filter { $0.head != nil }.map(\.log))
                for place in events.indices where !headed.contains(events[place].log) {
                    guard case .messageSent(var message) = events[place].event.content else { continue }
                    message.text = "made up"
                    events[place].event.content = .messageSent(message)
                    _ = changed.withLock { $0.insert(events[place].log) }
                }
                guard let run = try? SegmentEncoder().encode(events) else { return frame }
                return .segment(SegmentFrame(run: run, logs: notes))
            }
            try await eventually { isOver.withLock { $0 } }
            try await Task.sleep(for: .milliseconds(300))
            liar.lose()
            try await eventually { liar.hasEnded }
            #expect(device.isHeld && liar.failure == nil && !changed.withLock { $0.isEmpty })
            let healed = try await world.heal(device)
            #expect(try healed.evidence == nil)
            #expect(try !healed.lostEvents().isEmpty)
            for id in talks.ids {
                #expect(try healed.store.log.head(of: .conversation(id)) == world.hubStore.log.head(of: .conversation(id)))
            }
        }
    }
}
