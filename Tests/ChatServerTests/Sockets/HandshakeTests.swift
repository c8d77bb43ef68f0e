import ChatServer
import ReplicationWebSocket
import Testing

extension ServerTests {
    @Suite("Handshake") struct HandshakeTests {
        struct Case: Sendable, CustomTestStringConvertible {
            var testDescription: String
            var request: String
            var status: Int
        }

        @Test(
            "A request that is no acceptable WebSocket gets an ordinary answer",
            arguments: [
                Case(testDescription: "acceptable", request: RawConnection.upgrade(), status: 101),
                Case(testDescription: "among other protocols", request: RawConnection.upgrade(subprotocol: "chat, convstore.sync.v1"), status: 101),
                Case(testDescription: "Firefox' Connection", request: RawConnection.upgrade(connection: "keep-alive, Upgrade"), status: 101),
                Case(testDescription: "a query", request: RawConnection.upgrade(path: "/v1/sync?a=b"), status: 101),
                Case(testDescription: "allowed origin", request: RawConnection.upgrade(origin: "https://chat.example"), status: 101),
                Case(testDescription: "other origin", request: RawConnection.upgrade(origin: "https://evil.example"), status: 403),
                Case(
                    testDescription: "another origin behind it",
                    request: RawConnection.upgrade(origin: "https://chat.example\r\nOrigin: https://evil.example"), status: 403),
                Case(testDescription: "other path", request: RawConnection.upgrade(path: "/v1/other"), status: 404),
                Case(testDescription: "a slash behind the path", request: RawConnection.upgrade(path: "/v1/sync/"), status: 404),
                Case(testDescription: "no Upgrade", request: RawConnection.upgrade(upgrade: nil, key: nil), status: 426),
                Case(testDescription: "h2c", request: RawConnection.upgrade(upgrade: "h2c", connection: "Upgrade, HTTP2-Settings", key: nil), status: 426),
                Case(testDescription: "h2c elsewhere", request: RawConnection.upgrade(path: "/healthz", upgrade: "h2c", key: nil), status: 200),
                Case(testDescription: "version 12", request: RawConnection.upgrade(version: "12"), status: 426),
                Case(testDescription: "no version", request: RawConnection.upgrade(version: nil), status: 426),
                Case(testDescription: "bad key", request: RawConnection.upgrade(key: "abc"), status: 400),
                Case(testDescription: "short key", request: RawConnection.upgrade(key: "AAAA"), status: 400),
                Case(testDescription: "no protocol", request: RawConnection.upgrade(subprotocol: nil), status: 400),
                Case(testDescription: "other protocol", request: RawConnection.upgrade(subprotocol: "convstore.sync.v2"), status: 400),
                Case(testDescription: "other case", request: RawConnection.upgrade(subprotocol: "CONVSTORE.sync.v1"), status: 400),
                Case(testDescription: "POST", request: RawConnection.upgrade(method: "POST"), status: 405),
                Case(testDescription: "no HTTP", request: "hello\r\n\r\n", status: 400),
                Case(
                    testDescription: "long headers", request: RawConnection.upgrade(path: "/healthz", origin: String(repeating: "x", count: 40_000)),
                    status: 400),
            ])
        func answer(_ example: Case) async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.allowedOrigins = ["https://chat.example"] }) { server in
                let connection = try RawConnection(port: server.port)
                await connection.send(example.request)
                let head = await connection.readHead()
                #expect(head.hasPrefix("HTTP/1.1 \(example.status) "), "\(head)")
                if example.status == 101 {
                    #expect(head.contains("Sec-WebSocket-Protocol: convstore.sync.v1"))
                    #expect(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
                }
                if example.status == 426 { #expect(head.contains("Upgrade: websocket")) }
            }
        }

        @Test("An answer that says the connection ends is the last one on it") func lastAnswer() async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.idleSeconds = 600 }) { server in
                for request in [RawConnection.upgrade(key: "abc"), RawConnection.upgrade(version: "12"), RawConnection.upgrade(origin: "https://a.example")] {
                    let connection = try RawConnection(port: server.port)
                    await connection.send(request)
                    let head = await connection.readHead()
                    #expect(head.lowercased().contains("connection: close\r\n"))
                    #expect(await connection.ends())
                }
            }
        }

        @Test("Health, readiness and metrics answer") func pages() async throws {
            try await RunningServer.run(EchoEndpoint()) { server in
                for (path, text) in [("healthz", "alive"), ("readyz", "ready"), ("metrics", "convstore_sockets 0")] {
                    let connection = try RawConnection(port: server.port)
                    await connection.send("GET /\(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    let answer = String(decoding: await connection.readToEnd(), as: UTF8.self)
                    #expect(answer.hasPrefix("HTTP/1.1 200 "))
                    #expect(answer.contains(text))
                }
            }
        }

        @Test("A path that is there, asked in another way, says in which it may be asked") func methods() async throws {
            try await RunningServer.run(EchoEndpoint()) { server in
                for (request, status, allow) in [
                    ("POST /healthz", 405, "GET, HEAD"), ("DELETE /readyz?a=b", 405, "GET, HEAD"), ("HEAD /metrics", 405, "GET"),
                    ("PUT /v1/sync", 405, "GET"), ("HEAD /v1/sync", 405, "GET"), ("HEAD /healthz", 200, nil as String?), ("POST /nowhere", 404, nil),
                    ("POST /healthz/x", 404, nil),
                ] {
                    let connection = try RawConnection(port: server.port)
                    await connection.send("\(request) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    let answer = String(decoding: await connection.readToEnd(), as: UTF8.self)
                    #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(request): \(answer)")
                    if request.hasPrefix("HEAD ") { #expect(answer.hasSuffix("\r\n\r\n"), "\(request): \(answer)") }
                    let line = answer.split(separator: "\r\n").first { $0.lowercased().hasPrefix("allow:") }
                    #expect(line?.drop { $0 != " " }.dropFirst() == allow.map { $0[...] }, "\(request)")
                }
            }
        }

        @Test("What is counted is on the metrics page, in Prometheus' format") func metrics() async throws {
            try await RunningServer.run(EchoEndpoint()) { server in
                let (client, heard) = try await server.client()
                client.send([1, 2, 3])
                #expect(await eventually { heard.count == 1 })
                let connection = try RawConnection(port: server.port)
                await connection.send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                let page = String(decoding: await connection.readToEnd(), as: UTF8.self)
                for line in [
                    "# TYPE convstore_sockets gauge\nconvstore_sockets 1\n", "convstore_sockets_opened_total 1\n",
                    "convstore_socket_messages_received_total 1\n",
                    "convstore_socket_bytes_received_total 3\n", "convstore_socket_receive_seconds_bucket{le=\"+Inf\"} 1\n", "process_open_fds ",
                ] {
                    #expect(page.contains(line), "\(line)")
                }
                client.close()
            }
        }

        @Test("Only so many sockets are taken") func full() async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.socketsMax = 1 }) { server in
                let (client, _) = try await server.client()
                let error = await #expect(throws: WebSocketError.self) { _ = try await server.client() }
                #expect(error?.code == .rejected)
                #expect(error?.status == 503)
                client.close()
            }
        }

        @Test("A client is told why there is no connection") func clientErrors() async throws {
            try await RunningServer.run(EchoEndpoint()) { server in
                let wrong = await #expect(throws: WebSocketError.self) { _ = try await server.client(subprotocol: "other") }
                #expect(wrong?.code == .rejected)
                #expect(wrong?.status == 400)
                for (url, code) in [
                    ("ws://127.0.0.1:1/v1/sync", WebSocketError.Code.refused), ("http://127.0.0.1/", .invalidURL), ("ws://:80/", .invalidURL),
                    ("ws://a:b/", .invalidURL),
                    ("ws://name:word@a/", .invalidURL), ("wss://127.0.0.1:\(server.port)/v1/sync", .insecure), ("ws://127.0.0.1:\(server.port)/x", .rejected),
                ] {
                    let error = await #expect(throws: WebSocketError.self) {
                        _ = try await WebSocketClient.connect(to: url, onMessage: { _ in }) { _, _ in }
                    }
                    #expect(error?.code == code, "\(url): \(error?.message ?? "")")
                    #expect((error?.message.contains("a hub is at /v1/sync") ?? false) == url.hasSuffix("/x"), "\(url): \(error?.message ?? "")")
                }
            }
        }

        @Test("Who says nothing is cut off: before the request, and before the first message") func silence() async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.handshakeSeconds = 5 }) { server in
                let mute = try RawConnection(port: server.port)
                let trickle = try RawConnection(port: server.port)
                await trickle.send("GET /healthz HTTP/1.1\r\nHo")
                let opened = try RawConnection(port: server.port)
                await opened.send(RawConnection.upgrade())
                #expect(await mute.readToEnd().isEmpty)
                #expect(!String(decoding: await trickle.readToEnd(), as: UTF8.self).contains("200"))
                #expect(RawConnection.closeCode(RawConnection.afterHead(await opened.readToEnd())) == 4408)
            }
        }
    }
}
