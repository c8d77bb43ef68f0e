internal import ConversationStore
internal import Replication

/// A device: its disk, its clock, the process that runs on it now, and what its application remembers.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class DeviceNode: @unchecked Sendable {
    struct Copy {
        var directory: String
        var promises: Int
        /// It was damaged, and may not be healed yet.
        var mayVanish: Bool
    }

    unowned let simulation: Simulation
    let world: World
    let name: String
    let user: UserID
    private let directory: String
    let disk: SimulatedDisk
    let clock: NodeClock
    private(set) var replica: Replica?
    private(set) var connection: ReplicaConnection?
    private var link: Link?
    private var isConnecting = false
    private var copies: [Copy] = []
    /// How many of its next connections break soon.
    private var breaks = 0
    var isPartitioned = false
    /// Whether it asks for a part of what its user has, now and then for another.
    let isScoped: Bool
    var scope: Scope
    /// Up to where the hub's log went when it asked last without a cursor, or with one before all events: all that follows comes.
    private(set) var asked: Position = 0
    /// Seqs of which it may have erased the body.
    var erased: [LogID: Set<Seq>] = [:]
    var promises: [Promise] = []
    /// It was set back behind messages of this conversation that the hub has: it goes on with others, under counters that it gave out before.
    private var behindLoss: ConversationID?
    var streams: [OpenAnswer] = []
    /// Whether its store has failed in a way that asks for a new opening.
    private(set) var mustRestart = false
    var observation = Observation()
    /// Whether it was ever set back: what it made then may be sent in another order.
    var wasRestored = false
    /// Whether a byte of its store has decayed, and nobody has looked since.
    var isDecayed = false
    /// Events that its application has given up.
    var discarded: [Event] = []
    /// As what the events of its outbox were sent.
    var origins: [Event: Set<OriginKey>] = [:]
    /// The events that `origins` has by now, by their ids in the outbox.
    var noted: [UInt64: (origin: OriginKey, event: Event)] = [:]

    /// A streamed message that its application goes on with.
    struct OpenAnswer {
        var author: UserID
        var conversation: ConversationID
        var message: MessageID
        var next: UInt32
    }

    init(_ simulation: Simulation, number: Int, user: UserID, clock: NodeClock, isScoped: Bool, isProxy: Bool = false) {
        self.simulation = simulation
        self.user = user
        self.clock = clock
        self.isScoped = isScoped
        self.isProxy = isProxy
        scope = user == Token.service ? .everything : .mine
        world = simulation.world
        name = "device \(number) of \(user)"
        directory = simulation.root.make("device-\(number)")
        disk = SimulatedDisk(directory)
        // Not every file system can.
        disk.exchangesNames = number.isMultiple(of: 2)
    }

    var path: String { directory + "/store" }

    /// Whether it is no user's but a service account's copy of all.
    var isFollower: Bool { user == Token.service }
    /// Whether the service writes on it, in users' names.
    let isProxy: Bool

    // Its process.

    func start() {
        if replica != nil { return }
        clock.advance(to: world.now)
        var options = ReplicaOptions()
        options.store = simulation.storeOptions(clock)
        options.execution = simulation.execution(clock)
        options.messageBytes = simulation.messageBytes
        options.isService = isProxy
        do {
            try mend(options)
            replica = try Replica.open(at: path, user: user, options: options)
            mustRestart = false
            world.log("\(name): up")
            // What was kept without a sync before may be found only now, when something else is asked for.
            observe { _ in true }
            if let conversation = behindLoss.take() { enter { try take(simulation.messages(3, in: conversation, by: user), $0) } }
            connectSoon()
        } catch let error as EventLogError where [.diskFull, .inputOutput, .cannotCreate, .unknownOutcome].contains(error.code) {
            world.log("\(name): does not open: \(error)")
            fall()
        } catch {
            if !disk.hasCrashed { simulation.found("\(name) does not open: \(error)") }
            fall()
        }
    }

    /// Lets the replica do something, then looks at what it shows.
    func enter(_ body: (Replica) throws -> Void) {
        guard let replica else { return }
        clock.advance(to: world.now)
        do {
            try body(replica)
        } catch let refusal as Refusal {
            world.log("\(name): refused: \(refusal)")
        } catch let error as EventLogError where [.diskFull, .unknownOutcome, .inputOutput].contains(error.code) {
            world.log("\(name): \(error)")
            mustRestart = true
        } catch {
            if !disk.hasCrashed { simulation.found("\(name): \(error)") }
        }
        if disk.hasCrashed { return fall() }
        noteOrigins()
        observe(asksFor: covers)
        if mustRestart, self.replica != nil {
            // Its application opens it anew.
            let process = replica
            world.after(world.random.within(1...2000)) { [self] in if self.replica === process, mustRestart { restart() } }
        }
    }

    private func observe(asksFor: (LogID) -> Bool) {
        guard let replica else { return }
        do {
            try observation.look(at: replica, user, simulation.hub, asksFor: asksFor)
        } catch {
            if !disk.hasCrashed { simulation.found("\(name): \(error)") }
        }
    }

    /// The world has ended.
    func end() {
        replica?.abandon()
        link?.letGo()
        (replica, connection, link) = (nil, nil, nil)
    }

    /// The process is killed.
    func fall(keeping: SimulatedDisk.Keeping? = nil) {
        if let keeping { disk.crash(keeping: keeping) }
        world.log("\(name): down")
        replica?.abandon()
        replica = nil
        connection = nil
        link?.abandon(by: .device)
        link = nil
        if world.random.chance(0.5) { streams = [] }
        disk.restart()
        world.after(world.random.within(10...10_000)) { [self] in start() }
    }

    /// Closes and opens in good order.
    func restart() {
        guard let replica else { return }
        enter { _ in connection?.end() }
        guard self.replica != nil else { return }
        do { try replica.close() } catch { world.log("\(name): does not close: \(error)") }
        if !disk.hasCrashed, let link { link.close(by: .device) }
        fall()
    }

    /// - Returns: whether it has another copy now.
    @discardableResult
    func copy() -> Bool {
        guard replica != nil, copies.count < 3 else { return false }
        let copy = directory + "-copy-\(copies.count)"
        MemoryDirectory.copy(path, to: copy)
        copies.append(Copy(directory: copy, promises: promises.count, mayVanish: observation.mayVanish))
        world.log("\(name): copied")
        return true
    }

    func forgetCopies() {
        for copy in copies { MemoryDirectory.remove(copy.directory) }
        copies = []
    }

    /// An earlier copy takes the store's place: what was made since and not sent is lost with it.
    func restore(_ choose: ([Copy]) -> Copy) {
        guard replica != nil, !copies.isEmpty else { return }
        let copy = choose(copies)
        world.log("\(name): restored from a copy")
        fall(keeping: .nothing)
        MemoryDirectory.remove(path)
        MemoryDirectory.copy(copy.directory, to: path)
        isDecayed = false
        let isLost: (Promise) -> Bool = { [user, simulation] in
            if case .messageSent = $0.event.content { $0.event.author == user && simulation.hub.history.holds($0.event) } else { false }
        }
        behindLoss = promises[copy.promises...].last(where: isLost)?.event.conversation
        for index in copy.promises..<promises.count { promises[index].isReleased = true }
        observation = Observation()
        observation.mayVanish = copy.mayVanish
        wasRestored = true
        streams = []
    }

    /// It is lost, and a new one takes its place that holds nothing; what comes then comes in pieces.
    func replace() {
        guard replica != nil else { return }
        world.log("\(name): replaced")
        fall(keeping: .nothing)
        MemoryDirectory.remove(path)
        for index in promises.indices { promises[index].isReleased = true }
        observation = Observation()
        wasRestored = true
        streams = []
        isDecayed = false
        breaks = 1 + world.random.below(4)
    }

    // Its connection.

    func connectSoon() {
        if isConnecting { return }
        isConnecting = true
        world.after(world.random.within(5...(world.random.chance(0.8) ? 1000 : 15_000))) { [self] in
            isConnecting = false
            connect()
        }
    }

    private func connect() {
        guard let replica, connection == nil else { return }
        guard !isPartitioned, simulation.hub.isUp else { return connectSoon() }
        let link = simulation.makeLink(name)
        self.link = link
        var expiry = simulation.hub.clock.wallMilliseconds + 600_000
        if !simulation.isHealing, world.random.chance(0.1) { expiry = simulation.hub.clock.wallMilliseconds + world.random.within(0...20_000) }
        let token = Token.make(user, expiresAt: expiry)
        world.log("\(name): connects")
        let welcomedAt = Reference<Position>()
        simulation.hub.accept(link, welcomedAt: welcomedAt)
        if breaks > 0, !simulation.isHealing {
            breaks -= 1
            world.after(world.random.within(1...4000)) { link.cut() }
        }
        let mine = WeakReference<ReplicaConnection>()
        link.attach(
            .device,
            receive: { [self] message in if let connection = mine.value, connection === self.connection { enter { _ in connection.receive(message) } } },
            ended: { [self] in if let connection = mine.value, connection === self.connection { enter { _ in connection.disconnected() } } })
        enter { _ in
            let connection = replica.connect(
                token: token, scope: scope, send: { link.send($0, to: .hub, (try? Frame(decoding: $0))?.summary ?? "") },
                close: { [self] bye in
                    link.close(by: .device)
                    if let closed = mine.value, closed !== self.connection { return }
                    self.connection = nil
                    self.link = nil
                    world.log("\(name): disconnected: \(bye.code) \(bye.reason)")
                    if replica === self.replica { connectSoon() }
                },
                observe: { [self] event in
                    switch event {
                    case .failed(let error): failed(error, replica)
                    case .mustReopen: mustRestart = true
                    case .connected(let isResumed): if !isResumed || replica.cursor?.position ?? 0 == 0 { asked = welcomedAt.value ?? 0 }
                    default: break
                    }
                })
            mine.value = connection
            self.connection = connection
            connection.start()
        }
    }

    private func failed(_ error: any Error, _ replica: Replica) {
        world.log("\(name): failed: \(error)")
        if disk.hasCrashed { return }
        if let error = error as? EventLogError, [.diskFull, .unknownOutcome, .inputOutput].contains(error.code) {
            mustRestart = true
        } else {
            simulation.found("\(name) cannot go on: \(error)")
        }
    }

    func cut() {
        guard world.random.chance(0.2) else { link?.cut(); return }
        link?.silence(to: world.random.chance(0.7) ? .hub : .device)
    }

    func tick() { if let connection { enter { _ in connection.tick() } } }
}
