import Synchronization
import Testing

@testable import ConversationStore
@testable import EventLog

@Suite("Reads while the disk is slow") struct WaitingTests {
    @Test("I8: with a commit stuck in its sync, a flush in its transaction and a rebuild at its swap, every read returns", .timeLimit(.minutes(20)))
    func reads() async throws {
        let scratch = Scratch()
        let store = try scratch.open(.tiny)
        try await store.group()
        for number in 0..<500 { try await store.send("message \(number)", to: chat(1), from: ann, id: message(UInt64(number))) }
        let answer = try await store.startMessage(in: chat(1), from: bot)
        try await answer.append("text")
        try await answer.flush()
        // All that is held over the disk's work: by whoever leads a commit, by a flush or a rebuild, and the archive's own writer.
        let held = Monitor(0)
        let isOver = Monitor(false)
        @Sendable func hold() {
            held.withLock {
                $0 += 1
                held.wakeAll()
            }
            isOver.withLock(waitingWhile: { !$0 }) { _ in }
        }
        WorkerThread.start { store.log.leadership.withLock { _ in hold() } }
        WorkerThread.start { store.log.maintenance.withLock { _ in try? store.log.archive.environment.write { _ in hold() } } }
        held.withLock(waitingWhile: { $0 < 2 }) { _ in }
        let stuck = Task { try await store.send("stuck", to: chat(1), from: ann) }
        let done = Monitor(false)
        WorkerThread.start {
            do {
                for _ in 0..<20 {
                    #expect(try store.timeline(of: chat(1))?.messages.count == 50)
                    #expect(try store.timeline(of: chat(1), .after(1), limit: 400)?.messages.count == 400)
                    #expect(try store.timeline(of: chat(1), .unread(bob))?.messages.isEmpty == false)
                    #expect(try store.timeline(of: chat(1), .around(250))?.messages.isEmpty == false)
                    #expect(try store.lobby(of: bob).rows.count == 1)
                    #expect(try store.lobbyRow(of: chat(1), for: bob) != nil)
                    #expect(try store.message(in: chat(1), at: 100) != nil)
                    #expect(try store.message(in: chat(1), id: message(3)) != nil)
                    #expect(try store.receipts(of: chat(1)) != nil)
                    #expect(try store.contextWindow(of: chat(1), budget: 1000) != nil)
                    #expect(try store.log.events(in: .conversation(chat(1)), isReversed: true, limit: 10).count == 10)
                    var count = 0
                    try store.log.replay { _ in
                        count += 1
                        return true
                    }
                    #expect(count == 503)
                }
            } catch { Issue.record("\(error)") }
            done.withLock {
                $0 = true
                done.wakeAll()
            }
        }
        var updates = store.timelineUpdates(of: chat(1)).makeAsyncIterator()
        #expect(try await updates.next() != nil)
        var chunks = store.chunks(of: answer.id, in: chat(1)).makeAsyncIterator()
        #expect(try await chunks.next() == .text(index: 0, "text"))
        done.withLock(waitingWhile: { !$0 }, atMostMilliseconds: 120_000) { #expect($0, "a read waits") }
        isOver.withLock {
            $0 = true
            isOver.wakeAll()
        }
        _ = try await stuck.value
        try await answer.complete()
        try store.close()
    }
}
