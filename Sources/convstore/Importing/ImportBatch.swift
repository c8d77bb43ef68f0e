import EventLog

/// Lines read, on their way into the store with one append.
struct ImportBatch: Sendable {
    /// A line that reading refused.
    struct Refused: Sendable {
        var line: Int
        var refusal: Refusal
        /// Submissions of the batch that stand before it.
        var before: Int
    }

    var file: String
    /// The lines of `submissions`, counted physically from 1 (of a recorded stream: those that their payloads begin on).
    var lines: [Int] = []
    var submissions: [Submission] = []
    var refused: [Refused] = []
    /// Payloads of a recorded stream that are no JSON objects.
    var skippedPayloads = 0
    /// Bytes of all inputs that are read by now.
    var bytesRead = 0
    /// Bytes of all inputs; standard input counts from when all of it was taken.
    var bytesTotal = 0

    var isEmpty: Bool { submissions.isEmpty && refused.isEmpty && skippedPayloads == 0 }
}
