import Testing

@testable import EventLog

@Suite("verify") struct VerifyTests {
    private let directory = TemporaryDirectory()

    private func fill(_ store: EventStore, _ conversations: ClosedRange<UInt64>, from first: UInt64) throws {
        var id = first
        for _ in 0..<20 {
            try store.appendBlocking(
                conversations.map { number in
                    id += 1
                    return sent(id, in: number, "text \(id)")
                }
            ).forEach { #expect($0.isAccepted) }
        }
    }

    @Test("A store that is being written is sound, whatever is archived meanwhile") func besideWriter() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking((1...10).map { created($0) })
        for round in 0..<3 as Range<UInt64> {
            try fill(store, 1...10, from: round * 1000)
            try store.flush()
        }
        var rounds: UInt64 = 10
        let report = try EventStore.verify(at: directory.store) { _, _ in
            guard rounds < 13 else { return }
            rounds += 1
            try? fill(store, 1...10, from: rounds * 1000)
            _ = try? store.appendBlocking([created(100 + rounds)])
            try? store.flush()
        }
        #expect(report.problems == [] && rounds == 13 && report.events == 610)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
    }

    /// Changes a log's row as whoever can compute checksums would.
    private func forge(_ number: UInt64, _ change: (inout LogRow) -> Void) throws {
        let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        let log = LogID.conversation(conversation(number))
        var numbers: [ReplicaID: UInt64] = [:]
        try archive.environment.read { transaction in
            try transaction.forEach(archive.replicas) { key, value in
                numbers[ReplicaID(bytes: value.prefix(16))!] = UInt64(bigEndian: key.loadUnaligned(as: UInt64.self))
                return true
            }
        }
        var row = try #require(try archive.environment.read { try archive.row(log, $0) })
        change(&row)
        var out = ByteBuffer()
        row.encode(into: &out)
        row.encodeLanes(into: &out) { numbers[$0]! }
        let value = out.array()
        try archive.environment.write { try $0.put(archive.logs, Archive.key(log: log), Archive.sealed(Archive.key(log: log), value)) }
    }

    @Test("A forged row is found, whether its log ends before others or goes on to the end", arguments: [1, 5, 10] as [UInt64]) func forged(_ number: UInt64)
        throws
    {
        func make() throws {
            let store = try EventStore.open(at: directory.store)
            _ = try store.appendBlocking((1...10).map { created($0) })
            for round in 0..<5 as Range<UInt64> {
                try fill(store, (2 * round + 1)...10, from: round * 1000)
                try store.flush()
            }
            try store.close()
        }
        try make()
        #expect(try EventStore.verify(at: directory.store).problems == [])
        let log = conversation(number).description
        try forge(number) { row in
            var tree = CompactRange()
            for _ in 0..<row.tree.size { tree.append(Hash256()) }
            row.tree = tree
        }
        let changed = try EventStore.verify(at: directory.store).problems
        #expect(changed.count == 1 && changed[0].contains("I6: log \(log)"))
        // A row that leaves out the log's last event.
        try forge(number) { row in
            row.seq -= 1
            row.slices[row.slices.count - 1].count -= 1
            row.slices[row.slices.count - 1].messages -= 1
            row.messages -= 1
            row.tree = CompactRange()
            for _ in 0..<row.seq { row.tree.append(Hash256()) }
        }
        #expect(try EventStore.verify(at: directory.store).problems.contains { $0.contains("I2: log \(log)") || $0.contains("I6: log \(log)") })
    }

    @Test("A forged total is found: conversations, messages, runs", arguments: [0, 1, 2]) func forgedTotal(_ which: Int) throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking((1...10).map { created($0) })
        try fill(store, 1...10, from: 0)
        try store.close()
        #expect(try EventStore.verify(at: directory.store).problems == [])
        let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
        var state = try archive.environment.read { try archive.state($0) }
        switch which {
        case 0: state.conversations += 1
        case 1: state.messages -= 1
        default: state.runs += 1
        }
        let forged = Archive.sealed(Archive.MetaKey.state, state.encode())
        try archive.environment.write { try $0.put(archive.meta, Archive.MetaKey.state, forged) }
        archive.environment.close()
        let problems = try EventStore.verify(at: directory.store).problems
        #expect(problems.count == 1 && problems[0].contains(["conversations", "messages", "runs"][which]), "\(problems)")
    }

    @Test("Reading every log keeps none in memory") func readersKeepNothing() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking((1...50).map { created($0) })
        try store.close()
        let reader = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        for number in 1...50 as ClosedRange<UInt64> {
            let log = LogID.conversation(conversation(number))
            #expect(try reader.event(in: log, at: 1) != nil && reader.secret(of: log).count == 32)
            #expect(reader.writer.withLock { $0.known(log) == nil })
        }
        try reader.close()
    }

    @Test("A checkpoint of more logs than one transaction takes signs them all, and the next one what changed") func manyHeads() throws {
        let store = try EventStore.open(at: directory.store)
        for start in stride(from: UInt64(1), to: 5000, by: 1000) { _ = try store.appendBlocking((start..<start + 1000).map { created($0) }) }
        var told: [UInt64] = []
        let first = try store.makeCheckpoint { done, total in
            #expect(total == 5000)
            told.append(done)
        }
        let key = try VerifierKey(store.verifierKey())
        #expect(try told == [4096] && Checkpoint.open(first, key: key).size == 5000)
        _ = try store.appendBlocking([sent(1, in: 4999, "more")])
        let second = try store.makeCheckpoint()
        #expect(try Checkpoint.open(second, key: key).size == 5001)
        #expect(try store.proveCheckpoint(from: first).check(expectedKey: key).description.isEmpty == false)
        _ = try store.proveInclusion(log: .conversation(conversation(1)), seq: 1).check(expectedKey: key)
        try store.close()
    }

    @Test("An archive of a newer version is refused by every reading, both versions named; one whose version is damaged is salvaged")
    func newerVersion() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        try store.close()
        let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
        var record = try #require(try archive.environment.read { try $0.get(archive.meta, Archive.MetaKey.store).map(Array.init) })
        func put(_ value: [UInt8]) throws { try archive.environment.write { try $0.put(archive.meta, Archive.MetaKey.store, value) } }
        func salvage() throws -> Int {
            var events = 0
            try EventStore.salvage(at: directory.store, event: { _ in events += 1 }, lost: { _ in })
            return events
        }
        record[0] = 9
        try put(record)
        #expect(try salvage() == 2)
        try put(Archive.sealed(Archive.MetaKey.store, Array(record.dropLast(8))))
        archive.environment.close()
        for isSalvage in [true, false] {
            let failure = #expect(throws: EventLogError.self) {
                if isSalvage { _ = try salvage() } else { _ = try EventStore.verify(at: directory.store) }
            }
            #expect(failure?.code == .newerFormat && failure?.message.contains("version 9") ?? false && failure?.message.contains("version 1:") ?? false)
        }
    }

    @Test("A damaged row is told once, with no advice to run verify; the conversations are counted, and the other rows checked", arguments: [1, 2])
    func damagedRow(_ count: UInt64) throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking((1...5).map { created($0) })
        try store.close()
        for number in 1...count {
            let archive = try Archive(directory: directory.store, isReadOnly: false, mapBytesMax: .max / 2)
            let key = Archive.key(log: .conversation(conversation(number)))
            var row = try #require(try archive.environment.read { try $0.get(archive.logs, key).map(Array.init) })
            row[row.count / 2] ^= 1
            try archive.environment.write { try $0.put(archive.logs, key, row) }
            archive.environment.close()
        }
        try forge(5) { $0.tree = CompactRange() }
        let report = try EventStore.verify(at: directory.store)
        #expect(report.conversations == 5 && report.events == 5)
        #expect(report.problems.count == Int(count) + 1 && !report.problems.contains { $0.contains("convstore verify") }, "\(report.problems)")
        for number in (1...count) + [5] { #expect(report.problems.contains { $0.contains("log \(conversation(number))") }) }
    }
}
