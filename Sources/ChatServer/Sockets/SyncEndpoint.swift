import ConversationStore
import EventLog
package import Replication
package import ReplicationWebSocket

/// What a server's sockets lead to: a hub, or in tests something simpler.
package protocol SyncEndpoint: Sendable {
    /// A peer has come. Who takes its messages sends to `socket` and closes it.
    func connect(_ socket: Socket) -> any SocketReceiver
    func tick()
    func shutdown()
    /// Whether what is sent could be stored.
    var isReady: Bool { get }
    var statistics: HubStatistics? { get }
}

struct HubEndpoint: SyncEndpoint {
    private let hub: Hub

    init(_ hub: Hub) { self.hub = hub }

    func connect(_ socket: Socket) -> any SocketReceiver {
        HubReceiver(hub.connect(send: { socket.send($0) }, close: { socket.close(SocketEnd($0)) }))
    }

    func tick() { hub.tick() }
    func shutdown() { hub.shutdown() }
    var isReady: Bool { (try? hub.store.log.checkOpen()) != nil }
    var statistics: HubStatistics? { hub.statistics }
}

private struct HubReceiver: SocketReceiver {
    private let connection: HubConnection

    init(_ connection: HubConnection) { self.connection = connection }

    func receive(_ message: [UInt8]) { connection.receive(message) }
    func ended(_ end: SocketEnd?) { connection.disconnected() }
}

extension SocketEnd {
    /// The close code behind a BYE: it repeats for those who only see the socket what the BYE says.
    init(_ bye: Bye) {
        let code: UInt16 =
            switch bye.code {
            case .normal: 1000
            case .goingAway: 1001
            case .internalError, .storeFull: 1011
            case .protocolError, .unsupportedVersion, .forked: 4400
            case .unauthenticated, .tokenExpired, .forbidden: 4401
            case .timeout: 4408
            case .overloaded: 4429
            }
        self.init(code, bye.reason)
    }
}
