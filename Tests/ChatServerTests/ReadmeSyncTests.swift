import ChatServer
import ConversationStore
import Foundation
import Logging
import Replication
import ReplicationWebSocket
import ServiceLifecycle
import Testing
import UnixSignals

extension ServerTests {
    /// What README.md shows of hub and device.
    @Suite("README: a hub and a device") struct ReadmeSyncTests {
        /// An application, as far as the README's program speaks of it.
        protocol App: Sendable {
            func use(_ replica: Replica) -> Replica
        }

        /// The program as the README prints it, compiled: the two are compared line by line below.
        static func hub(store: ConversationStore, logger: Logger) async throws {
            // The hub: a store that devices follow.
            let hub = try Hub(store: store, options: TokenVerifier(try await TokenKeys.file("public.pem")).options)
            let server = try HubServer(hub, options: HubServerOptions(host: "127.0.0.1", port: 8080), logger: logger)
            try await ServiceGroup(services: [server], gracefulShutdownSignals: [.sigterm], logger: logger).run()
        }

        static func device(
            app: any App, replica: Replica, path: String, ada: UserID, chat: ConversationID, token: @escaping @Sendable () throws -> String
        ) throws {
            // The device: a store like any other, with an outbox. `open` is asked again if the replica had to set itself right.
            var options = SyncRun.Options(url: "wss://chat.example/v1/sync") { try token() }
            options.follows = true
            let run = SyncRun(options) { try app.use(Replica.open(at: path, user: ada)) }
            Task { try await run.run() }
            try replica.append(Event(conversation: chat, author: ada, content: .messageSent(.init(id: .random(), role: .user, text: "Hello"))))
            run.outboxChanged()  // it was durable, and on the screen as pending, before; online or not
        }

        @Test("Its program is the one that is compiled here") func program() throws {
            let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            func lines(_ url: URL) throws -> [String] {
                try String(contentsOf: url, encoding: .utf8).components(separatedBy: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            }
            let readme = try lines(root.appending(path: "README.md"))
            let start = try #require(readme.indices.first { readme[$0] == "```swift" && readme[$0 + 1] == "import ChatServer" })
            let end = try #require(readme[start...].firstIndex(of: "```"))
            let compiled = Set(try lines(URL(filePath: #filePath)))
            for line in readme[start + 1..<end] { #expect(compiled.contains(line), "\(line)") }
        }

        @Test("What a device writes while it is connected is at the hub, and what others write there is at the device") func sync() async throws {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-readme-" + UUID().uuidString)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let (ada, bot) = (UserID("ada")!, UserID("bot")!)
            let store = try ConversationStore.open(at: directory.appendingPathComponent("hub").path)
            let chat = try await store.createConversation(.assistant, title: "LMDB", author: ada, participants: [bot])

            let hub = try Hub(store: store, options: .anyUser())
            let (ports, port) = AsyncStream.makeStream(of: Int.self)
            let server = try HubServer(hub, options: HubServerOptions(host: "127.0.0.1"), logger: RunningServer.logger) { port.yield($0) }
            let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [server], logger: RunningServer.logger))
            let serving = Task { try await group.run() }
            let number = try #require(await ports.first { _ in true })

            let device = Monitor<Replica?>(nil)
            let path = directory.appendingPathComponent("device").path
            var options = SyncRun.Options(url: "ws://127.0.0.1:\(number)/v1/sync") { "" }
            options.follows = true
            let settled = Monitor(0)
            let run = SyncRun(options) {
                let replica = try Replica.open(at: path, user: ada)
                device.withLock { $0 = replica }
                return replica
            } observe: {
                if case .settled = $0 { settled.withLock { $0 += 1 } }
            }
            let running = Task { try await run.run() }
            #expect(await eventually { settled.withLock { $0 > 0 } })
            let replica = try #require(device.withLock { $0 })

            let hello = Event(conversation: chat, author: ada, content: .messageSent(.init(id: .random(), role: .user, text: "What is LMDB?")))
            try replica.append(hello)
            #expect(try replica.store.timeline(of: chat)?.messages.map(\.text) == ["What is LMDB?"])
            run.outboxChanged()
            #expect(try await eventually { try replica.outbox.isEmpty && store.timeline(of: chat)?.messages.count == 1 })
            try await store.send("A B+ tree.", to: chat, from: bot)
            #expect(try await eventually { try replica.store.timeline(of: chat)?.messages.last?.text == "A B+ tree." })
            #expect(try replica.store.log.head(of: .conversation(chat)) == store.log.head(of: .conversation(chat)))

            run.stop()
            let report = try await running.value
            #expect(report.accepted == 1 && report.eventsReceived == 3 && report.connections == 1)
            await group.triggerGracefulShutdown()
            try await serving.value
            try store.close()
        }
    }
}
