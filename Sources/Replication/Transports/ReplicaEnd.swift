/// What a transport carries messages to on the replica's side.
package protocol ReplicaEnd: Sendable {
    func start()
    func receive(_ message: [UInt8], mayWait: Bool)
    func progressed()
    func disconnected()
    func tick()
}

extension ReplicaConnection: ReplicaEnd {}
extension RepairConnection: ReplicaEnd {}
