import ChatServer
import ConversationStore
import EventLog
import Foundation
import Replication
import StoreTesting
import Testing

extension ServerTests {
    @Suite("A hub that cannot write") struct FullDiskTests {
        private static func get(_ path: String, _ server: RunningServer) async throws -> String {
            let connection = try RawConnection(port: server.port)
            await connection.send("GET /\(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return String(decoding: await connection.readToEnd(), as: UTF8.self)
        }

        @Test("It is not ready while its last write failed, and says why; a failed sync stays", .timeLimit(.minutes(20))) func readiness() async throws {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-full-" + UUID().uuidString)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let disk = FullDisk(directory.path)
            defer { disk.remove() }
            let store = try ConversationStore.open(at: directory.appendingPathComponent("hub").path)
            let ada = UserID("ada")!
            let chat = try await store.createConversation(.assistant, author: ada)
            try await RunningServer.run(HubEndpoint(Hub(store: store, options: .anyUser()))) { server in
                #expect(try await Self.get("readyz", server).hasPrefix("HTTP/1.1 200 "))
                disk.set(isFull: true)
                await #expect(throws: EventLogError.self) { try await store.send(String(repeating: "x", count: 1 << 20), to: chat, from: ada) }
                let full = try await Self.get("readyz", server)
                #expect(full.hasPrefix("HTTP/1.1 503 ") && full.hasSuffix("the store's disk is full\n"), "\(full)")
                #expect(try await Self.get("healthz", server).hasPrefix("HTTP/1.1 200 "))
                let metrics = try await Self.get("metrics", server)
                #expect(metrics.contains("convstore_hub_write_failures_total 1\n") && metrics.contains("convstore_hub_store_writable 0\n"))
                _ = try await store.send("there is room for this", to: chat, from: ada)
                #expect(try await Self.get("readyz", server).hasPrefix("HTTP/1.1 200 "))
                #expect(try await Self.get("metrics", server).contains("convstore_hub_store_writable 1\n"))
                disk.breakDown()
                for text in ["lost?", "not taken"] { await #expect(throws: EventLogError.self) { try await store.send(text, to: chat, from: ada) } }
                let broken = try await Self.get("readyz", server)
                #expect(broken.hasPrefix("HTTP/1.1 503 ") && broken.hasSuffix("a write or sync of the store failed: see the log\n"), "\(broken)")
            }
            try? store.close()
        }
    }
}
