internal import ConversationStore
internal import EventLog

/// Whether what a hub says it has recorded of the outbox stands there.
extension Replica {
    /// Whether an entry of the outbox that the hub says it has recorded stands there.
    ///
    /// - Throws: `ReplicaError` `badPeer` if something else does: the entry must stay, as nobody has it.
    func standing(of entry: OutboxEntry, _ state: borrowing State) throws -> Standing {
        let log = entry.event.log
        // What is held may be of a lost life of the hub while the two are compared, and of what the scope leaves out it is not compared at all.
        guard let record = entry.accepted else { return .awaited }
        guard Scope.covers(log, state.scopeNames) else { return .elsewhere }
        if state.isComparing || state.uncompared[log] != nil { return .awaited }
        let held: RecordedEvent?
        if try record.seq <= store.log.lastSeq(of: log) {
            held = record.seq == 0 ? nil : try store.log.event(in: log, at: record.seq)
        } else {
            if record.seq > state.previews.lastSeq(of: log) { return .awaited }
            if record.seq <= state.previews.baseSeq(of: log) { return try standingBelow(entry, record, state) }
            held = state.previews.event(in: log, at: record.seq)
        }
        guard let held, try entry.stands(as: held, isRepeat: record.isRepeat, isService: isService) || record.isRepeat && saysNothingNew(entry.event, state)
        else {
            throw ReplicaError(
                .badPeer, "the hub says that it has recorded event \(entry.origin.counter) of \(log) at seq \(record.seq), where another stands")
        }
        return try isEdited(entry, since: held, state) ? .erased : .held(as: held)
    }

    /// Whether a message says something else than what is held under its id, wherever the hub says that it has recorded this: of what it knew for long it may
    /// name the log's end.
    private func isEdited(_ entry: OutboxEntry, since held: RecordedEvent?, _ state: borrowing State) throws -> Bool {
        guard case .messageSent(let message) = entry.event.content else { return false }
        if let held, case .messageSent(let other) = held.event.content, other.id == message.id { return entry.isEdited(since: held) }
        return try heldSending(of: message.id, in: entry.event.conversation, state).map { entry.isEdited(since: $0) } ?? false
    }

    /// The event that sent a message, as a hub has confirmed it; `nil`: it is not held.
    func heldSending(of id: MessageID, in conversation: ConversationID, _ state: borrowing State) throws -> RecordedEvent? {
        if let event = state.previews.sending(of: id, in: conversation) { return event }
        // What came may not be shown yet (`keepTogether`).
        store.log.endFolding()
        guard let seq = try store.confirmedMessage(in: conversation, id: id)?.seq else { return nil }
        return try store.log.event(in: .conversation(conversation), at: seq)
    }

    /// The same of one that was recorded before what is held. Where that is not for this user it never comes: the hub has to be believed, and the event is
    /// kept aside unless it says nothing new.
    private func standingBelow(_ entry: OutboxEntry, _ record: OutboxEntry.Record, _ state: borrowing State) throws -> Standing {
        guard state.previews.lastSeqOfFirst(entry.event.log) > 0 else { return .elsewhere }
        if try record.isRepeat && saysNothingNew(entry.event, state) { return try isEdited(entry, since: nil, state) ? .erased : .held() }
        var event = entry.recorded
        event.seq = record.seq
        try side.write { try Lost.put([event], &$0) }
        return .held()
    }

    /// Whether a hub may have recorded an event as a repeat of others, of which it remembers only that it did: asked again, it names the log's end.
    private func saysNothingNew(_ event: Event, _ state: borrowing State) throws -> Bool {
        func isHeld(_ id: MessageID, by author: UserID?) throws -> Bool {
            guard let sending = try heldSending(of: id, in: event.conversation, state) else { return false }
            return author == nil || sending.event.author == author
        }
        switch event.content {
        case .messageSent(let message): return try isHeld(message.id, by: event.author)
        case .chunkAppended(let id, _, _), .messageCompleted(let id, _, _), .messageDeleted(let id): return try isHeld(id, by: event.author)
        case .messageInterrupted(let id, _): return try isHeld(id, by: nil)
        case .conversationCreated, .participantJoined, .participantLeft, .receiptDelivered, .receiptRead: return true
        default: return false
        }
    }
}
