public import EventLog

/// Whom a token speaks for.
public struct Identity: Hashable, Sendable {
    public var user: UserID
    /// May write for others, and follow everything.
    public var isService: Bool
    /// Milliseconds since 1970; `nil`: never.
    public var expiresAt: UInt64?

    public init(user: UserID, isService: Bool = false, expiresAt: UInt64? = nil) {
        self.user = user
        self.isService = isService
        self.expiresAt = expiresAt
    }
}

/// Why a token was not taken.
public struct AuthenticationFailure: Error, Hashable, Sendable {
    /// A new token of the same user would do.
    public var isExpired: Bool
    /// For the peer: says nothing that helps to guess.
    public var reason: String

    public init(isExpired: Bool = false, reason: String = "the token is not valid") {
        self.isExpired = isExpired
        self.reason = reason
    }
}

/// Replicas' ids, which nobody can take who is not their user.
package enum Replicas {
    /// The first 16 bytes of SHA-256("convstore replica" ‖ user ‖ nonce).
    package static func id(user: UserID, nonce: [UInt8]) -> ReplicaID { nonce.withUnsafeBytes { id(start: start(of: user), nonce: $0) } }

    /// What is hashed for all ids of a user.
    static func start(of user: UserID) -> [UInt8] { Array("convstore replica".utf8) + user.string.utf8 }

    static func id(start: [UInt8], nonce: UnsafeRawBufferPointer) -> ReplicaID {
        SHA256Hasher.hash(start, nonce).withUnsafeBytes { hash in
            ReplicaID(
                high: UInt64(bigEndian: hash.loadUnaligned(as: UInt64.self)), low: UInt64(bigEndian: hash.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }
}

extension SHA256Hasher {
    static func hash(_ start: [UInt8], _ rest: UnsafeRawBufferPointer) -> Hash256 {
        var hasher = SHA256Hasher()
        start.withUnsafeBytes { hasher.update($0) }
        hasher.update(rest)
        return hasher.finalize()
    }
}
