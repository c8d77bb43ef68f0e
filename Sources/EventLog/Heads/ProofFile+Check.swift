extension ProofFile {
    /// What a file that passed the check proves.
    public enum Finding: Hashable, Sendable {
        /// The event with this envelope (and body, if it was shown) is number `seq` of the log with this head.
        case included(seq: Seq, head: Head, bodyShown: Bool, signed: Signed?)
        /// The second head's log begins with all of the first's.
        case grew(from: Head, to: Head, signed: Signed?)
        /// The second checkpoint's heads log begins with all of the first's.
        case checkpointsGrew(from: Checkpoint, to: Checkpoint, by: Signed)
    }

    /// Under which signature a finding stands.
    public struct Signed: Hashable, Sendable {
        public let checkpoint: Checkpoint
        public let key: VerifierKey
        /// Whether the caller named this key; if not, it is the file's own word, and proves only that the file agrees with itself.
        public let isKeyExpected: Bool
    }

    /// Checks everything the file claims.
    ///
    /// With a key expected, the file must hold a checkpoint that this very key signed. Without, a root or a key in the result is to
    /// be compared with one known from elsewhere. Throws a `ProofError` that names the first step that failed.
    public func check(expectedKey: VerifierKey? = nil) throws(ProofError) -> Finding {
        switch self {
        case .inclusion(let file):
            let commitment = file.commitment
            let leaf = file.envelope.withUnsafeBytes { Merkle.eventLeaf(envelope: $0, commitment: commitment) }
            guard file.seq > 0,
                Merkle.verifyInclusion(index: file.seq - 1, size: file.head.size, leafHash: leaf, proof: file.proof, root: file.head.root)
            else { throw ProofError(.inclusion, "this event is not number \(file.seq) of the log with this size and root") }
            let signed = try Self.check(file.attestation, of: file.head, expectedKey: expectedKey)
            return .included(seq: file.seq, head: file.head, bodyShown: file.isBodyShown, signed: signed)
        case .consistency(let file):
            let first = Head(log: file.log, size: file.size1, root: file.root1)
            let second = Head(log: file.log, size: file.size2, root: file.root2)
            try Self.checkGrowth(from: (first.size, first.root), to: (second.size, second.root), proof: file.proof)
            let signed = try Self.check(file.attestation, of: second, expectedKey: expectedKey)
            return .grew(from: first, to: second, signed: signed)
        case .checkpoints(let file):
            try Self.check(file.key, isExpected: expectedKey)
            let first = try Checkpoint.open(file.checkpoint1, key: file.key)
            let second = try Checkpoint.open(file.checkpoint2, key: file.key)
            try Self.checkGrowth(from: (first.size, first.root), to: (second.size, second.root), proof: file.proof)
            return .checkpointsGrew(
                from: first, to: second, by: Signed(checkpoint: second, key: file.key, isKeyExpected: expectedKey != nil))
        }
    }

    private static func checkGrowth(
        from first: (size: UInt64, root: Hash256), to second: (size: UInt64, root: Hash256), proof: [Hash256]
    ) throws(ProofError) {
        guard Merkle.verifyConsistency(size1: first.size, size2: second.size, proof: proof, root1: first.root, root2: second.root) else {
            throw ProofError(.consistency, "the tree of size \(second.size) does not begin with that of size \(first.size)")
        }
    }

    private static func check(_ attestation: Attestation?, of head: Head, expectedKey: VerifierKey?) throws(ProofError) -> Signed? {
        guard let attestation else {
            guard expectedKey == nil else { throw ProofError(.key, "a signature is expected, but the file holds no signed checkpoint") }
            return nil
        }
        try check(attestation.key, isExpected: expectedKey)
        let checkpoint = try Checkpoint.open(attestation.checkpoint, key: attestation.key)
        guard
            Merkle.verifyInclusion(
                index: attestation.index, size: checkpoint.size, leafHash: head.leafHash, proof: attestation.proof, root: checkpoint.root)
        else { throw ProofError(.heads, "the log's head is not entry \(attestation.index) of the heads that the checkpoint signs") }
        return Signed(checkpoint: checkpoint, key: attestation.key, isKeyExpected: expectedKey != nil)
    }

    private static func check(_ key: VerifierKey, isExpected expected: VerifierKey?) throws(ProofError) {
        guard expected == nil || expected == key else { throw ProofError(.key, "the file names another key than the one expected") }
    }
}

extension ProofFile.Inclusion {
    /// What the leaf holds for the body.
    public var commitment: Hash256 {
        switch body {
        case .shown(let body, let salt): body.withUnsafeBytes { Merkle.bodyCommitment(salt: salt, body: $0) }
        case .hidden(let commitment): commitment
        }
    }

    public var isBodyShown: Bool {
        if case .shown = body { true } else { false }
    }
}

extension ProofFile.Finding: CustomStringConvertible {
    /// For people; holds no text of a message.
    public var description: String {
        switch self {
        case .included(let seq, let head, let bodyShown, let signed):
            "event \(seq) is in the log \(head.log), which had \(head.size) events and the root \(head.root.base64); "
                + (bodyShown ? "the body shown is its body" : "its body is not shown") + Self.words(signed)
        case .grew(let first, let second, let signed):
            "the log \(first.log) only grew: its \(second.size) events (root \(second.root.base64)) begin with the \(first.size) it had "
                + "(root \(first.root.base64))" + Self.words(signed)
        case .checkpointsGrew(let first, let second, let signed):
            "the store's heads only grew: \(second.size) entries begin with the \(first.size) before" + Self.words(signed)
        }
    }

    private static func words(_ signed: ProofFile.Signed?) -> String {
        guard let signed else { return "; no signature: compare the root with one you know" }
        return "; signed by \(signed.key.name)" + (signed.isKeyExpected ? "" : ", whose key is this file's own word: \(signed.key)")
    }
}
