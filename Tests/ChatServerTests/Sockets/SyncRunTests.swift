import ChatServer
import ConversationStore
import EventLog
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

    @Test("A token's file that is empty while it is written does not cost the session") func emptyToken() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try ConversationStore.open(at: directory.appendingPathComponent("hub").path)
        let shown = Monitor<[String]>([])
        let hub = try Hub(
            store: store,
            options: HubOptions { token, claimed, reply in
                shown.withLock { $0.append(token) }
                reply(token.isEmpty ? .failure(AuthenticationFailure()) : .success(Identity(user: claimed)))
            })
        try await RunningServer.run(HubEndpoint(hub)) { server in
            // As `tok >file` leaves it for a moment: the second look, a second later, finds nothing.
            let asked = Monitor(0)
            var options = SyncRun.Options(url: server.url) {
                let count = asked.withLock {
                    $0 += 1
                    return $0
                }
                return count == 1 ? "first" : count == 2 ? "" : "second"
            }
            options.follows = true
            let path = directory.appendingPathComponent("replica").path
            let run = SyncRun(options, open: { try Replica.open(at: path, user: UserID("ada")) })
            let task = Task { try await run.run() }
            #expect(await eventually { shown.withLock { $0.last } == "second" })
            run.stop()
            let report = try await task.value
            #expect(report.connections == 1)
            #expect(shown.withLock { $0 } == ["first", "second"])
        }
        try store.close()
    }

    @Test("A run that is told to stop does not wait for a server that takes it and says nothing") func stopsWhileItConnects() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let silent = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(silent) }
        var address = sockaddr_in(), size = socklen_t(MemoryLayout<sockaddr_in>.size)
        (address.sin_family, address.sin_addr.s_addr) = (sa_family_t(AF_INET), INADDR_LOOPBACK.bigEndian)
        try withUnsafeMutablePointer(to: &address) { address in
            try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                try #require(bind(silent, address, size) == 0 && listen(silent, 8) == 0 && getsockname(silent, address, &size) == 0)
            }
        }
        let isAsked = Monitor(false)
        var options = SyncRun.Options(url: "ws://127.0.0.1:\(UInt16(bigEndian: address.sin_port))/v1/sync") {
            isAsked.withLock { $0 = true }
            return ""
        }
        (options.follows, options.client.connectTimeoutSeconds) = (true, 3600)
        let run = SyncRun(options, open: { try Replica.open(at: path, user: UserID("ada")) }), ended = Monitor(false)
        let task = Task {
            defer { ended.withLock { $0 = true } }
            return try await run.run()
        }
        #expect(await eventually { isAsked.withLock { $0 } })
        try await Task.sleep(for: .milliseconds(200))
        run.stop()
        try #require(await eventually { ended.withLock { $0 } })
        #expect(try await task.value.connections == 0)
    }

    @Test("A hub that ends a session without a reason is understood all the same", arguments: Bye.Code.allCases) func reasons(code: Bye.Code) {
        let told = Bye(code).told
        #expect(told.contains(" ") && !told.contains("\(code)"), "\(told)")
        #expect(Bye(code, "\n").told == told && Bye(code, "so\nlong").told == "so long")
    }

    @Test("A status that says it will pass is tried again; what no trying mends is not", arguments: [408, 425, 429, 500, 502, 503])
    func statuses(passing status: Int) {
        #expect(WebSocketError(.rejected, "a proxy", status: status).mayPass)
        for final in [301, 400, 401, 403, 404, 426] { #expect(!WebSocketError(.rejected, "a proxy", status: final).mayPass) }
    }
}
