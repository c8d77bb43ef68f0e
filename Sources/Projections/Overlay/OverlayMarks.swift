import EventLog

/// What an overlay shows beyond what is confirmed.
final class OverlayMarks: Sendable {
    /// The seqs after it are provisional: they serve order and paging only.
    let confirmedSeq: Seq
    private let failures: [Seq: Refusal]
    /// Of a conversation of which nothing is confirmed.
    let creation: Unconfirmed?
    /// Seqs that are missing, if it began with a base; what lies below them is in the state below.
    let hole: ClosedRange<Seq>?
    /// Whether they are to come: else they are not for this user.
    let isHoleOpen: Bool
    let below: Conversations
    /// A base's page, which counts and is not shown, comes first.
    let hiddenPages: UInt64

    init(
        confirmedSeq: Seq, failures: [Seq: Refusal], creation: Unconfirmed?, hole: ClosedRange<Seq>?, isHoleOpen: Bool, below: Conversations,
        hiddenPages: UInt64
    ) {
        self.confirmedSeq = confirmedSeq
        self.failures = failures
        self.creation = creation
        self.hole = hole
        self.isHoleOpen = isHoleOpen
        self.below = below
        self.hiddenPages = hiddenPages
    }

    private func unconfirmed(_ seq: Seq) -> Unconfirmed? { seq <= confirmedSeq ? nil : failures[seq].map { .failed($0) } ?? .pending }

    func isFailed(_ seq: Seq) -> Bool { failures[seq] != nil }

    /// What was deleted before it was sent is shown as deleted.
    private static func state(_ state: MessageState, _ unconfirmed: Unconfirmed) -> MessageState { state == .deleted ? .deleted : unconfirmed.state }

    func mark(_ message: inout Message) {
        guard let unconfirmed = unconfirmed(message.seq) else { return }
        var details = message.details ?? Message.Details()
        details.unconfirmed = unconfirmed
        message.details = details
        message.state = Self.state(message.state, unconfirmed)
    }

    func mark(_ last: inout LobbyRow.LastMessage) {
        guard let unconfirmed = unconfirmed(last.seq) else { return }
        last.unconfirmed = unconfirmed
        last.state = Self.state(last.state, unconfirmed)
    }

    static func stale(_ message: Message) -> Message {
        var message = message
        var details = message.details ?? Message.Details()
        details.isStale = true
        message.details = details
        return message
    }
}

extension Conversations {
    /// The first page that is shown.
    @inline(__always) var firstPage: UInt64 { overlay?.hiddenPages ?? 0 }

    func isFailed(_ seq: Seq) -> Bool { overlay?.isFailed(seq) ?? false }

    @inline(__always) func shown(_ message: MessageRow, _ row: borrowing ConversationRow) throws -> Message {
        var shown = try Message(message, row)
        overlay?.mark(&shown)
        return shown
    }
}
