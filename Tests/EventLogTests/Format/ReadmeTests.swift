import EventLog
import Foundation
import Testing

@Suite("README") struct ReadmeTests {
    /// The program as the README prints it, compiled: the two are compared line by line below.
    static func program(path: String) async throws {
        let store = try EventStore.open(at: path)
        let (chat, anna) = (ConversationID.random(), UserID("anna")!)
        let outcomes = try await store.append([
            Submission(Event(conversation: chat, author: anna, content: .conversationCreated(kind: .direct, title: nil, participants: [anna]))),
            Submission(Event(conversation: chat, author: anna, content: .messageSent(.init(id: .random(), role: .user, text: "Hello")))),
        ])
        print(outcomes)  // accepted, with seq, position and the hub's clock; what was sent twice is a duplicate, what breaks a rule refused
        try store.replay { recorded in
            print(recorded.seq, recorded.event.content)
            return true
        }
        try store.close()
    }

    @Test("its program is the one that is compiled here, and it runs") func program() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "readme-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await Self.program(path: folder.appending(path: "chats.store").path(percentEncoded: false))

        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func lines(_ url: URL) throws -> [Substring] { try String(contentsOf: url, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false) }
        let readme = try lines(root.appending(path: "README.md"))
        let start = try #require(readme.indices.first { readme[$0] == "```swift" && readme[$0 + 1] == "import EventLog" })
        let end = try #require(readme[start...].firstIndex(of: "```"))
        let compiled = Set(try lines(URL(filePath: #filePath)).map { $0.trimmingCharacters(in: .whitespaces) })
        for line in readme[start + 1..<end] { #expect(compiled.contains(line.trimmingCharacters(in: .whitespaces)), "\(line)") }
    }
}
