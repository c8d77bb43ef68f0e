import ArgumentParser
import ConversationStore
import EventLog
import Foundation
import Replication
import Synchronization

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet", abstract: "Many connected devices on one hub, a few of which write: delivery, loss, and the hub's memory for each.")

    @OptionGroup var place: Place
    @Option(help: "Devices, each of another user.") var devices = 1000
    @Option(help: "Users of one conversation.") var group = 10
    @Option(help: "Devices that write, each in another conversation.") var writers = 10
    @Option(help: "Messages a second of each writer.") var rate = 5
    @Option(help: "Seconds of writing.") var seconds = 30
    @Option(help: "Messages of each conversation before.") var messages = 20
    @Option(help: "Where the devices' stores lie, if not beside the hub's: each device has a disk of its own, this machine has one for all.")
    var deviceDirectory: String?

    func run() async throws {
        guard writers <= devices / group else { throw ValidationError("--writers is at most one for each conversation") }
        try await place.with {
            let directory = (deviceDirectory ?? place.directory) + "/devices"
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: directory) }  // Only scratch.
            try await measure(directory)
        }
    }

    /// When each message was begun, and until it was durable on each other device of its conversation.
    private struct Deliveries {
        var begun: [UInt64] = []
        var done: [Delay] = []
    }

    private func measure(_ directory: String) async throws {
        raiseFileLimit()
        let users = (0..<devices).map { UserID("device-\($0)")! }
        let groups = stride(from: 0, to: devices, by: group).map { Array(users[$0..<min($0 + group, devices)]) }
        note("filling a hub's store with \(groups.count) conversations")
        let dialogues = try Dialogues(place.dialogues)
        let ids = try HubStore.fill(place.directory + "/hub", groups: groups, messages: messages, dialogues)
        let texts = dialogues.all.flatMap(\.texts)
        var figures = Figures()
        figures.add("devices", devices)
        figures.add("group", group)
        figures.add("writers", writers)
        figures.add("messages_per_second_each", rate)

        note("opening \(devices) replicas")
        let fleet = try open(users, directory)
        defer { for device in fleet { try? device.replica.close() } }
        do {
            // Everybody's first sync; then a hub that knows nobody yet, to whom all come back.
            let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
            defer { hub.stop() }
            try await connect(fleet, hub, "first_sync", &figures)
            for device in fleet { try await device.disconnect() }
        }
        let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
        defer { hub.stop() }
        try await connect(fleet, hub, "resume", &figures)
        let disk = try DiskPair(hub: place.directory, device: directory, rate: writers * rate, seconds: seconds)
        let witness = DiskWitness([place.directory, directory])
        try await write(fleet, ids, texts, hub, disk, witness, &figures)
        figures.print()
    }

    private func open(_ users: [UserID], _ directory: String) throws -> [Device] {
        try users.enumerated().map { index, user in
            try Device.open("\(directory)/\(index)", user: user)
        }
    }

    /// Connects all, and tells what the hub's memory grew by while they are idle.
    private func connect(_ fleet: [Device], _ hub: HubProcess, _ name: String, _ figures: inout Figures) async throws {
        // What the first connection ever costs is the program's, not a connection's.
        let first = try await Writer(hub.url, life: name == "resume" ? 2 : 1)
        try await Task.sleep(for: .seconds(2))
        let before = hub.memory
        let start = nanoseconds()
        for from in stride(from: 0, to: fleet.count, by: 50) {
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for device in fleet[from..<min(from + 50, fleet.count)] {
                    tasks.addTask { [url = hub.url] in
                        try await device.connect(url)
                        try await device.settled()
                    }
                }
                try await tasks.waitForAll()
            }
        }
        let took = nanoseconds() - start
        try await Task.sleep(for: .seconds(5))
        let after = hub.memory
        note("\(name): \(fleet.count) devices in \(took / 1_000_000) ms; hub \(before) to \(after)")
        figures.add("\(name)_seconds", Double(took) / 1e9)
        figures.add("\(name)_hub_rss_before", before.all)
        figures.add("\(name)_hub_rss_after", after.all)
        figures.add("\(name)_hub_rss_per_device", (after.all - before.all) / fleet.count)
        figures.add("\(name)_hub_own_memory_per_device", (after.own - before.own) / fleet.count)
        first.close()
    }

    private func write(
        _ fleet: [Device], _ ids: [ConversationID], _ texts: [String], _ hub: HubProcess, _ disk: DiskPair, _ witness: DiskWitness,
        _ figures: inout Figures
    ) async throws {
        let total = writers * rate * seconds
        let deliveries = Mutex(Deliveries(begun: [UInt64](repeating: 0, count: total)))
        for (index, device) in fleet.enumerated() {
            let author = fleet[index / group * group].replica.user
            device.onDurable { [user = device.replica.user] sender, number in
                guard sender == author, user != author else { return }
                let now = nanoseconds()
                deliveries.withLock { $0.done.append(Delay(due: $0.begun[number], done: now)) }
            }
        }
        let ticking = Mutex(true)
        let ticks = Thread {
            // Each device at a moment of its own in each second.
            var due = nanoseconds()
            var next = 0
            while ticking.withLock({ $0 }) {
                fleet[next].tick()
                next = (next + 1) % fleet.count
                due += 1_000_000_000 / UInt64(fleet.count)
                sleep(until: due)
            }
        }
        ticks.start()
        let group = group, writers = writers, rate = rate
        var machineTicks = MachineTime.Spent(), hubSeconds = 0.0, ownSeconds = 0.0
        var from = 0
        for turn in Turn.lengths(of: seconds) {
            let range = from..<from + turn * rate * writers
            from = range.upperBound
            let hubBefore = hub.processorSeconds, ownBefore = HubProcess.processorSeconds(of: "self"), machineBefore = MachineTime.now
            let start = nanoseconds() + 100_000_000
            let failure = await onThread { () -> String? in
                for number in range {
                    let writer = number % writers
                    let due = start + UInt64(number - range.lowerBound) * 1_000_000_000 / UInt64(rate * writers)
                    sleep(until: due)
                    deliveries.withLock { $0.begun[number] = due }
                    let device = fleet[writer * group]
                    let message = Event.Message(id: MessageID(high: Writer.mark, low: UInt64(number)), role: .user, text: texts[number % texts.count])
                    do {
                        try device.replica.append(Event(conversation: ids[writer], author: device.replica.user, content: .messageSent(message)))
                    } catch {
                        return "\(error)"
                    }
                    device.outboxChanged()
                }
                return nil
            }
            if let failure { throw DeviceError("a writer's outbox refused: \(failure)") }
            var waited = 0
            while deliveries.withLock({ $0.done.count }) < from * (group - 1), waited < 10_000 {
                try await Task.sleep(for: .milliseconds(1))
                waited += 1
            }
            hubSeconds += hub.processorSeconds - hubBefore
            ownSeconds += HubProcess.processorSeconds(of: "self") - ownBefore
            machineTicks += MachineTime.now.spent(since: machineBefore)
            try await Turn.ofDisk(disk, seconds: turn, hub: hub)
        }
        let stalls = witness.stop()
        let expected = total * (group - 1)
        ticking.withLock { $0 = false }
        // What the writers have themselves comes back on its own way.
        try await Task.sleep(for: .seconds(1))
        var unlike = 0
        for writer in 0..<writers {
            let log = LogID.conversation(ids[writer])
            let head = try fleet[writer * group].replica.store.log.head(of: log)
            if head?.size != UInt64(1 + messages + rate * seconds) { unlike += 1 }
            for device in fleet[writer * group..<(writer + 1) * group] where try device.replica.store.log.head(of: log) != head { unlike += 1 }
        }
        let endings = fleet.compactMap(\.ending)
        if let ending = endings.first { note("\(endings.count) sessions ended: \(ending)") }
        let result = deliveries.withLock { $0 }
        figures.add("messages", total)
        figures.add("deliveries", result.done.count)
        figures.add("lost", expected - result.done.count)
        figures.add("heads_unlike", unlike)
        figures.add("sessions_ended", endings.count)
        figures.add("append_to_durable_elsewhere", result.done, beside: disk.delays, stalls)
        figures.add("machine_steal_percent", machineTicks.stolenPercent, decimals: 1)
        figures.add("hub_processor_share", hubSeconds / Double(seconds))
        figures.add("driver_processor_share", ownSeconds / Double(seconds))
        let memory = hub.memory
        figures.add("hub_rss_at_end", memory.all)
    }

    /// Each device has some ten files.
    private func raiseFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
