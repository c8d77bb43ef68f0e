internal import ConversationStore
internal import EventLog

/// What came in an earlier session and no head vouched for.
extension ReplicaConnection {
    /// Asks the hub for its heads of logs of which something came in an earlier session that no head vouched for: whoever sent that, this hub must not be
    /// blamed for it. Where the two agree nothing is said. A hub that has sent a part before awaits them, to send what is not among them.
    func beginDoubt() throws {
        let heads = try replica.unvouchedHeads()
        if heads.isEmpty, !replica.namesPart { return }
        isInDoubt = true
        doubts = replica.unvouched
        if replica.namesPart { ahead = Dictionary(uniqueKeysWithValues: heads.map { ($0.log, $0.head.size) }) }
        perform(session.compare(HeadsFrame(heads: heads, isProbe: false, isLast: replica.namesPart)))
        perform(session.ping())
    }

    /// The hub's head of a log in doubt, which is not the one held here.
    func doubt(_ item: HeadsFrame.Item, vouchedSeq: Seq) throws {
        let isEqual = try item.head.size >= vouchedSeq && self.isEqual(item)
        // What was vouched for the hub must have, cursor and all.
        if item.head.size < vouchedSeq || item.head.size == vouchedSeq && !isEqual {
            throw ReplicaError(
                .forked, "the hub's head of \(item.log) at seq \(item.head.size) is \(item.head.root), where it had shown seq 1 to \(vouchedSeq) with another")
        }
        if isEqual, try item.head.size == replica.heldSeq(of: item.log) { return }
        retracts[item.log] = isEqual ? item.head.size : vouchedSeq
    }

    func endDoubt() throws {
        isInDoubt = false
        replica.endDoubt()
        if !retracts.isEmpty {
            let tails = retracts.filter { !replica.hadUnread($0.key) }
            // What a cursor was taken behind is not only cut off: all is compared, and what this replica made of it is offered. Behind what is only cut off.
            if tails.isEmpty { try replica.dropCursor() } else { try replica.planRetract(tails) }
            return reopen()
        }
        if let (progress, unvouched, place) = laterProgress {
            try replica.progressed(progress, unvouched: unvouched.merging(ahead) { now, _ in now }, place: place)
        }
        laterProgress = nil
        guard let (cursor, place) = laterCursor else { return }
        laterCursor = nil
        try caughtUp(cursor, place: place)
    }
}
