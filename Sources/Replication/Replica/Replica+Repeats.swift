internal import ConversationStore
package import EventLog

/// What is written a second time under its id, as by a command that may have failed half-way.
extension Replica {
    /// Where it stands.
    package enum Known {
        case recorded(RecordedEvent)
        case queued(OutboxEntry)
    }

    /// The message, or the creation of a conversation, that an event says again; `nil`: nothing here has its id, as far as can be told.
    ///
    /// - Throws: `Refusal` `messageConflict` or `conversationConflict` if something else has.
    package func known(_ event: Event) throws -> Known? {
        let conflict: Refusal
        switch event.content {
        case .messageSent: conflict = Refusal(.messageConflict)
        case .conversationCreated: conflict = Refusal(.conversationConflict)
        default: return nil
        }
        return try state.withLock { state in
            if let entry = state.outbox.table[event.conversation].last(where: { event.hasID(of: $0.event) }) {
                guard event.repeats(entry.event) else { throw conflict }
                return .queued(entry)
            }
            guard let recorded = try recorded(event, state) else { return nil }
            guard event.repeats(recorded.event) || recorded.isErased && recorded.event.author == event.author else { throw conflict }
            return .recorded(recorded)
        }
    }

    /// What is recorded under an event's id.
    private func recorded(_ event: Event, _ state: borrowing State) throws -> RecordedEvent? {
        if case .messageSent(let message) = event.content { return try heldSending(of: message.id, in: event.conversation, state) }
        // Of one that is held only in part the creation is not here.
        guard try store.log.lastSeq(of: event.log) > 0 else { return nil }
        return try store.log.event(in: event.log, at: 1)
    }
}

extension Event {
    fileprivate func hasID(of other: Event) -> Bool {
        switch (content, other.content) {
        case (.messageSent(let new), .messageSent(let old)): new.id == old.id
        case (.conversationCreated, .conversationCreated): true
        default: false
        }
    }

    fileprivate func repeats(_ old: Event) -> Bool {
        guard author == old.author else { return false }
        if case .messageSent(let new) = content, case .messageSent(let old) = old.content { return new.repeats(old) }
        return content == old.content
    }
}
