import ConversationStore
import StoreTesting
import Testing

@Suite("A store without threads") struct InlineStoreTests {
    @Test("It archives within the commit that fills the journal, and is the same after closing and opening")
    func inline() throws {
        let place = MemoryDirectory()
        var options = ConversationStoreOptions(journalBytesMax: 256 << 10)
        options.runsInline = true
        let clock = NodeClock(skew: 5)
        options.wallClock = { clock.wallMilliseconds }
        options.uptime = { clock.uptime }
        var store = try ConversationStore.open(at: place.path + "/s", options: options)
        _ = try store.log.appendBlocking([created])
        for number in 0..<3000 {
            clock.advance(to: UInt64(number))
            _ = try store.log.appendBlocking([sent(UInt64(number), String(repeating: "words ", count: 12))])
        }
        #expect(try store.log.statistics().archivedEvents > 1000)
        var events: [RecordedEvent] = []
        try store.log.replay {
            events.append($0); return true
        }
        #expect(events.count == 3001)
        #expect(events.last?.hlc.milliseconds == NodeClock.start + 5 + 2999)
        let digest = try store.digest()
        try store.close()
        store = try ConversationStore.open(at: place.path + "/s", options: options)
        #expect(try store.digest() == digest)
        #expect(try store.isFold())
        store.abandon()
    }

    @Test("The same seed gives the same identifiers")
    func identifiers() throws {
        func make() -> [MessageID] { Randomness.$seeded.withValue(SeededSource(SeededGenerator(seed: 3))) { (0..<4).map { _ in .random() } } }
        #expect(make() == make())
        #expect(MessageID.random() != MessageID.random())
    }
}
