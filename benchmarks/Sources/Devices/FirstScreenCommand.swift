import ArgumentParser
import ConversationStore
import Replication
import Synchronization

struct FirstScreenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "first-screen", abstract: "A user's new device: bytes until it shows the lobby and the newest page of the 20 newest conversations.")

    @OptionGroup var place: Place
    @Option(help: "Conversations of the user.") var conversations = 1000
    @Option(help: "Events in all of them.") var events = 100_000

    private struct Shown {
        var frames = 0, rows = 0, pages = 0, messages = 0
        var at: UInt64 = 0
    }

    func run() async throws { try await place.with { try await measure() } }

    private func measure() async throws {
        note("filling a hub's store with \(events) events in \(conversations) conversations")
        let dialogues = try Dialogues(place.dialogues)
        _ = try HubStore.fill(place.directory + "/hub", conversations: conversations, events: events, dialogues)
        let hub = try HubProcess(place.convstore, store: place.directory + "/hub")
        defer { hub.stop() }
        let replica = try Replica.open(at: place.directory + "/replica", user: HubStore.ada)
        defer { try? replica.close() }
        let device = Device(replica, notes: true)
        let shown = Mutex(Shown())
        try await device.connect(hub.url) { kept in
            // When lobby and pages stand, by what a screen would read.
            // The last frame of it is the one behind the states of 50 conversations.
            guard kept > 50, shown.withLock({ $0.at == 0 }) else { return }
            guard let rows = try? replica.store.lobby(of: HubStore.ada, limit: 50).rows, rows.count == 50 else { return }
            let pages = rows.prefix(20).compactMap { try? replica.store.timeline(of: $0.conversation, limit: 50)?.messages.count }.filter { $0 > 0 }
            guard pages.count == 20 else { return }
            shown.withLock { $0 = Shown(frames: kept, rows: rows.count, pages: pages.count, messages: pages.reduce(0, +), at: nanoseconds()) }
        }
        try await device.settled(withinSeconds: 600)
        let passed = device.passed
        let state = shown.withLock { $0 }
        guard state.at > 0, let hello = passed.first else { throw DeviceError("the first screen never stood") }
        let counts = try ScreenBytes(passed, frames: state.frames)
        try await device.disconnect()
        var figures = Figures()
        figures.add("conversations", conversations)
        figures.add("bytes_in", counts.all)
        figures.add("bytes_out", counts.out)
        figures.add("ms_until_received", Double(counts.lastAt - hello.at) / 1e6)
        figures.add("ms_until_shown", Double(state.at - hello.at) / 1e6)
        figures.add("lobby_rows", state.rows)
        figures.add("pages", state.pages)
        figures.add("messages", state.messages)
        figures.add("frames_kept", state.frames)
        figures.add("bases", counts.bases)
        figures.add("base_frames_bytes", counts.baseFrames)
        figures.add("base_state_bytes", counts.states)
        figures.add("base_range_bytes", counts.ranges)
        figures.add("base_secret_bytes", counts.secrets)
        figures.add("base_framing_bytes", counts.baseFrames - counts.states - counts.ranges - counts.secrets)
        figures.add("run_events", counts.events)
        figures.add("run_bytes", counts.run)
        figures.add("run_notes_bytes", counts.notes)
        figures.add("other_bytes", counts.other)
        figures.print()
    }
}
