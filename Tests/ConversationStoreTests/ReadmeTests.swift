import ConversationStore
import Foundation
import Testing

@Suite("README: the front door") struct ReadmeTests {
    /// The program as the README prints it, compiled: the two are compared line by line below.
    static func program(path: String, model: AsyncStream<String>) async throws {
        let (ada, bot) = (UserID("ada")!, UserID("bot")!)
        let store = try ConversationStore.open(at: path)
        let chat = try await store.createConversation(.assistant, title: "LMDB", author: ada, participants: [bot])
        try await store.send("What is LMDB?", to: chat, from: ada)
        let answer = try await store.startMessage(in: chat, from: bot)
        for await delta in model { try await answer.append(delta) }  // many streams share a commit; a crash keeps what was committed
        try await answer.complete()
        print(try store.lobby(of: ada).rows.first?.unread ?? 0, try store.timeline(of: chat)?.messages.map(\.text) ?? [])
        for try await update in store.timelineUpdates(of: chat) where !update.page.messages.isEmpty { break }  // now, then after each change
        try store.close()
    }

    @Test("its program is the one that is compiled here, and it runs") func program() async throws {
        let scratch = Scratch()
        let model = AsyncStream { stream in
            for word in ["A ", "memory-mapped ", "B+tree."] { stream.yield(word) }
            stream.finish()
        }
        try await Self.program(path: scratch.store, model: model)
        let store = try scratch.open()
        let lobby = try store.lobby(of: UserID("ada")!)
        #expect(lobby.rows.count == 1 && lobby.rows[0].unread == 1)
        #expect(lobby.rows.first?.lastMessage?.snippet == "A memory-mapped B+tree.")
        try store.close()

        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func lines(_ url: URL) throws -> [String] {
            try String(contentsOf: url, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
        let readme = try lines(root.appending(path: "README.md"))
        let blocks = readme.indices.filter { readme[$0] == "```swift" }
        let start = try #require(blocks.first { readme[$0 + 1] == "import ConversationStore" }, "README shows no program of the front door")
        let end = try #require(readme[start...].firstIndex(of: "```"))
        let compiled = Set(try lines(URL(filePath: #filePath)))
        for line in readme[start + 1..<end] { #expect(compiled.contains(line), "\(line)") }
        #expect(end - start - 1 <= 13, "the import, an empty line and about ten more")
    }
}
