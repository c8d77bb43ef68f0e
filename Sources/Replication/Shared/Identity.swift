internal import Crypto
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
    package static func id(user: UserID, nonce: [UInt8]) -> ReplicaID {
        ReplicaID(bytes: Array(SHA256.hash(data: Array("convstore replica".utf8) + Array(user.string.utf8) + nonce)).prefix(16))!
    }
}
