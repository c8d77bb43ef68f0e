internal import EventLog
internal import Replication

/// A token of the simulation: a user's name and when it ends by the hub's clock.
enum Token {
    /// The service account: it follows everything.
    static let service = UserID("service")!

    static func make(_ user: UserID, expiresAt: UInt64) -> String { "\(expiresAt) \(user)" }

    static func check(_ token: String, _ claimed: UserID, now: UInt64) -> Result<Identity, AuthenticationFailure> {
        let parts = token.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, let expiry = UInt64(parts[0]), let user = UserID(String(parts[1])), user == claimed else {
            return .failure(AuthenticationFailure())
        }
        if now >= expiry { return .failure(AuthenticationFailure(isExpired: true, reason: "the token has expired")) }
        return .success(Identity(user: user, isService: user == service, expiresAt: expiry))
    }
}
