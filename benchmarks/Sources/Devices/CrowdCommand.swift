import ArgumentParser
import ConversationStore
import EventLog
import Replication
import Synchronization

struct CrowdCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crowd",
        abstract: "What others notice while many new devices of a busy user come at once: one that has little to sync, and one that is connected.")

    @OptionGroup var place: Place
    @Option(help: "Conversations; half of them are the user's, so that no run goes as it lies.") var conversations = 1000
    @Option(help: "Events in all of them.") var events = 1_000_000
    @Option(help: "New devices, 1 to 255; they throw away what they are sent.") var devices = 60

    func run() async throws { try await place.with { try await measure() } }

    private func measure() async throws {
        note("filling a hub's store with \(events) events in \(conversations) conversations")
        let dialogues = try Dialogues(place.dialogues)
        _ = try HubStore.fill(place.directory + "/hub", conversations: conversations, events: events, others: true, dialogues)
        let (bob, carl) = (UserID("bob")!, UserID("carl")!)
        let ids = try HubStore.fill(place.directory + "/hub", groups: [[bob, carl]], messages: 50, dialogues)
        let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
        defer { hub.stop() }
        let texts = dialogues.all.flatMap(\.texts)
        let writer = try await Writer(hub.url)
        let listener = try await Listener(place.directory + "/listener", carl, hub.url)
        var alone = Trial(), beside = Trial()
        for _ in 0..<20 { try await alone.newcomer(place.directory, bob, hub.url) }
        for _ in 0..<100 { try await alone.push(texts, to: ids[0], from: bob, writer, listener) }
        note("\(devices) devices at once")
        var crowd: [Drain] = []
        let start = nanoseconds()
        for number in 1...devices { crowd.append(try await Drain(hub.url, user: HubStore.ada, number: UInt8(number))) }
        while try crowd.contains(where: { try $0.caughtUpAt() == nil }) {
            try await beside.newcomer(place.directory, bob, hub.url)
            for _ in 0..<5 { try await beside.push(texts, to: ids[0], from: bob, writer, listener) }
        }
        let ends = try crowd.compactMap { try $0.caughtUpAt() }.map { $0 - start }
        for drain in crowd { drain.close() }
        try await listener.close()
        writer.close()
        var figures = Figures()
        figures.add("conversations", conversations)
        figures.add("events", events)
        figures.add("devices", devices)
        figures.add("bytes_each", (crowd.map(\.bytes).max() ?? 0))
        figures.add("device_caught_up", ends)
        figures.add("newcomers_alone", alone.newcomers.count)
        figures.add("newcomer_alone", alone.newcomers)
        figures.add("newcomers_beside", beside.newcomers.count)
        figures.add("newcomer_beside", beside.newcomers)
        figures.add("push_to_durable_alone", alone.pushes)
        figures.add("pushes_beside", beside.pushes.count)
        figures.add("push_to_durable_beside", beside.pushes)
        figures.print()
    }

    /// A device that is connected all the time.
    private final class Listener: Sendable {
        private let device: Device
        let durable = Mutex([Int: UInt64]())

        init(_ path: String, _ user: UserID, _ url: String) async throws {
            device = try Device.open(path, user: user)
            device.onDurable { [self] _, number in
                let now = nanoseconds()
                durable.withLock { $0[number] = now }
            }
            try await device.connect(url)
            try await device.settled()
        }

        func close() async throws {
            try await device.disconnect()
            try device.replica.close()
        }
    }

    private struct Trial {
        /// From HELLO until all is held.
        var newcomers: [UInt64] = []
        /// From a service's push until the event is durable at the listener.
        var pushes: [UInt64] = []

        mutating func newcomer(_ directory: String, _ user: UserID, _ url: String) async throws {
            let device = try Device.open("\(directory)/newcomer-\(nanoseconds())", user: user)
            let start = nanoseconds()
            try await device.connect(url)
            newcomers.append(try await device.settled() - start)
            try await device.disconnect()
            try device.replica.close()
        }

        private static let next = Atomic(0)

        mutating func push(_ texts: [String], to id: ConversationID, from user: UserID, _ writer: Writer, _ listener: Listener) async throws {
            let number = Self.next.add(1, ordering: .relaxed).oldValue
            let start = nanoseconds()
            writer.push(texts[number % texts.count], number: number, to: id, as: user)
            var at: UInt64?
            while at == nil {
                if nanoseconds() - start > 120_000_000_000 { throw DeviceError("an event did not come in 120 s") }
                at = listener.durable.withLock { $0[number] }
                if at == nil { try await Task.sleep(for: .milliseconds(1)) }
            }
            pushes.append(at! - start)
        }
    }
}
