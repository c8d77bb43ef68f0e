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
    func nextNonce(_ execution: Execution) -> [UInt8] {
        Self.nonce(start: start(generation + 1), execution.random() % Self.branches).withUnsafeBytes { Array($0.prefix(Self.nonceBytes)) }
    }

    private static let nonceBytes = 16

    /// What is hashed for all nonces of a generation: "convstore family" ‖ key ‖ be64 generation.
    private func start(_ generation: Int) -> [UInt8] {
        Array("convstore family".utf8) + key + withUnsafeBytes(of: UInt64(generation).bigEndian) { Array($0) }
    }

    /// The first 16 bytes of SHA-256(start ‖ be64 branch) are the nonce.
    private static func nonce(start: [UInt8], _ branch: UInt64) -> Hash256 { withUnsafeBytes(of: branch.bigEndian) { SHA256Hasher.hash(start, $0) } }

    /// The ids that copies of this replica may have taken, by generations. They are many, some milliseconds: a process keeps those that it made.
    func ids() -> [Set<ReplicaID>] {
        let ofUser = Replicas.start(of: user)
        return (max(1, generation - Self.reach + 1)...generation + Self.reach).map { number in
            let name = Generation(user: user, key: key, number: number)
            if let known = Self.known.withLock({ $0[name] }) { return known }
            let start = start(number)
            var ids = Set<ReplicaID>(minimumCapacity: Int(Self.branches))
            for branch in 0..<Self.branches {
                ids.insert(
                    Self.nonce(start: start, branch).withUnsafeBytes {
                        Replicas.id(start: ofUser, nonce: UnsafeRawBufferPointer(rebasing: $0[..<Self.nonceBytes]))
                    })
            }
            Self.known.withLock { known in
                if known.count >= Self.knownMax { known = [:] }
                known[name] = ids
            }
            return ids
        }
    }

    private struct Generation: Hashable {
        var user: UserID
        var key: [UInt8]
        var number: Int
    }

    /// Some 33 KiB each. When there are so many, they are made anew.
    private static let known = Monitor<[Generation: Set<ReplicaID>]>([:])
    private static let knownMax = 128
}
