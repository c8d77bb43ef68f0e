/// The head of a whole store's heads log, to be signed (C2SP tlog-checkpoint): the lines `origin`, `size` and `base64(root)`, then
/// lines of extensions if there are any.
public struct Checkpoint: Hashable, Sendable {
    /// Names the store; the same as the name of the key that signs.
    public let origin: String
    /// The number of entries in the heads log.
    public let size: UInt64
    public let root: Hash256
    /// Opaque lines, none by default.
    public let extensions: [String]

    /// Throws if the origin or an extension is empty or holds a newline or another control character.
    public init(origin: String, size: UInt64, root: Hash256, extensions: [String] = []) throws(ProofError) {
        guard ([origin] + extensions).allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { $0 >= 0x20 } }) else {
            throw ProofError(.checkpoint, "an origin or extension is one line, and not empty")
        }
        self.origin = origin
        self.size = size
        self.root = root
        self.extensions = extensions
    }

    /// Reads a note's text, strictly.
    public init(text: String) throws(ProofError) {
        guard text.utf8.last == UInt8(ascii: "\n") else { throw ProofError(.checkpoint, "a checkpoint ends in a newline") }
        let lines = text.utf8.dropLast().split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        guard lines.count >= 3 else { throw ProofError(.checkpoint, "a checkpoint has an origin, a size and a root, a line each") }
        // No sign, no leading zero: the number written again must be the same text.
        guard let size = UInt64(lines[1]), String(size) == lines[1] else { throw ProofError(.checkpoint, "the size is no decimal number") }
        guard let root = Hash256(base64: lines[2]) else { throw ProofError(.checkpoint, "the root is not the base64 of 32 bytes") }
        guard size > 0 || root == Merkle.emptyRoot else { throw ProofError(.checkpoint, "an empty log has another root") }
        try self.init(origin: lines[0], size: size, root: root, extensions: Array(lines[3...]))
    }

    /// What is signed.
    public var text: String {
        ([origin, String(size), root.base64] + extensions).map { $0 + "\n" }.joined()
    }

    /// The signed note. Throws if the key's name is not the origin.
    public func signed(by key: SigningKey) throws(ProofError) -> SignedNote {
        guard key.verifierKey.name.utf8.elementsEqual(origin.utf8) else {
            throw ProofError(.key, "a checkpoint is signed by the key named as its origin")
        }
        return try SignedNote(text: text, signedBy: key)
    }

    /// Reads a signed note that a key must have signed, and whose origin must be the key's name.
    public static func open(_ note: String, key: VerifierKey) throws(ProofError) -> Checkpoint {
        let note = try SignedNote(parsing: note)
        try note.verify(key)
        let checkpoint = try Checkpoint(text: note.text)
        guard checkpoint.origin.utf8.elementsEqual(key.name.utf8) else {
            throw ProofError(.checkpoint, "the checkpoint is of another origin than \(key.name)")
        }
        return checkpoint
    }

    // By bytes, not by canonical equivalence.
    public static func == (left: Self, right: Self) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(size)
        hasher.combine(root)
    }
}
