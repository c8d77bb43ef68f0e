internal import ConversationStore
internal import Replication

/// The hub's machine: its disk, its clock, and the process that runs on it now.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class HubNode: @unchecked Sendable {
    private struct Peer {
        var connection: HubConnection
        var link: Link
    }

    struct Backup {
        fileprivate var directory: String
        fileprivate var time: UInt64
    }

    /// What a run was, and what it is until it is mended.
    private struct Decay {
        var written: [UInt8]
        var read: [UInt8]
    }

    private unowned let simulation: Simulation
    private let world: World
    private let directory: String
    let disk: SimulatedDisk
    let clock: NodeClock
    private var process: (store: ConversationStore, hub: Hub)?
    private var peers: [Peer] = []
    private var backups: [Backup] = []
    /// What an older copy took the place of, and what had been said by then.
    private var replaced: (backup: Backup, answers: [Answer])?
    private(set) var history = HubHistory()
    /// What was acknowledged and must be in the log: a restored backup takes back what was said after it.
    private(set) var answers: [Answer] = []
    /// All origins that were answered as repeats of something else.
    private(set) var duplicates: Set<OriginKey> = []
    private(set) var restores = 0
    /// Processes so far.
    private var lives = 0
    /// What was to be erased when the process ended, or where that cannot be read.
    private var erasing: [(log: LogID, seq: Seq)] = []
    /// Runs of its archive that cannot be read as they were written.
    private var decays: [Decay] = []
    private var decayCount = 0
    /// What it was set back to decays before anybody connects.
    private var decaysAtOnce = false

    init(_ simulation: Simulation, directory: String, clock: NodeClock) {
        self.simulation = simulation
        self.directory = directory
        self.clock = clock
        world = simulation.world
        disk = SimulatedDisk(directory)
    }

    var isUp: Bool { process != nil }
    private var path: String { directory + "/store" }

    func start() {
        if isUp { return }
        clock.advance(to: world.now)
        do {
            let store = try ConversationStore.open(at: path, options: simulation.storeOptions(clock))
            do {
                var options = HubOptions { [self] token, claimed, reply in reply(Token.check(token, claimed, now: clock.wallMilliseconds)) }
                options.execution = simulation.execution(clock)
                lives += 1
                options.execution.runLong = { [self, lives] body in begin(lives, body) }
                options.firstLot = simulation.firstLot
                options.progressBytes = simulation.progressBytes
                options.messageBytesMin = 1
                options.offeredEvents = simulation.offeredEvents
                process = (store, try Hub(store: store, options: options))
            } catch {
                store.abandon()
                throw error
            }
            world.log("hub: up at position \(store.log.lastPosition)")
            noteHistory()
            try settleErasing()
            if decaysAtOnce { decay() }
        } catch let error as EventLogError where error.code == .inputOutput {
            fall()
        } catch {
            if !disk.hasCrashed { simulation.found("the hub does not open: \(error)") }
            fall()
        }
    }

    /// A thread of the hub's own begins at once, or when the system lets it: others say and ask more meanwhile.
    private func begin(_ life: Int, _ thread: @escaping @Sendable () -> Void) {
        let slowest: UInt64 = world.random.weighted([(6, 0), (3, 30), (1, 2000)])
        guard slowest > 0 else { return thread() }
        world.after(world.random.within(1...slowest)) { [self] in
            // The process may be another one by then.
            if life == lives { enter { _ in thread() } }
        }
    }

    /// Lets the hub do something; if its disk failed under it, the process is gone.
    private func enter(_ body: (Hub) -> Void) {
        guard let process else { return }
        clock.advance(to: world.now)
        body(process.hub)
        if disk.hasCrashed { return fall() }
        noteHistory()
    }

    private func noteHistory() {
        guard let store = process?.store, store.log.lastPosition > history.position else { return }
        do {
            try store.log.replay(from: history.position + 1) { event in
                world.log(
                    "hub: + \(event.log) \(event.seq) \(event.event.author) \(String("\(event.event.content)".prefix(120))) \(event.origin.replica) \(event.origin.counter)"
                        + " \(event.origin.hlc.rawValue) \(event.hlc.rawValue)")
                try history.take(event)
                return true
            }
        } catch {
            simulation.found("\(error)")
        }
    }

    /// The world has ended.
    func end() {
        process?.store.abandon()
        process?.hub.abandon()
        process = nil
        for peer in peers { peer.link.letGo() }
        peers = []
    }

    /// The process is killed, or its disk has crashed under it.
    func fall(keeping: SimulatedDisk.Keeping? = nil) {
        if let keeping { disk.crash(keeping: keeping) }
        world.log("hub: down")
        process?.store.abandon()
        process?.hub.abandon()
        process = nil
        for peer in peers { peer.link.abandon(by: .hub) }
        peers = []
        disk.restart()
        let delay = world.random.within(10...20_000)
        world.after(delay) { [self] in start() }
    }

    /// Stops in good order; answers whether it could.
    @discardableResult
    func stop() -> Bool {
        guard let process else { return false }
        enter { $0.shutdown() }
        guard isUp else { return false }
        var isClosed = true
        do { try process.store.close() } catch {
            failed("close", error)
            isClosed = false
        }
        fall()
        return isClosed
    }

    /// Its process ends, and bytes of its archive decay: of some logs it cannot tell all until they are mended.
    func decay() {
        decaysAtOnce = false
        guard isUp, decays.isEmpty else { return }
        flush()
        // Where a crash leaves a projection behind what cannot be read, no store opens (docs/PROTOCOL.md, 13).
        guard stop() else { return }
        do {
            // That of a store without any is none.
            let runs = try EventStore.damageRun(at: path, number: .max)
            for number in 0..<runs where world.random.chance(0.3) {
                let hasParity = world.random.chance(0.2)
                _ = try EventStore.damageRun(at: path, number: number, hasParity: hasParity) { bytes in
                    let written = bytes
                    let place = world.random.below(bytes.count)
                    bytes[place] ^= 1 << UInt8(world.random.below(8))
                    world.log("hub: byte \(place) of run \(number) of \(runs) decays")
                    decays.append(Decay(written: written, read: bytes))
                }
            }
        } catch { simulation.found("the hub's runs are not found: \(error)") }
        decayCount += 1
        let count = decayCount
        world.after(world.random.within(10_000...120_000)) { [self] in if count == decayCount { mend() } }
    }

    /// What has decayed is as it was written.
    func mend() {
        if decays.isEmpty { return }
        world.log("hub: is mended")
        fall(keeping: .everything)
        do {
            let runs = try EventStore.damageRun(at: path, number: .max)
            for number in 0..<runs {
                _ = try EventStore.damageRun(at: path, number: number, hasParity: true) { bytes in
                    if let decay = decays.first(where: { $0.read == bytes }) { bytes = decay.written }
                }
            }
        } catch { simulation.found("the hub's runs are not found: \(error)") }
        decays = []
    }

    /// Something was not done: for its disk, or what has decayed, it need not be.
    private func failed(_ what: String, _ error: any Error) {
        if disk.hasCrashed { return }
        if !decays.isEmpty, (error as? EventLogError)?.code == .damaged { return world.log("hub: does not \(what): \(error)") }
        simulation.found("the hub does not \(what): \(error)")
    }

    func backUp() {
        // A backup is as it was written.
        guard isUp, decays.isEmpty else { return }
        let copy = simulation.root.path + "/backup-\(backups.count)"
        // One that a restored hub knows nothing of may have had the name.
        MemoryDirectory.remove(copy)
        MemoryDirectory.copy(path, to: copy)
        backups.append(Backup(directory: copy, time: world.now))
        world.log("hub: backed up at position \(history.position)")
    }

    /// The machine is lost, and an older copy of its store takes its place.
    func restore(_ choose: ([Backup]) -> Backup) {
        guard isUp, !backups.isEmpty else { return }
        let backup = choose(backups)
        mend()
        world.log("hub: restored from the backup of \(backup.time)")
        fall(keeping: .nothing)
        let aside = simulation.root.path + "/replaced"
        MemoryDirectory.remove(aside)
        MemoryDirectory.copy(path, to: aside)
        replaced = (Backup(directory: aside, time: world.now), answers)
        backups.removeAll { $0.time > backup.time }
        answers.removeAll { $0.time > backup.time }
        take(the: backup)
    }

    /// It was the wrong copy, or the machine is found again: what was there before it was restored last takes the place of what has been written since.
    func putForward() {
        guard isUp, let (backup, said) = replaced else { return }
        mend()
        world.log("hub: put forward to what it was at \(backup.time)")
        fall(keeping: .nothing)
        replaced = nil
        // Those made since are of the life that ends now.
        backups.removeAll { $0.time > backup.time }
        answers = said
        take(the: backup)
    }

    private func take(the backup: Backup) {
        MemoryDirectory.remove(path)
        MemoryDirectory.copy(backup.directory, to: path)
        history.forget()
        erasing = []
        restores += 1
        decaysAtOnce = simulation.damagesHub && world.random.chance(0.3)
    }

    func flush() {
        enter { [self] hub in
            do { try hub.store.log.flush() } catch { failed("flush", error) }
        }
    }

    /// Folds all that is shown anew, and puts it in the place of what there is.
    func rebuild() {
        enter { [self] hub in
            do { try hub.store.rebuild() } catch { failed("rebuild", error) }
        }
    }

    /// Signs the heads of all logs: devices keep what they are shown, and hold the hub to it.
    func sign() {
        enter { [self] hub in
            do { _ = try hub.store.log.makeCheckpoint() } catch { failed("sign", error) }
        }
    }

    /// Erases a body, for ever.
    func erase() {
        let logs = history.logs.keys.sorted()
        guard isUp, !logs.isEmpty else { return }
        let log = world.random.element(logs)
        let seq = 1 + Seq(world.random.below(history.logs[log]!.count))
        world.log("hub: erases \(log) \(seq)")
        erasing.append((log, seq))
        enter { [self] hub in
            do {
                try hub.store.log.erase(log: log, seq: seq)
            } catch let error as EventLogError where error.code == .invalidArgument {
                world.log("hub: not erased: \(error)")
            } catch {
                failed("erase", error)
            }
        }
        do { try settleErasing() } catch { simulation.found("\(error)") }
    }

    /// A crash may have come before it was done, or right behind it.
    private func settleErasing() throws {
        guard let store = process?.store else { return }
        var unread: [(LogID, Seq)] = []
        for (log, seq) in erasing {
            do {
                if try store.log.event(in: log, at: seq)?.isErased ?? false { history.noteErased(log, seq) }
            } catch let error as EventLogError where error.code == .damaged && !decays.isEmpty { unread.append((log, seq)) }
        }
        erasing = unread
    }

    /// A device has connected.
    ///
    /// - Parameter welcomedAt: gets up to where the hub's log goes when it says WELCOME.
    func accept(_ link: Link, welcomedAt: Reference<Position>) {
        enter { hub in
            let box = WeakReference<HubConnection>()
            let connection = hub.connect(
                send: { [self] message in
                    let frame = try? Frame(decoding: message)
                    if let frame { note(frame) }
                    if case .welcome? = frame { welcomedAt.value = history.position }
                    link.send(message, to: .device, frame?.summary ?? "")
                },
                close: { [self] _ in
                    link.close(by: .hub)
                    peers.removeAll { $0.connection === box.value }
                })
            box.value = connection
            peers.append(Peer(connection: connection, link: link))
            link.attach(
                .hub, receive: { [self] message in enter { _ in connection.receive(message) } },
                ended: { [self] in enter { _ in connection.disconnected() } })
        }
    }

    func tick() { enter { $0.tick() } }

    func cutAll() { for peer in peers { peer.link.cut() } }

    /// What it says is remembered: it must keep its word.
    private func note(_ frame: Frame) {
        if !history.erased.isEmpty { checkErased(frame) }
        if case .refused(let refused) = frame {
            for item in refused { world.log("hub: refuses \(item.replica) \(item.counter) in \(item.log): \(item.code) \(item.detail)") }
        }
        guard case .accepted(let accepted) = frame else { return }
        for item in accepted { world.log("hub: accepts \(item.replica) \(item.counter) in \(item.log) as \(item.seq)\(item.isDuplicate ? ", a repeat" : "")") }
        for item in accepted {
            answers.append(
                Answer(log: item.log, replica: item.replica, counter: item.counter, seq: item.seq, isDuplicate: item.isDuplicate, time: world.now))
            if item.isDuplicate { duplicates.insert(OriginKey(replica: item.replica, counter: item.counter)) }
        }
    }

    /// What was erased is told to nobody any more.
    private func checkErased(_ frame: Frame) {
        var events: [RecordedEvent] = []
        switch frame {
        case .segment(let segment): events = (try? SegmentCodec.decode(segment.run)) ?? []
        case .events(let frame):
            events = frame.items.filter { $0.commitment == nil }.compactMap { try? EventCodec.decode(envelope: $0.envelope, body: $0.body) }
        case .base(let base):
            let told = Marks(in: base.base)
            if told.numbers.isEmpty { break }
            for event in history.logs[base.log] ?? [] where history.isErased(event) {
                let marks = Marks(in: "\(event.event.content)".utf8)
                if !told.isDisjoint(with: marks) { simulation.found("\(base.log) \(event.seq) is erased, and a BASE tells it") }
            }
        default: break
        }
        for event in events where !event.isErased && history.isErased(event) {
            simulation.found("\(event.log) \(event.seq) is erased, and is sent")
        }
    }

    var store: ConversationStore? { process?.store }
}

/// A place for what is known only after it was asked for. `@unchecked Sendable`: a simulation has one thread.
final class Reference<Value>: @unchecked Sendable {
    var value: Value?
}

/// What a closure of an object calls that object by: held strongly there, it would never be let go.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class WeakReference<Value: AnyObject>: @unchecked Sendable {
    weak var value: Value?
}
