import ConversationStore
import Crypto
import Foundation
import ReplicationWebSocket
import Testing

/// `convstore serve`, as a process.
extension ServerTests {
    @Suite("convstore serve") struct ServeTests {
        /// It lies beside the tests, wherever they were built.
        private static let program: String = {
            if let given = ProcessInfo.processInfo.environment["CONVSTORE"] { return given }
            let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            for argument in [own] + CommandLine.arguments where argument.contains("xctest") {
                var directory = URL(fileURLWithPath: argument).deletingLastPathComponent()
                while directory.path != "/" {
                    let candidate = directory.appendingPathComponent("convstore").path
                    if FileManager.default.isExecutableFile(atPath: candidate), !candidate.hasSuffix("xctest") { return candidate }
                    directory.deleteLastPathComponent()
                }
            }
            return "convstore"
        }()

        private final class Serve {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-serve-" + UUID().uuidString)
            let process = Process()

            init(_ arguments: [String], store: String? = nil) throws {
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                process.executableURL = URL(fileURLWithPath: ServeTests.program)
                process.arguments = ["serve", "--store", store ?? file("store")] + arguments
                process.standardOutput = try handle("output")
                process.standardError = try handle("errors")
                process.standardInput = FileHandle.nullDevice
                try process.run()
            }

            deinit {
                if process.isRunning { kill(process.processIdentifier, SIGKILL) }
                try? FileManager.default.removeItem(at: folder)
            }

            func file(_ name: String) -> String { folder.appendingPathComponent(name).path }
            func text(_ name: String) -> String { (try? String(contentsOfFile: file(name), encoding: .utf8)) ?? "" }

            private func handle(_ name: String) throws -> FileHandle {
                try Data().write(to: URL(fileURLWithPath: file(name)))
                return try FileHandle(forWritingTo: URL(fileURLWithPath: file(name)))
            }

            func status() async -> Int32 { await eventually { !process.isRunning } ? process.terminationStatus : -1 }

            /// The URL of the line that it prints when it is ready.
            func url() async throws -> String {
                _ = await eventually { text("output").hasSuffix("\n") || !process.isRunning }
                let line = text("output")
                try #require(line.hasPrefix("listening on ws"), "\(line)\(text("errors"))")
                return line.dropFirst("listening on ".count).trimmingCharacters(in: .newlines)
            }
        }

        @Test("Nobody is let in by mistake: without a key it does not start") func refusals() async throws {
            let secret = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-secret-" + UUID().uuidString).path
            try Data("short".utf8).write(to: URL(fileURLWithPath: secret))
            defer { try? FileManager.default.removeItem(atPath: secret) }
            let longSecret = secret + "-long"
            try Data("a secret of thirty-two bytes or more".utf8).write(to: URL(fileURLWithPath: longSecret))
            defer { try? FileManager.default.removeItem(atPath: longSecret) }
            for (arguments, status, words) in [
                (["--listen", "127.0.0.1:0"], 64, "--jwt-key"), (["--listen", "0.0.0.0:0", "--insecure-any-user"], 64, "loopback"),
                (["--listen", "127.0.0.1.example:0", "--insecure-any-user"], 64, "loopback"),
                (["--listen", "nowhere", "--insecure-any-user"], 64, "HOST:PORT"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--jwt-key", secret], 64, "only one"),
                (["--listen", "127.0.0.1:0", "--jwt-key", secret, "--service-user", "bot"], 64, "--service-user"),
                (["--listen", "no host:0", "--jwt-key", longSecret], 69, "there is no host no host"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--tls-cert", secret], 64, "--tls-key"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--checkpoint-every", "\(Int.max)"], 64, "--checkpoint-every is 0 to 1000000000"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--abandoned-after", "1000000001"], 64, "--abandoned-after is 0 to 1000000000"),
                (["--listen", "127.0.0.1:0", "--jwt-key", secret, "--jwt-issuer", ""], 64, "not empty"),
                (["--listen", "127.0.0.1:0", "--jwt-key", secret, "--jwt-audience", ""], 64, "not empty"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--allow-origin", ""], 64, "origin"),
                (["--listen", "127.0.0.1:0", "--jwt-key", secret], 65, "guessed"),
                (["--listen", "127.0.0.1:0", "--jwt-key", "/nowhere"], 66, "/nowhere cannot be read: No such file"),
                (["--listen", "127.0.0.1:0", "--jwt-key", "/"], 66, "/ cannot be read: Is a directory"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--tls-cert", "/nowhere", "--tls-key", secret], 66, "No such file"),
                (["--listen", "127.0.0.1:0", "--insecure-any-user", "--tls-cert", secret, "--tls-key", secret], 65, "PEM"),
                (["--listen", "127.0.0.1:0", "--jwks", "http://issuer.example/jwks"], 64, "https://"),
                (["--listen", "127.0.0.1:0", "--jwks", "ftp://localhost/jwks"], 64, "https://"),
                (["--listen", "127.0.0.1:0", "--jwks", secret, "--jwks-ca", secret], 64, "--jwks-ca"),
                (["--listen", "127.0.0.1:0", "--jwks", "http://127.0.0.1:1/jwks"], 69, "nobody listens"),
                (["--listen", "127.0.0.1:0", "--jwks", "https://localhost:1/jwks", "--jwks-ca", secret], 65, "PEM"),
            ] as [([String], Int, String)] {
                let serve = try Serve(arguments)
                #expect(await serve.status() == Int32(status), "\(arguments)")
                #expect(serve.text("errors").contains(words), "\(arguments): \(serve.text("errors"))")
                #expect(serve.text("output").isEmpty)
            }
        }

        @Test("Python's client talks to the hub; SIGTERM ends it in good order, with sockets open", arguments: [SIGTERM, SIGINT, SIGHUP])
        func hub(signal: Int32) async throws {
            // Tests that were started to outlive a terminal would hand that down.
            let old = Foundation.signal(SIGHUP, SIG_DFL)
            let serve = try Serve(["--listen", "127.0.0.1:0", "--insecure-any-user", "--log-level", "debug"])
            _ = Foundation.signal(SIGHUP, old)
            let url = try await serve.url()
            let result = try await Python.run("echo_client.py", [url, "hub"])
            #expect(result.status == 0, "\(result.output)")
            let heard = Heard()
            let client = try await WebSocketClient.connect(to: url, onMessage: heard.message) { heard.close($0, $1) }
            // Two hubs of one store would give one seq to two events.
            let second = try Serve(["--listen", "127.0.0.1:0", "--insecure-any-user"], store: serve.file("store"))
            #expect(await second.status() == 75)
            let begin = ContinuousClock.now
            kill(serve.process.processIdentifier, signal)
            #expect(await eventually { heard.hasEnded })
            #expect(heard.code == 1001)
            #expect(await serve.status() == 0)
            // An idle connection would be kept for half a minute.
            #expect(ContinuousClock.now - begin < .seconds(20))
            #expect(serve.text("output").split(separator: "\n").count == 1)
            #expect(serve.text("errors").hasSuffix("info convstore \"stopped\"\n"))
            client.close()
        }

        /// A client that was written by docs/PROTOCOL.md alone.
        @Test("A replica in Python syncs, pushes and resumes") func replica() async throws {
            let path = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-serve-" + UUID().uuidString).path
            defer { try? FileManager.default.removeItem(atPath: path) }
            let (ada, bob) = (UserID("ada")!, UserID("bob")!)
            let store = try ConversationStore.open(at: path)
            let chat = try await store.createConversation(.group, title: "plans", author: ada, participants: [bob])
            // More than fit into EVENTS.
            for number in 1...100 { try await store.send("message \(number)", to: chat, from: ada) }
            try store.close()
            let serve = try Serve(["--listen", "127.0.0.1:0", "--insecure-any-user"], store: path)
            let result = try await Python.run("sync_client.py", [serve.url(), "bob", "", chat.description, "hello from Python"])
            #expect(result.status == 0, "\(result.output)")
            #expect(result.output.split(separator: "\n").count == 4, "\(result.output)")
            kill(serve.process.processIdentifier, SIGTERM)
            #expect(await serve.status() == 0)
            let after = try ConversationStore.open(at: path)
            let page = try #require(try after.timeline(of: chat))
            #expect(page.messages.count { $0.text == "hello from Python" } == 1 && page.messages.last?.author == bob)
            try after.close()
        }

        @Test("Keys come from a URL, or it does not start") func keysAtURL() async throws {
            let issuer = try Issuer()
            let directory = issuer.directory.appendingPathComponent("keys")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            let path = directory.appendingPathComponent("jwks")
            try Data(Issuer.set([("a", issuer.p256.publicKey)]).utf8).write(to: path)
            let store = issuer.directory.appendingPathComponent("store").path
            let (ada, bob) = (UserID("ada")!, UserID("bob")!)
            let chats = try ConversationStore.open(at: store)
            let chat = try await chats.createConversation(.group, title: "plans", author: ada, participants: [bob])
            for number in 1...100 { try await chats.send("message \(number)", to: chat, from: ada) }
            try chats.close()
            try await Python.serve("key_server.py", [directory.path, Python.file("localhost.pem"), Python.file("localhost.key")]) { url in
                for (jwks, status) in [(url + "nowhere", Int32(69)), (url + "asked", 65)] {
                    let serve = try Serve(["--listen", "127.0.0.1:0", "--jwks", jwks, "--jwks-ca", Python.file("localhost.pem")])
                    #expect(await serve.status() == status, "\(serve.text("errors"))")
                    #expect(!FileManager.default.fileExists(atPath: serve.file("store")), "it made a store")
                }
                let serve = try Serve(
                    ["--listen", "127.0.0.1:0", "--jwks", url + "jwks", "--jwks-ca", Python.file("localhost.pem"), "--jwt-audience", "hub"], store: store)
                let address = try await serve.url()
                func sync(_ kid: String) async throws -> String {
                    let seconds = Int(Date().timeIntervalSince1970) + 600
                    let token = try issuer.token("ES256", Issuer.claims(sub: "\"bob\"", exp: "\(seconds)"), header: ",\"kid\":\"\(kid)\"")
                    let result = try await Python.run("sync_client.py", [address, "bob", token, chat.description, "hello"])
                    return "\(result.status) \(result.output)"
                }
                #expect(try await sync("a").hasPrefix("0 "))
                #expect(try await !sync("b").hasPrefix("0 "))
                kill(serve.process.processIdentifier, SIGTERM)
                #expect(await serve.status() == 0)
            }
        }

        @Test("An address that is taken is told of") func taken() async throws {
            let first = try Serve(["--listen", "127.0.0.1:0", "--insecure-any-user"])
            let port = try await first.url().split(separator: ":").last!.prefix { $0.isNumber }
            let second = try Serve(["--listen", "127.0.0.1:\(port)", "--insecure-any-user"])
            #expect(await second.status() == 69)
            #expect(second.text("errors").contains("127.0.0.1:\(port): bind: Address already in use: it cannot be listened on"))
        }
    }
}
