import ConversationStore
import StoreTesting
import Testing

@testable import Replication

/// Large segments that have come while others are kept go into the archive in one commit.
@Suite struct TogetherTests {
    /// A device whose work is done when the test says so, with all that the hub sends to it at once.
    private final class Burst: Sendable {
        let device: Replica
        private let jobs: Monitor<[@Sendable () -> Void]>
        private let messages = Monitor<[[UInt8]]>([])
        private let connection: ReplicaConnection
        private let log = Monitor<(positions: [Position], end: ReplicaEvent?)>(([], nil))

        init(_ world: World, _ change: @escaping @Sendable (Frame) -> Frame = { $0 }) async throws {
            let jobs = Monitor<[@Sendable () -> Void]>([])
            var options = ReplicaOptions()
            options.execution.run = { job in jobs.withLock { $0.append(job) } }
            let device = try Replica.open(at: world.directory + "/burst", user: ada, options: options)
            let hub = Monitor<HubConnection?>(nil)
            let connection = device.connect(
                token: "", scope: .mine, send: { bytes in hub.withLock { $0 }?.receive(bytes) }, close: { _ in },
                observe: { [log] event in
                    log.withLock { log in
                        switch event {
                        case .received: log.positions.append(device.store.log.lastPosition)
                        case .ended, .failed: log.end = event
                        default: break
                        }
                    }
                })
            let upper = world.hub.connect(
                send: { [messages] bytes in
                    guard let frame = try? Frame(decoding: bytes) else { return }
                    messages.withLock { $0.append(change(frame).encoded()) }
                }, close: { _ in })
            hub.withLock { $0 = upper }
            self.device = device
            self.jobs = jobs
            self.connection = connection
            connection.start()
            run()
            try await eventually { frames.contains { if case .caughtUp = $0 { true } else { false } } }
        }

        var frames: [Frame] { messages.withLock { $0 }.compactMap { try? Frame(decoding: $0) } }
        /// Where its large segments stand among them: before these come screens.
        var segments: [Int] { frames.indices.filter { frames[$0].isLargeSegment } }
        /// Where the device's log stood when it told of each frame of events.
        var positions: [Position] { log.withLock { $0.positions } }
        var end: ReplicaEvent? { log.withLock { $0.end } }

        func deliver(through count: Int = .max) { for message in messages.withLock({ $0 }).prefix(count) { connection.receive(message) } }
        func lose() { connection.disconnected() }
        func run() { while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { job() } }
    }

    /// So many runs of ada's conversations; answers in which position each ends.
    private func fill(_ world: World, runs: Int) async throws -> [Position] {
        var random = SeededGenerator(seed: 7)
        var chats: [ConversationID] = []
        for _ in 0..<5 { chats.append(try await world.hubStore.createConversation(.group, author: bob, participants: [ada])) }
        return try (0..<runs).map { _ in
            let messages = (0..<4000).map { _ in
                let text = String(random.next(), radix: 36)
                return Submission(
                    message(text, in: random.element(chats), by: bob, id: MessageID(high: random.next(), low: random.next())))
            }
            _ = try world.hubStore.log.appendBlocking(messages)
            try world.hubStore.log.flush()
            return world.hubStore.log.lastPosition
        }
    }

    @Test func segmentsThatHaveComeAreKeptInOneCommitAtMostFourOfThem() async throws {
        try await withWorld { world in
            let ends = try await fill(world, runs: 6)
            let burst = try await Burst(world)
            defer { try? burst.device.close() }
            #expect(burst.segments.count == 6 && burst.frames.contains { $0.name == "PROGRESS" })
            burst.deliver()
            burst.run()
            #expect(burst.positions.suffix(6) == [ends[3], ends[3], ends[3], ends[3], ends[5], ends[5]])
            #expect(burst.end == nil && burst.device.cursor != nil)
            // One more if the hub was so slow that a flush of its own came before the first.
            let (mine, theirs) = try (burst.device.store.log.statistics().segments, world.hubStore.log.statistics().segments)
            #expect(mine - theirs == 0 || mine - theirs == 1)
            for slice in try #require(try world.hubStore.log.storedRun(containing: ends[5])).slices {
                #expect(try burst.device.store.log.head(of: slice.log) == world.hubStore.log.head(of: slice.log))
            }
        }
    }

    @Test func whatCameBeforeAContradictionIsKept() async throws {
        try await withWorld { world in
            let ends = try await fill(world, runs: 4)
            let segments = Monitor(0)
            let burst = try await Burst(world) { frame in
                guard case .segment(var segment) = frame, frame.isLargeSegment else { return frame }
                segments.withLock { $0 += 1 }
                guard segments.withLock({ $0 }) == 3 else { return frame }
                let seqs = Dictionary((try? SegmentCodec.decode(segment.run).map { ($0.log, $0.seq) }) ?? []) { _, last in last }
                segment.logs = seqs.map { LogNote(log: $0, head: LogHead(size: $1, root: .random())) }
                return .segment(segment)
            }
            defer { try? burst.device.close() }
            burst.deliver()
            burst.run()
            #expect(burst.device.store.log.lastPosition == ends[1])
            guard case .failed(let error as ReplicaError)? = burst.end, error.code == .forked else {
                Issue.record("\(String(describing: burst.end))")
                return
            }
        }
    }

    @Test func whatWaitsForTheNextIsKeptWhenTheConnectionIsLost() async throws {
        try await withWorld { world in
            let ends = try await fill(world, runs: 3)
            let burst = try await Burst(world)
            burst.deliver(through: burst.segments[1] + 1)
            burst.lose()
            burst.run()
            #expect(burst.device.store.log.lastPosition == ends[1])
            try burst.device.close()
            let device = try world.open(burst.device.store.log.path, ada)
            try await world.sync(device)
            #expect(device.store.log.lastPosition == ends[2] && device.isWhole)
        }
    }
}

extension Frame {
    fileprivate var isLargeSegment: Bool { if case .segment(let segment) = self { segment.run.count >= Replica.wholeBytesMin } else { false } }
}
