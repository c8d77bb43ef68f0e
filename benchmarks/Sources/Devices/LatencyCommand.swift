import ArgumentParser
import ConversationStore
import Foundation
import Replication
import Synchronization

struct LatencyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "From a writer's push until the event is durable on a connected device, at a fixed rate, however late the answers.")

    @OptionGroup var place: Place
    @Option(help: "Conversations of the user.") var conversations = 1000
    @Option(help: "Events in all of them before.") var events = 100_000
    @Option(help: "Events a second.") var rate = 1000
    @Option(help: "Seconds that count; one more before them does not.") var seconds = 20
    @Option(help: "Conversations that are written to, in turn.") var busy = 20
    @Option(help: "Connections that push, in turn.") var writers = 1
    @Option(help: "A file for what each event took, in microseconds, one a line in the order in which they were due: to be accepted, and to be durable.")
    var series: String?

    func run() async throws { try await place.with { try await measure() } }

    private func measure() async throws {
        note("filling a hub's store with \(events) events in \(conversations) conversations")
        let dialogues = try Dialogues(place.dialogues)
        let ids = try HubStore.fill(place.directory + "/hub", conversations: conversations, events: events, dialogues)
        let texts = dialogues.all.flatMap(\.texts)
        let disk = try DiskPair(hub: place.directory, device: place.directory, rate: rate, seconds: seconds)
        let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
        defer { hub.stop() }
        let replica = try Replica.open(at: place.directory + "/replica", user: HubStore.ada)
        defer { try? replica.close() }
        let device = Device(replica)
        try await device.connect(hub.url)
        try await device.settled(withinSeconds: 600)
        let count = rate * (seconds + 1)
        let durable = Mutex([UInt64](repeating: 0, count: count))
        device.onDurable { _, number in
            let now = nanoseconds()
            durable.withLock { $0[number] = now }
        }
        var writers: [Writer] = []
        for life in 0..<self.writers { writers.append(try await Writer(hub.url, life: UInt8(life))) }
        note("\(count) events at \(rate) a second, in turns with the disk alone")
        let rate = rate, busy = busy
        var due = [UInt64](repeating: 0, count: count), late: [UInt64] = []
        var machineTicks = MachineTime.Spent(), hubSeconds = 0.0, ownSeconds = 0.0
        var from = 0
        let witness = DiskWitness([place.directory])
        // The first second does not count.
        for turn in [1] + Turn.lengths(of: seconds) {
            let range = from..<from + turn * rate
            from = range.upperBound
            let hubBefore = hub.processorSeconds, ownBefore = HubProcess.processorSeconds(of: "self"), machineBefore = MachineTime.now
            let start = nanoseconds() + 100_000_000
            for number in range { due[number] = start + UInt64(number - range.lowerBound) * 1_000_000_000 / UInt64(rate) }
            late += await onThread { [writers, due] in
                range.map { number in
                    sleep(until: due[number])
                    let late = nanoseconds() - due[number]
                    writers[number % writers.count].push(
                        texts[number % texts.count], number: number, to: ids[number % busy], as: HubStore.assistant, due: due[number])
                    return late
                }
            }
            var waited = 0
            while durable.withLock({ $0[range].contains(0) }), waited < 10_000 {
                try await Task.sleep(for: .milliseconds(1))
                waited += 1
            }
            hubSeconds += hub.processorSeconds - hubBefore
            ownSeconds += HubProcess.processorSeconds(of: "self") - ownBefore
            machineTicks += MachineTime.now.spent(since: machineBefore)
            if range.lowerBound > 0 { try await Turn.ofDisk(disk, seconds: turn, hub: hub) }
        }
        let stalls = witness.stop()
        var answers: [UInt64] = []
        for writer in writers { answers += try await writer.answers().dropFirst(rate / writers.count) }
        let times = durable.withLock { $0 }
        let delays = (rate..<count).filter { times[$0] > 0 }.map { Delay(due: due[$0], done: times[$0]) }
        if let series {
            let lines = zip(answers, delays).map { "\($0 / 1000) \($1.length / 1000)\n" }
            try lines.joined().write(toFile: series, atomically: false, encoding: .utf8)
        }
        if let ending = device.ending { throw DeviceError("the device's session ended: \(ending)") }
        try await device.disconnect()
        for writer in writers { writer.close() }
        var figures = Figures()
        figures.add("events_per_second", rate)
        figures.add("writers", writers.count)
        figures.add("events", delays.count)
        figures.add("lost", count - rate - delays.count)
        figures.add("push_to_durable", delays, beside: disk.delays, stalls)
        figures.add("push_to_accepted", answers)
        figures.add("writer_late", Array(late.dropFirst(rate)))
        figures.add("machine_steal_percent", machineTicks.stolenPercent, decimals: 1)
        figures.add("hub_processor_us_per_event", hubSeconds * 1e6 / Double(count), decimals: 0)
        figures.add("driver_processor_us_per_event", ownSeconds * 1e6 / Double(count), decimals: 0)
        figures.print()
    }
}
