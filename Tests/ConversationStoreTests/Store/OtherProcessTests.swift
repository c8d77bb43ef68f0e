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
            // All of them, before there is an acknowledgement: a reader counts them.
            if round == 0 { for number in 0..<chats { try await store.group(UInt64(number)) } }
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
                                    Submission(
                                        Event(
                                            conversation: chat(UInt64(number)), author: bob,
                                            content: .reactionSet(message: earlier, emoji: "+", isOn: round % 2 == 0)))
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

    /// What readers found wrong, and how often.
    struct Findings {
        var checked = 0
        var problems: [String: Int] = [:]

        mutating func add(_ problem: String) { problems[problem, default: 0] += 1 }
    }

    /// On a thread of its own: an exit test keeps one of Swift's for as long as its process runs.
    private static func read(_ scratch: Scratch, openings: Int, acks: String) -> Findings {
        var findings = Findings()
        while AckFile.lines(acks).count <= 2 { usleep(2000) }
        for opening in 0..<openings {
            var acknowledged: [MessageID: Int] = [:]
            for line in AckFile.lines(acks, last: 60 * 50).suffix(60) {
                let words = line.split(separator: " ")
                acknowledged[MessageID(words[0])!] = Int(words[1])!
            }
            do {
                let store = try scratch.open(ConversationStoreOptions(access: .readOnly))
                do {
                    // At once, and again while the writer goes on.
                    for look in 0..<3 {
                        try check(store, acknowledged, "look \(look)", &findings)
                        usleep(3000)
                    }
                    if opening % 10 == 0, try !store.isFold() { findings.add("it is no fold of its log") }
                } catch { findings.add("reading: \(error)") }
                try store.close()
            } catch { findings.add("opening: \(error)") }
        }
        return findings
    }

    private static func check(_ store: ConversationStore, _ acknowledged: [MessageID: Int], _ look: String, _ findings: inout Findings) throws {
        for (id, chunks) in acknowledged {
            findings.checked += 1
            guard let shown = try store.message(in: chat(id.low >> 32), id: id) else {
                findings.add("\(look): an acknowledged message is not there")
                continue
            }
            let pieces = shown.text.split(separator: " ").map { Int($0) }
            if pieces.count < chunks { findings.add("\(look): acknowledged chunks are missing") }
            if pieces != (0..<pieces.count).map({ $0 }) { findings.add("\(look): a chunk is counted twice or is missing") }
            if Int(shown.chunks) != pieces.count { findings.add("\(look): chunks and text disagree") }
        }
        let rows = try store.lobby(of: bob).rows
        if rows.count != chats { findings.add("\(look): a lobby of \(rows.count)") }
        for row in rows {
            guard let page = try store.timeline(of: row.conversation, limit: 100) else {
                findings.add("\(look): no timeline")
                continue
            }
            if page.messages.last?.seq != row.lastMessage?.seq { findings.add("\(look): lobby and timeline disagree") }
            if page.hasAfter { findings.add("\(look): more after the newest") }
            if Int(row.unread) != page.messages.count, !page.hasBefore { findings.add("\(look): unread is not the recount") }
        }
    }

    @Test(
        "what was acknowledged before a reader opened is there, whole and counted once, whatever the writer does meanwhile", .timeLimit(.minutes(10)),
        .serialized, arguments: [false, true])
    func beside(rebuilds: Bool) async throws {
        let scratch = Scratch()
        let (acks, stop) = (scratch.path + "/acks", scratch.path + "/stop")
        let openings = environment("FRONT_OPENINGS", default: 25)
        let findings = Monitor<Findings?>(nil)
        WorkerThread.start {
            let found = Self.read(scratch, openings: openings, acks: acks)
            _ = FileManager.default.createFile(atPath: stop, contents: nil)
            findings.withLock { $0 = found }
        }
        await #expect(processExitsWith: .success) {
            [path = scratch.store as String, acks = acks as String, stop = stop as String, rebuilds = rebuilds as Bool] in
            try await OtherProcessTests.write(at: path, acks: acks, stop: stop, rebuilds: rebuilds)
        }
        try await eventually("the reader has ended") { findings.withLock { $0 != nil } }
        let found = findings.withLock { $0! }
        #expect(found.problems.isEmpty)
        #expect(found.checked > openings, "hardly anything was looked at")
        let store = try scratch.open()
        #expect(try store.isFold())
        try store.close()
    }
}
