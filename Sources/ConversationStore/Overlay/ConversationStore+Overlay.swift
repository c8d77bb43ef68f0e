package import EventLog
package import Projections

extension ConversationStore {
    /// So many of a log's newest events are asked whether one is confirmed that is said to be pending.
    private static let askedMax = 4096

    /// Replaces what is pending in a conversation, in the order made; empty: nothing is. It is shown at once, and never saved.
    ///
    /// An event that is confirmed is no longer shown as pending from that moment on, whether or not this is called again. Wakes whoever observes the
    /// conversation, and lobbies. Each event must concern the conversation.
    package func setPending(_ events: [PendingEvent], of conversation: ConversationID) {
        watch(events, conversation)
        overlays.setPending(events, of: conversation)
        changes.overlaid(conversation)
    }

    /// Adds what is pending in a conversation behind the rest of it, as `setPending` with all of it would; costs what is added.
    package func appendPending(_ events: [PendingEvent], of conversation: ConversationID) {
        watch(events, conversation)
        overlays.appendPending(events, of: conversation)
        changes.overlaid(conversation)
    }

    private func watch(_ events: [PendingEvent], _ conversation: ConversationID) {
        precondition(events.allSatisfy { $0.event.conversation == conversation }, "what is pending is set for each conversation by itself")
        // What was confirmed before anybody watched: an outbox that is read at opening may be behind the log.
        for lane in overlays.watch(events) {
            var asked = 0
            // A log that cannot be read says so to those who read it.
            try? log.forEachEvent(in: lane.log, isReversed: true) { event in
                asked += 1
                if event.origin.replica == lane.replica { overlays.note(event) }
                return asked < Self.askedMax && !(event.origin.replica == lane.replica && event.origin.counter <= lane.counter)
            }
        }
    }

    /// Shows the newest part of a log of which not all that comes before is held; `nil`: no longer. What the store holds itself takes its place by
    /// itself, once it reaches as far.
    package func setPreview(_ preview: Preview?, of conversation: ConversationID) {
        precondition(preview?.events.first.map { $0.event.conversation == conversation } ?? true, "a preview is of one conversation")
        overlays.setPreview(preview, of: conversation)
        changes.overlaid(conversation)
    }

    /// Adds events behind the last of a conversation's preview, which they follow; costs what is added.
    package func extendPreview(by events: [RecordedEvent], of conversation: ConversationID) {
        overlays.extendPreview(by: events, of: conversation)
        changes.overlaid(conversation)
    }

    /// The conversations that are not shown just as they are confirmed.
    package var overlaidConversations: [ConversationID] { overlays.conversations }

    /// The seqs of a conversation's messages to which something was done that the hub has not accepted.
    package func unsettledSeqs(in conversation: ConversationID) throws -> [Seq] { try view(of: conversation) { $0.unsettledSeqs } }

    /// The reducers' state of a conversation as of its last folded event, for a peer that will not hold the whole log; `nil` if there is no such
    /// conversation. The same events give the same bytes.
    package func encodedBase(of conversation: ConversationID) throws -> (base: [UInt8], seq: Seq)? {
        try view { try $0.encodedBase(of: conversation) }
    }

    /// The same as of an earlier seq: folds the log anew up to there. `nil` if the log does not reach so far.
    ///
    /// - Parameter hidesMessages: as if none had been sent up to there, and nothing been said about any: for somebody who may see only what follows.
    package func encodedBase(of conversation: ConversationID, at seq: Seq, hidesMessages: Bool = false) throws -> [UInt8]? {
        guard seq > 0 else { return nil }
        let fold = PartialFold(hidesMessages: hidesMessages)
        try log.forEachEvent(in: .conversation(conversation), range: 1...seq) { event in
            try fold.fold(event)
            return true
        }
        return try fold.encodedBase(of: conversation).flatMap { $0.seq == seq ? $0.base : nil }
    }

    /// By what a conversation stands in lobbies, also in those of who left it; `nil` if there is none.
    package func order(of conversation: ConversationID) throws -> HLC? { try view(of: conversation) { try $0.order(of: conversation) } }

    /// What somebody who joins a conversation may see of it.
    package func history(of conversation: ConversationID) throws -> ConversationHistory {
        try view(of: conversation) { try $0.attribute(ConversationHistory.attribute, of: conversation) }.flatMap(ConversationHistory.init(rawValue:)) ?? .whole
    }
}
