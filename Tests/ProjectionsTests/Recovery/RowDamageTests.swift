import ConversationStore
import Foundation
import StoreTesting
import Testing

@testable import EventLog

/// Bytes of a projection's saved rows go bad. CONVSTORE_DAMAGES=N does N of them instead of CI's share.
@Suite("Damaged rows of a projection") struct RowDamageTests {
    private let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
    private let people = ["ada", "bob", "eve"].map { UserID($0)! }

    private func build(_ path: String) throws {
        let store = try ConversationStore.open(at: path)
        for number in 0..<20 as Range<UInt64> {
            let chat = ConversationID(high: 7, low: number)
            var events = [Event(conversation: chat, author: people[0], content: .conversationCreated(kind: .group, title: "t", participants: people))]
            for index in 0..<40 as Range<UInt64> {
                let message = Event.Message(id: MessageID(high: number, low: index), role: .user, text: "message \(index) of conversation \(number)")
                events.append(Event(conversation: chat, author: people[Int(index) % 3], content: .messageSent(message)))
            }
            _ = try store.log.appendBlocking(events.map { Submission($0) })
        }
        try store.close()
    }

    /// The saved rows' values, as they lie in the file.
    private func rows(_ path: String) throws -> [[UInt8]] {
        let archive = try Archive(directory: path, isReadOnly: true, mapBytesMax: .max / 2)
        defer { archive.environment.close() }
        let record = try archive.environment.read { try FoldRecord.read("conversations", archive, $0) }
        let live = try #require(record.live)
        let table = try #require(try archive.foldTable("conversations", live.number, creates: false))
        var rows: [[UInt8]] = []
        try archive.environment.read { transaction in
            try transaction.forEach(table.table) { _, value in
                rows.append(Array(value))
                return true
            }
        }
        return rows
    }

    /// Everything that screens show.
    private func shown(_ path: String) throws -> [String] {
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(access: .readOnly))
        defer { try? store.close() }
        var lines: [String] = []
        for user in people { lines += try store.lobby(of: user).rows.map { "\($0)" } }
        for number in 0..<20 as Range<UInt64> {
            lines += try store.timeline(of: ConversationID(high: 7, low: number), .newest, limit: 100)?.messages.map { "\($0)" } ?? []
        }
        return lines
    }

    @Test("verify finds each damaged row, what reads one names the rebuild, and that mends it") func eachRow() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let count = ProcessInfo.processInfo.environment["CONVSTORE_DAMAGES"].flatMap { Int($0) } ?? 24
        try build(directory)
        let sound = try shown(directory)
        let file = URL(fileURLWithPath: Archive.path(directory))
        var told = 0
        for seed in 0..<UInt64(count) {
            var random = SeededGenerator(seed: seed)
            let rows = try rows(directory)
            let row = try #require(rows.randomElement(using: &random))
            var bytes = try Data(contentsOf: file)
            let at = Int.random(in: row.indices, using: &random)
            var bad = row
            for index in at..<(Bool.random(using: &random) ? at + 1 : min(row.count, at + 64)) { bad[index] ^= UInt8.random(in: 1...255, using: &random) }
            // Pages that are free by now may hold the same bytes.
            var from = bytes.startIndex
            while let place = bytes.range(of: Data(row), in: from..<bytes.endIndex) {
                bytes.replaceSubrange(place, with: bad)
                from = place.upperBound
            }
            try bytes.write(to: file)

            let report = try EventStore.verify(at: directory)
            #expect(report.damaged == [.projections], "seed \(seed)")
            #expect(report.problems.allSatisfy { $0.contains("conversations") && $0.contains("convstore rebuild") }, "\(report.problems)")
            do { #expect(try shown(directory) == sound, "seed \(seed)") } catch let error as EventLogError {
                told += 1
                #expect(error.code == .damaged && error.message.contains("convstore rebuild"), "seed \(seed): \(error.message)")
            }
            let store = try ConversationStore.open(at: directory, options: ConversationStoreOptions(access: .existing))
            for name in store.projectionNames { try store.rebuild(name) }
            #expect(try store.isFold())
            try store.close()
            #expect(try EventStore.verify(at: directory).problems == [])
            #expect(try shown(directory) == sound)
        }
        #expect(told > 0)
    }

    @Test("What the archive says of a projection is damaged: verify says so, and opening for writing builds it anew") func record() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try build(directory)
        let sound = try shown(directory)
        let archive = try Archive(directory: directory, isReadOnly: false, mapBytesMax: .max / 2)
        try archive.environment.write { try $0.put(archive.meta, FoldRecord.key("conversations"), [1, 2, 3, 4, 5, 6, 7, 8, 9]) }
        archive.environment.close()
        let report = try EventStore.verify(at: directory)
        #expect(report.damaged == [.projections] && report.problems.allSatisfy { $0.contains("convstore rebuild") }, "\(report.problems)")
        try ConversationStore.open(at: directory, options: ConversationStoreOptions(access: .existing)).close()
        #expect(try EventStore.verify(at: directory).problems == [])
        #expect(try shown(directory) == sound)
    }
}
