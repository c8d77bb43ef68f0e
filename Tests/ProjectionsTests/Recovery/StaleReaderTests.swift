import ConversationStore
import Testing

@testable import TalkWriter

@Suite("Readers that were killed") struct StaleReaderTests {
    @Test("A killed reader's snapshot is let go with the next flush: the file does not grow for it", .tags(.recovery)) func killed() throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        var talk = Talk(seed: 7, conversations: 5)
        func write() throws {
            for _ in 0..<30 {
                _ = try store.log.appendBlocking((0..<40).map { _ in Submission(talk.next()) })
                try store.log.flush()
            }
        }
        try write()
        let child = try ChildProcess("TalkWriter", [scratch.store, "read", "0"])
        #expect(child.isReady())
        try write()
        #expect(try #require(try store.log.statistics().oldestReader) >= 30)
        child.kill()
        _ = try store.log.appendBlocking([Submission(talk.next())])
        try store.log.flush()
        #expect(try store.log.statistics().oldestReader == nil)
        try store.close()
    }
}
