import ConversationStore
import EventLog
import Foundation
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Killed while it streams") struct KillTests {
    static let streams = 10

    /// Chunk `index` of a stream: its own text, of a length of its own.
    static func piece(_ stream: Int, _ index: Int) -> String { "\(stream).\(index)\(String(repeating: "~", count: (stream * 7 + index * 13) % 40)) " }

    /// Streams ten answers until it is killed, and notes what a flush acknowledged and what was sent.
    static func stream(at path: String, acks: String, seed: UInt64, round: Int) async throws {
        var random = Seeded(seed)
        let microseconds = UInt32.random(in: 2000...60_000, using: &random)
        let journalBytesMax = Bool.random(using: &random) ? 64 << 10 : 1 << 20
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(journalBytesMax: journalBytesMax))
        let file = AckFile(acks)
        if round == 0 { for number in 0..<streams { try await store.group(UInt64(number)) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<streams {
                let pace = Int.random(in: 1...40, using: &random)
                let ending = Int.random(in: 50...400, using: &random)
                group.addTask {
                    // Each answer has a name that tells its stream and its round.
                    for answerNumber in 0..<1000 {
                        let id = MessageID(high: UInt64(round), low: UInt64(number) << 32 | UInt64(answerNumber))
                        let answer = try await store.startMessage(in: chat(UInt64(number)), from: bot, id: id)
                        file.add("s \(id)")
                        for index in 0..<ending {
                            try await answer.append(piece(number, index))
                            file.add("a \(id) \(index + 1)")
                            if index % pace == pace - 1 {
                                try await answer.flush()
                                file.add("f \(id) \(index + 1)")
                            }
                        }
                        try await answer.complete()
                        file.add("c \(id) \(ending)")
                    }
                }
            }
            WorkerThread.start {
                usleep(microseconds)
                kill(getpid(), SIGKILL)
            }
            try await group.waitForAll()
        }
    }

    @Test(
        "kill -9 during ten streams: each text is a prefix of what was sent, holds what a flush acknowledged, and its message has a state",
        .timeLimit(.minutes(60)))
    func kills() async throws {
        let kills = environment("FRONT_KILLS", default: 15)
        let first = environment("FRONT_SEED", default: 1)
        var scratch = Scratch()
        var (messages, chunks, ahead) = (0, 0, 0)
        for number in 0..<kills {
            // One store goes through several deaths.
            let round = number % 5
            if round == 0 { scratch = Scratch() }
            let acks = scratch.path + "/acks.\(round)"
            let seed = UInt64(first + number)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = scratch.store as String, acks = acks as String, seed = seed as UInt64, round = round as Int] in
                try await KillTests.stream(at: path, acks: acks, seed: seed, round: round)
            }
            // Every other time a process that only reads looks first.
            let store: ConversationStore
            do {
                store = try scratch.open(ConversationStoreOptions(access: number % 2 == 0 ? .readWrite : .readOnly))
            } catch let error as EventLogError where error.code == .noSuchStore {
                #expect(AckFile.lines(acks).isEmpty, "seed \(seed)")
                try? FileManager.default.removeItem(atPath: scratch.store)
                scratch = Scratch()
                continue
            }
            var sent: [MessageID: Int] = [:]
            var flushed: [MessageID: Int] = [:]
            var completed: Set<MessageID> = []
            for line in AckFile.lines(acks) {
                let words = line.split(separator: " ")
                let id = try #require(MessageID(words[1]))
                switch words[0] {
                case "s": flushed[id] = 0
                case "a": sent[id] = Int(words[2])!
                case "f": flushed[id] = Int(words[2])!
                default: completed.insert(id)
                }
            }
            for (id, acknowledged) in flushed {
                let conversation = chat(id.low >> 32)
                let shown = try #require(try store.message(in: conversation, id: id), "seed \(seed): an acknowledged message is gone")
                let count = Int(shown.chunks)
                let expected = (0..<count).map { Self.piece(Int(id.low >> 32), $0) }.joined()
                #expect(shown.text == expected, "seed \(seed): the text is no prefix of what was sent")
                #expect(count >= acknowledged, "seed \(seed): \(acknowledged) chunks were acknowledged, \(count) are there")
                // One append may have been cut off before it was noted.
                #expect(count <= (sent[id] ?? 0) + 1, "seed \(seed): more than was sent")
                #expect(shown.state == (completed.contains(id) ? .complete : shown.state))
                #expect(shown.state == .streaming || shown.state == .complete, "seed \(seed): \(shown.state)")
                // The log, read on its own, says the same.
                let events = try store.log.events(in: .conversation(conversation), range: shown.seq...Seq.max)
                let pieces = events.compactMap { event -> String? in
                    if case .chunkAppended(id, _, let text) = event.event.content { text } else { nil }
                }
                #expect(pieces.joined() == expected, "seed \(seed)")
                messages += 1
                chunks += count
                ahead += max(0, (sent[id] ?? 0) - count)
            }
            #expect(try store.isFold(), "seed \(seed)")
            try store.close()
        }
        print("\(kills) kills: \(messages) messages, \(chunks) chunks kept, \(ahead) appended but in no commit yet")
    }
}
