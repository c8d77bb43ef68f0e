import ArgumentParser
import ChatServer
import ConversationStore
import Logging
import Replication

/// How a hub knows who its peers are.
struct TokenOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The key of the tokens (JWT): a public key in PEM (ES256, EdDSA, RS256 or PS256), or a file with the secret for HS256, as it is or behind base64:",
            valueName: "file"))
    var jwtKey: String?
    @Option(
        help: ArgumentHelp(
            "A set of such public keys (JWKS) in a file or at https://…; a token's kid chooses among them.", valueName: "file or url"))
    var jwks: String?
    @Option(help: ArgumentHelp("Certificates (PEM) to trust for the URL of --jwks, instead of the system's.", valueName: "file"))
    var jwksCa: String?
    @Option(help: ArgumentHelp("What the tokens' iss must be.", valueName: "issuer"))
    var jwtIssuer: String?
    @Option(help: ArgumentHelp("What the tokens' aud must name; without it, only tokens without aud are taken.", valueName: "audience"))
    var jwtAudience: String?
    @Flag(help: "Believe everybody who they say they are. Only on loopback.")
    var insecureAnyUser = false
    @Option(help: ArgumentHelp("With --insecure-any-user: who may write for others. May be given again.", valueName: "name"))
    var serviceUser: [String] = []

    func validate() throws {
        let ways = [jwtKey != nil, jwks != nil, insecureAnyUser].filter { $0 }.count
        guard ways == 1 else {
            throw ValidationError(
                ways > 1
                    ? "Give only one of --jwt-key, --jwks and --insecure-any-user."
                    : "Who may come in? Name the key that checks their tokens with --jwt-key or --jwks; or, on loopback, let in everybody with --insecure-any-user."
            )
        }
        if let jwks, KeySetFetch.isURL(jwks) {
            do { try KeySetFetch.check(jwks) } catch { throw ValidationError("--jwks: \(error.message)") }
        } else if jwksCa != nil {
            throw ValidationError("--jwks-ca is for --jwks with https://…")
        }
        guard insecureAnyUser || serviceUser.isEmpty else {
            throw ValidationError("--service-user is for --insecure-any-user; a token says by its claim \"service\" that it is a service's.")
        }
        // As from a variable that is not set: whoever names one means that it is checked.
        guard jwtIssuer != "", jwtAudience != "" else { throw ValidationError("--jwt-issuer and --jwt-audience are not empty.") }
        guard !insecureAnyUser || (jwtIssuer == nil && jwtAudience == nil) else {
            throw ValidationError("--jwt-issuer and --jwt-audience mean nothing with --insecure-any-user: tokens are not read.")
        }
    }

    /// - Returns: what a hub asks of its peers, and the keys that it goes by, which are to be refreshed while it runs.
    func hubOptions(_ logger: Logger) throws -> (options: HubOptions, keys: (any TokenKeySource)?) {
        if insecureAnyUser { return (.anyUser(services: Set(try serviceUser.map { try UserID.typed($0, as: "--service-user") })), nil) }
        let source: any TokenKeySource = try waiting { [jwtKey, jwks, jwksCa] in
            if let jwtKey { return try await TokenKeyFile(jwtKey, .key) }
            if let jwks, KeySetFetch.isURL(jwks) { return try await TokenKeyURL(jwks, certificateAuthority: jwksCa) }
            return try await TokenKeyFile(jwks!, .set)
        }
        return (TokenVerifier(source, issuer: jwtIssuer, audience: jwtAudience, logger: logger).options, source)
    }
}
