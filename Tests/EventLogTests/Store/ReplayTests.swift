import Testing

@testable import EventLog

/// Replays of many runs, which a second thread decodes ahead.
@Suite("Replay") struct ReplayTests {
    let directory = TemporaryDirectory()

    /// A store of at least nine runs and a few events in the journal.
    private func fill() throws -> EventStore {
        let store = try EventStore.open(at: directory.store)
        for number in 1...9 as ClosedRange<UInt64> {
            var batch = [created(number)]
            for id in 1...20 { batch.append(sent(number * 100 + UInt64(id), in: number, "message \(id) of \(number): \(id % 3 == 0 ? "grüße" : "greetings")")) }
            #expect(try store.appendBlocking(batch).allSatisfy(\.isAccepted))
            try store.flush()
        }
        #expect(try store.appendBlocking([sent(1, in: 1, "and one more")]).allSatisfy(\.isAccepted))
        return store
    }

    /// The logs' own order, without the thread.
    private func expected(_ store: EventStore) throws -> [RecordedEvent] {
        try (1...9).flatMap { try store.events(in: .conversation(conversation($0))) }.sorted { $0.position < $1.position }
    }

    @Test("from any position through any other, the events between them in order") func ranges() throws {
        let store = try fill()
        let all = try expected(store)
        #expect(try store.statistics().segments >= 9)
        for (first, last) in [(1, 190), (1, 500), (2, 188), (21, 22), (22, 42), (40, 150), (100, 189), (170, 190), (190, 190), (191, 300), (5, 4)] {
            var found: [RecordedEvent] = []
            try store.replay(from: Position(first), through: Position(last)) { event in
                found.append(event)
                return true
            }
            let isSame = found == all.filter { $0.position >= Position(first) && $0.position <= Position(last) }
            #expect(isSame, "\(first) through \(last): \(found.map(\.position))")
        }
        try store.close()
    }

    @Test("who has enough, or throws, at any event is left alone, and the store can be closed at once") func ending() throws {
        struct Enough: Error {}
        let store = try fill()
        let all = try expected(store)
        for count in 1...all.count {
            var found = 0
            try store.replay { _ in
                found += 1
                return found < count
            }
            #expect(found == count)
            found = 0
            #expect(throws: Enough.self) {
                try store.replay { _ in
                    found += 1
                    if found == count { throw Enough() }
                    return true
                }
            }
            #expect(found == count)
        }
        try store.close()
    }

    @Test("a damaged run is told of behind all that is sound before it", arguments: 0..<9) func damage(_ damaged: Int) throws {
        let store = try fill()
        let all = try expected(store)
        var keys: [[UInt8]] = []
        try store.archive.environment.write { transaction in
            try transaction.forEach(store.archive.runs, from: []) { key, _ in
                keys.append(Array(key))
                return true
            }
            var value = try #require(try transaction.get(store.archive.runs, keys[damaged]).map { Array($0) })
            value[value.count / 2] ^= 1
            try transaction.put(store.archive.runs, keys[damaged], value)
        }
        var found: [RecordedEvent] = []
        let error = #expect(throws: EventLogError.self) {
            try store.replay { event in
                found.append(event)
                return true
            }
        }
        #expect(error?.code == .damaged)
        // Its texts are read one after the other where no thread reads ahead: it may have begun.
        #expect(found.count >= damaged * 21 && found.count < (damaged + 1) * 21)
        let isSame = found == Array(all.prefix(found.count))
        #expect(isSame)
        try? store.close()
    }
}
