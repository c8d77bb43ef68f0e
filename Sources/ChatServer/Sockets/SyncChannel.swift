import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOSSL
import NIOWebSocket
import Replication

/// A connection: its first request becomes a socket, or it stays HTTP and goes to the router.
struct SyncChannel: ServerChildChannel, HTTPChannelHandler {
    static let messageBytesMax = WireLimits.messageBytesMax

    enum Outcome: Sendable {
        case http(NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>)
        case socket
    }

    struct Value: ServerChildChannelValue {
        let channel: any Channel
        let outcome: EventLoopFuture<Outcome>
    }

    let responder: Responder
    let acceptor: SocketAcceptor
    let tls: NIOSSLContext?
    let options: HubServerOptions

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            let operations = channel.pipeline.syncOperations
            try channel.syncOptions?.setOption(.tcpOption(.tcp_nodelay), value: 1)
            if let tls { try operations.addHandler(NIOSSLServerHandler(context: tls)) }
            var configuration = NIOUpgradableHTTPServerPipelineConfiguration(upgradeConfiguration: upgrade(logger))
            // Requests are taken one at a time; and that handler would swallow the event of a shutdown.
            configuration.enablePipelining = false
            configuration.decoderConfiguration.maxHeaderFieldSize = 8 << 10
            configuration.decoderConfiguration.maxHeaderListSize = 16 << 10
            configuration.decoderConfiguration.maxHeaderFieldCount = 100
            let outcome = try operations.configureUpgradableHTTPServerPipeline(configuration: configuration)
            let upgrader = try operations.handler(type: NIOTypedHTTPServerUpgradeHandler<Outcome>.self)
            let filter = UpgradeFilter(deadline: .seconds(Int64(options.handshakeSeconds)), upgrades: acceptor.upgrades)
            try operations.addHandler(filter, position: .before(upgrader))
            return Value(channel: channel, outcome: outcome)
        }
    }

    private func upgrade(_ logger: Logger) -> NIOTypedHTTPServerUpgradeConfiguration<Outcome> {
        let upgrader = NIOTypedWebSocketServerUpgrader<Outcome>(
            maxFrameSize: Self.messageBytesMax, enableAutomaticErrorHandling: false,
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture(["Sec-WebSocket-Protocol": WireLimits.subprotocol]) },
            upgradePipelineHandler: { [acceptor] channel, _ in
                channel.eventLoop.makeCompletedFuture {
                    try acceptor.open(channel)
                    return .socket
                }
            })
        return NIOTypedHTTPServerUpgradeConfiguration(upgraders: [upgrader]) { [tls, options] channel in
            channel.eventLoop.makeCompletedFuture {
                let operations = channel.pipeline.syncOperations
                try operations.addHandler(HTTP1ToHTTPServerCodec(secure: tls != nil))
                try operations.addHandler(LastAnswer())
                try operations.addHandler(HTTPConnectionStateHandler(idleTimeout: .seconds(options.idleSeconds), logger: logger))
                return .http(try NIOAsyncChannel(wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true)))
            }
        }
    }

    func handle(value: Value, logger: Logger) async {
        do {
            switch try await value.outcome.get() {
            case .http(let channel): await handleHTTP(asyncChannel: channel, logger: logger)
            case .socket:
                await withTaskCancellationHandler {
                    try? await value.channel.closeFuture.get()
                } onCancel: {
                    value.channel.close(promise: nil)
                }
            }
        } catch {
            // It went away, or its deadline passed, before it had asked for anything.
            value.channel.close(promise: nil)
        }
    }
}
