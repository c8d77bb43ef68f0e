import EventLog
import Foundation
import StoreTesting
import Testing

/// Room in the journal: put aside for large frames, written with zeros for small ones, in every order of the two.
@Suite("room in the journal") struct JournalRoomTests {
    private static func text(_ bytes: Int, _ random: inout SeededGenerator) -> String {
        String(decoding: (0..<bytes).map { _ in UInt8.random(in: 0x61...0x7A, using: &random) }, as: UTF8.self)
    }

    @Test("large and small frames in turn are all there after the process ended without closing", arguments: 0..<6 as Range<UInt64>)
    func recovers(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let directory = NSTemporaryDirectory() + "journal-room-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var options = StoreOptions(journalBytesMax: [1 << 18, 1 << 22, 32 << 20].randomElement(using: &random)!)
        // Only a store without threads can be let go of as by a process that is killed.
        options.runsInline = true
        let log = ConversationID(high: 1, low: seed)
        let ann = UserID("ann")!
        var sent: [String] = []
        do {
            let store = try EventStore.open(at: directory, options: options)
            _ = try store.appendBlocking([
                Submission(Event(conversation: log, author: ann, content: .conversationCreated(kind: .group, title: nil, participants: [ann])))
            ])
            for turn in 0..<40 {
                let texts: [String]
                switch Int.random(in: 0..<4, using: &random) {
                case 0: texts = (0..<Int.random(in: 1...300, using: &random)).map { _ in Self.text(Int.random(in: 0...2000, using: &random), &random) }
                case 1: texts = [Self.text(Int.random(in: 0...300_000, using: &random), &random)]
                default: texts = [Self.text(Int.random(in: 0...100, using: &random), &random)]
                }
                let submissions = texts.enumerated().map { number, text in
                    Submission(
                        Event(
                            conversation: log, author: ann,
                            content: .messageSent(Event.Message(id: MessageID(high: UInt64(turn), low: UInt64(number)), role: .user, text: text))))
                }
                for outcome in try store.appendBlocking(submissions) { guard case .accepted = outcome else { throw EventLogError(.damaged, "\(outcome)") } }
                sent += texts
                if turn == 20 { try store.flush() }
            }
            store.abandon()
        }
        let store = try EventStore.open(at: directory, options: options)
        var read: [String] = []
        for seq in 2...Seq(sent.count + 1) {
            guard case .messageSent(let message) = try store.event(in: .conversation(log), at: seq)?.event.content else { continue }
            read.append(message.text)
        }
        #expect(read == sent)
        try store.close()
    }
}
