/// Which step of checking a key, a note, a checkpoint or a proof file failed, and why.
public struct ProofError: Error, Hashable, Sendable, CustomStringConvertible {
    public struct Step: Hashable, Sendable, CustomStringConvertible {
        public let description: String
        /// A verifier's or signer's key is malformed, or not the one expected.
        public static let key = Step(description: "key")
        /// The signed note is malformed.
        public static let note = Step(description: "note")
        /// No signature by the key, or one that does not verify.
        public static let signature = Step(description: "signature")
        /// The note's text is no checkpoint, or one of another log.
        public static let checkpoint = Step(description: "checkpoint")
        /// The file is malformed or of an unknown format.
        public static let file = Step(description: "file")
        /// The event is not where the proof says, in the log with this head.
        public static let inclusion = Step(description: "inclusion")
        /// The later tree does not begin with the earlier.
        public static let consistency = Step(description: "consistency")
        /// The head is not in the heads log that the checkpoint signs.
        public static let heads = Step(description: "heads")
    }

    public let step: Step
    /// Never a user's text.
    public let message: String

    init(_ step: Step, _ message: String) {
        self.step = step
        self.message = message
    }

    public var description: String { "\(step): \(message)" }
}
