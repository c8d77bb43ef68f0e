internal import ConversationStore

/// Conversations whose history begins, for who comes later, with the joining (`ConversationHistory.fromJoining`).
extension Hub {
    /// The first seq of a log that somebody may see: 1, but for who came later into such a conversation.
    func firstSeq(of log: LogID, for identity: Identity, seesEverything: Bool, _ effort: inout Effort) throws -> Seq {
        guard case .conversation(let id) = log, !seesEverything, !PlantedBug.tellHistory.isPlanted else { return 1 }
        let (joinedSeq, leftSeq) = withIndex { $0.membership(of: identity.user, in: id) }
        // With whom a conversation was created is there from its first event on.
        guard joinedSeq != 1, try store.history(of: id) == .fromJoining else { return 1 }
        if joinedSeq != 0 || leftSeq == 0 { return joinedSeq }
        // Who left is looked up: few do, and fewer ask.
        var first: Seq = 1
        try store.log.forEachEvent(in: log, range: 1...leftSeq, isReversed: true) { event in
            effort.events += 1
            guard case .participantJoined(identity.user) = event.event.content else { return true }
            first = event.seq
            return false
        }
        return first
    }

    /// Whether an event would change what of a conversation is seen by who comes later, and its author is such a one: nobody opens a history to themselves.
    func opensHistory(_ event: Event, by user: UserID) throws -> Bool {
        guard case .conversationUpdated(_, let attributes) = event.content, attributes.contains(where: { $0.name == ConversationHistory.attribute }) else {
            return false
        }
        return try withIndex { $0.membership(of: user, in: event.conversation).joinedSeq } > 1 && store.history(of: event.conversation) == .fromJoining
    }

    /// What stands before the first event that somebody may see: the conversation as if nothing had been said yet, and the salts from there on.
    func beginning(of id: ConversationID, at first: Seq, _ effort: inout Effort) throws -> BaseFrame? {
        let log = LogID.conversation(id)
        effort.events += Int(clamping: first)
        guard let base = try store.encodedBase(of: id, at: first - 1, hidesMessages: true), let range = try heads.tree(of: log, through: first - 1, &effort),
            var seeds = PuncturedSeeds(secret: try store.log.secret(of: log))
        else { return nil }
        seeds.forget(through: first - 2)
        return BaseFrame(log: log, base: base, seq: first - 1, range: range.encoded, secret: seeds.encoded, isFirst: true)
    }
}

extension Hub {
    /// Tells a copy of a hub's store from the hub, which went on meanwhile: devices that had more from that compare what they hold with the copy, when it is served
    /// in the hub's place. Of a store that was never served, and of a replica, nothing changes.
    ///
    /// - Throws: `EventLogError`.
    public static func endOpenings(inCopyAt path: String) throws {
        do { try Incarnations.end(inCopyAt: path, beginning: .random(in: 1...(.max))) } catch let error as EventLogError where error.code == .damaged {
            // Who serves it makes them anew.
        }
    }
}
