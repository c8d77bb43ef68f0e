import Testing

@testable import EventLog

@Suite("Data file: salvage") struct DataFileSalvageTests {
    private func entries(_ path: String, _ name: String, from start: [UInt8] = []) throws -> (
        list: [LMDBFile.Entry], problems: [DataFileProblem]
    ) {
        var list: [LMDBFile.Entry] = []
        let problems = try DataFile(path: path).forEach(database: name, from: start) { key, value in
            list.append(LMDBFile.Entry(key: key.withUnsafeBytes { Array($0) }, value: value.withUnsafeBytes { Array($0) }))
            return true
        }
        return (list, problems)
    }

    @Test("a sound file gives what liblmdb gives, from any key on", arguments: LMDBWorkload.Style.allCases)
    func soundFile(_ style: LMDBWorkload.Style) throws {
        let file = try grownFile(style: style, seed: 21, transactions: 20)
        file.close()
        var workload = LMDBWorkload(style: style, seed: 5)
        for database in try LMDBFile.readAll(directory: file.directory).databases {
            let name = String(decoding: database.name, as: UTF8.self)
            let all = try entries(file.path, name)
            #expect(all.problems == [])
            #expect(all.list == database.entries)
            for _ in 0..<5 {
                let start = workload.key()
                let part = try entries(file.path, name, from: start)
                #expect(part.list == database.entries.filter { !$0.key.lexicographicallyPrecedes(start) })
            }
        }
    }

    @Test("the body ends the walk, and its error comes through")
    func stops() throws {
        struct Stop: Error {}
        let file = try grownFile(style: .even, seed: 22, transactions: 12)
        var count = 0
        _ = try DataFile(path: file.path).forEach(database: "alpha") { _, _ in
            count += 1
            return count < 3
        }
        #expect(count == 3)
        #expect(throws: Stop.self) { try DataFile(path: file.path).forEach(database: "alpha") { _, _ in throw Stop() } }
        #expect(try entries(file.path, "nothing").problems.map(\.kind) == [.databaseRecord])
    }

    @Test("a leaf page lost costs its entries and no other, and is reported")
    func lostLeaves() throws {
        let file = try grownFile(style: .even, seed: 23, transactions: 12)
        let damaged = try DamagedFile(file)
        let expected = try #require(damaged.content.databases.first { $0.name == Array("alpha".utf8) }).entries
        var lostPages = 0
        for page in 2..<damaged.pageCount where damaged.page(page)[10] == 2 {
            var bytes = damaged.bytes
            bytes.replaceSubrange((page * 4096)..<(page * 4096 + 4096), with: repeatElement(0, count: 4096))
            let copy = try LMDBFile(replacingContentWith: bytes)
            let (list, problems) = try entries(copy.path, "alpha")
            if problems.isEmpty {
                #expect(list == expected)
            } else if problems.map(\.kind) == [.pageNumber] {
                lostPages += 1
                #expect(problems.map(\.page) == [UInt64(page)])
                #expect(list.count < expected.count && list.count >= expected.count - 400)
                #expect(Set(list).isSubset(of: Set(expected)))
                #expect(list.map(\.key) == list.map(\.key).sorted { $0.lexicographicallyPrecedes($1) })
            }
        }
        #expect(lostPages > 3)
    }

    @Test("with the newest meta page lost, the transaction before it is read")
    func lostMeta() throws {
        let file = try LMDBFile()
        for round in 1...4 as ClosedRange<UInt8> {
            try file.write { try LMDBFile.put([round], [round], in: LMDBFile.database("alpha", $0), $0) }
        }
        let damaged = try DamagedFile(file)
        var bytes = damaged.bytes
        bytes[16] ^= 1  // The fourth transaction's is page 0.
        let copy = try LMDBFile(replacingContentWith: bytes)
        let (list, problems) = try entries(copy.path, "alpha")
        #expect(list.map(\.key) == [[1], [2], [3]])
        #expect(problems.map(\.kind) == [.meta])
        #expect(try DataFile(path: copy.path).check().problems.first?.kind == .meta)
    }
}
