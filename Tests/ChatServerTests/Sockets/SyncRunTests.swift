import ConversationStore
import Foundation
import Replication
import ReplicationWebSocket
import Testing

/// What a run does when something around its sessions fails.
@Suite struct SyncRunTests {
    @Test func aTokenThatCannotBeReadEndsTheRunBeforeThereIsASocket() async throws {
        struct NoToken: Error {}
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        // Nobody listens there: whoever opens a socket first says so.
        let options = SyncRun.Options(url: "ws://127.0.0.1:1/v1/sync") { throw NoToken() }
        let run = SyncRun(options, open: { try Replica.open(at: path, user: UserID("ada")) })
        await #expect(throws: NoToken.self) { try await run.run() }
    }

    @Test("A status that says it will pass is tried again; what no trying mends is not", arguments: [408, 425, 429, 500, 502, 503])
    func statuses(passing status: Int) {
        #expect(WebSocketError(.rejected, "a proxy", status: status).mayPass)
        for final in [301, 400, 401, 403, 404, 426] { #expect(!WebSocketError(.rejected, "a proxy", status: final).mayPass) }
    }
}
