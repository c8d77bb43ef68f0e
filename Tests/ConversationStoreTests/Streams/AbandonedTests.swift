import Foundation
import Testing

@testable import ConversationStore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Abandoned streams") struct AbandonedTests {
    /// A process that streams some answers and is killed. 1: bot's; 2: bot's, who is then removed; 3: complete; 4: begun by another origin.
    static func killed(at path: String) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let store = try ConversationStore.open(at: path)
            try await store.group()
            let answers = [
                try await store.startMessage(in: chat(1), from: bot, id: message(1)), try await store.startMessage(in: chat(1), from: ann, id: message(2)),
                try await store.startMessage(in: chat(1), from: bot, id: message(3)),
            ]
            for answer in answers {
                try await answer.append("some ")
                try await answer.append("text")
                try await answer.flush()
            }
            try await answers[2].complete()
            try await store.append(Event(conversation: chat(1), author: bob, content: .participantLeft(ann)))
            let foreign = Event.Message(id: message(4), role: .user, text: "", isStreaming: true)
            try await store.append(
                Event(conversation: chat(1), author: bob, content: .messageSent(foreign)),
                origin: Origin(replica: ReplicaID(high: 7, low: 7), counter: 1, hlc: HLC(milliseconds: 1)))
            kill(getpid(), SIGKILL)
        }
    }

    private func states(_ store: ConversationStore) throws -> [String] {
        try (1...4 as ClosedRange<UInt64>).map {
            let shown = try #require(try store.message(in: chat(1), id: message($0)))
            return "\(shown.state)\(shown.interruptedReason.map { " " + $0 } ?? ""): \(shown.text)"
        }
    }

    @Test("a store opened with a patience ends its own origin's streams of an earlier process, even of an author who left, and no others")
    func ends() async throws {
        let scratch = Scratch()
        await Self.killed(at: scratch.store)
        let open = ["streaming: some text", "streaming: some text", "complete: some text", "streaming: "]
        // Opening without it, or for reading, ends nothing.
        var store = try scratch.open()
        #expect(try states(store) == open)
        let position = store.log.lastPosition
        try store.close()
        var options = ConversationStoreOptions(access: .readOnly, endAbandonedStreamsAfter: .zero)
        store = try scratch.open(options)
        #expect(try states(store) == open && store.log.lastPosition == position)
        try store.close()
        // Too young: nothing happens yet.
        options = ConversationStoreOptions(endAbandonedStreamsAfter: .seconds(3600))
        store = try scratch.open(options)
        #expect(try states(store) == open && store.log.lastPosition == position)
        try store.close()
        for patience in [Duration.seconds(Int64.max), .seconds(Int64.max / 1000), .nanoseconds(1) * Int64.max] {
            store = try scratch.open(ConversationStoreOptions(endAbandonedStreamsAfter: patience))
            #expect(try states(store) == open, "the longest patience is no trap")
            try store.close()
        }
        options.endAbandonedStreamsAfter = .zero
        store = try scratch.open(options)
        #expect(try states(store) == ["interrupted abandoned: some text", "interrupted abandoned: some text", "complete: some text", "streaming: "])
        #expect(store.log.lastPosition == position + 2)
        #expect(try store.isFold())
        try store.close()
        store = try scratch.open(options)
        #expect(store.log.lastPosition == position + 2, "once")
        try store.close()
    }

    @Test(
        "those that are younger are ended when their time comes, counted from the last that was accepted; what someone goes on with is not",
        .timeLimit(.minutes(20)))
    func later() async throws {
        let scratch = Scratch()
        await Self.killed(at: scratch.store)
        let patience: UInt64 = 1500
        let store = try scratch.open(ConversationStoreOptions(endAbandonedStreamsAfter: .milliseconds(patience)))
        let newest = try store.log.events(in: .conversation(chat(1)), isReversed: true)
        let last = try #require(newest.first { $0.event.content.kind == .chunkAppended }?.hlc.milliseconds)
        // One that began in this process, and one that is gone on with: neither is ever ended.
        let own = try await store.startMessage(in: chat(1), from: bot)
        let resumed = try? store.resumeMessage(message(1), in: chat(1))
        let raw = Event.Message(id: message(9), role: .user, text: "", isStreaming: true)
        try await store.append(Event(conversation: chat(1), author: bob, content: .messageSent(raw)))
        try await eventually("the other is ended") { try store.message(in: chat(1), id: message(2))?.state == .interrupted }
        let end = try #require(try store.log.events(in: .conversation(chat(1)), isReversed: true).first { $0.event.content.kind == .messageInterrupted })
        #expect(end.hlc.milliseconds >= last + patience - 100)
        try await Task.sleep(for: .milliseconds(Int(patience) + 300))
        if let resumed {
            #expect(try states(store)[0] == "streaming: some text")
            try await resumed.append(" more")
            try await resumed.complete()
            #expect(try states(store)[0] == "complete: some text more")
        }
        #expect(try store.message(in: chat(1), id: own.id)?.state == .streaming)
        #expect(try store.message(in: chat(1), id: message(9))?.state == .streaming)
        try await own.complete()
        try store.close()
    }
}
