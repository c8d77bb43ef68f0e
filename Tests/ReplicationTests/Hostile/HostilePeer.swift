import ConversationStore
import StoreTesting

@testable import Replication

/// A hub and a peer that sends it whatever it likes, from a seed: the hub must neither trap nor grow, tell nothing that is not the peer's to know, and end
/// the session in good form.
struct HostilePeer {
    private let seed: UInt64
    private let directory = MemoryDirectory()
    private let clock = NodeClock(skew: 0)

    init(seed: UInt64) { self.seed = seed }

    /// What the peer got of the hub.
    private struct Heard {
        var frames: [Frame] = []
        var closed: [Bye] = []
        var problem: String?
        /// Bytes of events, and the most that may be on their way.
        var fed = 0
        var credit = 0
    }

    private static let framesMax = 60
    /// A hub remembers of a peer no more things than this, of the few logs that there are.
    private static let footprintMax = 2000

    /// Runs it. Returns what must not be; `nil`: nothing.
    func run() -> String? {
        do {
            var options = ConversationStoreOptions(journalBytesMax: 1 << 20)
            options.runsInline = true
            options.wallClock = { [clock] in clock.wallMilliseconds }
            options.uptime = { [clock] in clock.uptime }
            let store = try ConversationStore.open(at: directory.path + "/hub", options: options)
            defer { try? store.close() }
            return try run(store)
        } catch {
            return "the hub's store: \(error)"
        }
    }

    private func run(_ store: ConversationStore) throws -> String? {
        let (ada, bob, eve) = (UserID("ada")!, UserID("bob")!, UserID("eve")!)
        let talks = try HostileWorld.fill(store, mine: [ada, bob], others: [bob, eve])
        let logs = talks.map { LogID.conversation($0) } + [.user(ada), .user(eve)]
        let strangers: Set<LogID> = [logs[2], .user(eve)]
        let seeds = Monitor(SeededGenerator(seed: seed ^ 0xFEED))
        var options = HubOptions.anyUser()
        options.execution = .inline(now: { [clock] in clock.instant }, random: { seeds.withLock { max($0.next(), 1) } })
        let hub = try Hub(store: store, options: options)
        let frames = Monitor(
            RandomFrames(
                seed: seed, user: ada, logs: logs, cursor: Cursor(store: store.log.id, incarnation: hub.incarnation, position: store.log.lastPosition)))
        let own = try store.log.storedRun(containing: 1)?.bytes ?? []
        let others = try store.log.storedRun(containing: store.log.lastPosition)?.bytes ?? []
        frames.withLock { $0.runSizes = [own.count, others.count] }
        let before = try store.log.head(of: logs[2])
        let heard = Monitor(Heard())
        var now: UInt64 = 0
        for _ in 0..<1 + frames.withLock({ $0.random.below(3) }) {
            heard.withLock { $0 = Heard() }
            let connection = hub.connect(
                send: { bytes in
                    heard.withLock { heard in
                        Self.note(bytes, &heard, strangers)
                        // The checksums, which rest on the position that was asked for, lie in the first block.
                        guard case .repair(let repair)? = heard.frames.last else { return }
                        for block in repair.blocks where block.number > 0 || block.bytes.count != own.count || block.bytes.suffix(64) != own.suffix(64) {
                            heard.problem = "REPAIR with bytes of a run that is not the peer's"
                        }
                    }
                },
                close: { bye in heard.withLock { $0.closed.append(bye) } })
            for step in 0..<Self.framesMax {
                let frame = frames.withLock { frames -> Frame in step == 0 && frames.random.chance(0.95) ? .hello(frames.hello()) : frames.fromReplica() }
                switch frame {
                case .hello(let hello): heard.withLock { $0.credit += Int(clamping: hello.credit) }
                case .credit(let more): heard.withLock { $0.credit += Int(clamping: min(more, WireLimits.creditMax)) }
                default: break
                }
                connection.receive(frame.encoded())
                if frames.withLock({ $0.random.chance(0.2) }) {
                    now += frames.withLock { $0.random.within(1...3000) }
                    clock.advance(to: now)
                    hub.tick()
                }
                if let problem = heard.withLock({ $0.problem }) { return problem }
                let footprint = connection.footprint
                if footprint > Self.footprintMax { return "the hub remembers \(footprint) things of one peer after \(step) frames" }
                if !heard.withLock({ $0.closed.isEmpty }) { break }
            }
            let sent = heard.withLock { $0.frames.count }
            connection.receive(Frame.ping(1).encoded())
            let (frames, closed) = heard.withLock { ($0.frames, $0.closed) }
            if closed.count > 1 { return "the session was closed \(closed.count) times" }
            if let bye = closed.first {
                if frames.count > sent { return "something was sent behind the end" }
                guard case .bye(bye)? = frames.last else { return "a session ended without its BYE: \(bye)" }
                if bye.code == .internalError || bye.code == .storeFull { return "the hub blames itself: \(bye)" }
            } else {
                connection.disconnected()
                if heard.withLock({ $0.closed.count }) != 1 { return "a lost connection was not closed" }
            }
        }
        guard try store.log.head(of: logs[2]) == before else { return "a conversation of others was changed" }
        var forged: String?
        try store.log.replay { event in
            if event.position > HostileWorld.events, event.event.author != ada { forged = "an event of \(event.event.author) at \(event.position)" }
            return forged == nil
        }
        return forged
    }

    private static func note(_ bytes: [UInt8], _ heard: inout Heard, _ strangers: Set<LogID>) {
        guard let frame = try? Frame(decoding: bytes) else { return heard.problem = "the hub sent no frame" }
        heard.frames.append(frame)
        var logs: [LogID] = []
        switch frame {
        case .events(let events):
            logs = events.items.compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body).log } + events.logs.map(\.log)
        case .segment(let segment): logs = ((try? SegmentCodec.decode(segment.run)) ?? []).map(\.log) + segment.logs.map(\.log)
        case .base(let base): logs = [base.log]
        case .heads(let heads): logs = heads.heads.filter { $0.head.size > 0 }.map(\.log)
        default: return
        }
        if let log = logs.first(where: strangers.contains) { heard.problem = "\(frame.name) of \(log), which is not the peer's" }
        if case .heads = frame { return }
        if heard.fed >= heard.credit { heard.problem = "events beyond the credit" }
        heard.fed += bytes.count
    }
}
