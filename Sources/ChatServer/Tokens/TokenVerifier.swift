import EventLog
public import Logging
public import Replication

/// Checks that a token (JWT, RFC 7519, signed) speaks for a user.
///
/// The keys are the server's, and each key knows its algorithm: a token's header chooses nothing but one of the keys by name. It follows no URL and no
/// certificate of a header, and takes no token that demands something that it does not know (RFC 8725).
public struct TokenVerifier: Sendable {
    public static let tokenBytesMax = 16 << 10
    /// What the clocks of issuer and hub may differ by.
    static let leewaySeconds = 30.0
    /// 9999-12-31: no honest token lives longer, and no sum overflows.
    private static let latestSeconds = 253_402_300_799.0

    private let keys: @Sendable () -> TokenKeys
    private let source: (any TokenKeySource)?
    private let issuer: String?
    private let audience: String?
    private let logger: Logger?
    private let now: @Sendable () -> Double

    /// - Parameters:
    ///   - issuer: what `iss` must be, if given.
    ///   - audience: what `aud` must name, if given. A token for somebody else (one with an `aud`) is refused where none is given.
    ///   - logger: told why tokens are refused, never of the tokens.
    public init(_ keys: TokenKeys, issuer: String? = nil, audience: String? = nil, logger: Logger? = nil) {
        self.init({ keys }, issuer: issuer, audience: audience, logger: logger, now: systemSeconds)
    }

    /// The same with the keys that a file or a URL holds at the time.
    public init(_ source: any TokenKeySource, issuer: String? = nil, audience: String? = nil, logger: Logger? = nil) {
        self.init({ source.keys }, source, issuer: issuer, audience: audience, logger: logger, now: systemSeconds)
    }

    package init(
        _ keys: @escaping @Sendable () -> TokenKeys, _ source: (any TokenKeySource)? = nil, issuer: String?, audience: String?, logger: Logger? = nil,
        now: @escaping @Sendable () -> Double
    ) {
        self.keys = keys
        self.source = source
        self.issuer = issuer
        self.audience = audience
        self.logger = logger
        self.now = now
    }

    /// For `HubOptions`.
    public var options: HubOptions {
        HubOptions { token, _, reply in
            guard let source, case .failure(.unknownKey) = verify(token) else { return reply(check(token)) }
            // An issuer's new key, perhaps: its first token need not come twice.
            Task {
                do {
                    if try await source.refreshForUnknownKey() { logger?.info("the keys of tokens were read anew") }
                } catch {
                    logger?.error("the keys of tokens stay as they were", metadata: ["error": "\(error)"])
                }
                reply(check(token))
            }
        }
    }

    /// What a peer is told: expired, or nothing that helps to guess.
    public func check(_ token: String) -> Result<Identity, AuthenticationFailure> {
        switch verify(token) {
        case .success(let identity): return .success(identity)
        case .failure(.expired):
            logger?.info("token refused", metadata: ["cause": "expired"])
            return .failure(AuthenticationFailure(isExpired: true, reason: "the token has expired"))
        case .failure(let flaw):
            logger?.info("token refused", metadata: ["cause": "\(flaw)"])
            return .failure(AuthenticationFailure(isExpired: false, reason: "the token is not valid"))
        }
    }

    /// What is wrong with a token: for our own log.
    package enum Flaw: Error, Hashable {
        case tooLong, malformed, algorithm, unnamedKey, unknownKey, header, signature, expired, notYetValid, issuer, audience, subject, expiry
    }

    package func verify(_ token: String) -> Result<Identity, Flaw> {
        do throws(Flaw) {
            guard token.utf8.count <= Self.tokenBytesMax else { throw .tooLong }
            let parts = token.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 3, let headerBytes = Base64URL.decode(parts[0]), let claimBytes = Base64URL.decode(parts[1]),
                let signature = Base64URL.decode(parts[2])
            else { throw .malformed }
            let header = try TokenHeader(headerBytes)
            let key = try keys().key(for: header)
            guard key.isValid(signature, of: Array(token.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))) else { throw key.flaw }
            // Nothing of the claims is looked at before this point.
            return .success(try identity(try TokenClaims(claimBytes)))
        } catch {
            return .failure(error)
        }
    }

    private func identity(_ claims: TokenClaims) throws(Flaw) -> Identity {
        let now = now()
        guard let expiry = claims.exp, 0...Self.latestSeconds ~= expiry else { throw .expiry }
        if let issuer, claims.iss != issuer { throw .issuer }
        if let audience {
            guard claims.aud?.contains(audience) ?? false else { throw .audience }
        } else if claims.aud != nil {
            throw .audience
        }
        guard let user = claims.sub.flatMap({ UserID($0) }) else { throw .subject }
        if let begin = claims.nbf, !(begin <= now + Self.leewaySeconds) { throw .notYetValid }
        // Last: only a token that was valid is called expired.
        guard now < expiry + Self.leewaySeconds else { throw .expired }
        return Identity(user: user, isService: claims.service, expiresAt: UInt64((expiry + Self.leewaySeconds) * 1000))
    }
}
