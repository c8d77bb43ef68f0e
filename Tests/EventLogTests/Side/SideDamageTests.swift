import StoreTesting
import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Bytes of the file `sync` go bad. CONVSTORE_DAMAGES=N does N of them instead of CI's share.
@Suite("A damaged side store") struct SideDamageTests {
    private let directory = TemporaryDirectory()
    private static let tables = ["a", "b", "c"]

    private typealias Content = [String: [[UInt8]: [UInt8]]]

    /// Records of all sizes; some are written twice, so that pages of older states lie about. Answers what is there, and all that ever was.
    private func build(_ path: String) throws -> (now: Content, ever: Content) {
        try EventStore.open(at: path).close()
        let side = try SideStore(directory: path, tables: Self.tables)
        defer { side.close() }
        var now: Content = [:]
        var ever: Content = [:]
        for round in 0..<6 as Range<UInt8> {
            try side.write { transaction in
                for (table, count, size) in [("a", 90, 60), ("b", 20, 900), ("c", 3, 9000)] {
                    for number in 0..<UInt8(count) where number % 3 != round % 3 || round < 2 {
                        let key = [number, 7], value = [UInt8](repeating: number ^ round &* 31, count: size + Int(round))
                        try transaction.put(table, key, value)
                        now[table, default: [:]][key] = value
                        ever[table, default: [:]][key + [round]] = value
                    }
                }
            }
        }
        return (now, ever)
    }

    private func content(_ path: String) throws -> Content {
        let side = try SideStore(directory: path, tables: Self.tables, isReadOnly: true)
        defer { side.close() }
        var content: Content = [:]
        for table in Self.tables {
            try side.read { try $0.forEach(table) { key, value in content[table, default: [:]].updateValue(value, forKey: key) == nil } }
        }
        return content
    }

    private func damage(_ bytes: inout [UInt8], _ random: inout SeededGenerator) -> String {
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
            return "cut to \(bytes.count)"
        case 1:
            let start = Int.random(in: 0..<bytes.count, using: &random)
            let end = min(bytes.count, start + Int.random(in: 1...4096, using: &random))
            for index in start..<end { bytes[index] = 0 }
            return "zeros in \(start)..<\(end)"
        default:
            let places = (0..<Int.random(in: 1...3, using: &random)).map { _ in Int.random(in: 0..<bytes.count, using: &random) }
            for place in places { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
            return "bits of \(places)"
        }
    }

    @Test("I7: each damage is reported by verify or does no harm; what is salvaged was there, and what is missing is told") func campaign() throws {
        let count = getenv("CONVSTORE_DAMAGES").flatMap { Int(String(cString: $0)) } ?? 300
        let path = directory.store, file = SideStore.path(path)
        let (now, ever) = try build(path)
        #expect(try content(path) == now && EventStore.verify(at: path).problems == [])
        let sound = try File(file, O_RDONLY).read(File(file, O_RDONLY).size, at: 0)
        var (reported, complete, partial) = (0, 0, 0)
        for seed in 0..<UInt64(count) {
            var random = SeededGenerator(seed: seed)
            var bytes = sound
            let what = damage(&bytes, &random)
            try Directory.remove(file)
            try Directory.remove(file + "-lock")
            try bytes.withUnsafeBytes { try File(file, O_RDWR | O_CREAT).write($0, at: 0) }
            let report = try EventStore.verify(at: path)
            if report.isSound {
                #expect(try content(path) == now, "seed \(seed): \(what)")
                continue
            }
            reported += 1
            #expect(report.damaged == [.side] && report.problems.allSatisfy { $0.contains("sync") }, "seed \(seed): \(what): \(report.problems)")
            let salvaged = try SideStore.salvage(directory: path)
            #expect(!salvaged.isSound, "seed \(seed): \(what)")
            var records: [String: [SideStore.Record]] = [:]
            for table in Self.tables {
                let found = salvaged[table]
                records[table] = found.records
                let known = ever[table]!
                for (key, value) in found.records { #expect(known.contains { $0.key.dropLast() == key && $0.value == value }, "seed \(seed): \(what)") }
                if found.isWhole, found.records.count == now[table]!.count { complete += 1 } else { partial += 1 }
                #expect(found.isWhole || !salvaged.losses(of: [table]).isEmpty)
                let isNow = now[table]! == Dictionary(found.records.map { ($0.key, $0.value) }) { first, _ in first }
                #expect(isNow || !salvaged.losses(of: [table]).isEmpty, "seed \(seed): \(what): \(table) is another, and nobody says so")
                #expect(!found.isWhole || found.records.count == now[table]!.count, "seed \(seed): \(what): \(table) lacks records, and nobody says so")
            }
            try SideStore.replace(directory: path, tables: Self.tables, with: records)
            #expect(try EventStore.verify(at: path).problems == [])
            #expect(try content(path).values.map(\.count).reduce(0, +) <= now.values.map(\.count).reduce(0, +))
        }
        #expect(reported > count / 3 && complete > partial / 2 && partial > 0, "\(reported) reported, \(complete) tables complete, \(partial) not")
    }

    @Test("A leaf's header, and what leads to its records, may be wrong: each record is found, and once", arguments: ["a", "b"])
    func wayTo(_ table: String) throws {
        let path = directory.store, file = SideStore.path(path)
        let (now, _) = try build(path)
        let sound = try File(file, O_RDONLY).read(File(file, O_RDONLY).size, at: 0)
        func word(_ place: Int) -> Int { Int(sound[place]) | Int(sound[place + 1]) << 8 }
        let first = try #require(now[table]!.values.first)
        var count = 0
        for page in stride(from: 2 * 4096, to: sound.count, by: 4096) where word(page + 10) == 2 && word(page) == page / 4096 {
            let offsets = (0..<(word(page + 12) - 16) / 2).map { page + 16 + 2 * $0 }
            guard sound[page..<page + 4096].count(where: { first.contains($0) }) > 0, word(page + word(offsets[0]) + 6) == 2 else { continue }
            // Its number, its flags, its bounds, and each node's place: a neighbour's for it, and one that is none's.
            var damages: [(place: Int, value: Int)] = [(page, word(page) ^ 1), (page + 10, 0x42), (page + 10, 1), (page + 12, word(page + 12) | 0x8000)]
            // Both bounds, also where they are still such as a page may have.
            damages += [
                (page + 12, word(page + 12) - 4), (page + 14, word(page + 14) + 2), (page + 14, word(page + 14) - 64), (page + 14, word(page + 14) | 0x8000),
            ]
            for (offset, other) in zip(offsets, offsets.dropFirst()) { damages += [(offset, word(other)), (offset, word(offset) ^ 2)] }
            for (place, value) in damages {
                var bytes = sound
                (bytes[place], bytes[place + 1]) = (UInt8(value & 255), UInt8(value >> 8))
                try bytes.withUnsafeBytes { try File(file, O_RDWR).write($0, at: 0) }
                guard try !EventStore.verify(at: path).isSound else { continue }
                let salvaged = try SideStore.salvage(directory: path)
                #expect(!salvaged.isSound)
                for name in Self.tables {
                    let found = salvaged[name].records
                    #expect(Set(found.map(\.key)).count == found.count)
                    #expect(now[name]! == Dictionary(uniqueKeysWithValues: found.map { ($0.key, $0.value) }), "\(place - page) of page \(page / 4096): \(name)")
                }
                #expect(salvaged.losses(of: Self.tables).isEmpty)
                count += 1
            }
        }
        #expect(count > 50)
    }

    @Test("A table's record may tell of one level more than there is: its pages know what they are") func depth() throws {
        let path = directory.store, file = SideStore.path(path)
        let (now, _) = try build(path)
        var bytes = try File(file, O_RDONLY).read(File(file, O_RDONLY).size, at: 0)
        // A node with the name `a`, and the record of a tree of two levels.
        for place in stride(from: 8192, to: bytes.count - 64, by: 2)
        where bytes[place + 4] == 2 && bytes[place + 6] == 1 && bytes[place + 8] == UInt8(ascii: "a") && bytes[place] == 48 && bytes[place + 15] == 2 {
            bytes[place + 15] = 3
        }
        try bytes.withUnsafeBytes { try File(file, O_RDWR).write($0, at: 0) }
        let salvaged = try SideStore.salvage(directory: path)
        #expect(!salvaged.isSound)
        #expect(now["a"]! == Dictionary(uniqueKeysWithValues: salvaged["a"].records.map { ($0.key, $0.value) }))
    }

    @Test("Each bit of the last commit's meta page may be wrong: all is found, but where it says which commit or root it is") func meta() throws {
        let path = directory.store, file = SideStore.path(path)
        let (now, _) = try build(path)
        let sound = try File(file, O_RDONLY).read(File(file, O_RDONLY).size, at: 0)
        func commit(_ meta: Int) -> UInt64 { sound.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: meta * 4096 + 144, as: UInt64.self) } }
        let newest = commit(0) > commit(1) ? 0 : 1
        var counts = (found: 0, behind: 0)
        for bit in 0..<152 * 8 {
            var bytes = sound
            bytes[newest * 4096 + bit / 8] ^= 1 << UInt8(bit % 8)
            try bytes.withUnsafeBytes { try File(file, O_RDWR).write($0, at: 0) }
            let salvaged = try SideStore.salvage(directory: path, tables: Self.tables)
            let isFound = Self.tables.allSatisfy { name in
                now[name]! == Dictionary(uniqueKeysWithValues: salvaged[name].records.map { ($0.key, $0.value) })
            }
            if isFound {
                counts.found += 1
            } else {
                counts.behind += 1
                #expect(salvaged.losses(of: Self.tables).first == "sync: its last commit", "bit \(bit)")
                // The root, and the commit's number.
                let isPlace = 128..<136 ~= bit / 8 || 144..<152 ~= bit / 8
                #expect(isPlace, "bit \(bit)")
                #expect(Self.tables.allSatisfy { salvaged[$0].isWhole && !salvaged[$0].records.isEmpty }, "bit \(bit)")
            }
        }
        #expect(counts.found >= (152 - 16) * 8, "\(counts)")
        // The root of the commit before, all of which is there still.
        var bytes = sound
        let (root, older) = (newest * 4096 + 128, (1 - newest) * 4096 + 128)
        bytes.replaceSubrange(root..<root + 8, with: sound[older..<older + 8])
        try bytes.withUnsafeBytes { try File(file, O_RDWR).write($0, at: 0) }
        let salvaged = try SideStore.salvage(directory: path, tables: Self.tables)
        #expect(salvaged.losses(of: Self.tables) == ["sync: its last commit"] && Self.tables.allSatisfy { salvaged[$0].isWhole })
        let isOlder = Self.tables.contains { name in now[name]! != Dictionary(uniqueKeysWithValues: salvaged[name].records.map { ($0.key, $0.value) }) }
        #expect(isOlder)
    }

    @Test("A record that does not match its checksum is counted, and the others of its table are kept") func oneRecord() throws {
        let path = directory.store
        let (now, _) = try build(path)
        let side = try SideStore(directory: path, tables: Self.tables)
        let table = try #require(try side.environment.tables(["b"])[0])
        try side.environment.write { try $0.put(table, [4, 7], [UInt8](repeating: 1, count: 500)) }
        side.close()
        let report = try EventStore.verify(at: path)
        #expect(report.damaged == [.side] && report.problems == ["sync: records of the table b whose checksums do not match: 1"])
        let salvaged = try SideStore.salvage(directory: path)
        #expect(salvaged["b"].lost == 1 && salvaged["b"].records.count == now["b"]!.count - 1 && salvaged["a"].isWhole)
        #expect(salvaged.losses(of: Self.tables) == ["sync: records of the table b that cannot be read: 1; sound: \(now["b"]!.count - 1)"])
    }
}
