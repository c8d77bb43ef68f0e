import Crypto
import CryptoExtras
import Foundation

/// Keys, the files that the server reads, and tokens signed in whatever way a test wants.
final class Issuer {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convstore-tokens-" + UUID().uuidString)
    let p256 = P256.Signing.PrivateKey()
    let ed25519 = Curve25519.Signing.PrivateKey()
    private(set) lazy var rsa = try! _RSA.Signing.PrivateKey(keySize: .bits2048)
    let secret = Array("a secret of more than thirty-two bytes".utf8)

    init() throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    func file(_ text: String) throws -> String {
        let url = directory.appendingPathComponent(UUID().uuidString)
        try Data(text.utf8).write(to: url)
        return url.path
    }

    func token(_ algorithm: String, _ claims: String, header: String = "", _ sign: (([UInt8]) throws -> [UInt8])? = nil) throws -> String {
        let signed = Self.encode(Array("{\"alg\":\"\(algorithm)\"\(header)}".utf8)) + "." + Self.encode(Array(claims.utf8))
        let bytes = Array(signed.utf8)
        let signature = try sign?(bytes) ?? signature(algorithm, bytes)
        return signed + "." + Self.encode(signature)
    }

    func signature(_ algorithm: String, _ bytes: [UInt8]) throws -> [UInt8] {
        switch algorithm {
        case "ES256": Array(try p256.signature(for: bytes).rawRepresentation)
        case "EdDSA": Array(try ed25519.signature(for: bytes))
        case "RS256": Array(try rsa.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
        case "PS256": Array(try rsa.signature(for: SHA256.hash(data: bytes), padding: .PSS).rawRepresentation)
        case "HS256": hmac(bytes, secret)
        default: []
        }
    }

    func hmac(_ bytes: [UInt8], _ key: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
    }

    static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    func jwks(_ keys: [(kid: String, key: P256.Signing.PublicKey)], others: String = "") throws -> String { try file(Self.set(keys, others: others)) }

    static func set(_ keys: [(kid: String, key: P256.Signing.PublicKey)], others: String = "") -> String {
        let entries = keys.map { kid, key in
            let raw = Array(key.rawRepresentation)
            return
                "{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"sig\",\"kid\":\"\(kid)\",\"x\":\"\(encode(Array(raw[..<32])))\",\"y\":\"\(encode(Array(raw[32...])))\"}"
        }
        return "{\"keys\":[\((entries + (others.isEmpty ? [] : [others])).joined(separator: ","))]}"
    }

    /// When the tokens are looked at.
    static let now = 1_800_000_000.0

    static func claims(
        sub: String? = "\"ada\"", exp: String? = "1800000600", nbf: String? = nil, iss: String? = "\"us\"", aud: String? = "\"hub\"", more: String = ""
    ) -> String {
        let members = [("sub", sub), ("exp", exp), ("nbf", nbf), ("iss", iss), ("aud", aud)]
        return "{" + members.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }.joined(separator: ",") + more + "}"
    }
}
