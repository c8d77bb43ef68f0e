import ChatServer
import EventLog
import ReplicationWebSocket
import Testing

extension ServerTests {
    /// RFC 6455 as others read it: Python's `websockets` (Debian's python3-websockets).
    @Suite("Peers that are not ours") struct PeerTests {
        private static let tls = ServerTLS(certificateFile: Python.file("localhost.pem"), keyFile: Python.file("localhost.key"))

        @Test("Python's client and our server understand each other", arguments: [false, true]) func client(isSecure: Bool) async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.tls = isSecure ? Self.tls : nil }) { server in
                let url = isSecure ? "wss://localhost:\(server.port)/v1/sync" : server.url
                let result = try await Python.run("echo_client.py", [url, "echo"] + (isSecure ? [Self.tls.certificateFile] : []))
                #expect(result.status == 0, "\(result.output)")
                #expect(result.output.split(separator: "\n").count == 12, "\(result.output)")
            }
        }

        @Test("Our client and Python's server understand each other", arguments: [false, true]) func server(isSecure: Bool) async throws {
            var options = WebSocketClient.Options()
            options.certificateAuthority = isSecure ? Self.tls.certificateFile : nil
            try await Python.serve("echo_server.py", isSecure ? [Self.tls.certificateFile, Self.tls.keyFile] : []) { [options] url in
                func ask(_ message: [UInt8]) async throws -> Heard {
                    let heard = Heard()
                    let client = try await WebSocketClient.connect(to: url, options: options, onMessage: heard.message) { heard.close($0, $1) }
                    client.send(message)
                    #expect(await eventually { heard.count == 1 || heard.hasEnded })
                    client.close()
                    #expect(await eventually { heard.hasEnded })
                    return heard
                }
                for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
                    let message = [UInt8](repeating: UInt8(truncatingIfNeeded: size), count: size)
                    let echo = try await ask(message)
                    #expect(echo.messages.withLock { $0 } == [message])
                }
                let parts = try await ask(Array("parts:300".utf8)), pong = try await ask(Array("ping".utf8))
                #expect(parts.messages.withLock { $0.first?.count } == 300)
                #expect(pong.messages.withLock { $0.first } == Array("pong".utf8))
                let closed = try await ask(Array("close:4401".utf8)), text = try await ask(Array("text".utf8)), dropped = try await ask(Array("drop".utf8))
                #expect(closed.code == 4401)
                #expect(closed.end.withLock { $0?.reason } == "as you wish")
                #expect(text.code == 1003)
                #expect(dropped.code == nil)
            }
        }

        @Test("A certificate that is not trusted, or another host's, is refused") func trust() async throws {
            try await RunningServer.run(
                EchoEndpoint(),
                {
                    $0.tls = Self.tls
                    $0.host = "0.0.0.0"
                }
            ) { server in
                var trusting = WebSocketClient.Options()
                trusting.certificateAuthority = Self.tls.certificateFile
                for (host, options) in [("localhost", WebSocketClient.Options()), ("127.0.0.2", trusting)] {
                    let error = await #expect(throws: WebSocketError.self) {
                        _ = try await WebSocketClient.connect(to: "wss://\(host):\(server.port)/v1/sync", options: options, onMessage: { _ in }) { _, _ in }
                    }
                    #expect(error?.code == .insecure, "\(host)")
                }
                let plain = await #expect(throws: WebSocketError.self) {
                    _ = try await WebSocketClient.connect(to: "ws://127.0.0.1:\(server.port)/v1/sync", onMessage: { _ in }) { _, _ in }
                }
                #expect(plain?.code == .malformed && plain?.message.contains("try wss://") ?? false, "\(plain?.message ?? "")")
            }
        }

        @Test("A certificate without its key is told of") func badFiles() throws {
            for (tls, code) in [
                (ServerTLS(certificateFile: Self.tls.certificateFile, keyFile: Self.tls.certificateFile), HubServerError.Code.invalidKey),
                (ServerTLS(certificateFile: "/nowhere", keyFile: Self.tls.keyFile), .unreadable),
                (ServerTLS(certificateFile: Self.tls.keyFile, keyFile: Self.tls.keyFile), .invalidCertificate),
            ] {
                var options = HubServerOptions()
                options.tls = tls
                do {
                    _ = try HubServer(endpoint: EchoEndpoint(), options: options, logger: RunningServer.logger)
                    Issue.record("it was taken")
                } catch {
                    #expect(error.code == code)
                }
            }
        }
    }
}
