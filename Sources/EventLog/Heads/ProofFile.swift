/// A proof that anyone can check without the store: one JSON object, in `convstore-proof-v1`.
///
/// ```json
/// {"format": "convstore-proof-v1", "kind": "inclusion", "log": "…", "seq": 7, "envelope": "…", "body": "…", "salt": "…",
///  "size": 9, "root": "…", "proof": ["…"],
///  "attestation": {"index": 3, "proof": ["…"], "checkpoint": "the signed note", "key": "name+hash+base64"}}
/// {"format": "convstore-proof-v1", "kind": "consistency", "log": "…", "size1": 4, "root1": "…", "size2": 9, "root2": "…",
///  "proof": ["…"], "attestation": {…}}
/// {"format": "convstore-proof-v1", "kind": "checkpoints", "checkpoint1": "…", "checkpoint2": "…", "key": "…", "proof": ["…"]}
/// ```
///
/// Bytes and hashes are in base64. `log` is a conversation's id, or `user:` and a user's name. An inclusion file shows the body with
/// its salt, or holds their `commitment` in their place. An `attestation` says that a signed checkpoint of the store holds this
/// head (of a consistency file, the second); it may be left out, and then the file is as good as the root that the reader knows
/// from elsewhere. Unknown fields are refused.
public enum ProofFile: Hashable, Sendable {
    /// An event stands at a `seq` of a log.
    case inclusion(Inclusion)
    /// A log only grew.
    case consistency(Consistency)
    /// The store's heads log only grew from one signed checkpoint to another.
    case checkpoints(Checkpoints)

    public static let format = "convstore-proof-v1"
    /// Longer input is refused unread.
    public static let bytesMax = 64 << 20

    public struct Inclusion: Hashable, Sendable {
        public enum Body: Hashable, Sendable {
            /// The event's body, and the salt that its commitment was made with.
            case shown([UInt8], salt: Hash256)
            /// Only `SHA-256(salt || body)`.
            case hidden(commitment: Hash256)
        }

        public let seq: Seq
        public let envelope: [UInt8]
        public let body: Body
        public let head: Head
        public let proof: [Hash256]
        public let attestation: Attestation?

        package init(seq: Seq, envelope: [UInt8], body: Body, head: Head, proof: [Hash256], attestation: Attestation? = nil) {
            self.seq = seq
            self.envelope = envelope
            self.body = body
            self.head = head
            self.proof = proof
            self.attestation = attestation
        }
    }

    public struct Consistency: Hashable, Sendable {
        public let log: LogID
        public let size1: UInt64
        public let root1: Hash256
        public let size2: UInt64
        public let root2: Hash256
        public let proof: [Hash256]
        /// Of the second head.
        public let attestation: Attestation?

        /// Traps if the heads are of different logs.
        package init(from first: Head, to second: Head, proof: [Hash256], attestation: Attestation? = nil) {
            precondition(first.log == second.log, "both heads are of one log")
            log = first.log
            size1 = first.size
            root1 = first.root
            size2 = second.size
            root2 = second.root
            self.proof = proof
            self.attestation = attestation
        }
    }

    public struct Checkpoints: Hashable, Sendable {
        /// The signed notes, as text.
        public let checkpoint1: String
        public let checkpoint2: String
        public let key: VerifierKey
        public let proof: [Hash256]

        package init(checkpoint1: String, checkpoint2: String, key: VerifierKey, proof: [Hash256]) {
            self.checkpoint1 = checkpoint1
            self.checkpoint2 = checkpoint2
            self.key = key
            self.proof = proof
        }
    }

    /// That a head is an entry of the heads log under a signed checkpoint.
    public struct Attestation: Hashable, Sendable {
        /// The entry's place in the heads log, from 0.
        public let index: UInt64
        public let proof: [Hash256]
        /// The signed note, as text.
        public let checkpoint: String
        public let key: VerifierKey

        package init(index: UInt64, proof: [Hash256], checkpoint: String, key: VerifierKey) {
            self.index = index
            self.proof = proof
            self.checkpoint = checkpoint
            self.key = key
        }
    }
}
