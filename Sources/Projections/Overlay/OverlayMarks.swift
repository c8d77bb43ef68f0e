import EventLog

/// What an overlay shows beyond what is confirmed.
final class OverlayMarks: Sendable {
    /// The seqs after it are provisional: they serve order and paging only.
    let confirmedSeq: Seq
    private let failures: [Seq: Refusal]
    /// What was done to messages and is not accepted. Set once, when the state has been made and before anybody else sees it.
    nonisolated(unsafe) var writes = Writes()
    /// Whose events failed, with the first refusal of each.
    let failed: [UserID: Refusal]
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
        confirmedSeq: Seq, failures: [Seq: Refusal], failed: [UserID: Refusal], creation: Unconfirmed?, hole: ClosedRange<Seq>?, isHoleOpen: Bool,
        below: Conversations, hiddenPages: UInt64
    ) {
        self.confirmedSeq = confirmedSeq
        self.failures = failures
        self.failed = failed
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
        let unconfirmed = unconfirmed(message.seq)
        let writes = writes(message.seq)
        if unconfirmed == nil, writes == nil { return }
        var details = message.details ?? Message.Details()
        details.unconfirmed = unconfirmed
        details.failedWrites = writes?.failed ?? []
        // Of a message that waits itself, all that was done to it does.
        details.pendingWrites = unconfirmed == nil ? writes?.pending ?? [] : []
        message.details = details
        if let unconfirmed { message.state = Self.state(message.state, unconfirmed) }
    }

    private func writes(_ seq: Seq) -> Writes.OfOne? { writes.all.isEmpty ? nil : writes.all[seq] }

    /// What the lobby says of the conversation as such.
    func unconfirmed(for user: UserID) -> Unconfirmed? { failed[user].map { .failed($0) } ?? creation }

    func mark(_ last: inout LobbyRow.LastMessage) {
        guard let unconfirmed = unconfirmed(last.seq) else {
            last.pendingWrites = writes(last.seq)?.pending ?? []
            return
        }
        last.unconfirmed = unconfirmed
        last.state = Self.state(last.state, unconfirmed)
    }

    /// A message below the hole. What was done to it since it was held is not shown on it, as what others did is not; that it waits, or failed, is.
    func stale(_ message: Message) -> Message {
        var message = message
        var details = message.details ?? Message.Details()
        details.isStale = true
        details.failedWrites = writes(message.seq)?.failed ?? []
        details.pendingWrites = writes(message.seq)?.pending ?? []
        message.details = details
        return message
    }
}

extension OverlayMarks {
    /// What a conversation's unconfirmed events do to messages.
    struct Writes {
        /// To one message, of other kinds than the sending.
        struct OfOne {
            var failed: [FailedWrite] = []
            var pending: [Event.Kind] = []
        }

        /// By the seq at which the message stands.
        private(set) var all: [Seq: OfOne] = [:]

        mutating func add(_ one: PendingEvent, to target: Seq) {
            guard let kind = one.event.content.kind else { return }
            if let refusal = one.failure {
                // Of a stream's chunks, one tells all.
                let isTold = all[target]?.failed.contains { $0.kind == kind && $0.refusal.code == refusal.code } ?? false
                if !isTold { all[target, default: OfOne()].failed.append(FailedWrite(kind: kind, refusal: refusal)) }
            } else if Self.changesMessage(kind), !(all[target]?.pending.contains(kind) ?? false) {
                all[target, default: OfOne()].pending.append(kind)
            }
        }

        /// A receipt moves a mark; and a stream's chunks are too many to tell of each that it waits, and that it does no longer.
        private static func changesMessage(_ kind: Event.Kind) -> Bool {
            switch kind {
            case .messageCompleted, .messageInterrupted, .messageEdited, .messageDeleted, .reactionSet: true
            default: false
            }
        }
    }
}

extension Conversations {
    /// The first page that is shown.
    @inline(__always) var firstPage: UInt64 { overlay?.hiddenPages ?? 0 }
}

// Of the marks alone, `nil` for most: a closure that captured the whole state would pass its reference count from core to core.
extension OverlayMarks? {
    func isFailed(_ seq: Seq) -> Bool { self?.isFailed(seq) ?? false }

    @inline(__always) func shown(_ message: LentMessage, _ row: LentRow) throws -> Message {
        guard let self else { return try Message.made(of: message, row) }
        var shown = try Message.made(of: message, row)
        self.mark(&shown)
        return shown
    }

    /// Appends a message as it is shown: made in its place, as a copy would count references to its text.
    @inline(__always) func append(_ message: LentMessage, _ row: LentRow, to messages: inout [Message]) throws {
        messages.append(try Message.made(of: message, row))
        self?.mark(&messages[messages.count - 1])
    }
}
