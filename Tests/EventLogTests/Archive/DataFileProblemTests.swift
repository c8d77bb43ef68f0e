import Testing

@testable import EventLog

/// Each rule by itself: a file broken in one place gives the kind of problem that belongs to it.
@Suite("Data file: kinds of problems") struct DataFileProblemTests {
    private typealias Patches = [(offset: Int, bytes: [UInt8])]

    /// Two databases, of which alpha has a branch page and overflow pages; several records in the free list.
    private static func makeFile() throws -> DamagedFile {
        let file = try LMDBFile()
        for round in 0..<6 as Range<UInt8> {
            try file.write { transaction in
                let alpha = try LMDBFile.database("alpha", transaction)
                for key in 0..<120 as Range<UInt8> {
                    try LMDBFile.put([key, key], Array(repeating: round, count: 120), in: alpha, transaction)
                }
                try LMDBFile.put([200], Array(repeating: round, count: 20_000), in: alpha, transaction)
                try LMDBFile.put([round], [round], in: LMDBFile.database("beta", transaction), transaction)
            }
        }
        return try DamagedFile(file)
    }

    private static func little(_ value: Int, bytes: Int = 8) -> [UInt8] { (0..<bytes).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }

    @Test("the rules of the free list")
    func freeList() throws {
        let file = try Self.makeFile()
        let root = file.number(at: file.newerMeta + 40 + 40) * 4096
        let nodes = (file.short(at: root + 12) - 16) / 2
        let node = root + file.short(at: root + 16 + 2 * (nodes - 1))
        let count = node + 16  // Behind header and key.
        let used = file.number(at: file.newerMeta + 88 + 40)
        #expect(nodes > 1 && file.number(at: count) > 2)
        #expect(try file.kinds(writing: [(count, Self.little(1 << 40))]) == [.freeList])
        #expect(try file.kinds(writing: [(count, Self.little(file.number(at: count) + 1))]) == [.freeList])
        #expect(try file.kinds(writing: [(count, Self.little(file.number(at: count) - 1))]) == [.unaccountedPages])
        #expect(try file.kinds(writing: [(count + 8, Self.little(file.number(at: count + 16)))]) == [.freeList])
        #expect(try file.kinds(writing: [(count + 8, Self.little(1 << 50))]) == [.freeList])
        #expect(try file.kinds(writing: [(node + 8, Self.little(1 << 40))]) == [.freeList])
        #expect(try file.kinds(writing: [(count, Self.little(1) + Self.little(used))]).contains(.pageUsedTwice))
    }

    @Test("the rules of meta pages and databases")
    func records() throws {
        let file = try Self.makeFile()
        let meta = file.newerMeta
        let main = meta + 88
        let leaf = file.number(at: main + 40) * 4096
        let alpha = leaf + file.short(at: leaf + 16) + 8 + 5
        #expect(file.short(at: alpha + 6) == 2)
        for offset in [16, 20, 24, 40, 44, 92] { #expect(try file.kinds(writing: [(meta + offset, [77, 77])]) == [.meta], "\(offset)") }
        #expect(try file.kinds(writing: [(4096 - meta + 16, [0])]) == [.olderMeta])
        #expect(try file.kinds(writing: [(meta + 144, [100 + file.bytes[meta + 144]])]) == [.meta])
        #expect(try file.kinds(writing: [(main + 32, Self.little(3))]) == [.counts])
        #expect(try file.kinds(writing: [(meta + 136, Self.little(file.number(at: meta + 136) + 1))]) == [.unaccountedPages])
        for offset in [8, 16, 24, 32] {
            let more = file.number(at: alpha + offset) + 1
            #expect(try file.kinds(writing: [(alpha + offset, Self.little(more))]) == [.counts], "\(offset)")
        }
        #expect(try file.kinds(writing: [(alpha + 4, [4])]) == [.databaseRecord])
        #expect(try file.kinds(writing: [(alpha + 6, [3])]) == [.depth])
        #expect(try file.kinds(writing: [(alpha + 40, Self.little(1 << 40))]) == [.databaseRecord])
        #expect(try file.kinds(writing: [(alpha - 5, [0x1B])]).contains(.databaseRecord))
    }

    @Test("the rules of branch, leaf and overflow pages")
    func pages() throws {
        let file = try Self.makeFile()
        let main = file.number(at: file.newerMeta + 88 + 40) * 4096
        let alpha = main + file.short(at: main + 16) + 8 + 5
        let branch = file.number(at: alpha + 40) * 4096
        func child(_ index: Int) -> Int { branch + file.short(at: branch + 16 + 2 * index) }
        let first = file.short(at: child(0)) * 4096
        let last = file.short(at: child((file.short(at: branch + 12) - 16) / 2 - 1)) * 4096
        let chained = last + file.short(at: last + file.short(at: last + 12) - 2)
        let chain = file.short(at: chained + 9) * 4096
        #expect(file.bytes[branch + 10] == 1 && file.bytes[first + 10] == 2 && file.bytes[chain + 10] == 4)

        let offsets = Array(file.bytes[(first + 16)..<(first + 20)])
        #expect(try file.kinds(writing: [(first + 16, [offsets[2], offsets[3], offsets[0], offsets[1]])]) == [.keyOrder])
        #expect(try file.kinds(writing: [(first + 16, [offsets[2], offsets[3]])]).contains(.node))
        #expect(try file.kinds(writing: [(child(1) + 8, [0])]) == [.keyOrder])
        #expect(try file.kinds(writing: [(child(1) + 8, [119])]) == [.keyOrder])
        #expect(try file.kinds(writing: [(child(1), Self.little(first / 4096, bytes: 6))]).contains(.pageUsedTwice))
        #expect(try file.kinds(writing: [(child(1), Self.little(1 << 40, bytes: 6))]) == [.pageOutOfRange])
        #expect(try file.kinds(writing: [(child(1), Self.little(1, bytes: 6))]) == [.pageOutOfRange])
        #expect(try file.kinds(writing: [(first, Self.little(99))]) == [.pageNumber])
        for flags in [0, 1, 3, 4, 0x12, 0x22, 0x42] as [UInt8] {
            let kinds = try file.kinds(writing: [(first + 10, [flags])])
            #expect(!kinds.isDisjoint(with: [.pageKind, .depth]), "\(flags)")
        }
        for (lower, upper) in [(15, 4000), (16, 4096), (17, 4000), (4000, 3000), (20, 4098), (20, 4001)] {
            #expect(
                try file.kinds(writing: [(first + 12, Self.little(lower | upper << 16, bytes: 4))]) == [.pageBounds], "\(lower), \(upper)")
        }
        for flags in [2, 4, 8] as [UInt8] {
            #expect(try file.kinds(writing: [(first + file.short(at: first + 16) + 4, [flags])]) == [.node])
        }
        #expect(try file.kinds(writing: [(first + file.short(at: first + 16) + 6, [0, 2])]).contains(.node))
        #expect(try file.kinds(writing: [(first + file.short(at: first + 16), [200])]).contains(.node))
        #expect(try file.kinds(writing: [(chain, Self.little(99))]) == [.pageNumber])
        #expect(try file.kinds(writing: [(chain + 10, [2])]) == [.pageKind])
        #expect(try file.kinds(writing: [(chain + 12, [4])]) == [.overflow])
        #expect(!(try file.kinds(writing: [(chain + 12, [6])])).isEmpty)
    }
}
