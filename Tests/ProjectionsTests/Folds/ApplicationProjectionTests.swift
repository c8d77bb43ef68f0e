import ConversationStore
import Foundation
import Testing

@testable import EventLog
@testable import TalkWriter

/// `KindCounts` under its own name, in a version that counts twice.
final class KindCountsTwice: Projection {
    static let name = KindCounts.name
    static let version: UInt32 = 2
    let counts: Table<ConversationID, KindCounts.Count>

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        try counts.update(event.event.conversation) { row in
            row = row ?? KindCounts.Count()
            row!.events += 2
        }
    }
}

/// The last message's seq, put without a look at what was there; gone with every edit.
final class LastSent: Projection {
    static let name = "last-sent"
    static let version: UInt32 = 1
    let seqs: Table<ConversationID, KindCounts.Count>

    init(tables: inout ProjectionTables) { seqs = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        switch event.event.content {
        case .messageSent:
            var row = KindCounts.Count()
            row.events = event.seq
            try seqs.put(row, at: event.event.conversation)
        case .messageEdited, .receiptRead: try seqs.put(nil, at: event.event.conversation)
        default: break
        }
    }
}

/// One that cannot go on from some event on.
final class Failing: Projection {
    static let name = "failing"
    static let version: UInt32 = 1
    let counts: Table<ConversationID, KindCounts.Count>

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        try counts.update(event.event.conversation) { $0 = KindCounts.Count() }
        if case .custom("fail", _) = event.event.content { throw EventLogError(.damaged, "as asked") }
    }
}

@Suite("An application's own projection") struct ApplicationProjectionTests {
    private static func expected(_ store: ConversationStore) throws -> [ConversationID: KindCounts.Count] {
        var result: [ConversationID: KindCounts.Count] = [:]
        try store.log.replay { event in
            result[event.event.conversation, default: KindCounts.Count()].events += 1
            if case .chunkAppended(_, _, let text) = event.event.content {
                result[event.event.conversation]!.chunks += 1
                result[event.event.conversation]!.bytes += UInt64(text.utf8.count)
            }
            return true
        }
        return result
    }

    private static func counts(_ store: ConversationStore) throws -> [ConversationID: KindCounts.Count] {
        try store.read(KindCounts.self) { projection in
            var result: [ConversationID: KindCounts.Count] = [:]
            try projection.counts.forEach { key, row in
                result[key] = row
                return true
            }
            for (key, row) in result { #expect(try projection.counts.row(at: key) == row) }
            return result
        }
    }

    @Test("It gets every event exactly once: through flushes, closings, kill -9, and when it is named later", .tags(.recovery))
    func once() throws {
        let scratch = try Scratch()
        let events = FoldTests.talk(11, 2400)
        var store = try scratch.open(journal: 64 << 10)
        try store.take(Array(events[..<600]))
        try store.close()
        store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self])
        #expect(try Self.counts(store) == Self.expected(store))
        for start in stride(from: 600, to: 1800, by: 200) {
            try store.take(Array(events[start..<start + 200]), batch: 17)
            #expect(try Self.counts(store) == Self.expected(store))
            if start % 400 == 0 { try store.log.flush() } else { try store.close() }
            if start % 400 != 0 { store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self]) }
            #expect(try Self.counts(store) == Self.expected(store))
        }
        try store.close()
        // Not named for a while.
        store = try scratch.open(journal: 64 << 10)
        try store.take(Array(events[1800...]))
        try store.close()
        store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self])
        #expect(try Self.counts(store) == Self.expected(store))
        try store.close()
        let child = try ChildProcess("TalkWriter", [scratch.store, "1", "65536"])
        #expect(child.isReady())
        usleep(200_000)
        child.kill()
        store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self])
        #expect(try Self.counts(store) == Self.expected(store))
        try store.rebuild(KindCounts.name)
        #expect(try Self.counts(store) == Self.expected(store))
        #expect(try store.isFold(KindCounts.name))
        try store.close()
    }

    @Test("A row that is put takes the place of one in memory, in the archive or nowhere, and a deletion does", arguments: [1 << 20, 0])
    func put(_ cacheBytes: Int) throws {
        let scratch = try Scratch()
        let events = FoldTests.talk(15, 2400)
        var deletions = 0
        for start in stride(from: 0, to: 2400, by: 200) {
            var options = ConversationStoreOptions(journalBytesMax: 64 << 10, cacheBytes: cacheBytes)
            options.projections = [LastSent.self]
            let store = try ConversationStore.open(at: scratch.store, options: options)
            try store.take(Array(events[start..<start + 200]), batch: 17)
            if start % 400 == 0 { try store.log.flush() }
            var expected: [ConversationID: Seq] = [:]
            try store.log.replay { event in
                switch event.event.content {
                case .messageSent: expected[event.event.conversation] = event.seq
                case .messageEdited, .receiptRead: if expected.removeValue(forKey: event.event.conversation) != nil { deletions += 1 }
                default: break
                }
                return true
            }
            var found: [ConversationID: Seq] = [:]
            try store.read(LastSent.self) { projection in
                try projection.seqs.forEach { key, row in
                    found[key] = row.events
                    return true
                }
            }
            #expect(found == expected)
            #expect(try store.isFold(LastSent.name))
            try store.close()
        }
        #expect(deletions > 100)
    }

    @Test("Another version is built anew, and back again; rows of the old one are nowhere")
    func version() throws {
        let scratch = try Scratch()
        var store = try scratch.open(projections: [KindCounts.self])
        try store.take(FoldTests.talk(12, 1000))
        let expected = try Self.expected(store)
        #expect(try Self.counts(store) == expected)
        try store.close()
        for _ in 0..<2 {
            // A reader cannot change the tables: it folds in memory.
            let reader = try scratch.open(.readOnly, projections: [KindCountsTwice.self])
            #expect(try reader.read(KindCountsTwice.self) { try $0.counts.row(at: expected.first!.key)?.events } == expected.first!.value.events * 2)
            try reader.close()
            store = try scratch.open(projections: [KindCountsTwice.self])
            for (id, count) in expected { #expect(try store.read(KindCountsTwice.self) { try $0.counts.row(at: id)?.events } == count.events * 2) }
            try store.close()
            store = try scratch.open(projections: [KindCounts.self])
            #expect(try Self.counts(store) == expected)
            #expect(try store.isFold(KindCounts.name))
            try store.close()
        }
    }

    @Test("A version's rebuild at opening that is interrupted goes on at the next", .tags(.recovery))
    func interruptedVersion() throws {
        let scratch = try Scratch()
        var store = try scratch.open(journal: 8 << 20, projections: [KindCounts.self])
        try store.take(FoldTests.talk(13, 20_000), batch: 1000)
        let expected = try Self.expected(store)
        try store.close()
        #expect(throws: Interruption.self) { try scratch.open(projections: [KindCountsTwice.self]) { _, _ in throw Interruption() } }
        // The old version goes on meanwhile.
        store = try scratch.open(projections: [KindCounts.self])
        #expect(try Self.counts(store) == expected)
        var talk = Talk(seed: 14)
        try store.take((0..<300).map { _ in talk.next() })
        let later = try Self.expected(store)
        try store.close()
        store = try scratch.open(projections: [KindCountsTwice.self])
        for (id, count) in later { #expect(try store.read(KindCountsTwice.self) { try $0.counts.row(at: id)?.events } == count.events * 2) }
        #expect(try store.isFold(KindCounts.name))
        try store.close()
    }

    @Test("One that fails takes nothing with it: appends and the others go on, its readers get a typed error, and it can be rebuilt")
    func failing() async throws {
        let scratch = try Scratch()
        var store = try scratch.open(projections: [Failing.self, KindCounts.self])
        let chat = try await store.createConversation(.group, author: Talk.users[0])
        try await store.append(Event(conversation: chat, author: Talk.users[0], content: .custom(name: "fail", payload: [])))
        try await store.send("goes on", to: chat, from: Talk.users[0])
        #expect(throws: EventLogError.self) { try store.read(Failing.self) { _ in } }
        #expect(try Self.counts(store) == Self.expected(store))
        try store.log.flush()
        try await store.send("and on", to: chat, from: Talk.users[0])
        #expect(try store.timeline(of: chat)?.messages.count == 2)
        try store.close()
        store = try scratch.open(projections: [KindCounts.self])
        #expect(try Self.counts(store) == Self.expected(store))
        #expect(try store.isFold())
        try store.close()
    }
}
