import Crypto

/// Who signed: a name and an Ed25519 public key, written `name+hash+base64` (C2SP signed-note, and Go's sumdb/note).
///
/// `hash` is eight hexadecimal digits, the first four bytes of `SHA-256(name || 0x0A || 0x01 || public key)`; the base64 is of 0x01
/// (Ed25519) and the key.
public struct VerifierKey: Hashable, Sendable, CustomStringConvertible {
    public let name: String
    /// The thirty-two bytes of RFC 8032.
    public let publicKey: Hash256
    /// Names the key beside its name; not a safeguard.
    public let keyHash: UInt32

    static let ed25519: UInt8 = 1

    init(validName name: String, publicKey: Hash256) {
        self.name = name
        self.publicKey = publicKey
        let digest = Array(Array(name.utf8) + [0x0A, Self.ed25519] + publicKey.bytes).withUnsafeBytes { Hash256.of($0) }
        keyHash = digest.bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Reads `description`'s form.
    public init(_ text: String) throws(ProofError) {
        // Base64 has plus signs of its own, a name has none.
        let parts = text.utf8.split(separator: UInt8(ascii: "+"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let name = String(parts[0]), Self.isValid(name: name), let hash = String(parts[1]), hash.utf8.count == 8,
            let bytes = Base64.decode(Substring(parts[2])), bytes.count == 33, let publicKey = Hash256(bytes: bytes.dropFirst())
        else { throw ProofError(.key, "a verifier key is name+hash+base64: this is not one") }
        guard bytes[0] == Self.ed25519 else { throw ProofError(.key, "keys of type \(bytes[0]) are not known here, only Ed25519 (1)") }
        self.init(validName: name, publicKey: publicKey)
        guard keyHash.hex == hash else { throw ProofError(.key, "the key's hash does not match its name and bytes: a typing error?") }
    }

    public var description: String { "\(name)+\(keyHash.hex)+\(Base64.encode([Self.ed25519] + publicKey.bytes))" }

    func verifies(_ signature: [UInt8], of text: [UInt8]) -> Bool {
        guard signature.count == 64, let key = try? Curve25519.Signing.PublicKey(rawRepresentation: publicKey.bytes) else { return false }
        return key.isValidSignature(signature, for: text)
    }

    /// Not empty, without Unicode spaces, control characters or plus signs.
    static func isValid(name: String) -> Bool {
        !name.isEmpty && name.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "+" && $0.value >= 0x20 }
    }

    // Swift's own `==` on String is canonical equivalence, so names that differ in bytes would be one.
    public static func == (left: Self, right: Self) -> Bool {
        left.publicKey == right.publicKey && left.name.utf8.elementsEqual(right.name.utf8)
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(publicKey) }
}

/// Signs notes and checkpoints: a `VerifierKey` with its secret.
public struct SigningKey: Sendable, CustomStringConvertible {
    public let verifierKey: VerifierKey
    private let seed: Hash256
    private let key: Curve25519.Signing.PrivateKey

    /// A fresh key. The name is best a URL without its scheme, such as `example.com/store`.
    public init(name: String) throws(ProofError) {
        try self.init(name: name, seed: .random())
    }

    /// The key with a known seed (RFC 8032's private key).
    package init(name: String, seed: Hash256) throws(ProofError) {
        guard VerifierKey.isValid(name: name) else {
            throw ProofError(.key, "a key's name must not be empty or hold a space or a plus sign")
        }
        guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed.bytes),
            let publicKey = Hash256(bytes: Array(key.publicKey.rawRepresentation))
        else { throw ProofError(.key, "the seed is no Ed25519 key") }
        self.seed = seed
        self.key = key
        verifierKey = VerifierKey(validName: name, publicKey: publicKey)
    }

    private static let prefix = "PRIVATE+KEY+"

    /// Reads `secretText`'s form.
    public init(secretText text: String) throws(ProofError) {
        guard text.utf8.starts(with: Self.prefix.utf8) else { throw ProofError(.key, "a signer's key begins with \(Self.prefix)") }
        let parts = text.utf8.dropFirst(Self.prefix.utf8.count).split(
            separator: UInt8(ascii: "+"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let name = String(parts[0]), let hash = String(parts[1]), let bytes = Base64.decode(Substring(parts[2])),
            bytes.count == 33, bytes[0] == VerifierKey.ed25519, let seed = Hash256(bytes: bytes.dropFirst())
        else { throw ProofError(.key, "a signer's key is \(Self.prefix)name+hash+base64: this is not one") }
        try self.init(name: name, seed: seed)
        guard verifierKey.keyHash.hex == hash else { throw ProofError(.key, "the key's hash does not match its name and bytes") }
    }

    /// The form in which Go's sumdb/note keeps it. Secret: keep the file's mode at 0600.
    public var secretText: String {
        "\(Self.prefix)\(verifierKey.name)+\(verifierKey.keyHash.hex)+\(Base64.encode([VerifierKey.ed25519] + seed.bytes))"
    }

    /// The public half only.
    public var description: String { verifierKey.description }

    func signature(of text: [UInt8]) throws(ProofError) -> [UInt8] {
        do {
            return Array(try key.signature(for: text))
        } catch {
            throw ProofError(.signature, "signing failed: \(error)")
        }
    }
}

extension UInt32 {
    fileprivate var hex: String { withUnsafeBytes(of: bigEndian) { Hex.encode($0) } }
}
