import ChatServer
import EventLog
import Foundation
import Logging
import ReplicationWebSocket
import ServiceLifecycle
import Testing

func pause(microseconds: UInt32) { usleep(microseconds) }

/// Asks again and again until it is true; false after a minute: a sanitizer needs ten times as long.
func eventually(_ condition: () throws -> Bool) async rethrows -> Bool {
    for _ in 0..<3000 {
        if try condition() { return true }
        try? await Task.sleep(for: .milliseconds(20))
    }
    return false
}

/// A server on a free port of loopback, for the length of a closure.
struct RunningServer {
    let port: Int
    let group: ServiceGroup
    /// Ends when the server has.
    let end: Task<Void, any Error>

    var url: String { "ws://127.0.0.1:\(port)/v1/sync" }

    static let logger = Logger(label: "test") { LineLogHandler(label: $0, level: .critical) }

    static func run(
        _ endpoint: any SyncEndpoint, _ change: (inout HubServerOptions) -> Void = { _ in }, _ body: (RunningServer) async throws -> Void
    ) async throws {
        var options = HubServerOptions()
        // A busy machine is slow to send a first message, which may be large.
        options.handshakeSeconds = 60
        change(&options)
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let server = try HubServer(endpoint: endpoint, options: options, logger: logger) { number in
            port.yield(number)
            port.finish()
        }
        let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [server], logger: logger))
        let end = Task {
            defer { port.finish() }
            try await group.run()
        }
        let number = await ports.first { _ in true }
        let running = RunningServer(port: try #require(number, "the server did not start"), group: group, end: end)
        do {
            try await body(running)
        } catch {
            await group.triggerGracefulShutdown()
            throw error
        }
        await group.triggerGracefulShutdown()
        try await end.value
    }

    /// A client of ours, and what it was told.
    func client(subprotocol: String = "convstore.sync.v1") async throws -> (WebSocketClient, Heard) {
        let heard = Heard()
        var options = WebSocketClient.Options()
        options.subprotocol = subprotocol
        let client = try await WebSocketClient.connect(to: url, options: options, onMessage: heard.message) { heard.close($0, $1) }
        return (client, heard)
    }
}

/// What a client was told.
final class Heard: Sendable {
    let messages = Monitor<[[UInt8]]>([])
    let end = Monitor<(code: UInt16?, reason: String)?>(nil)

    func message(_ message: [UInt8]) { messages.withLock { $0.append(message) } }
    func close(_ code: UInt16?, _ reason: String) { end.withLock { $0 = (code, reason) } }

    var count: Int { messages.withLock { $0.count } }
    var hasEnded: Bool { end.withLock { $0 != nil } }
    var code: UInt16? { end.withLock { $0?.code } }
}
