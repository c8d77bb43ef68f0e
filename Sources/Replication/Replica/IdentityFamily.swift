internal import Crypto
internal import EventLog

/// The ids that a replica takes one after the other, and copies of it others: made of one secret, so that a copy which was set back knows by them what it made
/// in the life that it lost.
struct IdentityFamily {
    let user: UserID
    /// The nonce of its first id.
    let key: [UInt8]
    /// How many ids came before the present one.
    let generation: Int

    /// Of so many ids of a generation two copies most likely take different ones. Where they do not, they are as two that took none.
    private static let branches: UInt64 = 1024
    /// So many generations before and behind the present one are looked through.
    private static let reach = 8

    init(of identity: ReplicaIdentity, in fact: ([UInt8]) throws -> [UInt8]?) rethrows {
        user = identity.user
        key = try fact(ReplicaState.Key.family) ?? identity.nonce
        generation = try (fact(ReplicaState.Key.former)?.count ?? 0) / 16
    }

    /// The nonce of the id that a replica takes next.
    func nextNonce(_ execution: Execution) -> [UInt8] { nonce(generation + 1, execution.random() % Self.branches) }

    /// The first 16 bytes of SHA-256("convstore family" ‖ key ‖ be64 generation ‖ be64 branch).
    private func nonce(_ generation: Int, _ branch: UInt64) -> [UInt8] {
        var bytes = Array("convstore family".utf8) + key
        for number in [UInt64(generation), branch] { withUnsafeBytes(of: number.bigEndian) { bytes += $0 } }
        return Array(SHA256.hash(data: bytes).prefix(16))
    }

    /// The ids that copies of this replica may have taken. They are many: some milliseconds.
    func ids() -> Set<ReplicaID> {
        var ids: Set<ReplicaID> = []
        for generation in max(1, generation - Self.reach + 1)...generation + Self.reach {
            for branch in 0..<Self.branches { ids.insert(Replicas.id(user: user, nonce: nonce(generation, branch))) }
        }
        return ids
    }
}
