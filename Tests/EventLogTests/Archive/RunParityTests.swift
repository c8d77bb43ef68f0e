import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@testable import EventLog

/// A disk with a sector that cannot be read until it is written, which it may refuse.
final class BadSector: DiskFaults {
    private let name: String
    private let sector: Range<Int>
    private let refusesWrites: Bool
    private let isBad = Atomic(true)

    init(of name: String, at offset: Int, bytes: Int = 512, refusesWrites: Bool = false) {
        (self.name, sector, self.refusesWrites) = (name, offset..<offset + bytes, refusesWrites)
    }

    func meets(_ path: String, _ range: Range<Int>) -> Bool { path.hasSuffix("/" + name) && range.overlaps(sector) }
    func willRead(_ path: String, offset: Int, count: Int) throws(SystemError) {
        guard isBad.load(ordering: .relaxed), meets(path, offset..<offset + count) else { return }
        throw SystemError(call: "read", path: path, number: EIO)
    }
    func willWrite(_ path: String, _ descriptor: CInt, offset: Int, count: Int) throws(SystemError) -> (count: Int, failure: SystemError?) {
        if refusesWrites, path.hasSuffix("/" + name) { return (0, SystemError(call: "pwrite", path: path, number: EIO)) }
        if meets(path, offset..<offset + count) { isBad.store(false, ordering: .relaxed) }
        return (count, nil)
    }
}

/// Damaged runs that the store itself sets right, by their parity.
@Suite("Parity of runs") struct RunParityTests {
    let directory = TemporaryDirectory()

    /// A store of so many runs, of some hundred KiB each; texts that do not compress.
    func fill(runs: UInt64 = 1) throws {
        let store = try EventStore.open(at: directory.store)
        var random = SystemRandomNumberGenerator()
        for run in 0..<runs {
            var batch = run == 0 ? [created(1), created(2)] : []
            for id in run * 1000..<run * 1000 + 600 {
                batch.append(sent(id, in: id % 2 + 1, "message \(id) " + (0..<30).map { _ in String(random.next() as UInt64, radix: 36) }.joined()))
            }
            _ = try store.appendBlocking(batch)
            try store.flush()
        }
        try store.close()
    }

    func runs(_ path: String? = nil) throws -> [(position: Position, bytes: [UInt8], parity: [UInt8]?)] {
        let path = path ?? directory.store
        let records = ParityFile(directory: path).records(archiveBytes: 1 << 30)
        let archive = try Archive(directory: path, isReadOnly: true, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        return try archive.environment.read { transaction in
            var runs: [(Position, [UInt8], [UInt8]?)] = []
            try transaction.forEach(archive.runs) { key, value in
                let position = Array(key).reduce(Position(0)) { $0 << 8 | Position($1) }
                runs.append((position, Array(value), records.parity(at: position)))
                return true
            }
            return runs
        }
    }

    func damage(_ number: Int, _ change: (inout [UInt8]) -> Void) throws {
        _ = try EventStore.damageRun(at: directory.store, number: number, hasParity: true, change: change)
    }

    func restore() throws -> [Position] {
        let store = try EventStore.open(at: directory.store)
        defer { try? store.close() }
        return try store.restoreRuns().sorted()
    }

    var isSound: Bool { get throws { try EventStore.verify(at: directory.store).problems.isEmpty } }

    @Test("what was lost in a row, up to a page, is found again wherever it lay") func places() throws {
        try fill()
        let run = try #require(try runs().first)
        let parity = try #require(run.parity)
        #expect(run.bytes.count > 150_000 && parity.count == RunParity.byteCount)
        var told = [UInt8](repeating: 0, count: RunParity.byteCount)
        for (place, byte) in run.bytes.enumerated() { told[place % 4096] ^= byte }
        #expect(parity == told)
        var random = SystemRandomNumberGenerator()
        let end = run.bytes.count
        var starts = [0, 5, 40, 60, 200, 4095, 4096, end / 2, end - 4096, end - 1]
        starts += (0..<16).map { _ in Int.random(in: 0..<end, using: &random) }
        // LMDB's pages.
        starts += (1...3).map { $0 * 4096 - 16 } + [(end / 4096 - 1) * 4096 - 16, (end / 4096) * 4096 - 16]
        for start in starts {
            for count in [1, 17, 512, 4000, 4096] {
                // Where something was lost all about the parity, only LMDB's pages are tried.
                if count > 4000, start % 4096 != 4080, start > 0 { continue }
                let lost = start..<min(start + count, end)
                // Zeros, as of a sector that was never written; one bit; others' bytes, of which some may be the right ones.
                for kind in 0..<3 {
                    var spoiled = run.bytes
                    for place in lost {
                        switch kind {
                        case 0: spoiled[place] = 0
                        case 1: spoiled[place] ^= place == lost.lowerBound || place == lost.upperBound - 1 ? 0x20 : 0
                        default: spoiled[place] = .random(in: 0...255, using: &random)
                        }
                    }
                    guard spoiled != run.bytes else { continue }
                    let isRestored = RunParity.restored(spoiled, by: parity, at: run.position) == run.bytes
                    #expect(isRestored, "\(count) bytes at \(start), kind \(kind)")
                }
            }
        }
    }

    @Test("two places, more than a page, a sound run, and parity of other bytes restore nothing") func beyond() throws {
        try fill()
        let (position, sound, parity) = try #require(try runs().first)
        let right = try #require(parity)
        var wrong = right
        wrong[7] ^= 1
        #expect(RunParity.restored(sound, by: right, at: position) == nil)
        #expect(RunParity.restored(sound, by: wrong, at: position) == nil)
        let ways: [(inout [UInt8]) -> Void] = [
            {
                $0[1000] ^= 1; $0[90_000] ^= 1
            },
            {
                $0[1000] ^= 1; $0[1000 + 4096] ^= 1
            }, { for place in 5000..<11_000 { $0[place] = 0 } }, { $0.removeLast() },
            { $0 = [] }, { $0 = Array(repeating: 0, count: $0.count) }, { $0.append(0) },
        ]
        for (number, change) in ways.enumerated() {
            var spoiled = sound
            change(&spoiled)
            let isRestored = RunParity.restored(spoiled, by: right, at: position) != nil
            #expect(!isRestored, "way \(number)")
        }
        var spoiled = sound
        spoiled[70_000] ^= 1
        for parity in [wrong, [], Array(right.dropLast()), right + [0]] { #expect(RunParity.restored(spoiled, by: parity, at: position) == nil) }
        #expect(RunParity.restored(spoiled, by: right, at: position + 1) == nil)
        let isRestored = RunParity.restored(spoiled, by: right, at: position) == sound
        #expect(isRestored)
    }

    @Test("a store restores each run of its own, and nothing else of it changes") func store() throws {
        try fill(runs: 3)
        let before = try runs()
        #expect(before.count == 3 && before.allSatisfy { $0.parity != nil })
        #expect(try restore() == [])
        for number in 0..<3 { try damage(number) { $0[$0.count / 4 * (number + 1) - 1] ^= 0x40 } }
        #expect(try !isSound)
        #expect(try restore() == before.map(\.position))
        #expect(try isSound)
        let isSame = try runs().map(\.bytes) == before.map(\.bytes) && runs().map(\.parity) == before.map(\.parity)
        #expect(isSame)
        // One that cannot be had again keeps no other from it, if that has its header: else who says that these are its events?
        try damage(1) { for place in 30_000..<40_000 { $0[place] = 0 } }
        try damage(2) { $0[9] ^= 1 }
        #expect(try restore() == [])
        try damage(2) { $0 = before[2].bytes }
        try damage(2) { $0[100_000] ^= 1 }
        #expect(try restore() == [before[2].position])
        try damage(1) { $0 = before[1].bytes }
        #expect(try isSound)
    }

    @Test("a page of the file that is lost takes no event with it, be it the first of a run's") func pages() throws {
        try fill(runs: 2)
        let events = try saved().events
        #expect(events.count == 1202)
        let path = directory.store + "/archive"
        for run in try runs() {
            // Its first page with LMDB's header, that header alone, a bit of the number, the kind or the pages in it; an inner page, sectors, the last.
            for kind in 0..<9 {
                let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
                let start = try #require(sound.firstRange(of: run.bytes[..<2000])?.lowerBound)
                try #require(start % 4096 == 16)
                let (first, last) = (start - 16, (start + run.bytes.count - 1) / 4096 * 4096)
                let lost = [
                    first..<first + 4096, first..<start, first..<first + 1, first + 10..<first + 11, first + 12..<first + 13, first + 14..<first + 15,
                    first + 8192..<first + 12_288, first + 8704..<first + 12_800, last..<last + 4096,
                ][kind]
                var bytes = sound
                for place in lost { bytes[place] = 2...5 ~= kind ? bytes[place] ^ 0x04 : kind == 7 ? .random(in: 0...255) : 0 }
                try Self.write(bytes, path)
                #expect(try !isSound, "kind \(kind)")
                let (found, lines) = try saved()
                #expect(found == events, "kind \(kind): \(lines)")
                #expect(try EventStore.restore(at: directory.store) == 1, "kind \(kind)")
                #expect(try isSound, "kind \(kind)")
                let isAsItWas = try runs().map(\.bytes).contains(run.bytes)
                #expect(isAsItWas, "kind \(kind)")
            }
        }
        // Nothing is written where more is damaged, or somebody writes.
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        let start = try #require(sound.firstRange(of: try runs()[0].bytes[..<2000])?.lowerBound)
        var bytes = sound
        bytes[start - 16] ^= 1
        bytes[4096 + 20] ^= 1
        try Self.write(bytes, path)
        #expect(throws: EventLogError.self) { try EventStore.restore(at: directory.store) }
        let isLeft = try File(path, O_RDONLY).read(1 << 24, at: 0)[start - 16] == bytes[start - 16]
        #expect(isLeft)
        try Self.write(sound, path)
        let store = try EventStore.open(at: directory.store)
        #expect(throws: EventLogError.self) { try EventStore.restore(at: directory.store) }
        try store.close()
        #expect(try isSound)
    }

    @Test("each opening writes behind what others have written") func reopened() throws {
        for run in 0..<4 as Range<UInt64> {
            let store = try EventStore.open(at: directory.store)
            var random = SystemRandomNumberGenerator()
            let text = (0..<5000).map { _ in String(random.next() as UInt64, radix: 36) }.joined()
            _ = try store.appendBlocking((run == 0 ? [created(1)] : []) + [sent(run, in: 1, text)])
            try store.close()
        }
        let found = try runs()
        #expect(found.count == 4 && found.allSatisfy { $0.bytes.count < 64 << 10 })
        let areAll = found.allSatisfy { run in run.parity != nil && run.parity == run.bytes.withUnsafeBytes(RunParity.of) }
        #expect(areAll)
    }

    @Test("what names a run is damaged: salvage loses no other with it", arguments: [(-4 + 2, 0x02), (-4 + 1, 0x40), (12, 0x20), (12, 0x01), (13, 0x01)])
    func nodes(offset: Int, bit: UInt8) throws {
        try fill(runs: 4)
        let path = directory.store + "/archive"
        let all = try saved().events.count
        let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
        for run in try runs() {
            // A node: its value's size, flags, the key's size, the key, the first page.
            let node: [UInt8] = [1, 0, 8, 0] + Archive.key(position: run.position)
            var bytes = sound
            for start in sound.ranges(of: node).map(\.lowerBound) { bytes[start + offset] ^= bit }
            #expect(bytes != sound)
            try Self.write(bytes, path)
            let count = try saved().events.count
            #expect(count >= all - 602, "run \(run.position)")
            try Self.write(sound, path)
        }
    }

    @Test("a run of which the head of its pages and its bytes are damaged counts when it is as it was") func counted() throws {
        try fill(runs: 2)
        let path = directory.store + "/archive"
        let run = try runs()[0]
        for isLost in [false, true] {
            let sound = try File(path, O_RDONLY).read(1 << 24, at: 0)
            let start = try #require(sound.firstRange(of: run.bytes[..<2000])?.lowerBound)
            var bytes = sound
            bytes[start - 16] ^= 1
            bytes[start + 50_000] ^= 1
            if isLost { bytes[start + 100_001] ^= 1 }
            try Self.write(bytes, path)
            #expect(try EventStore.restore(at: directory.store) == (isLost ? 0 : 1))
            #expect(try isSound == !isLost)
        }
    }

    func saved() throws -> (events: [RecordedEvent], lost: [String]) {
        var (events, lost) = ([RecordedEvent](), [String]())
        try EventStore.salvage(at: directory.store, event: { events.append($0) }, lost: { lost.append($0) })
        return (events, lost)
    }

    static func write(_ bytes: [UInt8], _ path: String, creates: Bool = false) throws {
        let file = try File(path, O_RDWR | (creates ? O_CREAT : 0))
        try bytes.withUnsafeBytes { try file.write($0, at: 0) }
        try file.truncate(to: bytes.count)
        try? Directory.remove(path + "-lock")
    }

    @Test("nothing rests on the file: without it, cut, spoiled, or of others' bytes, all is read, and what is missing of it is made anew") func beside() throws
    {
        try fill(runs: 2)
        let path = directory.store + "/parity"
        let whole = try runs()
        let bytes = try File(path, O_RDONLY).read(1 << 20, at: 0)
        #expect(bytes.count == 2 * ParityFile.recordBytes)
        let ways: [[UInt8]] = [
            [], Array(bytes.dropLast()), Array(bytes[..<5000]), Array(bytes[..<3]), bytes.map { $0 ^ 0x55 }, Array(repeating: 0, count: 100_000),
            Array(bytes[4112...] + bytes[..<4112]), bytes + bytes, bytes + bytes.map { $0 & 0xF0 }, Array(repeating: 255, count: 4112 * 3),
        ]
        for (number, way) in ways.enumerated() {
            try Self.write(way, path)
            #expect(try isSound, "way \(number)")
            try damage(0) { $0[70_000] ^= 1 }
            _ = try restore()
            try damage(0) { $0 = whole[0].bytes }
            #expect(try restore() == [])
            let isAnew = try runs().map(\.parity) == whole.map(\.parity)
            #expect(isAnew, "way \(number)")
            try damage(1) { $0[70_000] ^= 1 }
            #expect(try restore() == [whole[1].position], "way \(number)")
        }
        // A directory in its place, a link to somebody's file.
        for isLink in [false, true] {
            try Directory.remove(path)
            let other = directory.path + "/other"
            try Self.write(Array("precious".utf8), other, creates: true)
            if isLink { #expect(symlink(other, path) == 0) } else { try Directory.make(path) }
            #expect(try restore() == [])
            let isAnew = try runs().map(\.parity) == whole.map(\.parity)
            #expect(isAnew, "link: \(isLink)")
            #expect(try File(other, O_RDONLY).read(100, at: 0) == Array("precious".utf8))
        }
        try Directory.remove(path)
        _ = try EventStore.compact(at: directory.store)
        let isAnew = try runs().map(\.parity) == whole.map(\.parity)
        #expect(isAnew)
    }

    @Test("I6: what parity makes of a run is no more believed than what a hub says") func forged() throws {
        try fill()
        let (position, sound, _) = try #require(try runs().first)
        // Another run, of sound checksums, of the same size: parity of that, and one byte away from it.
        var other = sound
        other[RunParityTests.idsEnd(sound, at: position) - 1] ^= 1
        Self.sum(&other, at: position)
        #expect(other.withUnsafeBytes { DecodedRun.isSound($0, at: position) })
        let parity = try #require(other.withUnsafeBytes(RunParity.of))
        let file = ParityFile(directory: directory.store)
        try other.withUnsafeBytes { try file.replace($0, at: position, archiveBytes: 1 << 20) }
        try damage(0) {
            $0 = other; $0[90_000] ^= 1
        }
        let spoiled = try runs()[0].bytes
        let leadsAstray = RunParity.restored(spoiled, by: parity, at: position) == other
        #expect(leadsAstray)
        #expect(try restore() == [])
        let isLeft = try runs()[0].bytes == spoiled
        #expect(isLeft)
    }

    static func idsEnd(_ bytes: [UInt8], at position: Position) -> Int {
        (try? bytes.withUnsafeBytes { try DecodedRun.Header($0, at: position).raw.upperBound }) ?? 0
    }

    /// Makes the checksums of the ids and the header those of what is there.
    static func sum(_ bytes: inout [UInt8], at position: Position) {
        let end = (0..<4).reduce(0) { $0 | Int(bytes[28 + $1]) << ($1 * 8) } * 16 + 56
        let ids = end..<end + (0..<4).reduce(0) { $0 | Int(bytes[16 + $1]) << ($1 * 8) }
        bytes.withUnsafeMutableBytes { bytes in
            func sum(_ range: Range<Int>) -> UInt64 { XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[range]), seed: position).littleEndian }
            bytes.storeBytes(of: sum(ids), toByteOffset: 32, as: UInt64.self)
            bytes.storeBytes(of: sum(0..<end - 8), toByteOffset: end - 8, as: UInt64.self)
        }
    }

    @Test("what was erased is in no parity: the run is restored as the erasure left it") func erased() throws {
        try fill()
        let store = try EventStore.open(at: directory.store)
        let event = try #require(
            try store.all().first { if case .messageSent(let message) = $0.event.content { message.text.hasPrefix("message 300") } else { false } })
        try store.erase(log: event.log, seq: event.seq)
        try store.close()
        let (_, sound, parity) = try #require(try runs().first)
        #expect(parity != nil && parity == sound.withUnsafeBytes(RunParity.of))
        try damage(0) { $0[150_000] ^= 1 }
        #expect(try restore() == [1])
        let isRestored = try runs()[0].bytes == sound
        #expect(isRestored)
        let again = try EventStore.open(at: directory.store)
        #expect(try again.events(in: event.log, range: event.seq...event.seq).first?.isErased == true)
        try again.close()
    }

    @Test("a sector of the file that cannot be read costs its own record, which is made anew elsewhere", arguments: [0, 512, 3600, 4096, 4112 + 1024])
    func unreadable(offset: Int) throws {
        try fill(runs: 3)
        let whole = try runs()
        try damage(2) { $0[70_000] ^= 1 }
        let old = try File(directory.store + "/parity", O_RDONLY)
        do {
            let disk = BadSector(of: "parity", at: offset)
            FaultyDisks.add(disk, for: directory.store)
            defer { FaultyDisks.remove(disk) }
            #expect(try restore() == [whole[2].position])
            #expect(try isSound)
        }
        // Where the sector was is another file's now.
        #expect(!old.isStillNamed)
        let isAnew = try runs().map(\.parity) == whole.map(\.parity)
        #expect(isAnew)
    }

    @Test("a damaged row of a log keeps only its own runs from being restored") func rowBeside() throws {
        try fill(runs: 2)
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(77)])
        try store.close()
        let before = try runs()
        #expect(try EventStore.damageRecord(at: directory.store, .row, number: 2) == 3)
        for number in 0..<2 {
            try damage(number) { $0[70_000] ^= 1 }
            #expect(try EventStore.restore(at: directory.store) == 1)
            let isRight = try runs().map(\.bytes) == before.map(\.bytes)
            #expect(isRight)
        }
        _ = try EventStore.damageRecord(at: directory.store, .row, number: 0)
        try damage(0) { $0[70_000] ^= 1 }
        #expect(try EventStore.restore(at: directory.store) == 0)
    }

    @Test("nobody sets right, or compacts, what another process is about to replace") func replaced() throws {
        try fill()
        try damage(0) { $0[70_000] ^= 1 }
        let replacement = try StoreReplacement(of: directory.store)
        for body in [{ _ = try EventStore.restore(at: $0) }, { _ = try EventStore.compact(at: $0) }] as [(String) throws -> Void] {
            let failure = #expect(throws: EventLogError.self) { try body(directory.store) }
            #expect(failure?.code == .busy)
        }
        replacement.end()
        #expect(try EventStore.restore(at: directory.store) == 1)
        _ = try EventStore.compact(at: directory.store)
    }

    @Test("erasures take no more room in the file, and a record that cannot be told apart goes with them") func reused() throws {
        try fill(runs: 2)
        let path = directory.store + "/parity"
        let whole = try runs()
        // The first record's position is damaged, and another is cut short.
        var bytes = try File(path, O_RDONLY).read(1 << 20, at: 0)
        bytes[5] ^= 1
        bytes += whole[0].parity![..<100]
        try Self.write(bytes, path)
        let store = try EventStore.open(at: directory.store)
        let told = try store.all().filter { if case .messageSent(let message) = $0.event.content { message.text.hasPrefix("message 30") } else { false } }
        for event in told.prefix(8) {
            try store.erase(log: event.log, seq: event.seq)
            let file = try File(path, O_RDONLY)
            #expect(try file.size == 2 * ParityFile.recordBytes)
            let leaks = try file.read(1 << 20, at: 8).firstRange(of: whole[0].parity![..<100]) != nil
            #expect(!leaks)
        }
        try store.close()
        let areAll = try runs().allSatisfy { run in run.parity == run.bytes.withUnsafeBytes(RunParity.of) }
        #expect(areAll)
        #expect(try isSound)
    }

    @Test("an erasure leaves nothing of the event in a file of which a sector cannot be read, or which cannot be written", arguments: [false, true])
    func erasedUnwritable(refusesWrites: Bool) throws {
        try fill(runs: 2)
        let whole = try runs()
        let store = try EventStore.open(at: directory.store)
        let event = try #require(
            try store.all().first { if case .messageSent(let message) = $0.event.content { message.text.hasPrefix("message 300") } else { false } })
        do {
            let disk = BadSector(of: "parity", at: refusesWrites ? 1 << 40 : 0, refusesWrites: refusesWrites)
            FaultyDisks.add(disk, for: directory.store)
            defer { FaultyDisks.remove(disk) }
            try store.erase(log: event.log, seq: event.seq)
            #expect(try store.event(in: event.log, at: event.seq)?.isErased == true)
            // Before a close, which may write it anew.
            let bytes = (try? File(directory.store + "/parity", O_RDONLY).read(1 << 20, at: 8)) ?? []
            let leaks = try bytes.firstRange(of: #require(whole[0].parity)) != nil
            #expect(!leaks)
            try store.close()
        }
        #expect(try isSound)
        #expect(try restore() == [])
        let isAnew = try runs().allSatisfy { run in run.parity == run.bytes.withUnsafeBytes(RunParity.of) }
        #expect(isAnew)
    }

    @Test("adopted runs have parity, small ones none; compact and copy take it along") func others() throws {
        try fill(runs: 2)
        let hub = try EventStore.open(at: directory.store)
        let other = try EventStore.open(at: directory.path + "/other")
        _ = try other.appendBlocking([created(9)])
        try other.flush()
        var position: Position = 1
        while let run = try hub.storedRun(containing: position) {
            var secrets: [LogID: [UInt8]] = [:]
            for slice in run.slices { secrets[slice.log] = try hub.secret(of: slice.log) }
            _ = try other.adoptRun(run.bytes, secrets: secrets) { _, _ in }
            position += Position(run.eventCount)
        }
        try hub.close()
        try other.close()
        for path in ["/other", "/compacted", "/copied"] {
            switch path {
            case "/compacted": _ = try EventStore.compact(at: directory.path + "/other")
            case "/copied": try EventStore.copy(from: directory.path + "/other", to: directory.path + path)
            default: break
            }
            let found = try runs(directory.path + (path == "/copied" ? path : "/other"))
            #expect(found.map { $0.parity != nil } == [false, true, true], "\(path)")
            let isTheirs = found.allSatisfy { run in run.parity == run.bytes.withUnsafeBytes(RunParity.of) }
            #expect(isTheirs)
        }
    }
}
