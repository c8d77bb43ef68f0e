import Testing

@testable import EventLog

@Suite("Places of logs") struct PlaceTests {
    let directory = TemporaryDirectory()

    /// What the whole order of commits says of each log.
    private func expected(_ store: EventStore) throws -> [LogID: [Position]] {
        Dictionary(grouping: try store.all(), by: \.log).mapValues { $0.map(\.position) }
    }

    private func check(_ store: EventStore) throws {
        // All of them first: a store that was just opened has no run at hand.
        var stamps: [(log: LogID, seq: Seq, stamp: EventStamp?)] = []
        try store.forEachLogPlace { place in
            for seq in 0...place.lastSeq + 1 { stamps.append((place.log, seq, try store.stamp(in: place.log, at: seq))) }
        }
        for (log, seq, stamp) in stamps {
            let event = try store.event(in: log, at: seq)
            #expect(
                stamp?.position == event?.position && stamp?.hlc == event?.hlc && stamp?.replica == event?.origin.replica
                    && stamp?.counter == event?.origin.counter,
                "\(log) \(seq)")
            #expect(try store.stamp(in: log, at: seq) == stamp)
        }
        #expect(try store.stamp(in: .conversation(conversation(99)), at: 1) == nil)
        let expected = try expected(store)
        var found: [LogID: LogPlace] = [:]
        try store.forEachLogPlace { found[$0.log] = $0 }
        #expect(Set(found.keys) == Set(expected.keys))
        for (log, positions) in expected {
            #expect(found[log]?.lastPosition == positions.last)
            #expect(found[log]?.lastSeq == Seq(positions.count))
        }
        let end = store.lastPosition
        for (log, positions) in expected {
            for position in Set([0, end, end + 9] + positions.flatMap { [$0 - 1, $0, $0 + 1] }) {
                let seq = positions.firstIndex { $0 > position }.map { Seq($0) + 1 }
                #expect(try store.firstSeq(of: log, after: position) == seq, "\(log) after \(position)")
            }
        }
        #expect(try store.firstSeq(of: .conversation(conversation(99)), after: 0) == nil)
    }

    @Test("A log that ends in a run of which the order of the commits is damaged ends, as far as is known, where that run does", arguments: [0, 1, 2])
    func damaged(_ number: Int) throws {
        let store = try EventStore.open(at: directory.store)
        var ends: [Position] = []
        for round in 0..<3 as Range<UInt64> {
            _ = try store.appendBlocking([created(2 * round), created(2 * round + 1), sent(round, in: 2 * round, "words")])
            try store.flush()
            ends.append(store.lastPosition)
        }
        try store.close()
        _ = try EventStore.damageRun(at: directory.store, number: number) { run in
            let meta = run.withUnsafeBytes { try! DecodedRun.Header($0, at: Position(3 * number + 1)) }.meta
            run[meta.lowerBound + meta.count / 2] ^= 1
        }
        let damaged = try EventStore.open(at: directory.store)
        var found: [LogID: Position] = [:]
        try damaged.forEachLogPlace { found[$0.log] = $0.lastPosition }
        for round in 0..<3 as Range<UInt64> {
            #expect(found[.conversation(conversation(2 * round))] == ends[Int(round)])
            #expect(found[.conversation(conversation(2 * round + 1))] == (round == UInt64(number) ? ends[number] : ends[Int(round)] - 1))
        }
        try damaged.close()
    }

    @Test("A log's last position, and its first seq after a position, are those of the commit order: in journal, archive and both, after reopening too")
    func places() throws {
        let store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: 256 << 10))
        for number in 1...7 as ClosedRange<UInt64> { _ = try store.appendBlocking([created(number)]) }
        try check(store)
        for round in 0..<4 as Range<UInt64> {
            for id in 1...40 as ClosedRange<UInt64> {
                let number = id * id % 7 + 1
                _ = try store.appendBlocking([sent(round * 100 + id, in: number, "words"), sent(round * 100 + 50 + id, in: 1, "more")])
            }
            // A log that ends in an older run.
            if round == 1 { _ = try store.appendBlocking([created(20 + round)]) }
            let preference = Event(conversation: conversation(1), author: user("bob"), content: .preferenceSet(key: "pinned", value: "\(round)"))
            _ = try store.appendBlocking([Submission(preference)])
            try check(store)
            if round < 3 { try store.flush() }
            try check(store)
        }
        let reader = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        try check(reader)
        try reader.close()
        try store.close()
        let again = try EventStore.open(at: directory.store)
        try check(again)
        try again.close()
    }

    @Test("What stands behind a position costs no older run, and a stamp no texts: neither notices that these are damaged")
    func cost() throws {
        let store = try EventStore.open(at: directory.store)
        var ends: [Position] = []
        for round in 0..<3 as Range<UInt64> {
            if round == 0 { for number in 1...3 as ClosedRange<UInt64> { _ = try store.appendBlocking([created(number)]) } }
            _ = try store.appendBlocking([sent(round * 10 + 1, in: round + 1, "words"), sent(round * 10 + 2, in: 3, "more")])
            try store.flush()
            ends.append(store.lastPosition)
        }
        let last = try #require(try store.stamp(in: .conversation(conversation(1)), at: 2))
        try store.close()
        // The last byte is of the texts.
        _ = try EventStore.damageRun(at: directory.store, number: 0) { $0[$0.count - 1] ^= 0x10 }
        var again = try EventStore.open(at: directory.store)
        #expect(try again.stamp(in: .conversation(conversation(1)), at: 2) == last)
        #expect(throws: EventLogError.self) { try again.event(in: .conversation(conversation(1)), at: 2) }
        try again.close()
        _ = try EventStore.damageRun(at: directory.store, number: 0) { $0[$0.count / 2] ^= 0x10 }
        again = try EventStore.open(at: directory.store)
        defer { try? again.close() }
        #expect(try again.firstSeq(of: .conversation(conversation(1)), after: ends[0]) == nil)
        #expect(try again.firstSeq(of: .conversation(conversation(1)), after: ends[0] + 1) == nil)
        #expect(try again.firstSeq(of: .conversation(conversation(2)), after: ends[0]) == 2)
        #expect(try again.firstSeq(of: .conversation(conversation(3)), after: ends[0] + 1) == 3)
        #expect(throws: EventLogError.self) { try again.firstSeq(of: .conversation(conversation(1)), after: ends[0] - 1) }
        #expect(throws: EventLogError.self) { try again.stamp(in: .conversation(conversation(1)), at: 2) }
    }

    @Test("Where a run is missing, what stands behind a position is not passed over")
    func missingRun() throws {
        let store = try EventStore.open(at: directory.store)
        for round in 0..<3 as Range<UInt64> {
            if round == 0 { _ = try store.appendBlocking([created(1)]) }
            _ = try store.appendBlocking([sent(round * 10 + 1, in: 1, "words"), sent(round * 10 + 2, in: 1, "more")])
            try store.flush()
        }
        try store.close()
        let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
        try archive.environment.write { _ = try $0.delete(archive.runs, Archive.key(position: 4)) }
        archive.environment.close()
        let again = try EventStore.open(at: directory.store)
        defer { try? again.close() }
        #expect(try again.firstSeq(of: .conversation(conversation(1)), after: 2) == 3)
        #expect(throws: EventLogError.self) { try again.firstSeq(of: .conversation(conversation(1)), after: 4) }
        #expect(try again.firstSeq(of: .conversation(conversation(1)), after: 6) == 7)
    }

    @Test("People come with when they joined and left")
    func people() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1, by: "ann", with: ["bob"])])
        func event(_ content: Event.Content) -> Submission { Submission(Event(conversation: conversation(1), author: user("ann"), content: content)) }
        _ = try store.appendBlocking([event(.participantLeft(user("bob"))), event(.participantJoined(user("cem")))])
        for _ in 0..<2 {
            var people: [String] = []
            try store.forEachLogPlace { place in people = place.people.map { "\($0.user) \($0.joinedSeq) \($0.leftSeq)" } }
            #expect(people == ["ann 1 0", "bob 0 2", "cem 3 0"])
            try store.flush()
        }
        try store.close()
    }
}
