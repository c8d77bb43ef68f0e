internal import EventLog

/// Joins a replica and a hub of the same process: for tests, and for a server with a replica of its own.
public enum InProcess {
    /// The two ends, each of which knows the other only by what it is sent.
    private final class Wire: Sendable {
        private let ends = Monitor<(hub: HubConnection?, replica: (any ReplicaEnd)?)>((nil, nil))

        func join(_ hub: HubConnection, _ replica: any ReplicaEnd) { ends.withLock { $0 = (hub, replica) } }
        func cut() { ends.withLock { $0 = (nil, nil) } }
        var hub: HubConnection? { ends.withLock { $0.hub } }
        var replica: (any ReplicaEnd)? { ends.withLock { $0.replica } }
    }

    /// Begins a session of the replica with the hub.
    public static func connect(
        _ replica: Replica, to hub: Hub, token: String = "", scope: Scope = .mine, observe: @escaping @Sendable (ReplicaEvent) -> Void
    ) -> ReplicaConnection {
        join(hub) { send, close in replica.connect(token: token, scope: scope, send: send, close: close, observe: observe) }
    }

    /// The same for a replica of which bytes are damaged.
    public static func connect(
        _ repair: Repair, to hub: Hub, token: String = "", scope: Scope = .mine, observe: @escaping @Sendable (RepairEvent) -> Void
    ) -> RepairConnection {
        join(hub) { send, close in repair.connect(token: token, scope: scope, send: send, close: close, observe: observe) }
    }

    private static func join<End: ReplicaEnd>(
        _ hub: Hub, _ connect: (_ send: @escaping @Sendable ([UInt8]) -> Void, _ close: @escaping @Sendable (Bye) -> Void) -> End
    ) -> End {
        let wire = Wire()
        let upper = hub.connect(
            send: { wire.replica?.receive($0, mayWait: false) },
            close: { _ in
                wire.replica?.disconnected()
                wire.cut()
            })
        let lower = connect(
            { wire.hub?.receive($0) },
            { _ in
                wire.hub?.disconnected()
                wire.cut()
            })
        wire.join(upper, lower)
        lower.start()
        return lower
    }
}
