import Foundation
import Synchronization
import Testing

@testable import ConversationStore
@testable import EventLog

/// Keeps all commits from happening until it is told to let them go.
final class HeldCommits: Sendable {
    private let isHeld = Monitor((holds: false, released: false))

    init(_ store: EventStore) {
        WorkerThread.start { [isHeld] in
            store.leadership.withLock { _ in
                isHeld.withLock {
                    $0.holds = true
                    isHeld.wakeAll()
                }
                isHeld.withLock(waitingWhile: { !$0.released }) { _ in }
            }
        }
        isHeld.withLock(waitingWhile: { !$0.holds }) { _ in }
    }

    func release() {
        isHeld.withLock {
            $0.released = true
            isHeld.wakeAll()
        }
    }
}

@Suite("Streaming an answer") struct StreamTests {
    @Test("deltas of many streams share commits, and each text is what was sent") func shared() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        for number in 0..<20 as Range<UInt64> { try await store.group(number) }
        let before = store.log.journal!.lastFrame
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 as Range<UInt64> {
                group.addTask {
                    let answer = try await store.startMessage(in: chat(number), from: bot, id: message(number))
                    for index in 0..<200 {
                        try await answer.append("\(index) ")
                        if index % 16 == 0 { await Task.yield() }
                    }
                    try await answer.complete(finishReason: "stop", usage: .init(inputTokens: 1, outputTokens: 2))
                }
            }
            try await group.waitForAll()
        }
        let frames = store.log.journal!.lastFrame - before
        #expect(frames < 4000 / 5, "\(frames) commits for 4,000 deltas")
        let expected = (0..<200).map { "\($0) " }.joined()
        for number in 0..<20 as Range<UInt64> {
            let shown = try #require(try store.message(in: chat(number), id: message(number)))
            #expect(shown.text == expected && shown.chunks == 200 && shown.state == .complete && shown.finishReason == "stop")
            #expect(shown.details?.usage == .init(inputTokens: 1, outputTokens: 2))
        }
        try store.close()
    }

    @Test("the producer does not wait for commits until much is waiting; then it waits, and memory stays bounded", .timeLimit(.minutes(20)))
    func backPressure() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let held = HeldCommits(store.log)
        for index in 0..<1000 { try await answer.append("\(index) ") }
        #expect(try store.message(in: chat(1), id: answer.id)?.text == "", "readers are shown a delta only after its commit")
        let appended = Monitor(0)
        let piece = String(repeating: "x", count: 32 << 10)
        async let producer: Void = {
            for _ in 0..<64 {
                try await answer.append(piece)
                appended.withLock { $0 += 1 }
            }
        }()
        try await Task.sleep(for: .milliseconds(300))
        #expect(appended.withLock { $0 } < 20)
        #expect(answer.core.waitingBytes < 2 * StreamCore.pendingBytesMax)
        held.release()
        try await producer
        try await answer.complete()
        #expect(try store.message(in: chat(1), id: answer.id)?.text.utf8.count == (0..<1000).reduce(0) { $0 + "\($1) ".utf8.count } + 64 * piece.utf8.count)
        try store.close()
    }

    @Test("several tasks append to one message: nothing is lost, and each one's pieces stand in its order") func manyProducers() async throws {
        let scratch = Scratch()
        let store = try scratch.open(.tiny)
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for producer in 0..<8 {
                group.addTask {
                    for index in 0..<150 {
                        try await answer.append("\(producer):\(index);")
                        if index % 40 == 0 { try await answer.flush() }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await answer.complete()
        let text = try #require(try store.message(in: chat(1), id: answer.id)?.text)
        var next = [Int](repeating: 0, count: 8)
        for piece in text.split(separator: ";") {
            let numbers = piece.split(separator: ":").compactMap { Int($0) }
            #expect(numbers.count == 2 && next[numbers[0]] == numbers[1])
            next[numbers[0]] += 1
        }
        #expect(next == [Int](repeating: 150, count: 8))
        #expect(try store.isFold())
        try store.close()
    }

    @Test("flush waits for what was appended before it, not for what others go on appending", .timeLimit(.minutes(20)))
    func flush() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let isDone = Flag()
        async let others: Void = { while !isDone.isSet { try await answer.append("y") } }()
        for round in 0..<20 {
            try await answer.append("<\(round)>")
            try await answer.flush()
            #expect(try store.message(in: chat(1), id: answer.id)!.text.contains("<\(round)>"))
        }
        isDone.set()
        try await others
        try await answer.interrupt(reason: "enough")
        try store.close()
    }

    @Test("complete and interrupt return when their event is committed; once more changes nothing, the other is refused") func ends() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        try await answer.append("text")
        let receipt = try #require(try await answer.complete())
        let event = try #require(try store.log.event(in: .conversation(chat(1)), at: receipt.seq))
        #expect(event.event.content.kind == .messageCompleted && receipt.seq == 4)
        #expect(try await answer.complete() == receipt)
        #expect(await refusal { try await answer.interrupt(reason: "late") } == .messageClosed)
        #expect(await refusal { try await answer.append("late") } == .messageClosed)
        let other = try await store.startMessage(in: chat(1), from: bot)
        let stopped = try await other.interrupt(reason: "why")
        #expect(try await other.interrupt(reason: "again") == stopped)
        #expect(await refusal { try await other.complete() } == .messageClosed)
        let shown = try #require(try store.message(in: chat(1), id: other.id))
        #expect(shown.state == .interrupted && shown.interruptedReason == "why" && shown.text == "")
        #expect(try store.message(in: chat(1), id: answer.id)?.state == .complete)
        let several = try await store.startMessage(in: chat(1), from: bot)
        try await withThrowingTaskGroup(of: Receipt?.self) { group in
            for _ in 0..<10 { group.addTask { try await several.complete() } }
            var all: Set<Receipt?> = []
            for try await receipt in group { all.insert(receipt) }
            #expect(all.count == 1 && !all.contains(nil))
        }
        try store.close()
    }

    struct ModelFailed: Error {}

    @Test("closure form: complete when it returns; interrupted as `error` when it throws, as `cancelled` when its task is; the text stays") func closures()
        async throws
    {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        try await store.streamMessage(in: chat(1), from: bot, id: message(1)) { try await $0.append("whole") }
        do {
            try await store.streamMessage(in: chat(1), from: bot, id: message(2)) { answer in
                try await answer.append("part")
                throw ModelFailed()
            }
            Issue.record("it threw nothing")
        } catch is ModelFailed {}
        let task = Task {
            try await store.streamMessage(in: chat(1), from: bot, id: message(3)) { answer in
                for index in 0..<1_000_000 {
                    try await answer.append("\(index) ")
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
        }
        try await eventually("some text") { try store.message(in: chat(1), id: message(3))?.text.isEmpty == false }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        // One that does not notice, and returns.
        let deaf = Task {
            try await store.streamMessage(in: chat(1), from: bot, id: message(4)) { answer in
                try await answer.append("deaf")
                withUnsafeCurrentTask { $0?.cancel() }
            }
        }
        await #expect(throws: CancellationError.self) { try await deaf.value }
        let shown = try [1, 2, 3, 4].map { try #require(try store.message(in: chat(1), id: message($0))) }
        #expect(shown.map(\.state) == [.complete, .interrupted, .interrupted, .interrupted])
        #expect(shown.map(\.interruptedReason) == [nil, "error", "cancelled", "cancelled"])
        #expect(shown[0].text == "whole" && shown[1].text == "part" && shown[2].text.hasPrefix("0 ") && shown[3].text == "deaf")
        try store.close()
    }

    @Test("handle form: a cancelled task's next append ends the message as `cancelled`; a handle that goes, as `dropped`, or `cancelled` in a cancelled task")
    func handles() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let task = Task {
            let answer = try await store.startMessage(in: chat(1), from: bot, id: message(1))
            try await answer.append("before")
            withUnsafeCurrentTask { $0?.cancel() }
            do {
                try await answer.append("after")
                Issue.record("a cancelled task appended")
            } catch is CancellationError {
                #expect(try store.message(in: chat(1), id: message(1))?.state == .interrupted, "ended before the error was thrown")
            }
            await #expect(throws: CancellationError.self) { try await answer.complete() }
        }
        try await task.value
        func drop() async throws {
            let answer = try await store.startMessage(in: chat(1), from: bot, id: message(2))
            try await answer.append("dropped text")
        }
        try await drop()
        let lost = Task {
            let answer = try await store.startMessage(in: chat(1), from: bot, id: message(3))
            try await answer.append("lost")
            withUnsafeCurrentTask { $0?.cancel() }
            throw CancellationError()
        }
        _ = await lost.result
        try await eventually("all ended") { try [2, 3].allSatisfy { try store.message(in: chat(1), id: message($0))?.state == .interrupted } }
        let shown = try [1, 2, 3].map { try #require(try store.message(in: chat(1), id: message($0))) }
        #expect(shown.map(\.interruptedReason) == ["cancelled", "dropped", "cancelled"])
        #expect(shown.map(\.text) == ["before", "dropped text", "lost"])
        try store.close()
    }

    @Test("handle form: a loop over a model's stream that ends because its task is cancelled does not make the answer complete", .timeLimit(.minutes(20)))
    func cancelledLoop() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let (model, words) = AsyncStream.makeStream(of: String.self)
        let task = Task {
            let answer = try await store.startMessage(in: chat(1), from: bot, id: message(1))
            for await word in model { try await answer.append(word) }
            try await answer.complete(finishReason: "stop")
        }
        words.yield("half ")
        try await eventually("the first word") { try store.message(in: chat(1), id: message(1))?.text == "half " }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let shown = try #require(try store.message(in: chat(1), id: message(1)))
        #expect(shown.state == .interrupted && shown.interruptedReason == "cancelled" && shown.text == "half ")

        // What was complete before stays so, and says so again.
        let late = Task {
            let answer = try await store.startMessage(in: chat(1), from: bot, id: message(2))
            let receipt = try await answer.complete()
            withUnsafeCurrentTask { $0?.cancel() }
            #expect(try await answer.complete() == receipt)
        }
        try await late.value
        #expect(try store.message(in: chat(1), id: message(2))?.state == .complete)
        try store.close()
    }

    /// A view model as an app has it: neither Sendable nor off the main actor.
    @MainActor private final class Screen {
        var words = ["to ", "be"]

        func answer(in store: ConversationStore) async throws -> MessageID {
            try await store.streamMessage(in: chat(1), from: bot) { answer in
                MainActor.assertIsolated()
                for word in words { try await answer.append(word) }
                words = []
            }
        }
    }

    @Test("closure form: the closure runs on the caller's actor, and may use what belongs to it") @MainActor func actors() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let screen = Screen()
        let id = try await screen.answer(in: store)
        #expect(screen.words.isEmpty)
        #expect(try store.message(in: chat(1), id: id)?.text == "to be")
        try store.close()
    }

    @Test("another participant presses stop: the producer is told `message_closed`, and the text so far stays") func stop() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        try await answer.append("so far")
        try await answer.flush()
        #expect(await refusal { try await store.stop(answer.id, in: chat(1), by: UserID("eve")!) } == .notParticipant)
        try await store.stop(answer.id, in: chat(1), by: bob, reason: "enough")
        #expect(
            await refusal {
                for _ in 0..<10_000 {
                    try await answer.append("more")
                    await Task.yield()
                }
            } == .messageClosed)
        #expect(await refusal { try await answer.complete() } == .messageClosed)
        #expect(await refusal { try await answer.flush() } == .messageClosed)
        let shown = try #require(try store.message(in: chat(1), id: answer.id))
        #expect(shown.text == "so far" && shown.interruptedReason == "enough")
        // The closure form hands the same error on.
        #expect(
            await refusal {
                try await store.streamMessage(in: chat(1), from: bot) { answer in
                    try await store.stop(answer.id, in: chat(1))
                    for _ in 0..<10_000 { try await answer.append("x") }
                    try await answer.flush()
                }
            } == .messageClosed)
        // Deleting it stops it, too.
        let gone = try await store.startMessage(in: chat(1), from: bot)
        try await store.append(Event(conversation: chat(1), author: bot, content: .messageDeleted(message: gone.id)))
        #expect(
            await refusal {
                try await gone.append("x"); try await gone.flush()
            } == .messageClosed)
        try store.close()
    }

    @Test("a reader that goes away stops nothing") func readerGone() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let readers = (0..<4).map { _ in
            Task { for try await chunk in store.chunks(of: answer.id, in: chat(1)) { if case .text(5, _) = chunk { return } } }
        }
        for index in 0..<50 {
            try await answer.append("\(index) ")
            if index % 10 == 0 { readers[index / 10 % 4].cancel() }
            await Task.yield()
        }
        try await answer.complete()
        for reader in readers { _ = await reader.result }
        #expect(try store.message(in: chat(1), id: answer.id)?.text == (0..<50).map { "\($0) " }.joined())
        try store.close()
    }

    @Test("resuming goes on after the last chunk, also in a store opened anew; one producer a message") func resume() async throws {
        let scratch = Scratch()
        var store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot, id: message(1))
        try await answer.append("one ")
        try await answer.append("two ")
        #expect(await refusal { try store.resumeMessage(message(1), in: chat(1)) } == .messageStreaming)
        #expect(await refusal { try store.resumeMessage(message(2), in: chat(1)) } == .unknownMessage)
        #expect(await refusal { try store.resumeMessage(message(2), in: chat(2)) } == .unknownMessage)
        try store.close()
        #expect(await failure { try await answer.append("late") } == .closed)
        store = try scratch.open()
        #expect(try store.message(in: chat(1), id: message(1))?.text == "one two ", "what was appended before the closing is kept, committed or not")
        let resumed = try store.resumeMessage(message(1), in: chat(1))
        try await resumed.append("three")
        try await resumed.complete()
        #expect(try store.message(in: chat(1), id: message(1))?.text == "one two three")
        #expect(await refusal { try store.resumeMessage(message(1), in: chat(1)) } == .messageClosed)
        try store.close()
    }

    @Test("closing keeps every delta that was appended, and every end that was asked for, however busy the streams are", arguments: 0..<6)
    func closing(round: Int) async throws {
        let scratch = Scratch()
        var store = try scratch.open()
        for number in 0..<6 as Range<UInt64> { try await store.group(number) }
        let sent = Monitor([Int](repeating: 0, count: 6))
        let tasks = (0..<6).map { number in
            Task { [store] in
                let answer = try await store.startMessage(in: chat(UInt64(number)), from: bot, id: message(UInt64(number)))
                for index in 0..<100_000 {
                    try await answer.append("\(index) ")
                    sent.withLock { $0[number] = index + 1 }
                    if index == 40, number == 5 {
                        async let end = answer.complete()
                        _ = try await end
                        return
                    }
                }
            }
        }
        try await eventually("all have begun") { sent.withLock { $0.allSatisfy { $0 > 20 } } }
        try await Task.sleep(for: .milliseconds(3 * round))
        try store.close()
        for task in tasks { _ = await task.result }
        store = try scratch.open()
        for number in 0..<6 {
            guard let shown = try store.message(in: chat(UInt64(number)), id: message(UInt64(number))) else { continue }
            let count = sent.withLock { $0[number] }
            let pieces = shown.text.split(separator: " ").map { Int($0) }
            #expect(pieces == (0..<pieces.count).map { $0 })
            #expect(pieces.count >= count, "\(count) were appended, \(pieces.count) are there")
            #expect(shown.interruptedReason == nil)
        }
        try store.close()
    }

    @Test("what keeps a stream from beginning or going on is told by its code") func errors() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        #expect(await refusal { try await store.startMessage(in: chat(2), from: bot) } == .unknownConversation)
        #expect(await refusal { try await store.startMessage(in: chat(1), from: UserID("eve")!) } == .notParticipant)
        // Too large a piece is told at once, and the stream goes on.
        let answer = try await store.startMessage(in: chat(1), from: bot)
        let large = String(repeating: "x", count: 1 << 20)
        #expect(await refusal { try await answer.append(large + "x") } == .tooLarge)
        try await answer.append("")
        for _ in 0..<15 { try await answer.append(large) }
        try await answer.append(String(large.dropLast()))
        try await answer.flush()
        try await answer.append("y")
        try await answer.flush()
        #expect(try store.message(in: chat(1), id: answer.id)?.text.utf8.count == 16 << 20)
        #expect(
            await refusal {
                try await answer.append("z"); try await answer.flush()
            } == .tooLarge)
        #expect(await refusal { try await answer.complete() } == .tooLarge)
        let shown = try #require(try store.message(in: chat(1), id: answer.id))
        #expect(shown.text.utf8.count == 16 << 20 && shown.state == .interrupted && shown.interruptedReason == "error")
        try store.close()
    }

    @Test("an author who is removed can add nothing, and the message does not stay open") func removed() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot)
        try await answer.append("before")
        try await answer.flush()
        try await store.append(Event(conversation: chat(1), author: ann, content: .participantLeft(bot)))
        #expect(
            await refusal {
                try await answer.append("after"); try await answer.flush()
            } == .notParticipant)
        #expect(await refusal { try await answer.complete() } == .notParticipant)
        let shown = try #require(try store.message(in: chat(1), id: answer.id))
        #expect(shown.text == "before" && shown.state == .interrupted)
        try store.close()
    }

    @Test("a start that is repeated goes on only where nothing was said: no text is taken for a repeat of another") func restarted() async throws {
        let scratch = Scratch()
        let store = try scratch.open()
        try await store.group()
        let answer = try await store.startMessage(in: chat(1), from: bot, id: message(1))
        #expect(await refusal { try await store.startMessage(in: chat(1), from: bot, id: message(1)) } == .messageConflict)
        try await answer.append("first")
        try await answer.flush()
        try await store.send("x", to: chat(1), from: bot, role: .assistant, id: message(2))
        #expect(await refusal { try await store.startMessage(in: chat(1), from: bot, id: message(2)) } == .messageConflict)
        // Somebody appends beside the handle: the handle says so rather than lose text.
        try await store.append(Event(conversation: chat(1), author: bot, content: .chunkAppended(message: message(1), index: 1, text: " other")))
        #expect(
            await refusal {
                try await answer.append(" mine"); try await answer.flush()
            } == .messageConflict)
        #expect(try store.message(in: chat(1), id: message(1))?.text == "first other")
        // One that was begun, and of which nothing came, may be begun again.
        let empty = Event.Message(id: message(3), role: .assistant, text: "", isStreaming: true)
        try await store.append(Event(conversation: chat(1), author: bot, content: .messageSent(empty)))
        let second = try await store.startMessage(in: chat(1), from: bot, id: message(3))
        try await second.append("text")
        try await second.complete()
        #expect(await refusal { try await store.startMessage(in: chat(1), from: bot, id: message(3)) } == .messageConflict)
        #expect(try store.message(in: chat(1), id: message(3))?.text == "text")
        try store.close()
    }
}
