public import Logging
import EventLog
import Hummingbird
import HummingbirdCore
import NIOCore
import NIOSSL
public import Replication
import ReplicationWebSocket
public import ServiceLifecycle

/// A hub over HTTP: `/v1/sync` is its WebSocket, `/healthz`, `/readyz` and `/metrics` are for those who run it.
///
/// Run it in a `ServiceGroup`. At a graceful shutdown no more connections are taken, every peer gets BYE and close code 1001, and `run` returns
/// when the last is gone. The store under the hub stays open: close it afterwards.
public struct HubServer: Service {
    private let endpoint: any SyncEndpoint
    private let options: HubServerOptions
    private let tls: NIOSSLContext?
    private let logger: Logger
    private let metrics = ServerMetrics()
    private let onListening: @Sendable (_ port: Int) -> Void

    /// - Parameter onListening: called once, when connections are taken, with the real port.
    /// - Throws: `HubServerError` if certificate or key cannot be used.
    public init(
        _ hub: Hub, options: HubServerOptions = HubServerOptions(), logger: Logger, onListening: @escaping @Sendable (_ port: Int) -> Void = { _ in }
    ) throws(HubServerError) {
        try self.init(endpoint: HubEndpoint(hub), options: options, logger: logger, onListening: onListening)
    }

    package init(
        endpoint: any SyncEndpoint, options: HubServerOptions = HubServerOptions(), logger: Logger,
        onListening: @escaping @Sendable (_ port: Int) -> Void = { _ in }
    ) throws(HubServerError) {
        self.endpoint = endpoint
        self.options = options
        self.logger = logger
        self.onListening = onListening
        tls = try options.tls?.context()
    }

    public func run() async throws {
        let gate = Gate(socketsMax: options.socketsMax)
        let acceptor = SocketAcceptor(endpoint: endpoint, gate: gate, options: options, metrics: metrics, logger: logger)
        let application = Application(
            router: router(gate, acceptor),
            server: HTTPServerBuilder { [tls, options] responder in
                SyncChannel(responder: responder, acceptor: acceptor, tls: tls, options: options)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(options.host, port: options.port), serverName: nil, backlog: 1024,
                availableConnectionsDelegate: MaximumAvailableConnections(connectionsMax)),
            onServerRunning: { [onListening] channel in onListening(channel.localAddress?.port ?? 0) },
            logger: quiet(logger))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [endpoint] in await Self.tick(endpoint) }
            defer { group.cancelAll() }
            try await withGracefulShutdownHandler {
                do { try await application.run() } catch let error as IOError {
                    let reason = SystemError(call: "bind", path: "\(options.host):\(options.port)", number: error.errnoCode)
                    throw HubServerError(.cannotListen, "\(reason): it cannot be listened on; name another port, or 0 for any that is free")
                } catch is SocketAddressError.UnknownHost {
                    throw HubServerError(.cannotListen, "there is no host \(options.host): name an address of this machine, or 0.0.0.0 or [::] for all of them")
                } catch let error as SocketAddressError {
                    throw HubServerError(.cannotListen, "\(options.host) is no address of this machine: \(error)")
                }
            } onGracefulShutdown: { [endpoint, logger] in
                // First our own words, then the server's closing: it waits for the sockets to end.
                logger.info("shutting down", metadata: ["sockets": "\(gate.sockets)"])
                gate.close()
                endpoint.shutdown()
            }
        }
    }

    /// Descriptors that are left to the store and the runtime: libdispatch ends a process in which none can be opened.
    private static let descriptorsKept = 128

    /// Who only asks something has room beside the sockets. The others wait to be taken: for as long as it takes those who say nothing to be sent away.
    private var connectionsMax: Int { max(min(options.socketsMax + 1000, DescriptorLimit.now - Self.descriptorsKept), 16) }

    private static func tick(_ endpoint: any SyncEndpoint) async {
        while (try? await Task.sleep(for: .seconds(1))) != nil { endpoint.tick() }
    }

    private func router(_ gate: Gate, _ acceptor: SocketAcceptor) -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: HeadAnswer())
        router.add(middleware: RequestCounting(metrics))
        // Who only wants to know whether all is well may leave the body out.
        let looking = [HTTPRequest.Method.get, .head]
        router.add(middleware: MethodCheck(["/healthz": looking, "/readyz": looking, "/metrics": [.get], SyncHandshake.path: [.get]]))
        for method in looking {
            router.on("healthz", method: method) { _, _ in Health.alive() }
            router.on("readyz", method: method) { [endpoint] _, _ in Health.readiness(gate, endpoint) }
        }
        router.get("metrics") { [metrics, endpoint, options] _, _ in MetricsPage.response(metrics, endpoint.statistics, gate, options)
        }
        router.get("v1/sync") { request, _ -> Response in
            // The router takes a path with further slashes for this one.
            guard request.uri.path == SyncHandshake.path else { throw HTTPError(.notFound) }
            return acceptor.answer(request)
        }
        return router
    }

    /// The framework tells of each request: our own log is enough.
    private func quiet(_ logger: Logger) -> Logger {
        var logger = logger
        if logger.logLevel > .debug { logger.logLevel = max(logger.logLevel, .error) }
        return logger
    }
}
