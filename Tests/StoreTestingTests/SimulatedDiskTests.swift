import ConversationStore
import StoreTesting
import Testing

/// I1 on the simulated disk: a crash at every call, with what it keeps drawn anew.
@Suite("A disk that crashes") struct SimulatedDiskTests {
    private func open(_ path: String) throws -> ConversationStore {
        var options = ConversationStoreOptions(journalBytesMax: 256 << 10)
        options.runsInline = true
        return try ConversationStore.open(at: path, options: options)
    }

    /// Appends until something fails or all is done; what was acknowledged comes back.
    private func run(_ store: ConversationStore, from first: UInt64, count: UInt64) -> UInt64 {
        var acknowledged = first
        for number in first..<first + count {
            guard let outcome = try? store.log.appendBlocking([sent(number, String(repeating: "words ", count: Int(number % 400)))]).first else { break }
            if case .refused(let refusal) = outcome { Issue.record("\(refusal)") }
            acknowledged = number + 1
        }
        return acknowledged
    }

    @Test("I1: what was acknowledged is there after a crash at any call", arguments: 0..<6)
    func crashes(_ share: Int) throws {
        var random = SeededGenerator(seed: UInt64(share))
        for round in 0..<20 {
            let place = MemoryDirectory()
            let disk = SimulatedDisk(place.path)
            defer { disk.remove() }
            var acknowledged: UInt64 = 0
            for life in 0..<4 {
                let keeping: SimulatedDisk.Keeping = random.weighted([(1, .nothing), (1, .everything), (4, .some(seed: random.next()))])
                if life > 0 || round > 10 { disk.crash(atCall: random.below(400) + 1, keeping: keeping) }
                let store: ConversationStore
                do { store = try open(place.path + "/s") } catch {
                    #expect(disk.hasCrashed, "\(error)")
                    disk.restart()
                    continue
                }
                _ = try? store.log.appendBlocking([created])
                acknowledged = max(acknowledged, run(store, from: acknowledged, count: 80))
                if random.chance(0.3), !disk.hasCrashed { try? store.close() }
                if !disk.hasCrashed { disk.crash(keeping: keeping) }
                store.abandon()
                disk.restart()
                let again = try open(place.path + "/s")
                if acknowledged > 0 {
                    let messages = try #require(try again.timeline(of: conversation, limit: .max)).messages
                    #expect(messages.count >= acknowledged)
                    #expect(messages.prefix(Int(acknowledged)).enumerated().allSatisfy { $1.id == message(UInt64($0)) })
                    acknowledged = UInt64(messages.count)
                }
                #expect(try again.isFold())
                again.abandon()
            }
        }
    }

    @Test("Control: what a relaxed store acknowledged and did not sync is gone")
    func relaxed() throws {
        let place = MemoryDirectory()
        let disk = SimulatedDisk(place.path)
        defer { disk.remove() }
        var options = ConversationStoreOptions(durability: .relaxed(interval: .seconds(1)))
        options.runsInline = true
        let store = try ConversationStore.open(at: place.path + "/s", options: options)
        _ = try store.log.appendBlocking([created])
        #expect(run(store, from: 0, count: 10) == 10)
        disk.crash(keeping: .nothing)
        #expect(throws: EventLogError.self) { _ = try store.log.appendBlocking([sent(11, "late")]) }
        store.abandon()
        disk.restart()
        let again = try open(place.path + "/s")
        #expect(try again.timeline(of: conversation) == nil)
        again.abandon()
    }

    @Test("A full disk refuses, and takes again when there is room")
    func full() throws {
        let place = MemoryDirectory()
        let disk = SimulatedDisk(place.path)
        defer { disk.remove() }
        let store = try open(place.path + "/s")
        _ = try store.log.appendBlocking([created])
        disk.bytesFree = 40 << 10
        let count = run(store, from: 0, count: 2000)
        #expect(count < 2000)
        #expect(!disk.hasCrashed)
        disk.bytesFree = nil
        let more: UInt64
        do {
            _ = try store.log.appendBlocking([sent(count, "more")])
            more = count + 1
        } catch let error as EventLogError {
            // It may have to be opened anew, never to be repaired.
            #expect(error.code == .unknownOutcome)
            more = count
        }
        store.abandon()
        let again = try open(place.path + "/s")
        let messages = try #require(try again.timeline(of: conversation, limit: .max)).messages
        #expect(messages.count >= more)
        #expect(run(again, from: UInt64(messages.count), count: 100) == UInt64(messages.count) + 100)
        try again.close()
    }

    @Test("Closing may fail at its last commit, again and again: nothing is damaged by it")
    func closings() throws {
        let place = MemoryDirectory()
        let disk = SimulatedDisk(place.path)
        defer { disk.remove() }
        var store = try open(place.path + "/s")
        _ = try store.log.appendBlocking([created, sent(0, "a")])
        for _ in 0..<3 {
            let commits = disk.count(.commit)
            try store.close()
            let last = disk.count(.commit) - commits
            store = try open(place.path + "/s")
            // Once more, and this time the closing frame is written, but not what the archive says of it.
            disk.fail(.commit, max(last, 1), with: .noSpace)
            try? store.close()
            disk.calmDown()
            store = try open(place.path + "/s")
            disk.fail(.commit, 1, with: .noSpace)
            try? store.close()
            disk.calmDown()
            store = try open(place.path + "/s")
        }
        #expect(try store.timeline(of: conversation)?.messages.count == 1)
        try store.close()
    }

    @Test("A planned failure strikes the call that it names", arguments: [SimulatedDisk.Fault.noSpace, .inputOutput, .short(100)])
    func planned(_ fault: SimulatedDisk.Fault) throws {
        let place = MemoryDirectory()
        let disk = SimulatedDisk(place.path)
        defer { disk.remove() }
        let store = try open(place.path + "/s")
        _ = try store.log.appendBlocking([created])
        disk.fail(.write, 2, with: fault)
        _ = try store.log.appendBlocking([sent(0, "a")])
        #expect(throws: EventLogError.self) { _ = try store.log.appendBlocking([sent(1, "b")]) }
        store.abandon()
        let again = try open(place.path + "/s")
        #expect(try #require(try again.timeline(of: conversation)).messages.first?.id == message(0))
        again.abandon()
    }
}
