import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ReplicationWebSocket

/// Turns requests for `/v1/sync` into sockets of the endpoint, or says why not.
struct SocketAcceptor: Sendable {
    /// Receivers may wait for a commit: with more threads than cores their appends share one sync of the disk.
    private static let pool: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 8)
        pool.start()
        return pool
    }()

    let endpoint: any SyncEndpoint
    let gate: Gate
    let options: HubServerOptions
    let metrics: ServerMetrics
    let logger: Logger

    private var handshake: SyncHandshake { SyncHandshake(allowedOrigins: options.allowedOrigins, hasRoom: gate.hasRoom) }

    /// Whether the first request of a connection becomes a socket.
    func upgrades(_ head: HTTPRequestHead) -> Bool {
        guard head.version == .http1_1, head.uri.prefix(while: { $0 != "?" }) == SyncHandshake.path else { return false }
        return handshake.answer(isGet: head.method == .GET) { head.headers[$0] } == .upgrade
    }

    /// The answer to a request that did not.
    func answer(_ request: Request) -> Response {
        let refusal = handshake.refusal { name in
            guard let field = HTTPField.Name(name) else { return [] }
            return request.headers[values: field]
        }
        metrics.refused(status: refusal.status)
        logger.info("socket refused", metadata: ["status": "\(refusal.status)", "reason": "\(refusal.reason)"])
        var headers: HTTPFields = [.contentType: "text/plain; charset=utf-8", .connection: "close"]
        if refusal.status == 426 {
            headers[.upgrade] = "websocket"
            headers[.secWebSocketVersion] = "13"
        }
        if refusal.status == 503 { headers[.retryAfter] = "5" }
        return Response(status: .init(code: refusal.status), headers: headers, body: .init(byteBuffer: ByteBuffer(string: refusal.reason + "\n")))
    }

    /// Begins to speak on an upgraded channel. On its event loop.
    func open(_ channel: any Channel) throws {
        var limits = SocketOptions(.server)
        limits.messageBytesMax = SyncChannel.messageBytesMax
        limits.outgoing = options.outgoing
        limits.unfinished = options.unfinished
        limits.unfinishedFirst = options.unfinishedFirst
        limits.firstMessageDeadline = .seconds(Int64(options.handshakeSeconds))
        limits.closeDeadline = .milliseconds(Int64(options.closeMilliseconds))
        gate.entered()
        metrics.opened()
        _ = try Socket.start(on: channel, limits, pool: Self.pool) { socket in
            logger.debug("socket opened", metadata: ["peer": "\(socket.peer)"])
            return CountedReceiver(receiver: endpoint.connect(socket), peer: socket.peer, acceptor: self)
        }
    }
}

/// A receiver whose calls are counted and whose end is logged.
private struct CountedReceiver: SocketReceiver {
    let receiver: any SocketReceiver
    let peer: String
    let acceptor: SocketAcceptor

    func receive(_ message: [UInt8]) {
        acceptor.metrics.received(message.count) { receiver.receive(message) }
    }

    func drained() { receiver.drained() }
    func progressed() { receiver.progressed() }

    func ended(_ end: SocketEnd?) {
        receiver.ended(end)
        acceptor.gate.left()
        acceptor.metrics.closed(end?.code)
        // Reasons are ours, but for those of a peer that closes: the log escapes them.
        acceptor.logger.debug("socket closed", metadata: ["peer": "\(peer)", "code": "\(end?.code ?? 1006)", "reason": "\(end?.reason ?? "connection lost")"])
    }
}
