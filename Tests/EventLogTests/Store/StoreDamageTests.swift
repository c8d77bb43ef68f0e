import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Bit flips and truncations over every file of a closed store. CONVSTORE_DAMAGES=N does N of them instead of CI's share.
@Suite("A damaged store") struct StoreDamageTests {
    private struct Random: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
            return mixed ^ mixed >> 31
        }
    }

    private static func read(_ path: String) throws -> [UInt8] {
        let file = try File(path, O_RDONLY)
        return try file.read(try file.size, at: 0)
    }

    private static func write(_ bytes: [UInt8], _ path: String) throws {
        let file = try File(path, O_RDWR | O_CREAT | O_TRUNC)
        try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    }

    /// Everything that can be read.
    private static func contents(_ path: String) throws -> [RecordedEvent] {
        let store = try EventStore.open(at: path, options: StoreOptions(access: .readOnly))
        defer { try? store.close() }
        let all = try store.all()
        var logs: [LogID] = []
        try store.forEachLog { summary in
            logs.append(summary.log)
            return true
        }
        var byLog: [RecordedEvent] = []
        for log in logs { byLog += try store.events(in: log) }
        guard byLog.count == all.count else { throw EventLogError(.damaged, "the logs hold \(byLog.count) events, the order \(all.count)") }
        for event in byLog where all[Int(event.position) - 1] != event { throw EventLogError(.damaged, "two readings differ") }
        return all
    }

    private static func build(_ path: String, isClosed: Bool) throws -> (EventStore?, [RecordedEvent]) {
        let store = try EventStore.open(at: path, options: StoreOptions(durability: .relaxed(interval: .seconds(60)), journalBytesMax: 64 << 10))
        for number in 0..<20 as Range<UInt64> { _ = try store.appendBlocking([created(number)]) }
        for start in stride(from: 0 as UInt64, to: 2000, by: 50) {
            _ = try store.appendBlocking((start..<start + 50).map { sent($0, in: $0 % 20, "text number \($0) of many") })
            if start % 400 == 0 { try store.flush() }
        }
        if isClosed { try store.erase(log: .conversation(conversation(3)), seq: 2) }
        if !isClosed { _ = try store.appendBlocking([created(99)]) }
        try store.flush()
        let all = try store.all()
        if isClosed { try store.close() }
        return (isClosed ? nil : store, all)
    }

    @Test("I7: a pipe in a file's place is an error; nothing waits for its other end", .timeLimit(.minutes(20)), arguments: ["archive", "key", "journal.0"])
    func pipe(_ name: String) throws {
        let directory = TemporaryDirectory()
        try EventStore.open(at: directory.store).close()
        let path = directory.store + "/" + name
        unlink(path)
        #expect(mkfifo(path, 0o600) == 0)
        for access in [StoreOptions.Access.readOnly, .existing] {
            #expect(throws: EventLogError.self) { try EventStore.open(at: directory.store, options: StoreOptions(access: access)).close() }
        }
        #expect(throws: (any Error).self) { if try !EventStore.verify(at: directory.store).isSound { throw CodecError(.badValue) } }
    }

    @Test("each flipped bit and each cut of a closed store is reported as damage, or does no harm") func everyFile() throws {
        let count = getenv("CONVSTORE_DAMAGES").flatMap { Int(String(cString: $0)) } ?? 120
        let seed = getenv("CONVSTORE_SEED").flatMap { UInt64(String(cString: $0)) } ?? 1
        let directory = TemporaryDirectory()
        let (_, original) = try Self.build(directory.store, isClosed: true)
        let names = try Directory.names(directory.store).filter { !$0.hasSuffix("-lock") }.sorted()
        #expect(names.contains("archive") && names.contains("key") && names.contains { $0.hasPrefix("journal.") })
        var random = Random(state: seed)
        var harmless: [String: Int] = [:]
        for round in 0..<count {
            // The archive is by far the largest; the small files get their share.
            let name = names.randomElement(using: &random)!
            let path = directory.store + "/" + name
            let sound = try Self.read(path)
            if sound.isEmpty { continue }
            var bytes = sound
            let what: String
            switch Int.random(in: 0..<6, using: &random) {
            case 0:
                bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
                what = "cut to \(bytes.count)"
            case 1:
                let start = Int.random(in: 0..<bytes.count, using: &random)
                let end = min(bytes.count, start + Int.random(in: 1...4096, using: &random))
                for index in start..<end { bytes[index] = 0 }
                what = "zeros in \(start)..<\(end)"
            default:
                let flips = Int.random(in: 1...3, using: &random)
                var places: [String] = []
                for _ in 0..<flips {
                    let at = Int.random(in: 0..<bytes.count, using: &random)
                    let bit = UInt8.random(in: 0..<8, using: &random)
                    bytes[at] ^= 1 << bit
                    places.append("\(at).\(bit)")
                }
                what = "bits " + places.joined(separator: ", ")
            }
            let comment = Comment(rawValue: "CONVSTORE_SEED=\(seed), round \(round): \(name), \(what)")
            try Self.write(bytes, path)
            do {
                let read = try Self.contents(directory.store)
                #expect(read == original, comment)
                harmless[name, default: 0] += 1
            } catch let error as EventLogError {
                #expect([.damaged, .newerFormat, .noSuchStore, .notAStore].contains(error.code), "\(comment): \(error)")
            } catch {
                Issue.record("\(comment): not a typed error: \(error)")
            }
            // The command must come to an end too, and call damage what reading calls damage.
            if round % 5 == 0 {
                do { _ = try EventStore.verify(at: directory.store) } catch let error as EventLogError { _ = error } catch {
                    Issue.record("\(comment): verify: \(error)")
                }
            }
            try Self.write(sound, path)
        }
        #expect(try Self.contents(directory.store) == original, "seed \(seed): after all is mended")
        print("damage: \(count) rounds, seed \(seed), harmless: \(harmless.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))")
    }

    @Test("a missing file is reported, but for the locks") func missingFiles() throws {
        let directory = TemporaryDirectory()
        let (_, original) = try Self.build(directory.store, isClosed: true)
        for name in try Directory.names(directory.store) {
            let path = directory.store + "/" + name
            let bytes = try Self.read(path)
            try Directory.remove(path)
            if name == "lock" || name.hasSuffix("-lock") {
                #expect(try Self.contents(directory.store) == original, "\(name)")
            } else {
                let error = #expect(throws: EventLogError.self, "\(name)") { try Self.contents(directory.store) }
                #expect(error?.code == .damaged, "\(name)")
            }
            try Self.write(bytes, path)
        }
    }

    @Test("I7: with both of LMDB's meta pages lost, salvage finds the newest commit among the older ones, and shows no erased body again")
    func lostMetaPages() throws {
        let directory = TemporaryDirectory()
        let (opened, _) = try Self.build(directory.store, isClosed: false)
        let store = try #require(opened)
        try store.erase(log: .conversation(conversation(3)), seq: 2)
        for number in 3000..<3010 as Range<UInt64> {
            _ = try store.appendBlocking([sent(number, in: number % 20, "behind")])
            try store.flush()
        }
        let original = try store.all()
        let copy = try abandonedCopy(of: store, in: directory, "copy")
        try store.close()
        // The journal may still hold what an older commit lacks.
        for slot in 0..<FileJournal.fileCount { try Directory.remove(FileJournal.path(copy, slot)) }
        let archive = copy + "/archive"
        let sound = try Self.read(archive)
        // The pages whose numbers the meta pages name as the main database's root. The newest is lost in the last round: the one before it is there.
        let roots = [0, 4096].map { meta in sound.withUnsafeBytes { Int($0.loadUnaligned(fromByteOffset: meta + 128, as: UInt64.self)) } }
        let rounds = [[0..<2 * 4096], [0..<4096 + 200], [16..<4096 + 200], roots.map { $0 * 4096..<$0 * 4096 + 4096 }] as [[Range<Int>]]
        for (round, spoilt) in rounds.enumerated() {
            var bytes = sound
            for index in spoilt.joined() { bytes[index] = 0xA5 }
            try Self.write(bytes, archive)
            var (events, lost) = ([RecordedEvent](), [String]())
            try EventStore.salvage(at: copy, event: { events.append($0) }, lost: { lost.append($0) })
            if round < 3 {
                #expect(events == original, "\(spoilt): \(events.count) of \(original.count)")
            } else {
                #expect(events.count > 2000 && events.elementsEqual(original.prefix(events.count)), "\(events.count) of \(original.count)")
            }
            #expect(lost.contains { $0.contains("meta page") } && lost.contains { $0.contains("the journal: files are missing") }, "\(lost)")
        }
    }

    @Test("A body that was erased is not saved from a frame that a crash kept from being destroyed")
    func erasedInOldFrames() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)] + (0..<9).map { sent($0, in: 1, "text \($0)") })
        let original = try store.all()
        let journal = FileJournal.path(directory.store, 0)
        let frames = try Self.read(journal)
        try store.erase(log: original[4].log, seq: 5)
        try store.close()
        try Self.write(frames, journal)
        #expect(try EventStore.damageRun(at: directory.store, number: 0) == 1)
        var (events, lost) = ([RecordedEvent](), [String]())
        try EventStore.salvage(at: directory.store, event: { events.append($0) }, lost: { lost.append($0) })
        #expect(events == original.filter { $0.seq != 5 })
        #expect(lost.contains { $0.contains("seq 5: its body was erased") }, "\(lost)")
    }

    @Test("I7: salvage says that something is lost if the journal is gone, or ends before what its last frame tells")
    func lostJournal() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1)] + (0..<50).map { sent($0, in: 1, "archived") })
        try store.flush()
        _ = try store.appendBlocking([sent(5000, in: 1, "in the journal only")])
        let original = try store.all()
        let copy = try abandonedCopy(of: store, in: directory, "copy")
        try store.close()
        for path in [copy, directory.store] {
            func salvage() throws -> (events: [RecordedEvent], lost: [String]) {
                var (events, lost) = ([RecordedEvent](), [String]())
                try EventStore.salvage(at: path, event: { events.append($0) }, lost: { lost.append($0) })
                return (events, lost)
            }
            let before = try salvage()
            #expect(before.events == original, "\(path): \(before.events.count) of \(original.count)")
            #expect(before.lost == [])
            for slot in 0..<FileJournal.fileCount { try Directory.remove(FileJournal.path(path, slot)) }
            let (events, lost) = try salvage()
            #expect(events.elementsEqual(original.prefix(events.count)) && events.count >= original.count - 1)
            #expect(lost.contains { $0.contains("the journal: files are missing") }, "\(lost)")
        }
    }

    @Test("I7: a bit of a log's key flips: the log is not new, and takes nothing twice")
    func flippedLogKeys() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store)
        let ids = (0..<40 as Range<UInt64>).map { $0 &* 0x9E37_79B9_7F4A_7C15 }
        _ = try store.appendBlocking(ids.map { created($0) })
        try store.close()
        let path = directory.store + "/archive"
        let sound = try Self.read(path)
        var refused = 0
        for (number, id) in ids.enumerated() {
            let key = Archive.key(log: .conversation(conversation(id)))
            for start in sound.indices.dropLast(key.count) where sound[start] == key[0] && sound[start + 16] == key[16] {
                guard sound[start..<start + key.count].elementsEqual(key) else { continue }
                var bytes = sound
                bytes[start + 16] ^= 1 << UInt8(number % 8)  // The keys ascend as before.
                let copy = directory.store + "-copy"
                mkdir(copy, 0o700)
                for name in try Directory.names(directory.store) {
                    try Self.write(name == "archive" ? bytes : Self.read(directory.store + "/" + name), copy + "/" + name)
                }
                do {
                    let opened = try EventStore.open(at: copy)
                    defer { try? opened.close() }
                    // As a file that is imported again, without an origin.
                    for outcome in try opened.appendBlocking([created(id)]) {
                        if case .accepted = outcome { Issue.record("conversation \(number) was accepted twice") }
                    }
                } catch let error as EventLogError {
                    #expect(error.code == .damaged, "\(error)")
                    refused += 1
                }
                for name in try Directory.names(copy) { try Directory.remove(copy + "/" + name) }
                rmdir(copy)
            }
        }
        #expect(refused >= ids.count)
    }

    @Test("compact and copy carry no damaged record along: what they make is whole, or they fail and the store is as it was")
    func compactingDamage() throws {
        let directory = TemporaryDirectory()
        let (_, original) = try Self.build(directory.store, isClosed: true)
        let path = directory.store + "/archive"
        let copy = directory.store + "-copy"
        let names = try Directory.names(directory.store).filter { !$0.hasSuffix("lock") }
        let files = try names.map { ($0, try Self.read(directory.store + "/" + $0)) }
        let sound = try Self.read(path)
        let archive = try Archive(directory: directory.store, isReadOnly: true, mapBytesMax: Int.max / 2)
        var places: [(table: String, at: Int)] = []
        try archive.environment.read { transaction in
            for (name, table) in zip(Archive.tableNames, try archive.environment.tables(Archive.tableNames, creates: false)) {
                var records = 0
                try transaction.forEach(#require(table), from: []) { _, value in
                    if let at = sound.firstRange(of: Array(value))?.lowerBound { places.append((name, at + value.count / 2)) }
                    records += 1
                    return records < 4
                }
            }
        }
        archive.environment.close()
        #expect(Set(places.map(\.table)).isSuperset(of: Archive.tableNames.dropLast()), "\(places)")
        var refused = [Set<String>(), []]
        for (table, at) in places {
            var bytes = sound
            bytes[at] ^= 4
            try Self.write(bytes, path)
            for index in 0..<2 {
                do {
                    if index == 0 { _ = try EventStore.compact(at: directory.store) } else { try EventStore.copy(from: directory.store, to: copy) }
                    let made = index == 0 ? directory.store : copy
                    #expect(try Self.contents(made) == original, "\(table): byte \(at)")
                    #expect(try EventStore.verify(at: made).isSound, "\(table): byte \(at)")
                } catch let error as EventLogError {
                    #expect(error.code == .damaged, "\(table): byte \(at): \(error)")
                    if error.message.contains("so nothing was copied") { refused[index].insert(table) }
                    #expect(!Directory.exists(copy), "\(table): byte \(at)")
                }
                if Directory.exists(copy) { Directory.removeTree(copy) }
                // A compaction that failed has closed the journal anew.
                for name in try Directory.names(directory.store) { try Directory.remove(directory.store + "/" + name) }
                for (name, sound) in files { try Self.write(name == "archive" ? bytes : sound, directory.store + "/" + name) }
            }
        }
        // What the rest holds is read, and refused, as the store is opened.
        #expect(refused.allSatisfy { $0.isSuperset(of: ["runs", "logs"]) }, "\(refused)")
    }

    @Test("damage to a journal that holds acknowledged events is reported, or costs the last frame at most") func liveJournal() throws {
        let directory = TemporaryDirectory()
        let store = try EventStore.open(at: directory.store, options: StoreOptions(journalBytesMax: 64 << 10))
        _ = try store.appendBlocking([created(1)])
        for number in 0..<60 as Range<UInt64> { _ = try store.appendBlocking([sent(number, in: 1, "text \(number)")]) }
        let original = try store.all()
        let copy = try abandonedCopy(of: store, in: directory, "copy")
        try store.close()
        let names = try Directory.names(copy).filter { $0.hasPrefix("journal.") }
        var random = Random(state: 5)
        for round in 0..<300 {
            let path = copy + "/" + names.randomElement(using: &random)!
            let sound = try Self.read(path)
            let used = (sound.lastIndex { $0 != 0 } ?? 0) + 1
            var bytes = sound
            let at = Int.random(in: 0..<used, using: &random)
            if round % 4 == 0 { bytes.removeSubrange(at...) } else { bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
            try Self.write(bytes, path)
            do {
                let read = try Self.contents(copy)
                // A file that is cut in the middle of its frames looks as after a crash: only a closing frame can tell.
                #expect(read.elementsEqual(original.prefix(read.count)), "round \(round), byte \(at)")
                if round % 4 != 0 { #expect(read.count >= original.count - 1, "round \(round), byte \(at)") }
            } catch let error as EventLogError {
                #expect(error.code == .damaged, "round \(round), byte \(at): \(error)")
            }
            try Self.write(sound, path)
        }
    }
}
