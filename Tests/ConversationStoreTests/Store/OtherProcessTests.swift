import ConversationStore
import EventLog
import Foundation
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Reading beside a process that writes") struct OtherProcessTests {
    static let chats = 6

    /// Writes until it is told to stop, with flushes all the time, a rebuild after the other, and opened anew now and then. Notes what was acknowledged.
    static func write(at path: String, acks: String, stop: String, rebuilds: Bool) async throws {
        let file = AckFile(acks)
        var round = 0
        while !FileManager.default.fileExists(atPath: stop) {
            let store = try ConversationStore.open(at: path, options: .tiny)
            let isDone = Flag()
            let isIdle = Flag()
            WorkerThread.start {
                while rebuilds, !isDone.isSet {
                    try? store.rebuild()
                    usleep(2000)
                }
                isIdle.set()
            }
            try await withThrowingTaskGroup(of: Void.self) { [round] group in
                for number in 0..<chats {
                    group.addTask {
                        if round == 0 { try await store.group(UInt64(number)) }
                        for answerNumber in 0..<3 where !FileManager.default.fileExists(atPath: stop) {
                            let id = MessageID(high: UInt64(round), low: UInt64(number) << 32 | UInt64(answerNumber))
                            let answer = try await store.startMessage(in: chat(UInt64(number)), from: bot, id: id)
                            for index in 0..<120 {
                                try await answer.append("\(index) ")
                                if index % 10 == 9 {
                                    try await answer.flush()
                                    file.add("\(id) \(index + 1)")
                                }
                            }
                            try await answer.complete()
                            for old in 0..<8 {
                                // Changes to rows that rest, far from the newest page.
                                let earlier = MessageID(high: UInt64(max(0, round - old)), low: UInt64(number) << 32 | UInt64(old % 3))
                                _ = try await store.append([
                                    Submission(Event(conversation: chat(UInt64(number)), author: bob, content: .reactionSet(message: earlier, emoji: "+", isOn: round % 2 == 0)))
                                ])
                                try await store.send(String(repeating: "w", count: 300), to: chat(UInt64(number)), from: ann)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            isDone.set()
            while !isIdle.isSet { usleep(500) }
            try store.close()
            round += 1
        }
    }

    @Test("what was acknowledged before a reader opened is there, whole and counted once, whatever the writer does meanwhile", .timeLimit(.minutes(10)), arguments: [false, true])
    func beside(rebuilds: Bool) async throws {
        let scratch = Scratch()
        let (acks, stop) = (scratch.path + "/acks", scratch.path + "/stop")
        let openings = environment("FRONT_OPENINGS", default: 60)
        let writer = Task {
            await #expect(processExitsWith: .success) { [path = scratch.store as String, acks = acks as String, stop = stop as String, rebuilds = rebuilds as Bool] in
                try await OtherProcessTests.write(at: path, acks: acks, stop: stop, rebuilds: rebuilds)
            }
            _ = FileManager.default.createFile(atPath: stop, contents: nil)
        }
        try await eventually("the writer has begun") { AckFile.lines(acks).count > 2 }
        var (checked, problems) = (0, 0)
        var kinds: [String: Int] = [:]
        func problem(_ what: String) {
            problems += 1
            kinds[what, default: 0] += 1
        }
        for opening in 0..<openings where !FileManager.default.fileExists(atPath: stop) {
            var acknowledged: [MessageID: Int] = [:]
            for line in AckFile.lines(acks).suffix(60) {
                let words = line.split(separator: " ")
                acknowledged[MessageID(words[0])!] = Int(words[1])!
            }
            let store: ConversationStore
            do {
                store = try scratch.open(ConversationStoreOptions(access: .readOnly))
            } catch {
                problem("opening: \(error)")
                continue
            }
            do {
                // At once, and again while the writer goes on.
                for look in 0..<3 {
                    for (id, chunks) in acknowledged {
                        let conversation = chat(id.low >> 32)
                        guard let shown = try store.message(in: conversation, id: id) else {
                            problem("look \(look): an acknowledged message is not there")
                            continue
                        }
                        let pieces = shown.text.split(separator: " ").map { Int($0) }
                        if pieces.count < chunks { problem("look \(look): acknowledged chunks are missing") }
                        if pieces != (0..<pieces.count).map({ $0 }) { problem("look \(look): a chunk is counted twice or missing") }
                        if Int(shown.chunks) != pieces.count { problem("look \(look): chunks and text disagree") }
                        checked += 1
                    }
                    let rows = try store.lobby(of: bob).rows
                    if rows.count != Self.chats { problem("look \(look): a lobby of \(rows.count)") }
                    for row in rows {
                        guard let page = try store.timeline(of: row.conversation, limit: 1000) else {
                            problem("look \(look): no timeline")
                            continue
                        }
                        if page.messages.last?.seq != row.lastMessage?.seq { problem("look \(look): lobby and timeline disagree") }
                        if page.hasAfter { problem("look \(look): more after the newest") }
                        if Int(row.unread) != page.messages.count, !page.hasBefore { problem("look \(look): unread is not the recount") }
                    }
                    usleep(3000)
                }
                if opening % 10 == 0, try !store.isFold() { problem("it is no fold of its log") }
                try store.close()
            } catch {
                problem("reading: \(error)")
                try? store.close()
            }
        }
        _ = FileManager.default.createFile(atPath: stop, contents: nil)
        await writer.value
        #expect(problems == 0, "\(kinds)")
        #expect(checked > openings, "hardly anything was looked at")
        let store = try scratch.open()
        #expect(try store.isFold())
        try store.close()
    }
}
