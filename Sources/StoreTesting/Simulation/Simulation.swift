internal import ConversationStore
internal import Replication

/// A hub and some devices with the production stores, engines and state machines, in a world where everything goes wrong: one thread, virtual time, one
/// seed.
///
/// While operations happen, what screens show is watched. Then everything is healed, and when all is quiet what is there is compared with what was
/// promised and with the model.
///
/// `@unchecked Sendable`: one thread.
package final class Simulation: @unchecked Sendable {
    let world: World
    let options: SimulationOptions
    let root = MemoryDirectory(isTemporary: false)
    private(set) var hub: HubNode!
    private(set) var devices: [DeviceNode] = []
    let users: [UserID]
    private(set) var isHealing = false
    private var failure: SimulationFailure?
    private var sessionSeeds: SeededGenerator
    private let journalBytesMax: Int
    /// Lots of a first sync, and how often is told how far it came: there are few conversations here.
    let firstLot: Int
    let progressBytes: Int
    /// How long a catch-up beside newest parts is offered.
    let offeredEvents: Int
    /// Whether bytes of the hub decay: a share of the worlds.
    let damagesHub: Bool
    /// How small messages are when lines break: there are no large ones here.
    let messageBytes: (behindTwo: Int, behindFour: Int)
    /// Counts what applications write, so that every text is another.
    var texts = 0

    package init(_ options: SimulationOptions) {
        self.options = options
        world = World(seed: options.seed)
        if let trace = options.trace { world.trace = { [path = root.path] in trace($0.replacingPath(path)) } }
        sessionSeeds = world.random.fork()
        journalBytesMax = world.random.weighted([(3, 128 << 10), (1, 1 << 20)])
        firstLot = world.random.weighted([(2, 1), (2, 2), (1, 64)])
        progressBytes = world.random.weighted([(3, 1), (1, 4 << 10)])
        damagesHub = options.seed % 4 == 3
        offeredEvents = options.seed % 2 == 0 ? 2 : 512
        messageBytes = options.seed % 3 == 0 ? (128 << 10, 16 << 10) : (2000, 300)
        let count = 2 + world.random.below(4)
        users = (0..<count).map { UserID(["ann", "bob", "cleo", "dan", "eve"][$0])! }
        hub = HubNode(self, directory: root.make("hub"), clock: clock())
        // Every user has a device, some have two.
        let deviceCount = max(count, 2 + world.random.below(7))
        devices = (0..<deviceCount).map { DeviceNode(self, number: $0, user: users[$0 % count], clock: clock(), isScoped: world.random.chance(0.4)) }
        if world.random.chance(0.4) {
            devices.append(
                DeviceNode(self, number: deviceCount, user: Token.service, clock: clock(), isScoped: false, isProxy: world.random.chance(0.5)))
        }
    }

    private func clock() -> NodeClock { NodeClock(skew: skew()) }

    func skew() -> Int64 {
        let most = world.random.weighted([(4, Int64(2000)), (2, 3_600_000), (1, NodeClock.skewMax)])
        return Int64(world.random.within(0...UInt64(2 * most))) - most
    }

    func storeOptions(_ clock: NodeClock) -> ConversationStoreOptions {
        var options = ConversationStoreOptions(journalBytesMax: journalBytesMax)
        options.runsInline = true
        options.wallClock = { clock.wallMilliseconds }
        options.uptime = { clock.uptime }
        return options
    }

    func execution(_ clock: NodeClock) -> Execution {
        .inline(now: { clock.instant }, random: { [self] in max(sessionSeeds.next(), 1) })
    }

    func makeLink(_ name: String) -> Link {
        let slowest = world.random.weighted([(3, UInt64(20)), (2, 300), (1, 5000)])
        return Link(world, name: name, delay: 1...slowest, bytesAMillisecond: world.random.weighted([(2, 10_000), (1, 50)]))
    }

    /// Something that must not be: the first is told.
    func found(_ what: String) {
        world.log("FOUND \(what)")
        if failure == nil { failure = SimulationFailure("at \(world.now) ms: \(what.replacingPath(root.path))") }
    }

    /// Runs it all; returns what was found, `nil` if nothing.
    package func run() -> SimulationFailure? { PlantedBug.$current.withValue(options.planted) { runWorld() } }

    private func runWorld() -> SimulationFailure? {
        defer {
            hub.disk.remove()
            for device in devices { device.disk.remove() }
        }
        return Randomness.$seeded.withValue(SeededSource(world.random.fork())) {
            hub.start()
            for device in devices { device.start() }
            planTicks()
            var left = options.operations
            while left > 0, failure == nil {
                let pause = world.random.weighted([(6, UInt64(60)), (3, 1500), (1, 12_000)])
                let end = world.now + world.random.within(1...pause)
                world.after(end - world.now) {}
                while failure == nil, world.step(until: end) {}
                if failure == nil { operate(isEarly: options.operations - left < 2) }
                left -= 1
            }
            if failure == nil { heal() }
            checkAtRest()
            // Other planted bugs show before.
            if failure == nil, options.seed % 32 == 5, options.planted == nil || options.planted == .leaveDoubt {
                writeBelowThePage()
                checkAtRest()
            }
            askAnew()
            for device in devices { device.end() }
            hub.end()
            world.end()
            if failure == nil || !options.keepsFiles { MemoryDirectory.remove(root.path) } else { print("FILES \(root.path)") }
            return failure
        }
    }

    private func checkAtRest() {
        if failure != nil { return }
        do {
            try check()
            for device in devices { try DeviceCheck(device, hub)?.checkNewest() }
        } catch { found("\(error)") }
    }

    /// At rest, devices that held a part ask for another one, or for everything.
    private func askAnew() {
        let scoped = devices.filter(\.isScoped)
        if failure != nil || scoped.isEmpty { return }
        for device in scoped { device.ask(for: world.random.chance(0.5) ? .mine : scope(for: device)) }
        rest()
        checkAtRest()
    }

    private func planTicks() {
        world.after(1000) { [self] in
            hub.tick()
            for device in devices { device.tick() }
            planTicks()
        }
    }

    /// Everything works again.
    private func heal() {
        world.log("healing")
        isHealing = true
        hub.disk.bytesFree = nil
        hub.disk.calmDown()
        hub.mend()
        for device in devices {
            device.isPartitioned = false
            device.disk.bytesFree = nil
            device.disk.calmDown()
            if device.mustRestart { device.restart() }
        }
        rest()
    }

    func pass(_ milliseconds: UInt64) {
        let end = world.now + milliseconds
        world.after(milliseconds) {}
        while failure == nil, world.step(until: end) {}
    }

    /// Waits until all is quiet.
    func rest() {
        let end = world.now + 900_000
        var quiet = 0
        while failure == nil, world.now < end {
            let next = world.now + 1000
            while failure == nil, world.step(until: next) {}
            quiet = isQuiet ? quiet + 1 : 0
            // Nothing is under way that could still change something: connections that only one end believes in have ended.
            if quiet > 75 { return }
        }
        if failure == nil { found("it does not come to rest: \(unrest)") }
    }

    private var isQuiet: Bool { hub.isUp && devices.allSatisfy(isAtRest) }

    private func isAtRest(_ device: DeviceNode) -> Bool {
        guard let replica = device.replica, device.connection != nil else { return false }
        // What concerns others moves the hub, not this device.
        return replica.cursor != nil && replica.isOutboxAnswered(in: device.scope) && !device.isLacking(replica)
    }

    private var unrest: String {
        hub.isUp ? devices.compactMap { device in unrest(of: device).map { "\(device.name) \($0)" } }.joined(separator: "; ") : "the hub is down"
    }

    private func unrest(of device: DeviceNode) -> String? {
        guard let replica = device.replica else { return "is down" }
        guard device.connection != nil else { return "is not connected" }
        if isAtRest(device) { return nil }
        let lacking = device.lacking(replica)
        let open = replica.outbox.filter { !$0.isFailed && !$0.isWaiting }
        return
            "has cursor \(replica.cursor?.position ?? 0) of \(hub.history.position), holes \(replica.holes), lacks \(lacking.sorted().joined(separator: ", ")), "
            + "open in its outbox \(open.map { describe($0) }.joined(separator: ", "))"
    }

    /// What tells why an entry stays.
    private func describe(_ entry: OutboxEntry) -> String {
        let sent = "\(entry.wasSent ? "sent" : "not sent") as \(entry.origin.replica) \(entry.origin.counter)"
        return "[\(entry.id) \(entry.state), \(sent), in \(entry.event.conversation): \(entry.event.content)]"
    }
}

extension String {
    /// Directories have another name each time; a trace has none of them.
    fileprivate func replacingPath(_ path: String) -> String {
        guard let range = firstRange(of: path) else { return self }
        return String(self[..<range.lowerBound]) + "…" + String(self[range.upperBound...]).replacingPath(path)
    }
}
