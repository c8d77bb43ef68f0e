/// A text and signatures under it (C2SP signed-note):
///
/// ```text
/// the text, any number of lines
///
/// — key name base64(key hash || signature)
/// ```
///
/// Believe the text only once `verify` returned.
public struct SignedNote: Hashable, Sendable {
    public struct Signature: Hashable, Sendable {
        public let name: String
        public let keyHash: UInt32
        /// For Ed25519, sixty-four bytes.
        public let bytes: [UInt8]
    }

    /// More than any note we or a log's witnesses make.
    public static let bytesMax = 1 << 20
    /// As in Go's sumdb/note; the specification asks for 16 at least.
    public static let signaturesMax = 100

    /// Ends in a newline.
    public let text: String
    public private(set) var signatures: [Signature]

    /// Signs a text. It must end in a newline and hold no other control character.
    public init(text: String, signedBy key: SigningKey) throws(ProofError) {
        let bytes = Array(text.utf8)
        guard bytes.last == Self.newline, Self.isPlain(bytes) else {
            throw ProofError(.note, "a note's text ends in a newline and holds no other control character")
        }
        self.text = text
        let signature = try key.signature(of: bytes)
        signatures = [Signature(name: key.verifierKey.name, keyHash: key.verifierKey.keyHash, bytes: signature)]
    }

    /// Reads a note, strictly, without verifying a signature.
    public init(parsing note: String) throws(ProofError) {
        let bytes = Array(note.utf8)
        guard bytes.count <= Self.bytesMax else { throw ProofError(.note, "the note is longer than \(Self.bytesMax) bytes") }
        guard Self.isPlain(bytes) else { throw ProofError(.note, "the note holds a control character") }
        guard bytes.last == Self.newline else { throw ProofError(.note, "the note does not end in a newline") }
        // The text may hold empty lines: the last one of the note divides it from the signatures.
        var split = bytes.count - 2
        while split >= 0, bytes[split] != Self.newline || bytes[split + 1] != Self.newline { split -= 1 }
        guard split >= 0, split + 2 < bytes.count else { throw ProofError(.note, "the note has no signature below an empty line") }
        text = String(decoding: bytes[...split], as: UTF8.self)
        signatures = []
        for line in bytes[(split + 2)..<(bytes.count - 1)].split(separator: Self.newline, omittingEmptySubsequences: false) {
            guard signatures.count < Self.signaturesMax else {
                throw ProofError(.note, "the note has more than \(Self.signaturesMax) signatures")
            }
            signatures.append(try Self.parse(line: line))
        }
    }

    /// Succeeds if the key signed the text. A signature by another key is ignored; one by this key that is wrong is not.
    public func verify(_ key: VerifierKey) throws(ProofError) {
        let signed = Array(text.utf8)
        let own = signatures.filter { $0.keyHash == key.keyHash && $0.name.utf8.elementsEqual(key.name.utf8) }
        guard !own.isEmpty else { throw ProofError(.signature, "the note is not signed by \(key.name)") }
        for signature in own where !key.verifies(signature.bytes, of: signed) {
            throw ProofError(.signature, "the signature of \(key.name) is wrong: the text or the signature was changed")
        }
    }

    /// The note as text, as `init(parsing:)` reads it.
    public var encoded: String {
        var result = text + "\n"
        for signature in signatures {
            let hash = withUnsafeBytes(of: signature.keyHash.bigEndian) { Array($0) }
            result += "— \(signature.name) \(Base64.encode(hash + signature.bytes))\n"
        }
        return result
    }

    private static let newline = UInt8(ascii: "\n")
    private static let mark = Array("— ".utf8)

    private static func isPlain(_ bytes: [UInt8]) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 || $0 == newline }
    }

    private static func parse(line: ArraySlice<UInt8>) throws(ProofError) -> Signature {
        let parts = line.dropFirst(mark.count).split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard line.starts(with: mark), parts.count == 2, let bytes = Base64.decode(String(decoding: parts[1], as: UTF8.self)),
            bytes.count > 4,
            let name = String(validating: parts[0], as: UTF8.self), VerifierKey.isValid(name: name)
        else { throw ProofError(.note, "a signature line is an em dash, the key's name and base64, with one space between each") }
        return Signature(name: name, keyHash: bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }, bytes: Array(bytes.dropFirst(4)))
    }

    // By bytes, not by canonical equivalence.
    public static func == (left: Self, right: Self) -> Bool { left.encoded.utf8.elementsEqual(right.encoded.utf8) }

    public func hash(into hasher: inout Hasher) { hasher.combine(signatures.map(\.bytes)) }
}
