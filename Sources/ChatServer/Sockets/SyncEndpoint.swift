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
    /// Why what is sent would not be stored, if so: without a path, as anybody may ask.
    var hindrance: String? { get }
    var statistics: HubStatistics? { get }
}

package struct HubEndpoint: SyncEndpoint {
    private let hub: Hub

    package init(_ hub: Hub) { self.hub = hub }

    package func connect(_ socket: Socket) -> any SocketReceiver {
        HubReceiver(hub.connect(send: { socket.send($0) }, close: { socket.close(SocketEnd($0)) }, takesMore: { socket.takesMore }))
    }

    package func tick() { hub.tick() }
    package func shutdown() { hub.shutdown() }
    package var hindrance: String? {
        guard (try? hub.store.log.checkOpen()) != nil else { return "the store is closed" }
        switch hub.hindrance?.code {
        case nil: return nil
        case .some(.diskFull): return "the store's disk is full"
        case .some: return "a write or sync of the store failed: see the log"
        }
    }
    package var statistics: HubStatistics? { hub.statistics }
}

private struct HubReceiver: SocketReceiver {
    private let connection: HubConnection

    init(_ connection: HubConnection) { self.connection = connection }

    func receive(_ message: [UInt8]) { connection.receive(message, mayWait: true) }
    func drained() { connection.drained() }
    func progressed() { connection.progressed() }
    func ended(_ end: SocketEnd?) { connection.disconnected() }
}
