import Foundation
import Testing

@testable import EventLog

@Suite("What is made aside") struct AsideTests {
    private let directory = TemporaryDirectory()
    /// No process has it: Linux counts to 2^22.
    private static let goneProcess = 2_000_000_000

    private func names() throws -> [String] { try Directory.names(directory.path).filter { $0 != "s" } }

    private func leave(_ name: String, _ process: Int) throws -> String {
        let path = "\(directory.path)/\(name)-\(process)"
        try Directory.make(path)
        for file in ["lock", "archive", "archive-lock"] { try Data(file.utf8).write(to: URL(filePath: path + "/" + file)) }
        return path
    }

    private func makeStore() throws {
        let store = try EventStore.open(at: directory.store)
        _ = try store.appendBlocking([created(1), sent(1, in: 1, "one")])
        try store.close()
    }

    @Test("A copy removes what copies of the same name left whose processes are gone, and nothing else") func copies() throws {
        try makeStore()
        _ = try leave("copy.copying", Self.goneProcess)
        let others = [
            try leave("copy.copying", 1), try leave("copy2.copying", Self.goneProcess), try leave("copy.copying-of", Self.goneProcess),
            try leave("copy.creating", Self.goneProcess),
        ]
        // In another container: its processes have other ids.
        let busy = try leave("copy.copying", Self.goneProcess - 1)
        let lock = try File(busy + "/lock", O_RDWR)
        #expect(lock.lockExclusively())
        try EventStore.copy(from: directory.store, to: directory.path + "/copy")
        #expect(try names() == (others + [busy, directory.path + "/copy"]).map { String($0.split(separator: "/").last!) }.sorted())
        lock.unlock()
        #expect(try EventStore.verify(at: directory.path + "/copy").problems == [])
    }

    @Test("A store that is created removes what such a creation left") func creation() throws {
        _ = try leave("s.creating", Self.goneProcess)
        try makeStore()
        #expect(try names().isEmpty)
    }

    @Test("A copy or a compaction that is told to end leaves nothing behind, and the store as it was") func ended() throws {
        struct End: Error {}
        let store = try EventStore.open(at: directory.store)
        // Text that does not compress, so that there is more than a mebibyte to copy.
        var generator = SystemRandomNumberGenerator()
        for number in 1...40 as ClosedRange<UInt64> {
            let text = String((0..<50_000).map { _ in Character(Unicode.Scalar(UInt32.random(in: 0x4E00...0x9FFF, using: &generator))!) })
            _ = try store.appendBlocking((number == 1 ? [created(1)] : []) + [sent(number, in: 1, text)])
        }
        let events = try store.all()
        try store.close()
        var told: [UInt64] = []
        #expect(throws: End.self) {
            try EventStore.copy(from: directory.store, to: directory.path + "/copy") { done, total in
                told.append(done)
                #expect(done <= total)
                throw End()
            }
        }
        #expect(try told.count == 1 && names().isEmpty)
        #expect(throws: End.self) { _ = try EventStore.compact(at: directory.store) { _, _ in throw End() } }
        #expect(try !Directory.names(directory.store).contains { $0.hasPrefix("archive.new") })
        #expect(try EventStore.verify(at: directory.store).problems == [])
        told = []
        var total: UInt64 = 0
        _ = try EventStore.compact(at: directory.store) {
            told.append($0)
            total = $1
        }
        #expect(told == told.sorted() && told.count > 2 && told.last == total)
        let again = try EventStore.open(at: directory.store, options: StoreOptions(access: .readOnly))
        #expect(try again.all() == events)
        try again.close()
    }
}
