import ChatServer
import ConversationStore
import EventLog
import Logging
import Replication
import ServiceLifecycle

/// A hub on a port of this machine, for as long as a closure runs.
struct LoopbackHub {
    let store: ConversationStore
    let services: Set<UserID>

    func run<Result: Sendable>(_ body: (_ url: String) throws -> Result) throws -> Result {
        let port = Monitor<Int?>(nil)
        let hub = try Hub(store: store, options: .anyUser(services: services))
        var logger = Logger(label: "convstore")
        logger.logLevel = .error
        let server = try HubServer(hub, options: HubServerOptions(), logger: logger) { listening in
            port.withLock { $0 = listening }
            port.wakeAll()
        }
        var configuration = ServiceGroupConfiguration(
            services: [.init(service: server, successTerminationBehavior: .gracefullyShutdownGroup)], logger: logger)
        configuration.maximumGracefulShutdownDuration = .seconds(5)
        let group = ServiceGroup(configuration: configuration)
        let running = Task.detached { try await group.run() }
        let listening = port.withLock(waitingWhile: { $0 == nil }, atMostMilliseconds: 10_000) { $0 }
        defer {
            try? waiting {
                await group.triggerGracefulShutdown()
                try await running.value
            }
        }
        guard let listening else { throw Failure(.unavailable, "no port of this machine could be listened on") }
        return try body("ws://127.0.0.1:\(listening)/v1/sync")
    }
}
