import ArgumentParser
import ConversationStore
import Replication

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "A device in sync comes back when few events are new: bytes, round trips, and time after the WebSocket upgrade.")

    @OptionGroup var place: Place
    @Option(help: "Conversations of the user.") var conversations = 1000
    @Option(help: "Events in all of them.") var events = 100_000
    @Option(help: "New events of a resume, each of another conversation.") var new = 10
    @Option(help: "Resumes.") var rounds = 20
    @Option(help: "Seconds between the first sync and the first resume: what the replica shows is saved then, beside whatever comes.") var pause = 3
    @Option(help: "Bytes of the token; the hub does not read it, but it is sent. A JWT of four claims, signed with ES256, has some 250.") var tokenBytes = 256

    @Flag(help: "The hub has signed a checkpoint before the first sync.") var signed = false

    func run() async throws { try await place.with { try await measure() } }

    private func measure() async throws {
        note("filling a hub's store with \(events) events in \(conversations) conversations")
        let dialogues = try Dialogues(place.dialogues)
        let ids = try HubStore.fill(place.directory + "/hub", conversations: conversations, events: events, dialogues)
        if signed {
            let store = try ConversationStore.open(at: place.directory + "/hub")
            _ = try store.log.makeCheckpoint()
            try store.close()
        }
        let texts = dialogues.all.flatMap(\.texts)
        let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
        defer { hub.stop() }
        let replica = try Replica.open(at: place.directory + "/replica", user: HubStore.ada)
        defer { try? replica.close() }
        let device = Device(replica, notes: true)
        let writer = try await Writer(hub.url)
        note("the first sync")
        try await device.connect(hub.url)
        try await device.settled(withinSeconds: 600)
        try await device.disconnect()
        try await Task.sleep(for: .seconds(pause))
        var caughtUp: [UInt64] = []
        var settled: [UInt64] = []
        var bytes: [(out: Int, in: Int)] = []
        var trips: [Int] = []
        var shape = ""
        for round in 0..<rounds {
            for index in 0..<new {
                let number = round * new + index
                writer.push(texts[number % texts.count], number: number, to: ids[number * 37 % ids.count], as: HubStore.assistant)
            }
            _ = try await writer.answers()
            let before = replica.store.log.lastPosition
            try await device.connect(hub.url, token: String(repeating: "t", count: tokenBytes))
            let end = try await device.settled()
            let passed = device.passed
            guard let hello = passed.first, !hello.isIn, let last = passed.firstIndex(where: { $0.isIn && $0.number == 9 }) else {
                throw DeviceError("no CAUGHT_UP came")
            }
            guard Int(replica.store.log.lastPosition - before) == new else { throw DeviceError("\(replica.store.log.lastPosition - before) events came") }
            let counted = passed[...last]
            caughtUp.append(passed[last].at - hello.at)
            settled.append(end - hello.at)
            bytes.append(
                (counted.filter { !$0.isIn }.reduce(0) { $0 + $1.message.count }, counted.filter(\.isIn).reduce(0) { $0 + $1.message.count }))
            // As often as the device spoke and then heard.
            trips.append(zip(counted, counted.dropFirst()).filter { !$0.isIn && $1.isIn }.count)
            shape = counted.map { "\($0.isIn ? "<" : ">")\($0.number):\($0.message.count)" }.joined(separator: " ")
            try await device.disconnect()
        }
        writer.close()
        let all = bytes.map { $0.out + $0.in }.sorted()
        var figures = Figures()
        figures.add("conversations", conversations)
        figures.add("events", events)
        figures.add("new_events", new)
        figures.add("resumes", rounds)
        figures.add("token_bytes", tokenBytes)
        figures.add("signed", signed ? 1 : 0)
        figures.add("bytes_out_max", bytes.map(\.out).max() ?? 0)
        figures.add("bytes_in_max", bytes.map(\.in).max() ?? 0)
        figures.add("bytes_p50", all[all.count / 2])
        figures.add("bytes_max", all.last ?? 0)
        figures.add("round_trips_max", trips.max() ?? 0)
        figures.add("hello_to_caught_up", caughtUp)
        figures.add("hello_to_durable", settled)
        figures.add("frames", shape)
        figures.print()
    }
}
