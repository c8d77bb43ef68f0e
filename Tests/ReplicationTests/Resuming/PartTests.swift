import ConversationStore
import Testing

@testable import Replication

/// What a part that was told vouches for, and what it does not.
@Suite struct PartTests {
    @Test(
        "A hub that was restored is found out also by what happened while a part was sent, and came before it was told", .timeLimit(.minutes(20)),
        arguments: [false, true])
    func restoredMeanwhile(_ isReopened: Bool) async throws {
        try await withWorld(ResumeTests.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 5)
            try world.backUpHub()
            var device = try world.device(bob)
            let (done, waits) = (talks.ids[29], talks.ids[0])
            let hub = world.hubStore.log
            let written = Monitor(false)
            let first = try await Line(
                world.hub, device,
                isLost: { record, frame in
                    // The newest log is whole, and the oldest waits for its lot.
                    if case .progress(let told) = frame, told.part.wholeFrom <= told.part.cursor.position, written.withLock({ !$0 }) {
                        written.withLock { $0 = true }
                        _ = try? hub.appendBlocking([done, waits].map { Submission(message("meanwhile", in: $0, by: ada)) })
                    }
                    // A PROGRESS has come behind it.
                    guard let place = record.down.lastIndex(where: { $0.names(.conversation(done), size: 7) }) else { return false }
                    return record.down[place...].contains { if case .progress = $0 { true } else { false } }
                }
            ).run()
            let told = try #require(first.progress.last)
            #expect(written.withLock { $0 } && told.cursor.position <= 30 * 2 + 30 * 10 && device.cursor == nil)
            #expect(try device.store.log.lastSeq(of: .conversation(done)) == 7 && device.store.log.lastSeq(of: .conversation(waits)) < 7)
            if isReopened {
                let path = device.store.log.path
                try device.close()
                device = try world.open(path, bob)
            }
            try world.restoreHub()
            let second = try await Line(world.hub, device).run()
            #expect(second.isGone, "newest: \(String(describing: second.hello?.newest))")
            let path = device.store.log.path
            try device.close()
            device = try await world.heal(world.open(path, bob))
            try expectSameButLost(device, world)
            try await talks.write(world, "instead", to: [done])
            device = try await world.heal(device)
            #expect(try device.evidence == nil)
            // What was written into the other may have come, too.
            #expect(try device.lostEvents().contains { $0.log == .conversation(done) })
            #expect(try device.store.log.head(of: .conversation(done)) == world.hubStore.log.head(of: .conversation(done)))
        }
    }

    private func expectSameButLost(_ device: Replica, _ world: World) throws {
        try world.hubStore.log.forEachHead { head in
            if case .conversation(let id) = head.log, try world.hubStore.participants(of: id).contains(bob) {
                #expect(try device.store.log.head(of: head.log) == head)
            }
            return true
        }
    }

    @Test(
        "What the hub agreed to it may not say otherwise afterwards; what it was not asked about yet is doubtful", .timeLimit(.minutes(20)),
        arguments: [true, false])
    func agreed(_ isAnswered: Bool) async throws {
        try await withWorld(ResumeTests.small) { world in
            let talks = try await Talks(world, count: 40, rounds: 6)
            let device = try world.device(bob)
            func sizes() throws -> [Seq] { try talks.ids.map { try device.store.log.lastSeq(of: .conversation($0)) } }
            func session(isLate: Bool) async throws {
                _ = try await Line(
                    world.hub, device,
                    isLost: { record, frame in
                        record.hello?.progress == nil ? record.progress.count > 1 : frame.hasEvents && record.down.count { $0.hasEvents } >= 3
                    }, isLate: { if case .pong = $0 { isLate } else { false } }
                ).run()
            }
            var sizesBefore: [Seq] = []
            // Until a larger lot is under way of which nobody knows.
            for round in 1...20 {
                try await session(isLate: round % 2 == 0)
                sizesBefore = try sizes()
                if round % 2 == 0, sizesBefore.count(where: { 2..<7 ~= $0 }) > 10 { break }
            }
            if isAnswered { try await session(isLate: false) }
            let sizesBehind = try sizes()
            let place = try #require(talks.ids.indices.first { 2..<7 ~= sizesBehind[$0] && sizesBefore[$0] == sizesBehind[$0] })
            try world.rewriteHub { event in
                guard event.log == .conversation(talks.ids[place]), event.seq == 2, case .messageSent(var message) = event.event.content else { return event }
                var event = event
                message.text = "rewritten"
                event.event.content = .messageSent(message)
                return event
            }
            if isAnswered {
                let last = try await Line(world.hub, device).run()
                #expect((last.failure as? ReplicaError)?.code == .forked)
            } else {
                let path = device.store.log.path
                let last = try await Line(world.hub, device).run()
                #expect(last.failure == nil && !last.isGone)
                try device.close()
                let healed = try await world.heal(world.open(path, bob))
                #expect(try healed.evidence == nil && !healed.lostEvents().isEmpty)
            }
        }
    }

    @Test("What was held when all was compared is not sent again behind a part that was told then", .timeLimit(.minutes(20))) func compared() async throws {
        try await withWorld(ResumeTests.small) { world in
            let talks = try await Talks(world, count: 30, rounds: 5)
            let device = try world.device(bob)
            #expect(try await Line(world.hub, device, Scope.conversations(Array(talks.ids.prefix(20)))).run().isSettled)
            let second = try await Line(world.hub, device) { record, frame in
                // Before PONG a replica does not take what it is told.
                let down = record.down, pong = down.firstIndex { if case .pong = $0 { true } else { false } }
                return down[(pong ?? down.count)...].contains { if case .progress(let told) = $0 { told.part.partFrom > 1 } else { false } }
            }.run()
            #expect(second.isGone && !second.isSettled)
            let whole = try world.device(bob)
            let all = try await Line(world.hub, whole).run()
            let third = try await Line(world.hub, device).run()
            #expect(third.isSettled && third.hello?.progress != nil)
            #expect(third.eventsSent == third.eventsReceived && third.eventsSent < all.eventsReceived / 2)
            try expectSame(device, world)
        }
    }
}
