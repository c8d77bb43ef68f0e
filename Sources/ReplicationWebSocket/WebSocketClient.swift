import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A device's WebSocket to a hub.
///
/// ```swift
/// let client = try await WebSocketClient.connect(to: "wss://hub.example/v1/sync", onMessage: connection.receive) { _, _ in connection.disconnected() }
/// client.send(hello)
/// ```
public final class WebSocketClient: Sendable {
    public struct Options: Sendable {
        public var subprotocol = "convstore.sync.v1"
        /// For name, connection, TLS and handshake together.
        public var connectTimeoutSeconds = 10
        /// A file of certificates (PEM) to trust instead of the system's.
        public var certificateAuthority: String?

        public init() {}
    }

    private let socket: Socket

    private init(_ socket: Socket) { self.socket = socket }

    /// Connects and shakes hands.
    ///
    /// - Parameters:
    ///   - maxMessageBytes: a larger message ends the connection.
    ///   - onMessage: whole messages, one call at a time, in order; it may block, which slows down the server in the end.
    ///   - onProgress: bytes of a message have come that is not whole yet; once a second at most. It must not block.
    ///   - onClose: the last call. The code is `nil` if the connection was lost without a close frame.
    /// - Throws: `WebSocketError`.
    public static func connect(
        to url: String, maxMessageBytes: Int = 8 << 20, options: Options = Options(), onMessage: @escaping @Sendable ([UInt8]) -> Void,
        onProgress: @escaping @Sendable () -> Void = {}, onClose: @escaping @Sendable (_ code: UInt16?, _ reason: String) -> Void
    ) async throws(WebSocketError) -> WebSocketClient {
        let url = try ServerURL(url, .webSocket)
        let tls = try url.isSecure ? context(options) : nil
        let receiver = Receiver(onMessage: onMessage, onProgress: onProgress, onClose: onClose)
        do {
            let answer = try await bootstrap(url, options).connect(host: url.host, port: url.port) { channel in
                channel.eventLoop.makeCompletedFuture { try shakeHands(on: channel, url, maxMessageBytes, options, tls, receiver) }
            }
            switch try await answer.get() {
            case .socket(let socket): return WebSocketClient(socket)
            case .rejected(let status):
                let status = try await status.get()
                throw WebSocketError(status: Int(status.code), status.reasonPhrase, url)
            }
        } catch {
            throw WebSocketError(error, url)
        }
    }

    /// Safe from any thread; messages leave in the order of the calls. Nothing happens if the socket is closed.
    public func send(_ message: [UInt8]) { socket.send(message) }

    /// Says goodbye once what was sent before has left. Idempotent.
    public func close() { close(.normal) }

    func close(_ end: SocketEnd) { socket.close(end) }

    private struct Receiver: SocketReceiver {
        let onMessage: @Sendable ([UInt8]) -> Void
        let onProgress: @Sendable () -> Void
        let onClose: @Sendable (UInt16?, String) -> Void

        func receive(_ message: [UInt8]) { onMessage(message) }
        func progressed() { onProgress() }
        func ended(_ end: SocketEnd?) { onClose(end?.code, end?.reason ?? "the connection was lost") }
    }

    private enum Answer: Sendable {
        case socket(Socket)
        case rejected(EventLoopFuture<HTTPResponseStatus>)
    }

    private static func context(_ options: Options) throws(WebSocketError) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = .seconds(1)
        if let file = options.certificateAuthority {
            guard access(file, R_OK) == 0 else { throw WebSocketError(.unreadable, "\(file): \(String(cString: strerror(errno)))") }
            configuration.trustRoots = .file(file)
        }
        do { return try NIOSSLContext(configuration: configuration) } catch {
            throw WebSocketError(.invalidCertificates, "\(options.certificateAuthority ?? "the system") has no certificates in PEM that can be trusted")
        }
    }

    private static func bootstrap(_ url: ServerURL, _ options: Options) -> ClientBootstrap {
        ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(.seconds(Int64(options.connectTimeoutSeconds)))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
    }

    private static func shakeHands(
        on channel: any Channel, _ url: ServerURL, _ maxMessageBytes: Int, _ options: Options, _ tls: NIOSSLContext?, _ receiver: Receiver
    ) throws -> EventLoopFuture<Answer> {
        let operations = channel.pipeline.syncOperations
        if let tls { try operations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: url.isAddress ? nil : url.host)) }
        let upgrader = NIOTypedWebSocketClientUpgrader<Answer>(maxFrameSize: maxMessageBytes, enableAutomaticErrorHandling: false) { channel, head in
            channel.eventLoop.makeCompletedFuture {
                guard head.headers["Sec-WebSocket-Protocol"] == [options.subprotocol] else {
                    throw WebSocketError(.malformed, "\(url.authority) does not speak \(options.subprotocol)")
                }
                var limits = SocketOptions(.client)
                limits.messageBytesMax = maxMessageBytes
                return .socket(try Socket.start(on: channel, limits, pool: .singleton) { _ in receiver })
            }
        }
        let headers: HTTPHeaders = ["Host": url.authority, "Content-Length": "0", "Sec-WebSocket-Protocol": options.subprotocol]
        let request = HTTPRequestHead(version: .http1_1, method: .GET, uri: url.path, headers: headers)
        let upgrade = NIOTypedHTTPClientUpgradeConfiguration<Answer>(upgradeRequestHead: request, upgraders: [upgrader]) { channel in
            channel.eventLoop.makeCompletedFuture {
                let reader = StatusReader(channel.eventLoop.makePromise())
                try channel.pipeline.syncOperations.addHandler(reader)
                return .rejected(reader.status.futureResult)
            }
        }
        var configuration = NIOUpgradableHTTPClientPipelineConfiguration(upgradeConfiguration: upgrade)
        // What the server sends at once behind its answer is the first frame.
        configuration.leftOverBytesStrategy = .forwardBytes
        let answer = try operations.configureUpgradableHTTPClientPipeline(configuration: configuration)
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(Int64(options.connectTimeoutSeconds))) {
            channel.pipeline.fireErrorCaught(WebSocketError(.timeout, "\(url.authority) did not answer in time"))
            channel.close(promise: nil)
        }
        answer.whenComplete { _ in deadline.cancel() }
        return answer
    }
}

/// Reads the status of an answer that is no upgrade, and hangs up.
private final class StatusReader: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    let status: EventLoopPromise<HTTPResponseStatus>

    init(_ status: EventLoopPromise<HTTPResponseStatus>) { self.status = status }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(let head) = unwrapInboundIn(data) else { return }
        status.succeed(head.status)
        context.close(promise: nil)
    }

    func handlerRemoved(context: ChannelHandlerContext) { status.fail(ChannelError.eof) }
}
