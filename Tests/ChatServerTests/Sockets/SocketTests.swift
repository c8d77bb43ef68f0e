import ChatServer
import EventLog
import ReplicationWebSocket
import ServiceLifecycle
import Testing

extension ServerTests {
    @Suite("Sockets") struct SocketTests {
        /// Sends frames after a handshake, and answers the code with which the server closes.
        private func code(_ frames: [UInt8], _ server: RunningServer) async throws -> Int? {
            let connection = try RawConnection(port: server.port)
            await connection.send(RawConnection.upgrade())
            _ = await connection.readHead()
            await connection.send(frames)
            return RawConnection.closeCode(await connection.readToEnd())
        }

        struct Case: Sendable, CustomTestStringConvertible {
            var testDescription: String
            var frames: [UInt8]
            var code: Int
        }

        private static let half = [UInt8](repeating: 1, count: 5 << 20)

        @Test(
            "What breaks the rules ends the socket with its code",
            arguments: [
                Case(testDescription: "text", frames: RawConnection.frame(1, Array("hello".utf8)), code: 1003),
                Case(testDescription: "too large", frames: RawConnection.frame(2, [1], length: 8 << 20 + 1), code: 1009),
                Case(testDescription: "2^63", frames: RawConnection.frame(2, [1], length: 1 << 63), code: 1009),
                Case(testDescription: "too large in parts", frames: RawConnection.frame(2, half, fin: false) + RawConnection.frame(0, half), code: 1009),
                Case(testDescription: "not masked", frames: RawConnection.frame(2, [1], isMasked: false), code: 1002),
                Case(testDescription: "reserved bit", frames: RawConnection.frame(2, [1], reserved: 4), code: 1002),
                Case(testDescription: "unknown opcode", frames: RawConnection.frame(3, [1]), code: 1002),
                Case(testDescription: "continues nothing", frames: RawConnection.frame(0, [1]), code: 1002),
                Case(testDescription: "begins twice", frames: RawConnection.frame(2, [1], fin: false) + RawConnection.frame(2, [1]), code: 1002),
                Case(testDescription: "long ping", frames: RawConnection.frame(9, Array(repeating: 1, count: 126)), code: 1002),
                Case(testDescription: "ping in parts", frames: RawConnection.frame(9, [1], fin: false), code: 1002),
                Case(testDescription: "close of one byte", frames: RawConnection.frame(8, [3]), code: 1002),
                Case(testDescription: "close with 1006", frames: RawConnection.frame(8, [3, 0xEE]), code: 1002),
                Case(testDescription: "close with 4000", frames: RawConnection.frame(8, [0x0F, 0xA0]), code: 4000),
                Case(testDescription: "close without a code", frames: RawConnection.frame(8, []), code: 1005),
                Case(testDescription: "as asked", frames: RawConnection.frame(2, Array("close:4401".utf8)), code: 4401),
            ])
        func violation(_ example: Case) async throws {
            try await RunningServer.run(EchoEndpoint(), { $0.closeMilliseconds = 100 }) { server in
                let code = try await code(example.frames, server)
                #expect(code == example.code)
            }
        }

        @Test("Messages of all sizes come back whole, in order, one at a time") func order() async throws {
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) { server in
                let (client, heard) = try await server.client()
                let sizes = [0, 1, 125, 126, 65_535, 65_536, 1 << 20] + Array(repeating: 10, count: 2000)
                let messages = sizes.enumerated().map { index, size in [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: size) }
                for message in messages { client.send(message) }
                #expect(await eventually { heard.count == messages.count })
                #expect(heard.messages.withLock { $0 } == messages)
                #expect(endpoint.seen.withLock { $0.atOnceMax } == 1)
                client.close()
                #expect(await eventually { heard.hasEnded })
                #expect(heard.code == 1000)
                #expect(await eventually { endpoint.seen.withLock { $0.ends.count } == 1 })
            }
        }

        @Test("A slow receiver slows the sender down and loses nothing") func slowReceiver() async throws {
            let endpoint = EchoEndpoint(delayMicroseconds: 2000)
            try await RunningServer.run(endpoint) { server in
                let (client, heard) = try await server.client()
                for number in 0..<200 { client.send(Array(repeating: UInt8(number), count: 100_000)) }
                #expect(await eventually { heard.count == 200 })
                #expect(heard.messages.withLock { $0.map(\.first) } == (0..<200).map { UInt8($0) })
                client.close()
            }
        }

        @Test("That a large message is coming is told once a second, and of pings nothing", arguments: [false, true])
        func progress(_ isInParts: Bool) async throws {
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) { server in
                let connection = try RawConnection(port: server.port)
                await connection.send(RawConnection.upgrade())
                _ = await connection.readHead()
                let message = RawConnection.frame(2, Array(repeating: 1, count: 1000))
                let pieces =
                    isInParts
                    ? (0..<30).map { RawConnection.frame($0 == 0 ? 2 : 0, Array(repeating: 1, count: 30), fin: $0 == 29) }
                    : stride(from: 0, to: message.count, by: 34).map { Array(message[$0..<min($0 + 34, message.count)]) }
                for piece in pieces {
                    await connection.send(piece)
                    try await Task.sleep(for: .milliseconds(100))
                }
                #expect(await eventually { endpoint.seen.withLock { $0.messages.count } == 1 })
                let told = endpoint.seen.withLock { $0.progress }
                #expect(1...4 ~= told)
                for _ in 0..<12 {
                    await connection.send(RawConnection.frame(9, [1]))
                    try await Task.sleep(for: .milliseconds(100))
                }
                #expect(endpoint.seen.withLock { $0.progress } == told)
            }
        }

        @Test("A peer that does not read costs a bounded amount, then its socket") func slowPeer() async throws {
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) { server in
                let connection = try RawConnection(port: server.port, receiveBufferBytes: 65_536)
                await connection.send(RawConnection.upgrade())
                _ = await connection.readHead()
                await connection.send(RawConnection.frame(2, Array("flood:100000000".utf8)))
                #expect(await eventually { endpoint.seen.withLock { $0.ends.first??.code } == 4429 })
            }
        }

        @Test("Who reads slowly is sent what it takes in the end; all who do hold no more than a bound, and nobody waits for them") func slow() async throws {
            let budget = ByteBudget(bytesMax: 4 << 20), bytes = 24 << 20
            try await RunningServer.run(EchoEndpoint()) {
                $0.outgoing = budget
            } _: { server in
                var slow: [RawConnection] = []
                for _ in 0..<8 {
                    let connection = try RawConnection(port: server.port, receiveBufferBytes: 65_536)
                    await connection.send(RawConnection.upgrade())
                    _ = await connection.readHead()
                    await connection.send(RawConnection.frame(2, Array("drip:\(bytes)".utf8)))
                    slow.append(connection)
                }
                #expect(await eventually { budget.bytes > 3 << 20 })
                let (client, heard) = try await server.client()
                client.send(Array("drip:\(bytes)".utf8))
                #expect(await eventually { heard.count == bytes >> 16 })
                client.close()
                // Each holds a message of 64 KiB beyond its share at most.
                #expect(budget.bytes <= (4 << 20) + 8 << 16)
                #expect(await slow[0].read(bytes: bytes).count >= bytes)
                slow = []
                #expect(await eventually { budget.bytes == 0 })
            }
        }

        @Test("Of messages that are not whole all sockets together keep no more than a bound; who keeps too much is told", arguments: [false, true])
        func unfinished(isFirst: Bool) async throws {
            let first = ByteBudget(bytesMax: 1 << 20), later = ByteBudget(bytesMax: 1 << 20)
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) {
                $0.unfinishedFirst = first
                $0.unfinished = later
            } _: { server in
                let (client, heard) = try await server.client()
                var hoarders: [RawConnection] = []
                for _ in 0..<8 {
                    let connection = try RawConnection(port: server.port)
                    await connection.send(RawConnection.upgrade())
                    _ = await connection.readHead()
                    if !isFirst {
                        // In fragments, with a control frame between: nothing of it stays counted.
                        await connection.send(RawConnection.frame(2, Array(repeating: 7, count: 70_000), fin: false))
                        await connection.send(RawConnection.frame(9, Array("still there".utf8)))
                        await connection.send(RawConnection.frame(0, Array(repeating: 7, count: 300)))
                        _ = await connection.read(bytes: 70_300)
                    }
                    hoarders.append(connection)
                }
                #expect(await eventually { first.bytes == 0 && later.bytes == 0 })
                // Of 8 MiB a half, so that the decoder waits for the rest.
                let half = RawConnection.frame(2, Array(repeating: 7, count: 4 << 20), length: 8 << 20)
                await withTaskGroup { group in for connection in hoarders { group.addTask { await connection.send(half) } } }
                #expect(await eventually { endpoint.seen.withLock { $0.ends.filter { $0?.code == 4429 }.count } == 8 })
                client.send(Array(repeating: 1, count: 400_000))
                #expect(await eventually { heard.count == 1 })
                hoarders = []
                #expect(await eventually { first.bytes == 0 && later.bytes == 0 })
                // One that keeps less than its share stays.
                let patient = try RawConnection(port: server.port)
                await patient.send(RawConnection.upgrade())
                _ = await patient.readHead()
                if !isFirst {
                    await patient.send(RawConnection.frame(2, [1]))
                    _ = await patient.read(bytes: 3)
                }
                await patient.send(Array(half.prefix(400_000)))
                let (own, other) = isFirst ? (first, later) : (later, first)
                #expect(await eventually { own.bytes == 400_000 })
                #expect(other.bytes == 0)
                client.close()
            }
        }

        @Test("A connection that is lost is told of, once") func lost() async throws {
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) { server in
                do {
                    let connection = try RawConnection(port: server.port)
                    await connection.send(RawConnection.upgrade())
                    _ = await connection.readHead()
                }
                #expect(await eventually { endpoint.seen.withLock { $0.ends.count } == 1 })
                #expect(endpoint.seen.withLock { $0.ends[0] } == nil)
            }
        }

        @Test("At a shutdown peers get the last words and 1001, and the server ends at once", arguments: [true, false]) func shutdown(isPolite: Bool)
            async throws
        {
            let endpoint = EchoEndpoint(isPolite: isPolite)
            let clock = ContinuousClock()
            var begin = clock.now
            // Whoever waits for any of these does not end at once.
            let minute = { (options: inout HubServerOptions) in
                (options.closeMilliseconds, options.handshakeSeconds, options.idleSeconds) = (60_000, 60, 60)
            }
            try await RunningServer.run(endpoint, minute) { server in
                let (client, heard) = try await server.client()
                let mute = try RawConnection(port: server.port)
                client.send([1])
                #expect(await eventually { heard.count == 1 })
                begin = clock.now
                await server.group.triggerGracefulShutdown()
                #expect(await eventually { heard.hasEnded })
                #expect(heard.code == 1001)
                #expect(heard.messages.withLock { $0.last } == (isPolite ? Array("bye".utf8) : [1]))
                try await server.end.value
                withExtendedLifetime(mute) {}
            }
            #expect(clock.now - begin < .seconds(30))
        }

        @Test("A second passes, and the endpoint is told") func ticks() async throws {
            let endpoint = EchoEndpoint()
            try await RunningServer.run(endpoint) { _ in #expect(await eventually { endpoint.seen.withLock { $0.ticks } > 0 }) }
        }
    }
}
