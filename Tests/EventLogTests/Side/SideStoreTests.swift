import Testing

@testable import EventLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Side store") struct SideStoreTests {
    let directory = TemporaryDirectory()

    private func made() throws -> String {
        try EventStore.open(at: directory.store).close()
        return directory.store
    }

    @Test("What was written is there after reopening, in the order of the keys; what was deleted is not")
    func roundTrip() throws {
        let path = try made()
        #expect(try SideStore.openIfPresent(directory: path, tables: ["a"]) == nil)
        #expect(throws: EventLogError.self) { _ = try SideStore(directory: path, tables: ["a"], isReadOnly: true) }
        var store = try SideStore(directory: path, tables: ["a", "b"])
        try store.write { transaction in
            for number in (0..<300 as Range<UInt16>).reversed() {
                try transaction.put("a", [UInt8(number >> 8), UInt8(number & 255)], [UInt8](repeating: UInt8(number & 255), count: Int(number)))
            }
            try transaction.put("b", [7], [1, 2, 3])
            try transaction.delete("a", [0, 5])
            #expect(try transaction.get("a", [0, 5]) == nil)
            #expect(try transaction.get("b", [7]) == [1, 2, 3])
        }
        store.close()
        store = try SideStore(directory: path, tables: ["a", "b", "c"])
        try store.read { transaction in
            #expect(try transaction.get("b", [7]) == [1, 2, 3])
            #expect(try transaction.get("a", [7]) == nil)
            #expect(try transaction.get("c", [7]) == nil)
            var seen: [Int] = []
            try transaction.forEach("a", from: [0, 3]) { key, value in
                seen.append(Int(key[0]) << 8 | Int(key[1]))
                #expect(value.count == seen.last)
                return seen.count < 4
            }
            #expect(seen == [3, 4, 6, 7])
        }
        store.close()
        #expect(throws: EventLogError.self) { try store.read { _ in } }
    }

    @Test("A closure that throws leaves nothing; keys have bounds; a file open for reading refuses writing")
    func refused() throws {
        let path = try made()
        let store = try SideStore(directory: path, tables: ["a"])
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try store.write { transaction in
                try transaction.put("a", [1], [1])
                throw Stop()
            }
        }
        #expect(try store.read { try $0.get("a", [1]) } == nil)
        for key in [[], [UInt8](repeating: 1, count: 481)] {
            let error = #expect(throws: EventLogError.self) { try store.write { try $0.put("a", key, [1]) } }
            #expect(error?.code == .invalidArgument)
        }
        try store.write { try $0.put("a", [UInt8](repeating: 1, count: 480), []) }
        let reader = try #require(try SideStore.openIfPresent(directory: path, tables: ["a", "later"]))
        #expect(try reader.read { try $0.get("a", [UInt8](repeating: 1, count: 480)) } == [])
        #expect(try reader.read { try $0.get("later", [1]) } == nil)
        let error = #expect(throws: EventLogError.self) { try reader.write { try $0.delete("a", [1]) } }
        #expect(error?.code == .readOnly)
    }

    @Test("The map grows by itself, and a reader that was open before sees what was written after")
    func growth() throws {
        let path = try made()
        let store = try SideStore(directory: path, tables: ["a"])
        try store.write { try $0.put("a", [0], [0]) }
        let reader = try #require(try SideStore.openIfPresent(directory: path, tables: ["a"]))
        var runs = 0
        for number in 1...20 as ClosedRange<UInt8> {
            try store.write { transaction in
                runs += 1
                try transaction.put("a", [number], [UInt8](repeating: number, count: 1 << 18))
            }
            #expect(try reader.read { try $0.get("a", [number])?.count } == 1 << 18)
        }
        #expect(runs > 20)
    }

    @Test("I7: a changed byte of a value, a cut file and a torn creation are told, or made good")
    func damage() throws {
        let path = try made()
        var store = try SideStore(directory: path, tables: ["a"])
        try store.write { try $0.put("a", [1], Array("just these words".utf8)) }
        store.close()
        let file = SideStore.path(path)
        var bytes = try File(file, O_RDONLY).read(1 << 20, at: 0)
        let place = try #require((0..<bytes.count - 16).last { Array(bytes[$0..<$0 + 16]) == Array("just these words".utf8) })
        try [UInt8(ascii: "J")].withUnsafeBytes { try File(file, O_RDWR).write($0, at: place) }
        store = try SideStore(directory: path, tables: ["a"])
        var error = #expect(throws: EventLogError.self) { _ = try store.read { try $0.get("a", [1]) } }
        #expect(error?.code == .damaged)
        error = #expect(throws: EventLogError.self) { try store.read { try $0.forEach("a") { _, _ in true } } }
        #expect(error?.code == .damaged)
        store.close()
        bytes.removeLast(bytes.count / 2)
        try File(file, O_RDWR).truncate(to: bytes.count)
        error = #expect(throws: EventLogError.self) { _ = try SideStore(directory: path, tables: ["a"]) }
        #expect(error?.code == .damaged)

        try Directory.remove(file)
        try bytes.withUnsafeBytes { try File(file + ".new", O_RDWR | O_CREAT).write($0, at: 0) }
        store = try SideStore(directory: path, tables: ["a"])
        #expect(try store.read { try $0.get("a", [1]) } == nil)
        #expect(!Directory.exists(file + ".new"))
        #expect(try EventStore.verify(at: path).problems == [])
    }

    @Test("A copy has the records of one moment; compacting and verifying leave the records as they are")
    func copy() throws {
        let path = try made()
        let store = try EventStore.open(at: path)
        _ = try store.appendBlocking([created(1)])
        let side = try SideStore(directory: path, tables: ["a", "b"])
        try side.write { transaction in
            for number in 0..<200 as Range<UInt8> { try transaction.put("a", [number], [UInt8](repeating: number, count: 40_000)) }
            try transaction.put("b", [1], [2])
        }
        let target = directory.path + "/copy"
        try EventStore.copy(from: path, to: target)
        try side.write { try $0.put("b", [1], [3]) }
        side.close()
        try store.close()
        _ = try EventStore.compact(at: path)
        #expect(try EventStore.verify(at: path).problems == [])
        #expect(try EventStore.verify(at: target).problems == [])
        for (path, expected) in [(path, 3), (target, 2)] as [(String, UInt8)] {
            let side = try #require(try SideStore.openIfPresent(directory: path, tables: ["a", "b"]))
            #expect(try side.read { try $0.get("b", [1]) } == [expected])
            #expect(try side.read { try $0.get("a", [199])?.count } == 40_000)
            side.close()
        }
        let plain = directory.path + "/plain"
        try EventStore.open(at: plain).close()
        try EventStore.copy(from: plain, to: directory.path + "/plain2")
        #expect(!Directory.exists(SideStore.path(directory.path + "/plain2")))
    }

    @Test("Compacting leaves no byte of a record that was deleted; a damaged one ends it, and all stays as it was")
    func compact() throws {
        let path = try made()
        let side = try SideStore(directory: path, tables: ["a", "b"])
        let secret = Array("what nobody may read".utf8)
        let kept = Array("what all may read ..".utf8)
        try side.write { transaction in
            for number in 0..<50 as Range<UInt8> { try transaction.put("a", [number], secret) }
            try transaction.put("b", [1], [7])
        }
        try side.write { transaction in for number in 0..<49 as Range<UInt8> { try transaction.delete("a", [number]) } }
        try side.write { try $0.put("a", [49], kept) }
        side.close()
        let file = SideStore.path(path)
        func bytes() throws -> [UInt8] { try File(file, O_RDONLY).read(1 << 20, at: 0) }
        func places(_ text: [UInt8]) throws -> [Int] {
            let bytes = try bytes()
            return (0..<bytes.count - text.count).filter { Array(bytes[$0..<$0 + text.count]) == text }
        }
        func write(_ byte: UInt8, at place: Int) throws { try [byte].withUnsafeBytes { try File(file, O_RDWR).write($0, at: place) } }
        #expect(try !places(secret).isEmpty)
        let place = try #require(try places(kept).last)
        func inode(_ path: String) -> ino_t {
            var status = stat()
            return stat(path, &status) == 0 ? status.st_ino : 0
        }
        let archive = inode(Archive.path(path))
        try write(UInt8(ascii: "W"), at: place)
        let damaged = try bytes()
        let error = #expect(throws: EventLogError.self) { _ = try EventStore.compact(at: path) }
        #expect(error?.code == .damaged)
        #expect(try bytes() == damaged)
        #expect(inode(Archive.path(path)) == archive)
        #expect(!Directory.exists(file + ".new"))
        try write(kept[0], at: place)
        _ = try EventStore.compact(at: path)
        #expect(try places(secret).isEmpty)
        #expect(try EventStore.verify(at: path).problems == [])
        // Whichever of LMDB's two meta pages is lost: the other one names all there is.
        for meta in [16, 4096 + 16] {
            let byte = try bytes()[meta]
            try write(byte ^ 1, at: meta)
            let salvaged = try SideStore.salvage(directory: path, tables: ["a", "b"])
            #expect(salvaged["a"].records.map(\.value) == [kept] && salvaged["a"].isWhole)
            #expect(salvaged["b"].records.map(\.value) == [[7]] && salvaged["b"].isWhole)
            try write(byte, at: meta)
        }
    }

    @Test("A closing waits for the writing that is under way; those after it throw `closed`, and nothing traps") func closedWhileWritten() throws {
        let path = try made()
        for _ in 0..<20 {
            let store = try SideStore(directory: path, tables: ["a"])
            let ended = Monitor<[EventLogError.Code]>([])
            for writer in 0..<2 as Range<UInt8> {
                WorkerThread.start {
                    var number = writer
                    do {
                        while true {
                            try store.write { try $0.put("a", [number], [number]) }
                            number &+= 2
                        }
                    } catch {
                        ended.withLock { $0.append((error as? EventLogError)?.code ?? .damaged) }
                        ended.wakeAll()
                    }
                }
            }
            usleep(2000)
            store.close()
            let codes = ended.withLock(waitingWhile: { $0.count < 2 }) { $0 }
            #expect(codes == [.closed, .closed])
            #expect(throws: EventLogError.self) { try store.read { try $0.get("a", [1]) } }
        }
    }
}
