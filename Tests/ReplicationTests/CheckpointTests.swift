import ConversationStore
import Foundation
import Testing

@testable import Replication

/// What a device keeps of a hub's checkpoints, and what becomes of it when the hub is set back to a backup.
@Suite("Checkpoints of a hub") struct CheckpointTests {
    /// The hub gets some conversations, and may sign.
    private func grow(_ world: World, _ count: Int, signs: Bool = true) async throws {
        for _ in 0..<count { _ = try await world.hubStore.createConversation(.group, author: bob, participants: [ada]) }
        if signs { _ = try world.hubStore.log.makeCheckpoint() }
    }

    private func expectSame(_ world: World, _ device: Replica) throws {
        var logs = 0
        try world.hubStore.log.forEachHead { head in
            if case .conversation = head.log {
                let own = try device.store.log.head(of: head.log)
                #expect(own == head)
                logs += 1
            }
            return true
        }
        #expect(logs >= 8)
    }

    @Test("A hub that was set back to before its first checkpoint, or to an older one, and signs anew is no fork", arguments: [false, true])
    func setBack(hasSigned: Bool) async throws {
        try await withWorld { world in
            try await grow(world, 2, signs: hasSigned)
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            try await grow(world, 3)
            try await world.sync(device)
            try world.restoreHub()
            let session = world.follow(device)
            try await eventually { session.isSettled || session.end != nil }
            session.connection.end()
            try await eventually { session.end != nil }
            #expect(session.log.withLock { $0.contains { if case .setBack = $0 { true } else { false } } })
            try device.close()
            device = try await world.heal(world.open(device.store.log.path, ada))
            let evidence = try device.evidence ?? ""
            #expect(evidence.contains(hasSigned ? "does not go on from the one of 5" : "shows none"))
            // Both notes as they were signed: whoever judges need not believe the device.
            let key = try VerifierKey(try #require(evidence.split(separator: "\n").first { $0.hasPrefix("key: ") }?.dropFirst(5)).description)
            let notes = evidence.components(separatedBy: "\nkept:\n").last!.components(separatedBy: "\nnew:\n")
            let signed = try notes.map { try CheckpointReader.shared.open($0, key: key).size }
            #expect(hasSigned ? signed.count == 2 && signed[0] == 5 && signed[1] < 5 : signed == [5])
            try await grow(world, 6)
            device = try await world.heal(device)
            try expectSame(world, device)
        }
    }

    @Test("A hub that was set back behind a device's cursor, and not behind its checkpoint, is no fork once it has signed others", arguments: [0, 5])
    func setBackBetween(_ count: Int) async throws {
        try await withWorld { world in
            try await grow(world, 2)
            var device = try world.device(ada)
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            try await world.sync(device)
            try world.backUpHub()
            _ = try world.hubStore.log.makeCheckpoint()
            try await world.sync(device)
            try world.restoreHub()
            // So what was signed of it is another size of it.
            try await world.hubStore.send("now", to: chat, from: bob)
            try await grow(world, count)
            device = try await world.heal(device)
            let evidence = try device.evidence ?? ""
            #expect(evidence.contains("the hub was set back"))
            try await grow(world, 6)
            device = try await world.heal(device)
            try expectSame(world, device)
        }
    }

    @Test("A checkpoint of an empty hub holds it to nothing")
    func empty() async throws {
        try await withWorld { world in
            let device = try world.device(ada)
            try world.backUpHub()
            try await grow(world, 0)
            try await world.sync(device)
            try world.restoreHub()
            _ = try await world.heal(device)
        }
    }

    @Test("A device that asks for something else without a cursor holds no lost checkpoint against a hub that was set back")
    func setBackUnderAnotherScope() async throws {
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            try world.backUpHub()
            var device = try world.device(ada)
            try await grow(world, 3)
            for index in 0..<40 { try await world.hubStore.send("message \(index)", to: chat, from: bob) }
            // Only a newest part is held: what follows asks like a new device.
            let part = world.follow(device, scope: .newest(conversations: 1, messages: 1))
            try await eventually { part.isSettled || part.end != nil }
            part.connection.end()
            try await eventually { part.end != nil }
            try world.restoreHub()
            try await grow(world, 9)
            device = try await world.heal(device)
            try expectSame(world, device)
        }
    }

    @Test("A checkpoint of which WELCOME came and nothing more is not held against a hub that was set back since", arguments: [false, true])
    func broken(isNew: Bool) async throws {
        try await withWorld { world in
            try await grow(world, 2)
            var device = try world.device(ada)
            if !isNew { try await world.sync(device) }
            try world.backUpHub()
            try await grow(world, 3)
            let hasCome = Monitor(false)
            let between = Between(world.hub, device) { frame in
                guard case .welcome = frame else { return nil }
                hasCome.withLock { $0 = true }
                return frame
            }
            try await eventually { hasCome.withLock { $0 } }
            between.end()
            try await eventually { between.hasEnded }
            try world.restoreHub()
            try await grow(world, 6)
            device = try await world.heal(device)
            try expectSame(world, device)
        }
    }

    @Test("A device whose cursor was not written when the connection was lost, and is between HELLO and WELCOME of the next, knows no fork")
    func lateSaving() async throws {
        try await withWorld { world in
            let device = try world.device(ada)
            for _ in 0..<3 {
                try await grow(world, 2)
                let lost = Between(world.hub, device) { frame in
                    // As a tick does that comes just now.
                    if case .welcome = frame { device.saveCursor() }
                    return frame
                }
                try await eventually { lost.isSettled || lost.hasEnded }
                #expect(lost.failure == nil)
                lost.lose()
                try await eventually { lost.hasEnded }
            }
            try await grow(world, 2)
            try await world.sync(device)
            try expectSame(world, device)
        }
    }

    @Test("Who shows none any more, or one that does not go on from what a device kept with its cursor, is a fork", arguments: [false, true])
    func forked(showsNone: Bool) async throws {
        try await withWorld { world in
            try await grow(world, 2)
            var device = try world.device(ada)
            try await world.sync(device)
            // Also where nothing else is new.
            _ = try await world.hubStore.createConversation(.group, author: bob, participants: [eve])
            _ = try world.hubStore.log.makeCheckpoint()
            try await world.sync(device)
            let path = device.store.log.path
            try device.close()
            device = try world.open(path, ada)
            try await grow(world, 2)
            let liar = Between(world.hub, device) { frame in
                guard case .welcome(var welcome) = frame else { return frame }
                if showsNone { welcome.checkpoint = "" } else { welcome.consistency = [] }
                return .welcome(welcome)
            }
            try await eventually { liar.failure != nil }
            #expect(liar.failure == .forked)
            try await world.sync(device)
        }
    }

    @Test("One that a device names is not sent to it again; the next one is, and a device that named none takes no such word", arguments: [0, 1, 2])
    func kept(_ kind: Int) async throws {
        try await withWorld { world in
            try await grow(world, 8)
            let device = try world.device(ada)
            if kind > 0 { try await world.sync(device) }
            if kind == 2 { try await grow(world, 2) }
            let welcomes = Monitor<[Welcome]>([])
            let between = Between(world.hub, device) { frame in
                guard case .welcome(var welcome) = frame else { return frame }
                welcomes.withLock { $0.append(welcome) }
                if kind == 0 { (welcome.checkpoint, welcome.checkpointKey, welcome.isCheckpointKept) = ("", "", true) }
                return .welcome(welcome)
            }
            try await eventually { between.failure != nil || welcomes.withLock { !$0.isEmpty } && device.isVouched && kind > 0 }
            #expect(between.failure == (kind == 0 ? .badPeer : nil))
            let welcome = try #require(welcomes.withLock { $0.first })
            #expect(welcome.isCheckpointKept == (kind == 1))
            #expect(welcome.checkpoint.isEmpty == (kind == 1) && welcome.checkpointKey.isEmpty == (kind == 1))
            between.end()
            try await world.sync(device)
            try expectSame(world, device)
        }
    }
}
