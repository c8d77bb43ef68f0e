import ConversationStore
import Testing

@testable import Replication

/// Events that come while a device and a hub that was set back compare what they have: they cannot go with what the device holds of the lost life.
@Suite("Events in dispute") struct DisputeTests {
    private let before = ["one"], lost = ["two", "three", "four"]

    /// The last events of the hub's log, with its head.
    private func frame(_ world: World, _ chat: ConversationID, from seq: Seq) throws -> EventsFrame {
        let log = world.hubStore.log
        let head = try #require(try log.head(of: .conversation(chat)))
        let events = try (seq...head.size).map { try #require(try log.event(in: .conversation(chat), at: $0)) }
        let items = events.map { event in
            let (envelope, body) = EventCodec.encode(event)
            return EventsFrame.Item(envelope: envelope, body: body, commitment: nil)
        }
        return EventsFrame(items: items, logs: [LogNote(log: .conversation(chat), head: LogHead(size: head.size, root: head.root))])
    }

    /// A session in which those events come before the hub has said up to where the two agree.
    ///
    /// - Parameter hidesEvents: the hub's own do not come.
    private func session(_ world: World, _ device: Replica, _ frame: Frame, hidesEvents: Bool = false) -> Between {
        let isNext = Monitor(true)
        return Between(
            world.hub, device,
            before: { other in
                switch other {
                case .heads, .caughtUp, .pong:
                    return isNext.withLock { isNext in
                        defer { isNext = false }
                        return isNext ? frame : nil
                    }
                default: return nil
                }
            },
            { frame in
                switch frame {
                case .events, .segment: hidesEvents ? nil : frame
                default: frame
                }
            })
    }

    private func send(_ texts: [String], _ world: World, _ chat: ConversationID) async throws {
        for text in texts { try await world.hubStore.send(text, to: chat, from: bob) }
    }

    /// A device whose cursor is of an opening that its hub has forgotten, though it has all that the device holds.
    private func forgotten(_ world: World) async throws -> (chat: ConversationID, device: Replica) {
        let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
        try await send(before + lost, world, chat)
        let device = try world.device(ada)
        try world.backUpHub()
        try world.reopenHub(log: { _ in }, after: { _ in })
        try await world.sync(device)
        try world.restoreHub()
        return (chat, device)
    }

    @Test("A hub that was set back is not blamed for them, be they as many as are held or more", arguments: [3, 5], [2 as Seq, 6])
    func setBack(_ count: Int, from seq: Seq) async throws {
        guard seq <= count + 2 else { return }
        try await withWorld { world in
            let chat = try await world.hubStore.createConversation(.group, author: bob, participants: [ada])
            try await send(before, world, chat)
            var device = try world.device(ada)
            try await world.sync(device)
            try world.backUpHub()
            try await send(lost, world, chat)
            try await world.sync(device)
            try world.restoreHub()
            try await send((0..<count).map { "other \($0)" }, world, chat)
            let session = session(world, device, .events(try frame(world, chat, from: seq)))
            try await eventually { session.hasEnded || session.isSettled }
            #expect(session.failure == nil)
            #expect(session.hasEnded)
            let path = device.store.log.path
            try device.close()
            device = try await world.heal(try world.open(path, ada))
            #expect(try device.store.log.head(of: .conversation(chat)) == world.hubStore.log.head(of: .conversation(chat)))
            #expect(try device.lostEvents().count == lost.count)
        }
    }

    @Test("A hub that says the two agree, and sends what does not go with that, is a fork", arguments: [false, true])
    func liar(isLonger: Bool) async throws {
        try await withWorld { world in
            let (chat, device) = try await forgotten(world)
            if isLonger { try await send(["five"], world, chat) }
            var frame = try frame(world, chat, from: isLonger ? 6 : 3)
            frame.logs[0].head!.root = Hash256()
            let session = session(world, device, .events(frame), hidesEvents: true)
            try await eventually { session.hasEnded || session.isSettled }
            #expect(session.failure == .forked)
        }
    }

    @Test("While the two differ nothing vouches for what is held, whatever the hub says")
    func caughtUpTooEarly() async throws {
        try await withWorld { world in
            let (chat, device) = try await forgotten(world)
            // It has less, and then that all was sent.
            let log = LogID.conversation(chat)
            let less = HeadsFrame.Item(log: log, head: LogHead(size: 1, root: try device.root(of: log, at: 1)))
            let session = session(world, device, .heads(HeadsFrame(heads: [less], isProbe: true)))
            try await eventually { session.hasEnded || session.isSettled }
            #expect(session.hasEnded && !session.isSettled)
            #expect(device.cursor == nil)
        }
    }
}
