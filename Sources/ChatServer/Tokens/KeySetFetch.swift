import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import ReplicationWebSocket

/// One GET of a small document: no redirects, no compression, a bounded size, and a deadline for all of it.
package struct KeySetFetch: Sendable {
    package static let bytesMax = 1 << 20

    private let url: ServerURL
    private let tls: NIOSSLContext?
    private let timeoutSeconds: Double

    /// Whether what was typed means a URL and no file.
    package static func isURL(_ text: String) -> Bool { text.contains("://") }

    /// - Throws: `HubServerError` `invalidURL`, `unreadable` or `invalidCertificate`.
    package init(_ text: String, certificateAuthority: String? = nil, timeoutSeconds: Double = 10) throws(HubServerError) {
        url = try Self.parse(text)
        tls = try url.isSecure ? Self.context(certificateAuthority) : nil
        self.timeoutSeconds = timeoutSeconds
    }

    /// - Throws: `HubServerError` `invalidURL`.
    package static func check(_ text: String) throws(HubServerError) { _ = try parse(text) }

    private static func parse(_ text: String) throws(HubServerError) -> ServerURL {
        let url: ServerURL
        do { url = try ServerURL(text, .http) } catch { throw HubServerError(.invalidURL, error.message) }
        guard url.isSecure || url.isLoopback else {
            throw HubServerError(.invalidURL, "\(text) is http:// and not of this machine: who is on the way could give us keys; use https://")
        }
        return url
    }

    /// For messages; without the query, which may be a secret.
    package var name: String { "\(url.isSecure ? "https" : "http")://\(url.authority)\(url.path.prefix { $0 != "?" })" }

    private static func context(_ certificateAuthority: String?) throws(HubServerError) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        configuration.shutdownTimeout = .seconds(1)
        if let certificateAuthority {
            guard FileManager.default.isReadableFile(atPath: certificateAuthority) else {
                throw HubServerError.unreadable(certificateAuthority)
            }
            configuration.trustRoots = .file(certificateAuthority)
        }
        do { return try NIOSSLContext(configuration: configuration) } catch {
            throw HubServerError(.invalidCertificate, "\(certificateAuthority ?? "the system") has no certificates in PEM that can be trusted")
        }
    }

    /// - Throws: `HubServerError` `unreachable`.
    package func bytes() async throws(HubServerError) -> [UInt8] {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = loop.makePromise(of: [UInt8].self)
        // Names are looked up before there is a channel: the deadline is nobody's but ours.
        let deadline = loop.scheduleTask(in: .nanoseconds(Int64(timeoutSeconds * 1e9))) { answer.fail(ChannelError.connectTimeout(.seconds(0))) }
        answer.futureResult.whenComplete { _ in deadline.cancel() }
        ClientBootstrap(group: loop)
            .connectTimeout(.nanoseconds(Int64(timeoutSeconds * 1e9)))
            .channelInitializer { [url, tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    // Also when nobody waits for it any more.
                    answer.futureResult.whenComplete { _ in channel.close(promise: nil) }
                    let operations = channel.pipeline.syncOperations
                    if let tls { try operations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: url.isAddress ? nil : url.host)) }
                    try operations.addHTTPClientHandlers()
                    try operations.addHandler(AnswerReader(url, answer))
                }
            }
            .connect(host: url.host, port: url.port)
            .cascadeFailure(to: answer)
        do { return try await answer.futureResult.get() } catch {
            throw HubServerError(.unreachable, "the keys cannot be fetched: \(WebSocketError(error, url, trustOption: "--jwks-ca").message)")
        }
    }
}

/// Asks, and gathers the answer.
final class AnswerReader: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let url: ServerURL
    private let answer: EventLoopPromise<[UInt8]>
    private var body: [UInt8] = []
    /// A channel that never was says nothing: one for another of the host's addresses may.
    private var isConnected = false

    init(_ url: ServerURL, _ answer: EventLoopPromise<[UInt8]>) {
        self.url = url
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        isConnected = true
        let headers: HTTPHeaders = [
            "Host": url.authority, "Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity", "User-Agent": "convstore",
            "Connection": "close",
        ]
        context.write(wrapOutboundOut(.head(HTTPRequestHead(version: .http1_1, method: .GET, uri: url.path, headers: headers))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard head.status == .ok else { return fail(.rejected, "answered \(head.status.code) \(head.status.reasonPhrase)") }
            guard head.headers[canonicalForm: "Content-Encoding"].allSatisfy({ $0.lowercased() == "identity" }) else {
                return fail(.malformed, "answered in a compressed form that was not asked for")
            }
        case .body(let part):
            guard body.count + part.readableBytes <= KeySetFetch.bytesMax else { return fail(.malformed, "answered more than \(KeySetFetch.bytesMax) bytes") }
            body += part.readableBytesView
        case .end: answer.succeed(body)
        }
    }

    private func fail(_ code: WebSocketError.Code, _ what: String) { answer.fail(WebSocketError(code, "\(url.authority) \(what)")) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Many servers end TLS without a word once all has been said.
        if isConnected, error as? NIOSSLError != .uncleanShutdown { answer.fail(error) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { if isConnected { answer.fail(ChannelError.eof) } }
}
