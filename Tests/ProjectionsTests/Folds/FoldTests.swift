import ConversationStore
import Foundation
import Testing

@testable import EventLog
@testable import Projections
@testable import TalkWriter

struct Interruption: Error {}

@Suite("I4: state is a fold") struct FoldTests {
    static func talk(_ seed: UInt64, _ count: Int) -> [Event] {
        var talk = Talk(seed: seed)
        return (0..<count).map { _ in talk.next() }
    }

    @Test("The digest is the same live, flushed, reopened, read only and rebuilt", arguments: [64 << 10, 1 << 20])
    func digest(_ journal: Int) throws {
        let scratch = try Scratch()
        var store = try scratch.open(journal: journal)
        try store.take(Self.talk(1, 3000))
        let digest = try store.digest()
        #expect(try store.isFold())
        try store.log.flush()
        #expect(try store.digest() == digest)
        try store.close()
        for _ in 0..<2 {
            let reader = try scratch.open(.readOnly)
            #expect(try reader.digest() == digest)
            try reader.close()
            store = try scratch.open(journal: journal)
            #expect(try store.digest() == digest)
            try store.rebuild()
            #expect(try store.digest() == digest)
            try store.close()
        }
    }

    @Test("Tables that were dropped, and a record that was, are built anew to the same digest", arguments: [true, false])
    func dropped(_ dropsTables: Bool) throws {
        let scratch = try Scratch()
        var store = try scratch.open(projections: [KindCounts.self])
        try store.take(Self.talk(2, 2000))
        let digests = try ["conversations", "kind-counts"].map { try store.digest(of: $0) }
        try store.close()
        let archive = try Archive(directory: scratch.store, isReadOnly: false, mapBytesMax: .max / 2)
        for name in ["conversations", "kind-counts"] {
            if dropsTables {
                for number in 0..<2 as Range<UInt32> { if let table = try archive.foldTable(name, number, creates: false) { try archive.drop(table) } }
            } else {
                try archive.environment.write { try $0.delete(archive.meta, FoldRecord.key(name)) }
            }
        }
        archive.environment.close()
        let reader = try scratch.open(.readOnly, projections: [KindCounts.self])
        #expect(try ["conversations", "kind-counts"].map { try reader.digest(of: $0) } == digests)
        try reader.close()
        store = try scratch.open(projections: [KindCounts.self])
        #expect(try ["conversations", "kind-counts"].map { try store.digest(of: $0) } == digests)
        try store.close()
    }

    @Test("The built-in projection's table that somebody emptied is built anew, by a reader in memory and by a writer for good")
    func emptied() throws {
        let scratch = try Scratch()
        var store = try scratch.open()
        try store.take(Self.talk(2, 500))
        let digest = try store.digest()
        try store.close()
        let archive = try Archive(directory: scratch.store, isReadOnly: false, mapBytesMax: .max / 2)
        for number in 0..<2 as Range<UInt32> {
            guard let table = try archive.foldTable("conversations", number, creates: false) else { continue }
            try archive.environment.write { transaction in
                var keys: [[UInt8]] = []
                try transaction.forEach(table.table, from: []) { key, _ in
                    keys.append(Array(key))
                    return true
                }
                for key in keys { try transaction.delete(table.table, key) }
            }
        }
        archive.environment.close()
        for access in [StoreOptions.Access.readOnly, .readWrite] {
            store = try scratch.open(access)
            #expect(try store.digest() == digest)
            try store.close()
        }
    }

    @Test("A store that was written without projections gets them when it is opened with them, and catches up when it had them before")
    func catchesUp() throws {
        let scratch = try Scratch()
        let events = Self.talk(3, 3000)
        func write(_ range: Range<Int>) throws {
            let log = try EventStore.open(
                at: scratch.store, options: StoreOptions(durability: .relaxed(interval: .milliseconds(20)), journalBytesMax: 256 << 10))
            _ = try log.appendBlocking(events[range].map { Submission($0) })
            try log.close()
        }
        try write(0..<1000)
        var store = try scratch.open()
        #expect(try store.isFold())
        try store.close()
        try write(1000..<2000)
        let reader = try scratch.open(.readOnly)
        #expect(try reader.isFold())
        try reader.close()
        store = try scratch.open()
        #expect(try store.isFold())
        try store.take(Array(events[2000...]))
        #expect(try store.isFold())
        let digest = try store.digest()
        try store.close()
        store = try scratch.open()
        #expect(try store.digest() == digest)
        try store.close()
    }

    @Test("A rebuild that is interrupted changes nothing and goes on where it stopped")
    func interrupted() throws {
        let scratch = try Scratch()
        let store = try scratch.open(journal: 4 << 20)
        try store.take(Self.talk(4, 20_000), batch: 500)
        try store.log.flush()
        let digest = try store.digest()
        #expect(throws: Interruption.self) { try store.rebuild { done, _ in if done > 10_000 { throw Interruption() } } }
        #expect(try store.digest() == digest)
        var talk = Talk(seed: 5)
        try store.take((0..<500).map { _ in talk.next() })
        let later = try store.digest()
        var first: UInt64 = .max
        try store.rebuild { done, _ in first = min(first, done) }
        // Whoever begins anew tells of event 16,384 again.
        #expect(first > 16_384)
        #expect(try store.digest() == later)
        #expect(try store.isFold())
        try store.close()
    }

    @Test("A rebuild beside appends and readers: readers see neither half a state nor an older one", .timeLimit(.minutes(20)))
    func underLoad() async throws {
        let scratch = try Scratch()
        let store = try scratch.open(journal: 512 << 10)
        try store.take(Self.talk(6, 4000), batch: 500)
        let chat = try await store.createConversation(.group, author: Talk.users[0], participants: [Talk.users[1]])
        try await store.send("first", to: chat, from: Talk.users[0])
        let isDone = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                var last: UInt64 = 0
                var pages = 0
                while !isDone.isUp {
                    let row = try #require(try store.lobbyRow(of: chat, for: Talk.users[1]))
                    let page = try #require(try store.timeline(of: chat, limit: .max))
                    #expect(row.unread >= last && UInt64(page.messages.count) >= row.unread)
                    #expect(page.messages.map(\.seq) == Array(2..<2 + Seq(page.messages.count)))
                    last = UInt64(page.messages.count)
                    pages += 1
                    if pages % 16 == 0 { try await Task.sleep(for: .milliseconds(1)) }
                }
                #expect(pages > 3)
            }
            group.addTask {
                var talk = Talk(seed: 7)
                for round in 0..<60 {
                    let others = (0..<40).map { _ in talk.next() }
                    _ = try await store.append(others.map { Submission($0) })
                    try await store.send("message \(round)", to: chat, from: Talk.users[0])
                }
                isDone.raise()
            }
            group.addTask {
                var count = 0
                while !isDone.isUp {
                    try store.rebuild()
                    count += 1
                    await Task.yield()
                }
                #expect(count > 0)
            }
            try await group.waitForAll()
        }
        #expect(try store.isFold())
        let digest = try store.digest()
        try store.close()
        let again = try scratch.open()
        #expect(try again.digest() == digest)
        try again.close()
    }

    @Test("Half of an atomic batch is never seen")
    func atomic() async throws {
        let scratch = try Scratch()
        let store = try scratch.open()
        var chats: [ConversationID] = []
        for _ in 0..<2 { chats.append(try await store.createConversation(.group, author: Talk.users[0])) }
        let (one, two) = (chats[0], chats[1])
        let isDone = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while !isDone.isUp {
                    let rows = try store.lobby(of: Talk.users[0]).rows
                    #expect(Set(rows.map { $0.lastMessage?.seq }).count == 1)
                    await Task.yield()
                }
            }
            group.addTask {
                for round in 0..<200 {
                    let batch = [one, two].map { chat in
                        Submission(
                            Event(
                                conversation: chat, author: Talk.users[0],
                                content: .messageSent(Event.Message(id: .random(), role: .user, text: "\(round)"))))
                    }
                    _ = try await store.append(batch, isAtomic: true)
                }
                isDone.raise()
            }
            try await group.waitForAll()
        }
        try store.close()
    }
}
