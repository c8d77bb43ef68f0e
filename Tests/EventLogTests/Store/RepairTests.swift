import Testing

@testable import EventLog

/// Runs of which bytes are damaged, beside a store that holds the same runs.
@Suite("Repairing runs") struct RepairTests {
    let directory = TemporaryDirectory()
    private var hubPath: String { directory.path + "/hub" }

    /// A store of some runs, in which each log goes on from run to run, and one that adopted them behind a run of its own.
    private func fill(rounds: UInt64 = 3) throws {
        let hub = try EventStore.open(at: hubPath)
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(99)])
        try store.flush()
        var position: Position = 1
        for round in 0..<rounds {
            try talk(hub, round: round, messages: 24)
            try hub.flush()
            while let run = try hub.storedRun(containing: position) {
                var secrets: [LogID: [UInt8]] = [:]
                for slice in run.slices { secrets[slice.log] = try hub.secret(of: slice.log) }
                _ = try store.adoptRun(run.bytes, secrets: secrets) { _, _ in }
                position += Position(run.eventCount)
            }
        }
        try hub.close()
        try store.close()
    }

    private func damage(_ number: Int, _ change: (inout [UInt8]) -> Void) throws {
        _ = try EventStore.damageRun(at: directory.store, number: number, change: change)
    }

    private func runs(_ path: String) throws -> [[UInt8]] {
        var runs: [[UInt8]] = []
        let archive = try Archive(directory: path, isReadOnly: true, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        try archive.environment.read { transaction in
            try transaction.forEach(archive.runs) { _, value in
                runs.append(Array(value))
                return true
            }
        }
        return runs
    }

    /// What a hub answers, unless it lies.
    private func blocks(_ damaged: DamagedRun) throws -> [RunBlock]? {
        let hub = try EventStore.open(at: hubPath)
        defer { try? hub.close() }
        return try hub.storedRun(of: damaged).flatMap { RunBlocks.blocks(of: $0.bytes, unlike: damaged.checks) }
    }

    /// Repairs with the hub's blocks, changed on their way. Answers how many runs were damaged, and how many repaired.
    private func repair(_ change: (DamagedRun, inout [RunBlock]) -> Void = { _, _ in }) throws -> (damaged: Int, repaired: Int) {
        let store = try EventStore.open(at: directory.store)
        defer { try? store.close() }
        let damaged = try store.damagedRuns()
        var given: [Position: [RunBlock]] = [:]
        for run in damaged {
            guard var blocks = try blocks(run) else { continue }
            change(run, &blocks)
            given[run.position] = blocks
        }
        return (damaged.count, try store.repairRuns(given).count)
    }

    private var isSound: Bool { get throws { try EventStore.verify(at: directory.store).problems.isEmpty } }

    @Test("one damaged byte costs its block, wherever it lies, and leaves the run as it was") func places() throws {
        try fill(rounds: 2)
        let before = try runs(directory.store)
        let count = before[1].count
        let header = 48 + Int(before[1][28]) * 16 + 8
        // Each byte of the header, and some of the ids, columns and texts; the last.
        for place in Array(0..<header) + stride(from: header, to: count, by: 311) + [count - 1] {
            try damage(1) { $0[place] ^= 0x10 }
            let store = try EventStore.open(at: directory.store)
            let damaged = try store.damagedRuns()
            try #require(damaged.count == 1, "byte \(place)")
            let blocks = try #require(try blocks(damaged[0]), "byte \(place)")
            #expect(blocks.map(\.number) == [place / RunBlocks.blockBytes], "byte \(place)")
            #expect(try store.repairRuns([damaged[0].position: blocks]) == [damaged[0].position], "byte \(place)")
            try store.close()
            try #require(try runs(directory.store) == before, "byte \(place)")
        }
        #expect(try isSound)
    }

    @Test("damaged runs that hold parts of the same logs are repaired together") func several() throws {
        try fill()
        let before = try runs(directory.store)
        try damage(1) { $0[70] ^= 1 }
        try damage(2) { $0[$0.count - 1] ^= 1 }
        try damage(3) { $0[9] ^= 1 }
        #expect(try repair() == (3, 3))
        #expect(try isSound && runs(directory.store) == before)
    }

    @Test("a run whose logs cannot be followed to their heads stays damaged") func unverifiable() throws {
        try fill()
        try damage(1) { $0[70] ^= 1 }
        try damage(2) { $0[70] ^= 1 }
        let spoiled = try runs(directory.store)
        // Of the second nothing comes.
        #expect(try repair { run, blocks in if run.position > 50 { blocks = [] } } == (2, 0))
        #expect(try runs(directory.store) == spoiled)
        #expect(try repair() == (2, 2))
        #expect(try isSound)
    }

    @Test("I6: bytes whose checksums hold, but which are not the store's own events, are not kept") func forged() throws {
        try fill(rounds: 2)
        try damage(2) { $0[60] ^= 1 }
        let spoiled = try runs(directory.store)
        let result = try repair { run, blocks in
            // Another id in the place of a message's, in the blocks and in the sums over them.
            var forged = spoiled[2]
            _ = RunBlocks.put(blocks, into: &forged)
            Self.forge(&forged, at: run.position)
            #expect(forged.withUnsafeBytes { DecodedRun.isSound($0, at: run.position) })
            blocks = RunBlocks.blocks(of: forged, unlike: RunBlocks.checks(of: spoiled[2])) ?? []
        }
        #expect(result == (1, 0))
        #expect(try runs(directory.store) == spoiled)
        #expect(try repair() == (1, 1))
    }

    /// Changes the ids section, of which the last 16 bytes are an explicit id, a replica's or a message's.
    private static func forge(_ bytes: inout [UInt8], at position: Position) {
        guard let header = try? bytes.withUnsafeBytes({ try DecodedRun.Header($0, at: position) }) else { return }
        bytes[header.raw.upperBound - 1] ^= 1
        bytes.withUnsafeMutableBytes { bytes in
            func sum(_ range: Range<Int>) -> UInt64 { XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[range]), seed: position).littleEndian }
            bytes.storeBytes(of: sum(header.raw), toByteOffset: 32, as: UInt64.self)
            bytes.storeBytes(of: sum(0..<header.raw.lowerBound - 8), toByteOffset: header.raw.lowerBound - 8, as: UInt64.self)
        }
    }

    @Test("blocks of no such number or size, or of other bytes, change nothing") func nonsense() throws {
        try fill(rounds: 2)
        try damage(1) { $0[70] ^= 1 }
        let spoiled = try runs(directory.store)
        let wrong: [(inout [RunBlock]) -> Void] = [
            { $0 = [] }, { $0[0].number = -1 }, { $0[0].number = .max }, { $0[0].number += 1000 }, { $0[0].bytes.removeLast() }, { $0[0].bytes.append(0) },
            { $0[0].bytes[70] ^= 2 }, { $0[0].bytes = [] },
        ]
        for change in wrong {
            #expect(try repair { _, blocks in change(&blocks) } == (1, 0))
            #expect(try runs(directory.store) == spoiled)
        }
        // A sound run is left alone, whatever comes for it.
        let store = try EventStore.open(at: directory.store)
        #expect(try store.repairRuns([1: [RunBlock(number: 0, bytes: [])], 5000: []]) == [])
        try store.close()
        #expect(try repair() == (1, 1))
    }

    @Test("a run that the other store holds as other bytes is not found there") func otherBytes() throws {
        try fill(rounds: 2)
        try damage(0) { $0[70] ^= 1 }
        #expect(try repair() == (1, 0))
        let store = try EventStore.open(at: directory.store)
        let damaged = try #require(try store.damagedRuns().first)
        try store.close()
        #expect(damaged.log == .conversation(conversation(99)))
        let hub = try EventStore.open(at: hubPath)
        let run = try #require(try hub.storedRun(containing: 1))
        let sound = DamagedRun(log: run.slices[0].log, seq: run.slices[0].firstSeq, position: 7, byteCount: run.bytes.count, checks: [])
        #expect(try hub.storedRun(of: sound) != nil)
        for change in [{ $0.seq += 1 }, { $0.byteCount += 1 }, { $0.log = .user(user("nobody")) }] as [(inout DamagedRun) -> Void] {
            var other = sound
            change(&other)
            #expect(try hub.storedRun(of: other) == nil)
        }
        try hub.close()
    }

    @Test("the same events in another order are not kept: the rows say where each log's slice is") func order() throws {
        let (runs, secrets) = try orders()
        let store = try EventStore.open(at: directory.store)
        _ = try store.adoptRun(runs.sound, secrets: secrets) { _, _ in }
        try store.close()
        try damage(0) { $0[70] ^= 1 }
        let spoiled = try self.runs(directory.store)
        let again = try EventStore.open(at: directory.store)
        for (run, kept) in [(runs.swapped, []), (runs.sound, [1])] as [([UInt8], [Position])] {
            let blocks = try #require(RunBlocks.blocks(of: run, unlike: RunBlocks.checks(of: spoiled[0])))
            #expect(try again.repairRuns([1: blocks]) == kept)
        }
        try again.close()
        #expect(try isSound)
    }

    /// Two runs of the same size and the same events of two logs, each of which comes first once.
    private func orders() throws -> (runs: (sound: [UInt8], swapped: [UInt8]), secrets: [LogID: [UInt8]]) {
        for attempt in 0..<200 as Range<UInt64> {
            let hub = try EventStore.open(at: directory.path + "/orders-\(attempt)")
            defer { try? hub.close() }
            for number in 1...2 as ClosedRange<UInt64> {
                _ = try hub.appendBlocking([created(number), sent(10 * number + attempt * 100, in: number, "text \(number) \(attempt)")])
            }
            var events = try hub.all()
            // Steps back in time take more bytes than none.
            for index in events.indices { events[index].hlc = HLC(milliseconds: 1000 + events[index].seq) }
            let runs = try (sound: SegmentCodec.encode(events), swapped: SegmentCodec.encode(Array(events[2...] + events[..<2])))
            guard runs.sound.count == runs.swapped.count else { continue }
            var secrets: [LogID: [UInt8]] = [:]
            for event in events { secrets[event.log] = try hub.secret(of: event.log) }
            return (runs, secrets)
        }
        Issue.record("no two orders have the same size")
        return (([], []), [:])
    }
}
