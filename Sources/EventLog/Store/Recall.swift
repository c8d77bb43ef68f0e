/// What is known of an event before the writer is asked: whether it was recorded among a log's first events, under its origin or another.
///
/// A class, as next to no submission has one, and each has room for three.
final class Recall: Sendable {
    /// All events up to here were looked at.
    let through: Seq
    /// What was found; `nil`: none up to there is it.
    let found: Recalled?

    init(through: Seq, found: Recalled?) { (self.through, self.found) = (through, found) }
}

/// An event that was looked up for a submission. Not the event itself: peers may name many that are large.
struct Recalled: Sendable {
    var receipt: Receipt
    /// Whether the submission is it, as far as author, content and conversation tell.
    var isSame: Bool
    /// Whether it was made at the time that the submission names.
    var isOfSameTime: Bool
}

/// A recorded event to compare others with.
struct Comparand {
    let recorded: RecordedEvent
    private let body: [UInt8]

    init(_ recorded: RecordedEvent) {
        var bytes = ByteBuffer()
        if !recorded.isErased { recorded.encodeBody(into: &bytes) }
        (self.recorded, body) = (recorded, bytes.array())
    }

    /// How many bytes a comparison reads.
    var size: Int { body.count }

    /// How a submission compares with it. Of an erased event the envelope and its time tell.
    func compared(with submission: borrowing Submission) -> Recalled {
        let isOfSameTime = submission.origin.map { recorded.isOfTime($0.hlc) } ?? false
        let receipt = Receipt(seq: recorded.seq, position: recorded.position, hlc: recorded.hlc, isDurable: true)
        return Recalled(receipt: receipt, isSame: isSame(submission, isOfSameTime), isOfSameTime: isOfSameTime)
    }

    private func isSame(_ submission: borrowing Submission, _ isOfSameTime: Bool) -> Bool {
        let event = submission.event
        guard recorded.event.author == event.author, recorded.event.kindNumber == event.kindNumber, recorded.event.references == event.references,
            Self.isSame(recorded.newer, submission.newer)
        else { return false }
        if recorded.isErased { return isOfSameTime }
        var new = ByteBuffer()
        event.encodeBody(into: &new)
        if let newer = submission.newer { new.put(newer.body) }
        // The body of a preference tells its conversation as well.
        return recorded.event.conversation == event.conversation && new.bytes.elementsEqual(body)
    }

    /// Of the envelope: erasing a body takes the rest.
    private static func isSame(_ old: NewerFields?, _ new: NewerFields?) -> Bool {
        guard let old else { return new?.envelope.isEmpty ?? true }
        return new.map(old.isSameEnvelope) ?? old.envelope.isEmpty
    }
}
