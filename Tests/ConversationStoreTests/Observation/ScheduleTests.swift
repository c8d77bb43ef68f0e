import Foundation
import Testing

@testable import ConversationStore
@testable import EventLog

/// What a conversation's newest page must be, folded in the plainest way from its events.
private struct PlainTimeline {
    private(set) var messages: [(id: MessageID, text: String, state: MessageState)] = []

    mutating func apply(_ event: Event) {
        func change(_ id: MessageID, _ body: (inout (id: MessageID, text: String, state: MessageState)) -> Void) {
            if let place = messages.firstIndex(where: { $0.id == id }) { body(&messages[place]) }
        }
        switch event.content {
        case .messageSent(let message): messages.append((message.id, message.text, message.isStreaming ? .streaming : .complete))
        case .chunkAppended(let id, _, let text): change(id) { $0.text += text }
        case .messageCompleted(let id, _, _): change(id) { $0.state = .complete }
        case .messageInterrupted(let id, _): change(id) { $0.state = .interrupted }
        case .messageEdited(let id, let text): change(id) { $0.text = text }
        case .messageDeleted(let id): change(id) { ($0.text, $0.state) = ("", .deleted) }
        default: break
        }
    }

    func isShown(by page: TimelinePage) -> Bool {
        let newest = messages.suffix(50)
        return newest.count == page.messages.count
            && zip(newest, page.messages).allSatisfy { $0.id == $1.id && $0.text == $1.text && $0.state == $1.state }
    }
}

@Suite("Observers beside writers, flushes and rebuilds") struct ScheduleTests {
    @Test(
        "no gap, no repeat, never backwards: every observer, however slow, cancelled and connected again, sees what a plain fold says",
        .timeLimit(.minutes(20)))
    func schedules() async throws {
        let seeds = UInt64(environment("FRONT_SCHEDULES", default: 3))
        let first = UInt64(environment("FRONT_SEED", default: 1))
        for seed in first..<first + seeds { try await run(seed) }
    }

    private func run(_ seed: UInt64) async throws {
        let scratch = Scratch()
        let store = try scratch.open(.tiny)
        for number in 1...3 as ClosedRange<UInt64> { try await store.group(number) }
        let isDone = Flag()
        // Pages as they were shown, to be compared when the log is known.
        let shown = Monitor<[TimelinePage]>([])
        let streams = Monitor<[(id: MessageID, conversation: ConversationID, text: String)]>([])
        let isRebuilt = Monitor(false)
        WorkerThread.start {
            while !isDone.isSet {
                do { try store.rebuild() } catch { Issue.record("seed \(seed): a rebuild: \(error)") }
                usleep(3000)
            }
            isRebuilt.withLock {
                $0 = true
                isRebuilt.wakeAll()
            }
        }

        @Sendable func pause(_ random: inout Seeded) async throws {
            switch Int.random(in: 0..<12, using: &random) {
            case 0: try await Task.sleep(for: .milliseconds(Int.random(in: 1...25, using: &random)))
            case 1...4: await Task.yield()
            default: break
            }
        }

        let observers = (0..<12).map { (number: Int) in
            Task {
                var random = Seeded(seed << 8 | UInt64(number))
                let conversation = chat(UInt64(number % 3 + 1))
                switch number % 4 {
                case 0:
                    while true {
                        // Cut off now and then, and begun anew.
                        var left = Int.random(in: 1...30, using: &random)
                        var upper: Seq = 0
                        for try await update in store.timelineUpdates(of: conversation) {
                            #expect(update.covers.lowerBound == upper + 1 && update.page.seq == update.covers.upperBound, "seed \(seed)")
                            upper = update.covers.upperBound
                            shown.withLock { $0.append(update.page) }
                            left -= 1
                            if left == 0 { break }
                            try await pause(&random)
                        }
                        if left > 0 { return }
                    }
                case 1:
                    var upper: Position = 0
                    var last: LobbyPage?
                    for try await update in store.lobbyUpdates(of: bob) {
                        #expect(update.covers.lowerBound == upper + 1 && update.page != last, "seed \(seed)")
                        upper = update.covers.upperBound
                        last = update.page
                        try await pause(&random)
                    }
                    #expect(last == (try? store.lobby(of: bob)) || isDone.isSet)
                case 2:
                    var next: Position = 1
                    while true {
                        var left = Int.random(in: 1...200, using: &random)
                        for try await event in store.events(from: next) {
                            if event.position != next { Issue.record("seed \(seed): position \(event.position) after \(next - 1)") }
                            next = event.position + 1
                            left -= 1
                            if left == 0 { break }
                            try await pause(&random)
                        }
                        if left > 0 { break }
                    }
                    // The last that were committed before the closing may be left, nothing else.
                    if next == 1 { Issue.record("seed \(seed): no event came") }
                default:
                    var done: Set<MessageID> = []
                    while !isDone.isSet {
                        guard let stream = streams.withLock({ all in all.last { !done.contains($0.id) } }) else {
                            try await Task.sleep(for: .milliseconds(2))
                            continue
                        }
                        var text = ""
                        var next: UInt32 = 0
                        var hasEnded = false
                        while !hasEnded, !isDone.isSet {
                            var left = Int.random(in: 1...20, using: &random)
                            for try await chunk in store.chunks(of: stream.id, in: stream.conversation, from: next) {
                                switch chunk {
                                case .text(let index, let piece):
                                    #expect(index == next && !hasEnded, "seed \(seed)")
                                    next += 1
                                    text += piece
                                case .ended:
                                    hasEnded = true
                                    #expect(text == stream.text, "seed \(seed)")
                                }
                                left -= 1
                                if left == 0 { break }
                                try await pause(&random)
                            }
                        }
                        done.insert(stream.id)
                    }
                }
            }
        }

        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<4 as Range<UInt64> {
                group.addTask {
                    var random = Seeded(seed << 32 | writer)
                    for step in 0..<60 {
                        let conversation = chat(.random(in: 1...3, using: &random))
                        let id = MessageID.random()
                        if Int.random(in: 0..<3, using: &random) == 0 {
                            let count = Int.random(in: 0...30, using: &random)
                            let whole = (0..<count).map { "\(writer).\(step).\($0) " }.joined()
                            let answer = try await store.startMessage(in: conversation, from: bot, id: id)
                            streams.withLock { $0.append((id, conversation, whole)) }
                            for index in 0..<count {
                                try await answer.append("\(writer).\(step).\(index) ")
                                try await pause(&random)
                            }
                            if step % 2 == 0 { try await answer.complete() } else { try await answer.interrupt(reason: "why") }
                        } else {
                            try await store.send(String(repeating: "m", count: .random(in: 1...2000, using: &random)), to: conversation, from: ann, id: id)
                            let extra: Event.Content? =
                                switch step % 5 {
                                case 0: .messageEdited(message: id, text: "edited \(step)")
                                case 1: .messageDeleted(message: id)
                                case 2: .reactionSet(message: id, emoji: "+", isOn: true)
                                case 3: .receiptRead(upTo: id)
                                default: nil
                                }
                            if let extra { try await store.append(Event(conversation: conversation, author: ann, content: extra)) }
                        }
                        try await pause(&random)
                    }
                }
            }
            try await group.waitForAll()
        }
        try await Task.sleep(for: .milliseconds(100))
        isDone.set()
        isRebuilt.withLock(waitingWhile: { !$0 }) { _ in }
        // Whoever asks now is given what is now.
        for number in 1...3 as ClosedRange<UInt64> {
            var updates = store.timelineUpdates(of: chat(number)).makeAsyncIterator()
            let page = try #require(try await updates.next()?.page)
            shown.withLock { $0.append(page) }
        }
        #expect(try store.isFold(), "seed \(seed)")
        var logs: [ConversationID: [Event]] = [:]
        var positions: Position = 0
        try store.log.replay { event in
            positions += 1
            logs[event.event.conversation, default: []].append(event.event)
            return true
        }
        #expect(positions == store.log.lastPosition)
        try store.close()
        for observer in observers { try await observer.value }
        #expect(store.changes.observers == 0)

        var pages = Dictionary(grouping: shown.withLock { $0 }, by: \.conversation)
        #expect(pages.values.allSatisfy { $0.count > 3 }, "seed \(seed): hardly anything was observed")
        for (conversation, events) in logs {
            var model = PlainTimeline()
            let bySeq = Dictionary(grouping: pages.removeValue(forKey: conversation) ?? [], by: \.seq)
            for (index, event) in events.enumerated() {
                model.apply(event)
                for page in bySeq[Seq(index + 1)] ?? [] where !model.isShown(by: page) {
                    Issue.record("seed \(seed): conversation \(conversation) at seq \(index + 1) was shown as it never was")
                }
            }
        }
    }
}
