import Testing

@testable import EventLog

/// What the check passes is given to liblmdb in this very process: a signal there ends the tests.
@Suite("Data file: damage") struct DataFileDamageTests {
    static let styles = LMDBWorkload.Style.allCases

    static func damaged(_ style: LMDBWorkload.Style, seed: UInt64 = 11) throws -> DamagedFile {
        try DamagedFile(grownFile(style: style, seed: seed, transactions: 12, operationsMax: style == .wild ? 24 : 30))
    }

    @Test("a flipped bit anywhere is reported, or changes at most the content of one entry", arguments: styles)
    func flips(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style)
        var random = SplitMix64(state: 1)
        for _ in 0..<250 {
            let bit = Int(random.next() % UInt64(damaged.bytes.count * 8))
            let verdict = try damaged.verdict(flipping: bit)
            #expect(verdict.isAcceptable, "bit \(bit): \(verdict)")
        }
    }

    @Test("a flipped bit in a page's header, offsets or node headers is reported, or changes at most one entry's size", arguments: styles)
    func structureFlips(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style, seed: 12)
        var random = SplitMix64(state: 2)
        var reported = 0
        let heads = (2..<damaged.pageCount).filter { [1, 2].contains(damaged.page($0)[10]) }
        for _ in 0..<350 {
            let page = heads[Int(random.next() % UInt64(heads.count))]
            let header = damaged.page(page)
            let nodes = (Int(header[12]) + Int(header[13]) << 8 - 16) / 2
            var offset = Int(random.next() % 16)
            var isNodeHeader = false
            if (1...2000).contains(nodes), random.next() % 4 != 0 {
                let node = Int(random.next() % UInt64(nodes))
                offset = 16 + 2 * node + Int(random.next() % 2)
                if random.next() % 2 == 0 {
                    let start = Int(header[16 + 2 * node]) + Int(header[17 + 2 * node]) << 8
                    offset = min(4095, start + Int(random.next() % 8))
                    isNodeHeader = true
                }
            }
            let bit = (page * 4096 + offset) * 8 + Int(random.next() % 8)
            let verdict = try damaged.verdict(flipping: bit)
            // A size may change by the byte that keeps the next node even, or within the last overflow page.
            let isAcceptable = isNodeHeader ? verdict.isAcceptable : verdict == .reported || verdict == .passed(differences: 0)
            #expect(isAcceptable, "bit \(bit): \(verdict)")
            if verdict == .reported { reported += 1 }
        }
        #expect(reported > 50)
    }

    @Test("each bit of both meta pages: reported, or nothing changes")
    func metaFlips() throws {
        let damaged = try Self.damaged(.even)
        for bit in 0..<(152 * 8) {
            for page in 0...1 {
                let verdict = try damaged.verdict(flipping: page * 4096 * 8 + bit)
                #expect(verdict == .reported || verdict == .passed(differences: 0), "meta \(page), bit \(bit): \(verdict)")
            }
        }
    }

    @Test("a transaction number that hides the last commit is reported", arguments: 2..<12)
    func hiddenCommit(_ commits: Int) throws {
        let file = try LMDBFile()
        for round in 0..<commits {
            try file.write { try LMDBFile.put([1, UInt8(round)], [2], in: LMDBFile.database("alpha", $0), $0) }
        }
        let damaged = try DamagedFile(file)
        for index in 0...1 {
            for step in [2, -2] {
                let number = Int(damaged.bytes[index * 4096 + 144]) + step
                guard number >= 0 else { continue }
                #expect(try damaged.verdict(writing: [(index * 4096 + 144, [UInt8(number)])]) == .reported, "meta \(index): \(number)")
            }
        }
    }

    @Test("a file without free pages: each shorter size is reported")
    func truncations() throws {
        let file = try LMDBFile()
        var workload = LMDBWorkload(style: .appending, seed: 5)
        try file.write { transaction in
            let database = try LMDBFile.database("alpha", transaction)
            for _ in 0..<150 { try LMDBFile.put(workload.key(), workload.value(), in: database, transaction) }
        }
        let damaged = try DamagedFile(file)
        var random = SplitMix64(state: 3)
        let sizes = (0..<damaged.pageCount).map { $0 * 4096 } + (0..<60).map { _ in Int(random.next() % UInt64(damaged.bytes.count)) }
        for size in sizes { #expect(try damaged.verdict(truncatingTo: size) == .reported, "\(size) bytes") }
    }

    @Test("a file with free pages: each shorter size is reported, or nothing is missing", arguments: styles)
    func truncationsWithFreePages(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style, seed: 14)
        for page in 0..<damaged.pageCount {
            let verdict = try damaged.verdict(truncatingTo: page * 4096)
            #expect(verdict == .reported || verdict == .passed(differences: 0), "\(page) pages")
        }
    }

    @Test("each page zeroed: reported, or it was free, or within one value", arguments: styles)
    func zeroedPages(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style, seed: 15)
        let report = try DataFile(path: damaged.file.path).check()
        var reported: UInt64 = 0
        for page in 0..<damaged.pageCount {
            let verdict = try damaged.verdict(writing: [(page * 4096, Array(repeating: 0, count: 4096))])
            #expect(verdict.isAcceptable, "page \(page): \(verdict)")
            if verdict == .reported { reported += 1 }
        }
        #expect(reported >= 2 + report.pages.branch + report.pages.leaf)
    }

    @Test("pages swapped, or written to the wrong place: reported, or it was free, or within a value", arguments: styles)
    func misdirectedPages(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style, seed: 16)
        var random = SplitMix64(state: 4)
        for round in 0..<120 {
            let first = Int(random.next() % UInt64(damaged.pageCount))
            let second = Int(random.next() % UInt64(damaged.pageCount))
            var patches = [(first * 4096, damaged.page(second))]
            if round % 2 == 0 { patches.append((second * 4096, damaged.page(first))) }
            let verdict = try damaged.verdict(writing: patches)
            let isAcceptable = verdict.isAcceptable || verdict == .passed(differences: 2)
            #expect(isAcceptable, "pages \(first), \(second): \(verdict)")
        }
    }

    @Test("a page that leads back to itself ends in a report")
    func loop() throws {
        let damaged = try Self.damaged(.even)
        for page in 2..<damaged.pageCount where damaged.page(page)[10] == 1 {
            let bytes = damaged.page(page)
            let offset = Int(bytes[16]) + Int(bytes[17]) << 8
            let verdict = try damaged.verdict(writing: [(page * 4096 + offset, [UInt8(page & 255), UInt8(page >> 8), 0, 0, 0, 0])])
            #expect(verdict == .reported || verdict == .passed(differences: 0))
        }
    }

    @Test("what liblmdb may write after damage that passed, it writes without harm", arguments: styles)
    func writesAfterwards(_ style: LMDBWorkload.Style) throws {
        let damaged = try Self.damaged(style, seed: 17)
        var random = SplitMix64(state: 6)
        var written = 0
        while written < 12 {
            let bit = Int(random.next() % UInt64(damaged.bytes.count * 8))
            var bytes = damaged.bytes
            bytes[bit / 8] ^= 1 << (bit % 8)
            let copy = try LMDBFile(replacingContentWith: bytes)
            guard try DataFile(path: copy.path).check().isSound else { continue }
            try copy.open()
            var workload = LMDBWorkload(style: style, seed: UInt64(bit))
            for _ in 0..<3 { try workload.transact(copy, operationsMax: 30) }
            #expect(try DataFile(path: copy.path).check().problems == [], "bit \(bit)")
            written += 1
        }
    }

    @Test("no file, however random, is more than a report")
    func garbage() throws {
        let damaged = try Self.damaged(.even)
        var random = SplitMix64(state: 7)
        for round in 0..<60 {
            // The meta pages stay, so that the rest is walked.
            let keptBytes = round % 3 == 0 ? 0 : 8192
            let count = Int(random.next() % 40_000)
            let bytes = damaged.bytes.prefix(keptBytes) + (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            let file = try LMDBFile(replacingContentWith: Array(bytes))
            #expect(try !DataFile(path: file.path).check().isSound)
            _ = try DataFile(path: file.path).forEach(database: "alpha") { _, _ in true }
        }
    }
}
