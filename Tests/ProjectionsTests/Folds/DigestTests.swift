import ConversationStore
import Foundation
import Synchronization
import Testing

@testable import EventLog
@testable import TalkWriter

/// Counts events, and calls somebody when a row is encoded next.
private final class Interrupted: Projection {
    static let name = "interrupted"
    static let version: UInt32 = 1
    static let next = Mutex<(@Sendable () -> Void)?>(nil)
    let counts: Table<ConversationID, Count>

    struct Count: TableRow {
        var value: UInt64
        init(_ value: UInt64) { self.value = value }
        init(decoding reader: inout RowReader) throws { value = try reader.value() }
        func encode(into writer: inout RowWriter) {
            Interrupted.next.withLock { next in
                defer { next = nil }
                return next
            }?()
            writer.put(value)
        }
    }

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws { try counts.update(event.event.conversation) { $0 = Count(($0?.value ?? 0) + 1) } }
}

@Suite("Digests beside appends") struct DigestTests {
    private static let conversation = ConversationID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_0099)

    private static let created = Event(
        conversation: conversation, author: UserID("ann")!, content: .conversationCreated(kind: .group, title: nil, participants: []))

    @Test("A digest is of the moment when it was asked for; appends, flushes and reads go on while it is taken") func meanwhile() throws {
        let scratch = try Scratch()
        let store = try scratch.open(journal: 1 << 20, projections: [Interrupted.self])
        try store.take(FoldTests.talk(21, 400))
        try store.log.flush()
        try store.take(FoldTests.talk(22, 400))
        let before = try store.digest(of: Interrupted.name)
        let isDone = Mutex(false)
        Interrupted.next.withLock { next in
            next = {
                let end = DispatchSemaphore(value: 0)
                Thread {
                    do {
                        try store.take([Self.created])
                        try store.log.flush()
                        let count = try store.read(Interrupted.self) { try $0.counts.row(at: Self.conversation)?.value }
                        let page = try store.timeline(of: Self.conversation)
                        if count == 1, page != nil { isDone.withLock { $0 = true } }
                    } catch { Issue.record(error) }
                    end.signal()
                }.start()
                #expect(end.wait(timeout: .now() + 60) == .success)
            }
        }
        #expect(try store.digest(of: Interrupted.name) == before)
        #expect(isDone.withLock { $0 })
        #expect(try store.digest(of: Interrupted.name) != before)
        #expect(try store.isFold(Interrupted.name))
        try store.close()
    }

    @Test("I4: what is folded and not synced yet, and so not in sight in the log, is part of what is compared") func unsynced() throws {
        let scratch = try Scratch()
        let store = try scratch.open(projections: [KindCounts.self], durability: .relaxed(interval: .seconds(3600)))
        try store.take([Self.created])
        #expect(store.log.lastPosition == 0)
        for name in store.projectionNames { #expect(try store.isFold(name), "\(name)") }
        try store.close()
    }

    @Test("Who reads a projection may read the store meanwhile, while others append") func nested() throws {
        let scratch = try Scratch()
        let store = try scratch.open(projections: [KindCounts.self])
        try store.take([Self.created])
        let isOver = Mutex(false)
        let end = DispatchSemaphore(value: 0)
        Thread {
            do {
                while !isOver.withLock({ $0 }) {
                    try store.take([Event(conversation: Self.conversation, author: UserID("ann")!, content: .custom(name: "tick", payload: []))])
                }
            } catch { Issue.record(error) }
            end.signal()
        }.start()
        for _ in 0..<500 {
            let (count, seq) = try store.read(KindCounts.self) { projection in
                usleep(100)  // So that a commit waits.
                return (try projection.counts.row(at: Self.conversation)?.events, try store.timeline(of: Self.conversation)?.seq)
            }
            #expect(count == seq)
        }
        #expect(try store.read(KindCounts.self) { _ in try store.digest() == store.digest() && store.isFold(KindCounts.name) })
        isOver.withLock { $0 = true }
        end.wait()
        try store.close()
    }

    @Test("I4: a store is the fold of its log at each moment of a run of appends, and after a crash behind any digest", .tags(.recovery)) func underLoad()
        throws
    {
        let scratch = try Scratch()
        let store = try scratch.open(journal: 64 << 10, projections: [KindCounts.self])
        let events = FoldTests.talk(23, 6000)
        let first = DispatchSemaphore(value: 0), end = DispatchSemaphore(value: 0)
        Thread {
            do {
                for start in stride(from: 0, to: events.count, by: 20) {
                    // Not all of it before anybody has looked.
                    if start == 3000 { first.wait() }
                    try store.take(Array(events[start..<start + 20]))
                }
            } catch { Issue.record(error) }
            end.signal()
        }.start()
        var digests: Set<[UInt8]> = []
        for round in 0..<40 {
            for name in store.projectionNames { #expect(try store.isFold(name), "\(name), round \(round)") }
            digests.insert(try store.digest())
            if round == 0 { first.signal() }
        }
        end.wait()
        digests.insert(try store.digest())
        #expect(digests.count > 1)
        for round in 0..<4 as Range<UInt64> {
            // Rows that a digest had frozen go with the next flush, with what changed since.
            _ = try store.digest()
            try store.take(FoldTests.talk(30 + round, 20))
            _ = try store.digest(of: KindCounts.name)
            try store.log.flush()
            try store.take(FoldTests.talk(40 + round, 20))
            let copy = scratch.store + "-\(round)"
            try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
            for file in try FileManager.default.contentsOfDirectory(atPath: scratch.store) where file != "archive-lock" {
                try FileManager.default.copyItem(atPath: scratch.store + "/" + file, toPath: copy + "/" + file)
            }
            defer { try? FileManager.default.removeItem(atPath: copy) }
            let again = try ConversationStore.open(at: copy, options: ConversationStoreOptions(projections: [KindCounts.self]))
            for name in again.projectionNames { #expect(try again.isFold(name), "\(name) after crash \(round)") }
            #expect(try again.digest() == store.digest())
            try again.close()
        }
        try store.close()
    }
}
