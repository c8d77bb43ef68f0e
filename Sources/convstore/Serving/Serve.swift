import ArgumentParser
import ChatServer
import ConversationStore
import EventLog
import Glibc
import Logging
import Replication
import ServiceLifecycle
import UnixSignals

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Is a hub: devices sync with the store over WebSocket. Makes the store if there is none.",
        discussion: """
            convstore serve --store S --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --jwt-key public.pem

            Prints `listening on ws://HOST:PORT/v1/sync` (with TLS wss://) when it is ready; logs go to standard error. /healthz, /readyz and /metrics (Prometheus) are on the same \
            port. The store is open for writing meanwhile: other commands can read. Ends with 0 at SIGTERM, SIGINT or SIGHUP, within seconds: devices are \
            told, and come back by themselves.

            A token is a JWT with sub (the user) and exp; its claim "service": true makes it a service's, which may write for others and follow everything.
            """)

    @OptionGroup var store: StoreOption
    @Option(help: ArgumentHelp("Where; port 0 is any that is free.", valueName: "host:port"))
    var listen: String
    @Option(help: ArgumentHelp("The certificate with its chain, in PEM.", valueName: "file"))
    var tlsCert: String?
    @Option(help: ArgumentHelp("The certificate's private key, in PEM.", valueName: "file"))
    var tlsKey: String?
    @OptionGroup var tokens: TokenOptions
    @Option(help: ArgumentHelp("A web page of this origin may connect, * for any. May be given again.", valueName: "origin"))
    var allowOrigin: [String] = []
    @Option(
        help: ArgumentHelp(
            "End messages that an earlier process of this store began to stream, and of which nothing was heard for so long.", valueName: "seconds"))
    var abandonedAfter = 60
    @Option(help: ArgumentHelp("Sign the heads of all conversations so often; 0: only when `audit checkpoint` is told to.", valueName: "seconds"))
    var checkpointEvery = 3600
    private static let firstCheckpointSeconds = 60
    @Option(help: ArgumentHelp("trace, debug, info, notice, warning, error or critical.", valueName: "level"))
    var logLevel = "info"

    /// How long all of the shutdown may take before whoever is still there is cut off; a peer that does not answer its close is so sooner.
    private static let shutdownSeconds: Int64 = 5
    /// Longer than anybody waits: much more is more than a clock can tell.
    private static let secondsMax = 1_000_000_000

    func validate() throws {
        guard let address = ListenAddress(listen) else { throw ValidationError("--listen is HOST:PORT, for example 127.0.0.1:8080 or [::1]:8080.") }
        guard (tlsCert == nil) == (tlsKey == nil) else { throw ValidationError("--tls-cert and --tls-key belong together.") }
        guard !tokens.insecureAnyUser || address.isLoopback else {
            throw ValidationError("--insecure-any-user is only for loopback (127.0.0.1, ::1, localhost): anybody who reached \(address.host) could be anybody.")
        }
        for (option, seconds) in [("--checkpoint-every", checkpointEvery), ("--abandoned-after", abandonedAfter)] where !(0...Self.secondsMax ~= seconds) {
            throw ValidationError("\(option) is 0 to \(Self.secondsMax) seconds.")
        }
        guard !allowOrigin.contains("") else { throw ValidationError("--allow-origin is a page's origin, for example https://chat.example.") }
        guard Logger.Level(rawValue: logLevel) != nil else {
            throw ValidationError("--log-level is trace, debug, info, notice, warning, error or critical.")
        }
    }

    func run() throws {
        let level = Logger.Level(rawValue: logLevel)!
        let logger = Logger(label: "convstore") { LineLogHandler(label: $0, level: level) }
        do {
            try run(ListenAddress(listen)!, logger)
        } catch let error as HubServerError {
            throw Failure(Failure.Code(error.code), error.message)
        }
        logger.info("stopped")
    }

    private func run(_ address: ListenAddress, _ logger: Logger) throws {
        var options = HubServerOptions(host: address.host, port: address.port)
        if let tlsCert, let tlsKey { options.tls = ServerTLS(certificateFile: tlsCert, keyFile: tlsKey) }
        options.allowedOrigins = Set(allowOrigin)
        var (hubOptions, keys) = try tokens.hubOptions(logger)
        hubOptions.log = { logger.error("the store failed", metadata: ["error": "\($0)"]) }
        hubOptions.notice = { logger.notice("\($0)") }
        raiseFileLimit()
        let storeOptions = ConversationStoreOptions(endAbandonedStreamsAfter: .seconds(abandonedAfter))
        try store.with(storeOptions) { store in
            // Whoever writes at it would write behind its hub's back: what it lacks of a log, or has not sent yet, comes at other places.
            if try Replica.isUsersReplica(at: self.store.path) {
                throw Failure(
                    .unavailable,
                    "\(self.store.path) is a user's replica, whose events come from its hub; serve the hub's store, or a full copy of it (`follow`)")
            }
            let hub = try Hub(store: store, options: hubOptions)
            let scheme = options.tls == nil ? "ws" : "wss"
            let server = try HubServer(hub, options: options, logger: logger) { [options] port in
                // Whoever waits for the line may have gone: that is no reason to stop.
                try? StandardOutput.shared.writeLine("listening on \(scheme)://\(address.text(port: port))/v1/sync")
                try? StandardOutput.shared.flush()
                logger.info("listening", metadata: ["address": "\(address.text(port: port))", "tls": "\(options.tls != nil)"])
            }
            warn(address, options, logger)
            let chores = [sign(store.log, logger), keys.map { refresh($0, logger) }]
            defer { for chore in chores { chore?.cancel() } }
            try serve(server, logger)
        }
    }

    /// Devices demand of each checkpoint that it goes on from the one that they saw before.
    private func sign(_ log: EventStore, _ logger: Logger) -> Task<Void, Never> {
        let seconds = checkpointEvery
        return Task {
            // One that is begun again and again, each time before that is over, would never sign.
            var wait = min(seconds, Self.firstCheckpointSeconds)
            while seconds > 0, (try? await Task.sleep(for: .seconds(wait))) != nil {
                // It would hold it to nothing.
                if log.lastPosition == 0 { continue }
                wait = seconds
                do { _ = try log.makeCheckpoint() } catch { logger.error("no checkpoint could be made", metadata: ["error": "\(error)"]) }
            }
        }
    }

    private func refresh(_ keys: any TokenKeySource, _ logger: Logger) -> Task<Void, Never> {
        Task {
            while (try? await Task.sleep(for: .seconds(keys.refreshSeconds))) != nil {
                do {
                    if try await keys.refresh() { logger.info("the keys of tokens were read anew") }
                } catch {
                    logger.error("the keys of tokens stay as they were", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    private func warn(_ address: ListenAddress, _ options: HubServerOptions, _ logger: Logger) {
        if tokens.insecureAnyUser {
            logger.warning("everybody is believed who they say they are")
        } else if options.tls == nil, !address.isLoopback {
            logger.warning("without TLS, tokens can be read on the way: put a proxy with TLS in front")
        }
    }

    private func serve(_ server: HubServer, _ logger: Logger) throws {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        // What was started to outlive its terminal does.
        let signals: [UnixSignal] = Signals.isIgnored(SIGHUP) ? [.sigterm, .sigint] : [.sigterm, .sigint, .sighup]
        var configuration = ServiceGroupConfiguration(
            services: [.init(service: server, successTerminationBehavior: .gracefullyShutdownGroup)], gracefulShutdownSignals: signals, logger: quiet)
        configuration.maximumGracefulShutdownDuration = .seconds(Self.shutdownSeconds)
        let group = ServiceGroup(configuration: configuration)
        do {
            try waiting { try await group.run() }
        } catch is CancellationError {
            logger.warning("some peers did not leave in time and were cut off")
        }
    }

    /// Each peer takes a descriptor, and the usual limit is low.
    private func raiseFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}

extension Failure.Code {
    fileprivate init(_ code: HubServerError.Code) {
        switch code {
        case .cannotListen, .unreachable: self = .unavailable
        case .invalidURL: self = .usage
        case .unreadable: self = .noInput
        default: self = .data
        }
    }
}
