import CLMDB
import Testing

@testable import EventLog

@Suite("Data file: sound files") struct DataFileCheckTests {
    @Test("a file is sound after each commit, whatever was written", arguments: LMDBWorkload.Style.allCases, 0..<6 as Range<UInt64>)
    func noFalseAlarm(_ style: LMDBWorkload.Style, _ seed: UInt64) throws {
        let file = try LMDBFile()
        var workload = LMDBWorkload(style: style, seed: seed)
        for step in 0..<25 {
            try workload.transact(file, operationsMax: 40)
            if step % 7 == 6 {
                file.close()
                try file.open()
            }
            let report = try DataFile(path: file.path).check()
            #expect(report.problems == [], "seed \(seed), step \(step)")
        }
        #expect(try DataFile(path: try file.compactedCopy()).check().problems == [])
    }

    @Test("an environment without a commit is sound, and so is its first commit")
    func newFile() throws {
        let file = try LMDBFile()
        let empty = try DataFile(path: file.path).check()
        #expect(empty.problems == [])
        #expect(empty.lastPage == 1)
        #expect(empty.mapUsedBytes == 8192)
        #expect(empty.entries == [:])

        try file.write { try LMDBFile.put([1], [2], in: LMDBFile.database("alpha", $0), $0) }
        let first = try DataFile(path: file.path).check()
        #expect(first.problems == [])
        #expect(first.transactionID == 1)
        #expect(first.entries == ["alpha": 1])
        #expect(first.pages == DataFileReport.PageCounts(branch: 0, leaf: 2, overflow: 0))
    }

    @Test("the report counts what liblmdb counts")
    func counts() throws {
        let file = try grownFile(style: .even, seed: 3, transactions: 40)
        file.close()
        let content = try LMDBFile.readAll(directory: file.directory)
        let dataFile = try DataFile(path: file.path)
        let report = dataFile.check()
        #expect(report.isSound)
        for database in content.databases {
            #expect(report.entries[String(decoding: database.name, as: UTF8.self)] == UInt64(database.entries.count))
        }
        #expect(report.pages.branch + report.pages.leaf + report.pages.overflow + report.freePages + 2 == report.lastPage + 1)
        #expect(dataFile.namedDatabases() == content.databases.map { String(decoding: $0.name, as: UTF8.self) })
    }

    @Test("a file that lacks only free pages at its end is sound")
    func missingFreeTail() throws {
        let file = try LMDBFile()
        let large = [UInt8](repeating: 1, count: 100_000)
        try file.write { try LMDBFile.put([1], large, in: LMDBFile.database("alpha", $0), $0) }
        try file.write { try LMDBFile.delete([1], in: LMDBFile.database("alpha", $0), $0) }
        try file.write { try LMDBFile.put([2], [2], in: LMDBFile.database("alpha", $0), $0) }
        try file.write { transaction in
            let database = try LMDBFile.database("alpha", transaction)
            try LMDBFile.put([2], [3], in: database, transaction)
            try LMDBFile.put([3], large + large, in: database, transaction)
            try LMDBFile.delete([3], in: database, transaction)
        }
        let report = try DataFile(path: file.path).check()
        #expect(report.problems == [])
        #expect(report.fileBytes < report.mapUsedBytes)
    }

    @Test("databases with special flags are refused", arguments: [MDB_DUPSORT, MDB_INTEGERKEY, MDB_REVERSEKEY])
    func specialFlags(_ flag: CInt) throws {
        let file = try LMDBFile()
        try file.write { transaction in
            var database: MDB_dbi = 0
            try LMDBFile.check(mdb_dbi_open(transaction, "alpha", UInt32(MDB_CREATE | flag), &database))
        }
        #expect(try DataFile(path: file.path).check().problems.map(\.kind) == [.databaseRecord])
    }

    @Test("a plain entry in the main database is refused")
    func plainMainEntry() throws {
        let file = try LMDBFile()
        try file.write { transaction in
            var main: MDB_dbi = 0
            try LMDBFile.check(mdb_dbi_open(transaction, nil, 0, &main))
            try LMDBFile.put([65], [1], in: main, transaction)
        }
        #expect(try DataFile(path: file.path).check().problems.map(\.kind) == [.databaseRecord])
    }

    @Test("a missing file is a typed error")
    func missing() {
        #expect(throws: EventLogError.self) { _ = try DataFile(path: "/nonexistent/data.mdb") }
        #expect(throws: EventLogError.self) { _ = try DataFile(path: "/tmp") }
    }
}

/// A closed-over workload's file, still open.
func grownFile(style: LMDBWorkload.Style, seed: UInt64, transactions: Int, operationsMax: UInt64 = 40) throws -> LMDBFile {
    let file = try LMDBFile()
    var workload = LMDBWorkload(style: style, seed: seed)
    for _ in 0..<transactions { try workload.transact(file, operationsMax: operationsMax) }
    file.holdReader(false)
    return file
}
