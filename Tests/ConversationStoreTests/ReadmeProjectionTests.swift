import ConversationStore
import Foundation
import Testing

final class MessageCounts: Projection {
    static let name = "message-counts"  // For ever.
    static let version: UInt32 = 1  // Raise it when rows mean something else: then they are built anew.
    let counts: Table<ConversationID, Count>

    struct Count: TableRow {
        var value: UInt64
        init(_ value: UInt64) { self.value = value }
        init(decoding reader: inout RowReader) throws { value = try reader.value() }
        func encode(into writer: inout RowWriter) { writer.put(value) }
    }

    init(tables: inout ProjectionTables) { counts = tables.table() }

    func apply(_ event: RecordedEvent) throws {
        guard case .messageSent = event.event.content else { return }
        try counts.update(event.event.conversation) { $0 = Count(($0?.value ?? 0) + 1) }
    }
}

@Suite("README: an application's own projection") struct ReadmeProjectionTests {
    static func open(_ path: String) throws -> ConversationStore {
        let store = try ConversationStore.open(at: path, options: ConversationStoreOptions(projections: [MessageCounts.self]))
        return store
    }

    static func count(_ store: ConversationStore, _ chat: ConversationID) throws -> UInt64 {
        let count = try store.read(MessageCounts.self) { try $0.counts.row(at: chat)?.value ?? 0 }
        return count
    }

    @Test("it is the one that is compiled here, and it counts: also what was there before it was named, and after a closing") func program() async throws {
        let scratch = Scratch()
        let ada = UserID("ada")!
        var store = try scratch.open()
        let chat = try await store.createConversation(.group, author: ada)
        try await store.send("before", to: chat, from: ada)
        try store.close()
        store = try Self.open(scratch.store)
        #expect(try Self.count(store, chat) == 1)
        try await store.send("after", to: chat, from: ada)
        #expect(try Self.count(store, chat) == 2)
        #expect(try store.isFold(MessageCounts.name))
        try store.close()
        store = try Self.open(scratch.store)
        #expect(try Self.count(store, chat) == 2)
        try store.close()

        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func lines(_ url: URL) throws -> [String] {
            try String(contentsOf: url, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
        let readme = try lines(root.appending(path: "README.md"))
        let start = try #require(readme.firstIndex(of: "final class MessageCounts: Projection {"), "README shows no projection of an application")
        let end = try #require(readme[start...].firstIndex(of: "```"))
        let compiled = Set(try lines(URL(filePath: #filePath)))
        for line in readme[start..<end] { #expect(compiled.contains(line), "\(line)") }
    }
}
