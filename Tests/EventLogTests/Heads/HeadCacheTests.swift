import Testing

@testable import EventLog

@Suite("Trees of logs") struct HeadCacheTests {
    let directory = TemporaryDirectory()

    /// The tree at each size, hashed event by event from the beginning.
    private func trees(_ store: EventStore, _ log: LogID) throws -> [CompactRange] {
        let seeds = try #require(PuncturedSeeds(secret: store.secret(of: log)))
        var trees = [CompactRange()]
        for event in try store.events(in: log) { trees.append(try HeadCache.extend(trees.last!, with: [event], seeds: seeds)) }
        #expect(try store.head(of: log) == Head(log: log, size: trees.last!.size, root: trees.last!.root()))
        #expect(try HeadCache.extend(CompactRange(), with: store.events(in: log), seeds: seeds) == trees.last)
        return trees
    }

    private let logs: [LogID] = [.conversation(conversation(1)), .conversation(conversation(2)), .user(user("bob"))]

    @Test("I6: any tree of a log is that of its first events: asked in order, at random, after flushes, an erasure and a reopening")
    func trees() throws {
        var store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: 256 << 10))
        try talk(store, messages: 24)
        for round in 1...2 as ClosedRange<UInt64> {
            let caches = [HeadCache(store: store), HeadCache(store: store), HeadCache(store: store, logsMax: 1)]
            for step in 0..<3 as Range<UInt64> {
                for log in logs {
                    let trees = try trees(store, log)
                    for seq in trees.indices { #expect(try caches[0].tree(of: log, through: Seq(seq)) == trees[seq]) }
                    for seq in trees.indices.shuffled() { #expect(try caches[1].tree(of: log, through: Seq(seq)) == trees[seq]) }
                    for seq in trees.indices.reversed() { #expect(try caches[2].tree(of: log, through: Seq(seq)) == trees[seq]) }
                    for cache in caches { #expect(try cache.tree(of: log, through: Seq(trees.count)) == nil) }
                }
                if step == 0 { try store.erase(log: logs[0], seq: 3 + round) }
                try talk(store, round: round * 10 + step, messages: 12)
                if step == 1 { try store.flush() }
            }
            try store.close()
            store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: 256 << 10))
        }
        let cache = HeadCache(store: store)
        #expect(try cache.tree(of: .conversation(conversation(99)), through: 1) == nil)
        #expect(try cache.tree(of: .conversation(conversation(99)), through: 0) == CompactRange())
        try store.close()
    }

    @Test("A long log is followed by its newest leaves, and older trees are found all the same")
    func long() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)])
        for start in 0..<30 as Range<UInt64> { _ = try store.appendBlocking((1...100).map { sent(start * 100 + $0, in: 1, "text") }) }
        let trees = try trees(store, logs[0])
        let cache = HeadCache(store: store)
        for seq in [3001, 3000, 2990, 2000, 1, 1500, 1501, 3001, 2500, 600, 700] as [Seq] {
            #expect(try cache.tree(of: logs[0], through: seq) == trees[Int(seq)], "\(seq)")
        }
        try store.flush()
        _ = try store.appendBlocking([sent(9000, in: 1, "more")])
        #expect(try cache.tree(of: logs[0], through: 3002)?.size == 3002)
        for seq in [3001, 3000, 100] as [Seq] { #expect(try cache.tree(of: logs[0], through: seq) == trees[Int(seq)], "\(seq)") }
        // What was passed once is not passed again: a peer that probes a log does not have it hashed each time.
        _ = try cache.tree(of: logs[0], through: 2400)
        for seq in (1...2900 as ClosedRange<Seq>).shuffled().prefix(40) {
            var effort = Effort()
            #expect(try cache.tree(of: logs[0], through: seq, &effort) == trees[Int(seq)], "\(seq)")
            #expect(effort.events <= 1024, "\(seq)")
        }
        try store.close()
    }

    @Test("Trees of the past: many are passed, few are kept, and none is far")
    func past() {
        var past = PastTrees()
        var tree = CompactRange()
        for size in 1...100_000 as ClosedRange<UInt64> {
            tree.append(Hash256(), level: 0)
            past.note(tree)
            if size.isMultiple(of: 9973) { #expect(size - past.nearest(size).size <= max(1024, size / 16)) }
        }
        for size in stride(from: 1 as UInt64, through: 100_000, by: 997) {
            let near = past.nearest(size)
            #expect(near.size <= size && size - near.size < 8192)
        }
        #expect(past.count <= 64)
    }

    @Test("I2, I6: what does not follow, or lacks its salt, extends no tree")
    func refused() throws {
        let store = try EventStore.open(at: directory.store)
        try talk(store, messages: 5)
        let events = try store.events(in: logs[0])
        var seeds = try #require(PuncturedSeeds(secret: store.secret(of: logs[0])))
        #expect(throws: EventLogError.self) { _ = try HeadCache.extend(CompactRange(), with: Array(events.dropFirst()), seeds: seeds) }
        seeds.forget(1)
        #expect(throws: EventLogError.self) { _ = try HeadCache.extend(CompactRange(), with: events, seeds: seeds) }
        #expect(PuncturedSeeds(secret: [1, 2, 3]) == nil)
        try store.close()
    }
}
