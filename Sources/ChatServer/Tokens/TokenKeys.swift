import EventLog
import FoundationEssentials
import JWTKit

/// The keys with which tokens are checked.
///
/// The algorithms are ES256, EdDSA (Ed25519), RS256, PS256 and HS256; which of them a key is for, the key says.
public struct TokenKeys: Sendable {
    /// One key with its algorithms: an RSA key has two.
    struct Key: Sendable {
        var algorithms: [String: any JWTAlgorithm]
    }

    /// A key of a token's choice, with the one algorithm that both have.
    struct Choice {
        let algorithm: any JWTAlgorithm
        /// What is wrong if the signature is not this key's.
        var flaw = TokenVerifier.Flaw.signature

        func isValid(_ signature: [UInt8], of bytes: [UInt8]) -> Bool { (try? algorithm.verify(signature, signs: bytes)) ?? false }
    }

    private static let known: Set<String> = ["ES256", "EdDSA", "RS256", "PS256", "HS256"]
    /// RFC 7518, section 3.2.
    private static let secretBytesMin = 32

    private var single: Key?
    private var byName: [String: Key] = [:]
    /// Those of a set that have no name.
    private var unnamed: [Key] = []

    /// One key: a public key in PEM, or a secret for HS256, which is the file's bytes without the newline at their end, or what follows `base64:`.
    public static func file(_ path: String) async throws(HubServerError) -> TokenKeys { try await key(read(path), path) }

    static func key(_ bytes: [UInt8], _ path: String) async throws(HubServerError) -> TokenKeys {
        let text = String(decoding: bytes, as: UTF8.self)
        var keys = TokenKeys()
        keys.single = text.contains("-----BEGIN") ? try await publicKey(text, path) : try await secret(bytes, text, path)
        return keys
    }

    /// A set of public keys (JWKS, RFC 7517). A token names its key by `kid`; it may leave it out if the set has only one for its algorithm, and a set whose keys
    /// have no names is searched by the algorithm.
    public static func set(_ path: String) async throws(HubServerError) -> TokenKeys { try await set(read(path), path) }

    static func set(_ bytes: [UInt8], _ path: String) async throws(HubServerError) -> TokenKeys {
        guard let file = try? JSONDecoder().decode(SetFile.self, from: Data(bytes)) else {
            throw HubServerError(.invalidTokenKey, "\(path) is no JSON Web Key Set")
        }
        var keys = TokenKeys()
        for entry in file.keys {
            guard let jwk = entry.key, entry.use ?? "sig" == "sig", jwk.privateExponent == nil, let key = await key(jwk) else { continue }
            guard let name = jwk.keyIdentifier?.string else {
                guard !keys.unnamed.contains(where: { !Set($0.algorithms.keys).isDisjoint(with: key.algorithms.keys) }) else {
                    throw HubServerError(.invalidTokenKey, "\(path) has two keys for one algorithm that have no kid")
                }
                keys.unnamed.append(key)
                continue
            }
            guard keys.byName.updateValue(key, forKey: name) == nil else {
                throw HubServerError(.invalidTokenKey, "\(path) has two keys with one kid")
            }
        }
        guard !keys.byName.isEmpty || !keys.unnamed.isEmpty else {
            throw HubServerError(.invalidTokenKey, "\(path) holds no public key for ES256, EdDSA, RS256 or PS256")
        }
        return keys
    }

    func key(for header: TokenHeader) throws(TokenVerifier.Flaw) -> Choice {
        let key: Key
        if let single { key = single } else { key = try self.key(in: header) }
        // It has a name, and the key has none: it may be meant for one that is still to come.
        let isGuessed = single == nil && byName.isEmpty && header.kid != nil
        guard Self.known.contains(header.alg), let algorithm = key.algorithms[header.alg] else { throw isGuessed ? .unknownKey : .algorithm }
        return isGuessed ? Choice(algorithm: algorithm, flaw: .unknownKey) : Choice(algorithm: algorithm)
    }

    private func key(in header: TokenHeader) throws(TokenVerifier.Flaw) -> Key {
        if let name = header.kid, !byName.isEmpty {
            guard let named = byName[name] else { throw .unknownKey }
            return named
        }
        let all = unnamed + byName.values
        if all.count == 1 { return all[0] }
        let fitting = all.filter { $0.algorithms[header.alg] != nil }
        guard fitting.count == 1 else { throw header.kid == nil ? .unnamedKey : .unknownKey }
        return fitting[0]
    }

    private struct SetFile: Decodable {
        var keys: [Entry]

        /// Keys of a kind that we do not know are left out, as RFC 7517 wants.
        struct Entry: Decodable {
            var key: JWK?
            var use: String?

            private enum Field: String, CodingKey { case use }

            init(from decoder: any Decoder) throws {
                key = try? JWK(from: decoder)
                use = try decoder.container(keyedBy: Field.self).decodeIfPresent(String.self, forKey: .use)
            }
        }
    }

    static func read(_ path: String) throws(HubServerError) -> [UInt8] {
        do { return Array(try Data(contentsOf: URL(filePath: path))) } catch { throw HubServerError.unreadable(path) }
    }

    private static func secret(_ bytes: [UInt8], _ text: String, _ path: String) async throws(HubServerError) -> Key {
        var secret = bytes
        if text.hasPrefix("base64:") {
            guard let decoded = Base64.decode(text.dropFirst(7).filter { !$0.isWhitespace }) else {
                throw HubServerError(.invalidTokenKey, "what follows base64: in \(path) is not base64")
            }
            secret = decoded
        } else {
            // A few letters look like anything: what is wrong with them is that they are few.
            guard bytes.count < secretBytesMin || !isPublic(bytes) else {
                throw HubServerError(
                    .invalidTokenKey,
                    "\(path) looks like a public key, a set of keys or a page, and not like a secret: give a key in PEM, or a secret as base64: and its bytes")
            }
            if secret.last == UInt8(ascii: "\n") { secret.removeLast() }
        }
        guard secret.count >= secretBytesMin else {
            throw HubServerError(.invalidTokenKey, "the secret in \(path) has less than \(secretBytesMin) bytes: it could be guessed")
        }
        return await key(named: ["HS256"]) { await $0.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256) }
    }

    /// Whether a file's bytes are of a form that others know, or may guess: DER, OpenSSH, JSON, HTML, UTF-16, or zeros. Who took one for a secret would let
    /// them forge tokens.
    private static func isPublic(_ bytes: [UInt8]) -> Bool {
        let start = bytes.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\t") }
        let isText = String(validating: bytes, as: UTF8.self) != nil
        return isText && ["{", "[", "<", "ssh-", "ecdsa-", "MII", "MFk", "MCo"].contains { start.starts(with: $0.utf8) }
            || [[0x30, 0x82], [0x30, 0x81], [0x30, 0x59], [0x30, 0x2A], [0xFE, 0xFF], [0xFF, 0xFE]].contains { bytes.starts(with: $0) }
            || bytes.allSatisfy { $0 == bytes[0] }
    }

    private static func publicKey(_ text: String, _ path: String) async throws(HubServerError) -> Key {
        guard !text.contains("PRIVATE KEY") else {
            throw HubServerError(.invalidTokenKey, "\(path) is a private key: a hub only needs the public one, and should not have the other")
        }
        if let ecdsa = try? ES256PublicKey(pem: text) { return await key(named: ["ES256"]) { await $0.add(ecdsa: ecdsa) } }
        if let eddsa = try? EdDSA.PublicKey(pem: text) { return await key(named: ["EdDSA"]) { await $0.add(eddsa: eddsa) } }
        if let rsa = try? Insecure.RSA.PublicKey(pem: text) { return await key(rsa) }
        throw HubServerError(.invalidTokenKey, "\(path) is no public key in PEM of P-256, Ed25519 or RSA with 2048 bits or more")
    }

    private static func key(_ rsa: Insecure.RSA.PublicKey) async -> Key {
        let plain = await key(named: ["RS256"]) { await $0.add(rsa: rsa, digestAlgorithm: .sha256) }
        let padded = await key(named: ["PS256"]) { await $0.add(pss: rsa, digestAlgorithm: .sha256) }
        return Key(algorithms: plain.algorithms.merging(padded.algorithms) { first, _ in first })
    }

    /// `nil` if the key is for an algorithm that is not taken.
    private static func key(_ jwk: JWK) async -> Key? {
        let names: [String]
        switch (jwk.keyType, jwk.curve) {
        case (.ecdsa, .some(.ecdsa(.p256))): names = ["ES256"]
        case (.octetKeyPair, .some(.eddsa(.ed25519))): names = ["EdDSA"]
        case (.rsa, _): names = ["RS256", "PS256"]
        default: return nil
        }
        var algorithms: [String: any JWTAlgorithm] = [:]
        for name in names where jwk.algorithm.map({ $0.rawValue == name }) ?? true {
            let collection = JWTKeyCollection()
            var jwk = jwk
            jwk.keyIdentifier = "key"
            guard (try? await collection.add(jwk: jwk)) != nil, let algorithm = try? await collection.getKey(for: "key", alg: name),
                algorithm.name == name
            else { continue }
            algorithms[name] = algorithm
        }
        return algorithms.isEmpty ? nil : Key(algorithms: algorithms)
    }

    /// JWTKit hands out the algorithm of a key that stands in a collection.
    private static func key(named names: [String], _ add: (JWTKeyCollection) async -> Void) async -> Key {
        let collection = JWTKeyCollection()
        await add(collection)
        var algorithms: [String: any JWTAlgorithm] = [:]
        for name in names {
            if let algorithm = try? await collection.getKey(), algorithm.name == name { algorithms[name] = algorithm }
        }
        return Key(algorithms: algorithms)
    }
}
