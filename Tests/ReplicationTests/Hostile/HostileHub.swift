import ConversationStore
import StoreTesting

@testable import Replication

/// A replica that an honest hub filled, and then one that sends it whatever it likes, from a seed: what is held must stay as it is, what is in the outbox
/// must stay there or be shown to have come, and each session must end in good form.
struct HostileHub {
    private let seed: UInt64
    private let directory = MemoryDirectory()
    private let clock = NodeClock(skew: 0)

    init(seed: UInt64) { self.seed = seed }

    /// What the replica said.
    private struct Told {
        var events: [ReplicaEvent] = []
        var frames: [Frame] = []
        var isClosed = false

        var end: ReplicaEvent? {
            events.first {
                switch $0 {
                case .ended, .failed, .mustReopen: true
                default: false
                }
            }
        }
    }

    private static let framesMax = 60
    private let ada = UserID("ada")!, bob = UserID("bob")!

    /// Runs it. Returns what must not be; `nil`: nothing.
    func run() -> String? {
        do {
            return try lie(try fill())
        } catch {
            return "\(error)"
        }
    }

    private func options(_ seed: UInt64) -> (store: ConversationStoreOptions, execution: Execution) {
        var options = ConversationStoreOptions(journalBytesMax: 1 << 20)
        options.runsInline = true
        options.wallClock = { [clock] in clock.wallMilliseconds }
        options.uptime = { [clock] in clock.uptime }
        let seeds = Monitor(SeededGenerator(seed: seed))
        return (options, .inline(now: { [clock] in clock.instant }, random: { seeds.withLock { max($0.next(), 1) } }))
    }

    private func open() throws -> Replica {
        let (store, execution) = options(seed &+ 1)
        var options = ReplicaOptions()
        options.store = store
        options.execution = execution
        return try Replica.open(at: directory.path + "/replica", user: ada, options: options)
    }

    /// Whether the honest session breaks off when it has told how far it came.
    private var breaksOff: Bool { seed % 3 == 0 }

    /// An honest session. Returns the hub's logs, and where it stands.
    private func fill() throws -> RandomFrames {
        let (storeOptions, execution) = options(seed)
        let store = try ConversationStore.open(at: directory.path + "/hub", options: storeOptions)
        defer { try? store.close() }
        let talks = try HostileWorld.fill(store, mine: [ada, bob], others: [bob, UserID("eve")!])
        var hubOptions = HubOptions.anyUser()
        hubOptions.execution = execution
        if breaksOff { (hubOptions.firstLot, hubOptions.progressBytes) = (1, 1) }
        let hub = try Hub(store: store, options: hubOptions)
        let replica = try open()
        if breaksOff {
            let line = Line(hub, replica, isLost: { record, _ in record.progress.count == 2 })
            guard line.now.isLost, replica.isHeld, replica.cursor == nil else { throw SimulationFailure("the honest hub tells of no part") }
        } else {
            let connection = InProcess.connect(replica, to: hub) { _ in }
            connection.end()
        }
        try replica.close()
        return RandomFrames(
            seed: seed, user: ada, logs: talks.map { .conversation($0) } + [.user(ada)],
            cursor: Cursor(store: store.log.id, incarnation: hub.incarnation, position: store.log.lastPosition))
    }

    private func lie(_ made: RandomFrames) throws -> String? {
        var frames = made
        var replica = try open()
        var held = try hold(replica)
        guard held.count == (breaksOff ? 1 : 2) else { return "the honest hub's conversations did not come" }
        for number in 0..<4 as Range<UInt64> {
            guard case .conversation(let id) = frames.logs[Int(number) % 2] else { continue }
            let message = Event.Message(id: MessageID(high: 77, low: number), role: .user, text: "mine \(number)")
            try replica.append(Event(conversation: id, author: ada, content: .messageSent(message)))
        }
        let written = replica.outbox.map(\.event)
        var now: UInt64 = 0
        for _ in 0..<1 + frames.random.below(3) {
            let told = Monitor(Told())
            let connection = replica.connect(
                token: "", scope: .mine, send: { bytes in told.withLock { if let frame = try? Frame(decoding: bytes) { $0.frames.append(frame) } } },
                close: { _ in told.withLock { $0.isClosed = true } }, observe: { event in told.withLock { $0.events.append(event) } })
            connection.start()
            for step in 0..<Self.framesMax {
                let frame = step == 0 && frames.random.chance(0.95) ? .welcome(frames.welcome()) : frames.fromHub()
                connection.receive(frame.encoded())
                if frames.random.chance(0.2) {
                    now += frames.random.within(1...3000)
                    clock.advance(to: now)
                    connection.tick()
                }
                if let problem = try look(replica, &held, written) { return "\(problem), after \(frame.name)" }
                if told.withLock({ $0.isClosed }) { break }
            }
            connection.disconnected()
            guard let end = told.withLock({ $0.end }) else { return "a session has no end" }
            switch end {
            case .failed(let error as ReplicaError) where error.code == .forked || error.code == .badPeer: break
            case .failed(let error): return "the replica blames itself: \(error)"
            default: break
            }
            // What it sets right it does at opening; an application opens it anew whatever ended the session.
            try replica.close()
            replica = try open()
            if let problem = try look(replica, &held, written) { return "\(problem), after reopening" }
        }
        try replica.close()
        return nil
    }

    /// The heads of what is held.
    private func hold(_ replica: Replica) throws -> [LogID: Head] {
        var heads: [LogID: Head] = [:]
        try replica.store.log.forEachHead { head in
            heads[head.log] = head
            return true
        }
        for log in heads.keys { heads[log] = try replica.store.log.head(of: log) }
        return heads
    }

    /// What was held must be there, the same; what was written too, pending, failed or come.
    private func look(_ replica: Replica, _ held: inout [LogID: Head], _ written: [Event]) throws -> String? {
        let trees = HeadCache(store: replica.store.log)
        for (log, head) in held where try trees.tree(of: log, through: head.size)?.root() != head.root {
            return "\(log) is no longer what it was up to seq \(head.size)"
        }
        let waiting = replica.outbox.map(\.event)
        let aside = try replica.lostEvents().map(\.event)
        for event in written where !waiting.contains(event) && !aside.contains(event) {
            var isThere = false
            try replica.store.log.forEachEvent(in: event.log) { recorded in
                isThere = recorded.event == event
                return !isThere
            }
            if !isThere { return "an event that was written is neither in the outbox nor in its log nor kept aside" }
        }
        return nil
    }
}
