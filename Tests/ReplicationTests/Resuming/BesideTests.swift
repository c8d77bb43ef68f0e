import ConversationStore
import Testing

@testable import Replication

/// What came whole beside what a part says is named in it, and does not come again.
@Suite struct BesideTests {
    /// Three at a time, behind a first screen of all.
    private static func options(_ options: inout HubOptions) {
        ResumeTests.small(&options)
        (options.firstScreenConversations, options.firstScreenLobby) = (40, 40)
    }

    /// Loses each session's line when so many frames with events have come behind what it was told first, until all is held.
    ///
    /// - Returns: how often each log's events were sent.
    private func breakOff(_ world: World, _ device: inout Replica, live: @escaping @Sendable (Int) -> Void = { _ in }) async throws -> [LogID: Int] {
        let user = device.user
        var sent: [LogID: Int] = [:]
        for round in 1...60 where device.cursor == nil {
            let record = try await Line(
                world.hub, device,
                isLost: { record, frame in
                    if case .progress = frame { live(round) }
                    guard let told = record.down.firstIndex(where: { if case .progress = $0 { true } else { false } }) else { return false }
                    return frame.hasEvents && record.down[told...].count { $0.hasEvents } >= 2
                }
            ).run()
            #expect(record.failure == nil && (round == 1 || !record.isGone))
            for event in record.down.flatMap(\.recorded) { sent[event.log, default: 0] += 1 }
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, user)
        }
        #expect(device.cursor != nil)
        return sent
    }

    /// Conversations of more than a page, which are newer than the others.
    private func long(_ world: World) async throws -> Talks { try await Talks(world, count: 4, rounds: 45) }

    @Test("Conversations that a first screen shows whole come once, however often the line breaks", .timeLimit(.minutes(20)))
    func screen() async throws {
        try await withWorld(Self.options) { world in
            let short = try await Talks(world, count: 15, rounds: 1, others: false)
            _ = try await long(world)
            var device = try world.device(bob)
            let sent = try await breakOff(world, &device)
            try expectSame(device, world)
            for id in short.ids { #expect(try sent[.conversation(id)] == Int(world.hubStore.log.lastSeq(of: .conversation(id)))) }
        }
    }

    @Test("So does what begins with a joining, and what comes live while another waits for its lot", .timeLimit(.minutes(20)))
    func joinedAndLive() async throws {
        try await withWorld(ResumeTests.small) { world in
            let joined = (0..<3).map { _ in ConversationID.random() }
            let attribute = Event.Attribute(name: ConversationHistory.attribute, value: ConversationHistory.fromJoining.rawValue)
            for id in joined {
                let changes: [Event.Content] = [.conversationUpdated(title: nil, attributes: [attribute]), .participantJoined(bob)]
                _ = try await world.hubStore.append(
                    [Submission(Talks.creation(id, [eve]))] + changes.map { Submission(Event(conversation: id, author: ada, content: $0)) })
            }
            let talks = try await Talks(world, count: 40, rounds: 6)
            let waits = talks.ids[0], log = world.hubStore.log
            let isWritten = Monitor(false)
            var replica = try world.device(bob)
            let sent = try await breakOff(world, &replica) { round in
                // Before the next lot.
                guard round == 2, isWritten.withLock({ !$0 }) else { return }
                isWritten.withLock { $0 = true }
                _ = try? log.appendBlocking((joined + [waits]).map { Submission(message("meanwhile", in: $0, by: ada)) })
            }
            #expect(isWritten.withLock { $0 })
            // The joining, and what came live.
            for id in joined { #expect(sent[.conversation(id)] == 2) }
            #expect(replica.holes.isEmpty)
            for id in joined { #expect(try replica.store.timeline(of: id)?.messages.map(\.text) == ["meanwhile"]) }
            let other = try world.device(bob)
            try await world.sync(other)
            #expect(try replica.store.lobby(of: bob, limit: 100).rows == other.store.lobby(of: bob, limit: 100).rows)
        }
    }

    @Test("Who names what it has not sent brings about no more than that it is asked for", .timeLimit(.minutes(20)))
    func liar() async throws {
        try await withWorld(Self.options) { world in
            let short = try await Talks(world, count: 15, rounds: 1, others: false)
            let long = try await long(world)
            let device = try world.device(bob)
            let isOver = Monitor(false)
            let liar = Between(world.hub, device) { frame in
                if isOver.withLock({ $0 }) { return nil }
                guard case .progress(var told) = frame else { return frame }
                isOver.withLock { $0 = true }
                told.whole = (short.ids + long.ids + [.random()]).map { .conversation($0) } + [.user(bob), .user(eve)]
                return .progress(told)
            }
            try await eventually { isOver.withLock { $0 } && device.isHeld }
            liar.lose()
            try await eventually { liar.hasEnded }
            let record = try await Line(world.hub, device).run()
            #expect(record.failure == nil && !record.isGone && record.isSettled)
            #expect(record.named.allSatisfy { $0.head.size > 0 })
            try expectSame(device, world)
        }
    }
}
