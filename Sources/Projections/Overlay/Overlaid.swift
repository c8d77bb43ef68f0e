internal import EventLog

/// What lies over the confirmed state of one conversation.
struct Overlaid: Sendable {
    private var all: [PendingEvent] = []
    /// Of which of `all` the hub's form is held by now.
    private var confirmed: Set<Int> = []
    /// Where in `all` something lies by which the hub's form is known: made when first something is confirmed.
    private var places: [PendingEvent.Mark: [Int]]?
    private(set) var preview: Preview?
    /// The origins of its events: made when first something is pending.
    private var shownOrigins: Set<Origin>?
    /// Where messages lie that pending events speak of: looked for once, as seqs never change.
    private let targets = Monitor<[MessageID: Target]>([:])
    /// What all this amounts to: made when somebody first looks.
    private var result = Monitor<Shown?>(nil)

    private struct Target {
        var seq: Seq?
        /// Where there is none: all up to here were looked at.
        var through: Seq
    }

    struct Shown {
        var conversations: Conversations
        var order: HLC
        /// Ascending; empty if there is no such conversation.
        var participants: [UserID]
        /// In whose lobbies it stands: who wrote in it what was refused must learn of that.
        var viewers: [UserID]
    }

    var isEmpty: Bool { confirmed.count == all.count && preview == nil }
    var pending: [PendingEvent] { confirmed.isEmpty ? all : all.indices.filter { !confirmed.contains($0) }.map { all[$0] } }

    mutating func setPending(_ events: [PendingEvent]) {
        all = events
        confirmed = []
        places = nil
        strikeShown()
        forget()
    }

    mutating func appendPending(_ events: [PendingEvent]) {
        all += events
        places = nil
        forget()
    }

    mutating func extendPreview(by events: [RecordedEvent]) {
        do { try preview?.append(events) } catch { preconditionFailure("a preview is extended by what does not follow it: \(error)") }
        shownOrigins?.formUnion(events.map(\.origin))
        strikeShown()
        forget()
    }

    mutating func setPreview(_ preview: Preview?) {
        self.preview = preview
        // It may have what was looked for.
        targets.withLock { targets in targets = targets.filter { $0.value.seq != nil } }
        shownOrigins = nil
        strikeShown()
        forget()
    }

    /// What the hub has taken, and what is shown of it, may be on the disk before the outbox lets go of it.
    private mutating func strikeShown() {
        guard let preview, confirmed.count < all.count else { return }
        if shownOrigins == nil { shownOrigins = Set(preview.events.map(\.origin)) }
        for (place, one) in all.enumerated() where one.failure == nil && one.origin.counter > 0 && one.isInConversation && shownOrigins!.contains(one.origin) {
            confirmed.insert(place)
        }
    }

    /// The state below changed, by this event or otherwise.
    mutating func forget(confirmed event: RecordedEvent? = nil) {
        if let event, confirmed.count < all.count { strike(event) }
        result = Monitor(nil)
    }

    /// Finds what is confirmed by name: each event that comes would else be compared with all that waits.
    private mutating func strike(_ event: RecordedEvent) {
        if places == nil {
            var made: [PendingEvent.Mark: [Int]] = [:]
            for (place, one) in all.enumerated() { for mark in one.marks { made[mark, default: []].append(place) } }
            places = made
        }
        for mark in PendingEvent.marks(of: event) { confirmed.formUnion(places![mark] ?? []) }
    }

    /// With the store's fold lock held for reading, so that the state below stands still.
    func shown(_ id: ConversationID, over below: Conversations) throws -> Shown {
        try result.withLock { result in
            if let result { return result }
            let conversations = try state(id, over: below)
            let made = try conversations.rows.read(id) { row -> Shown in
                let people = row.participants
                let failed = conversations.overlay?.failed.keys.filter { !people.contains($0) } ?? []
                return Shown(conversations: conversations, order: row.order, participants: people, viewers: people + failed)
            }
            result = made ?? Shown(conversations: conversations, order: HLC(rawValue: 0), participants: [], viewers: [])
            return result!
        }
    }

    private func state(_ id: ConversationID, over below: Conversations) throws -> Conversations {
        let held = try below.seq(of: id)
        let preview = preview.flatMap { $0.lastSeq > held ? $0 : nil }
        // Where the store holds all that the base stands for, its own state is the better one.
        let base = preview.flatMap { $0.baseSeq > held ? $0.start : nil }
        let confirmed = preview?.lastSeq ?? held
        var failures: [Seq: Refusal] = [:]
        var failed: [UserID: Refusal] = [:]
        var creation: Unconfirmed?
        var seq = confirmed
        for one in pending {
            if let failure = one.failure, failed[one.event.author] == nil { failed[one.event.author] = failure }
            guard one.isInConversation else { continue }
            seq += 1
            if let failure = one.failure { failures[seq] = failure }
            if creation == nil, confirmed == 0, case .conversationCreated = one.event.content { creation = one.failure.map { .failed($0) } ?? .pending }
        }
        let made = confirmed == 0 ? self.made(id) : nil
        if let made, creation == nil { creation = made.failure.map { .failed($0) } ?? .pending }
        let marks = OverlayMarks(
            confirmedSeq: confirmed, failures: failures, failed: failed, creation: creation, hole: base.map { held + 1...$0.seq },
            isHoleOpen: preview.map { !$0.isFirst } ?? true, below: below, hiddenPages: base?.pages ?? 0)
        let state = Conversations(over: below, base: base?.row, marks)
        for event in preview?.events ?? [] where event.seq > held { try state.apply(event) }
        if let made {
            try state.apply(
                RecordedEvent(
                    log: .conversation(id), seq: 0, position: 0, origin: made.origin, hlc: made.origin.hlc, event: made.event, targetSeq: nil))
        }
        marks.writes = try apply(to: state, id, marks, lookedAt: base == nil ? confirmed : held)
        return state
    }

    /// What makes a conversation that is not here, as a hub has lost it or it has not come: what was written in it is shown all the same, in one made by those
    /// who wrote. Of what only speaks of something in it nothing could be shown.
    ///
    /// `nil`: nothing was written, or its creation first.
    private func made(_ id: ConversationID) -> (event: Event, origin: Origin, failure: Refusal?)? {
        let written = pending.filter(\.isInConversation)
        guard let first = written.first, !first.creates,
            let one = written.first(where: {
                switch $0.event.content {
                case .messageSent, .conversationUpdated, .participantJoined, .custom: true
                default: $0.creates
                }
            })
        else { return nil }
        if let creation = written.first(where: \.creates) { return (creation.event, first.origin, nil) }
        let content = Event.Content.conversationCreated(kind: .group, title: nil, participants: written.map(\.event.author))
        return (Event(conversation: id, author: one.event.author, content: content), first.origin, one.failure)
    }

    /// `lookedAt`: messages up to here that are not found now are not going to be.
    ///
    /// - Returns: what is done to messages.
    private func apply(to state: Conversations, _ id: ConversationID, _ marks: OverlayMarks, lookedAt: Seq) throws -> OverlayMarks.Writes {
        var writes = OverlayMarks.Writes()
        var sent: [MessageID: Seq] = [:]
        var seq = marks.confirmedSeq
        for one in pending {
            if one.isInConversation { seq += 1 }
            let event = one.event
            let target: Seq?
            switch event.content {
            case .messageSent(let message):
                target = try message.replyTo.flatMap { try sent[$0] ?? find($0, state, id, lookedAt) }
                sent[message.id] = seq
            case .conversationCreated where marks.creation != nil: target = nil
            default:
                target = try event.references.message.flatMap { try sent[$0] ?? find($0, state, id, lookedAt) }
                if let target { writes.add(one, to: target) }
                // What it is about is not here: it changes nothing.
                if one.failure != nil || target == nil && event.references.message != nil { continue }
            }
            // The hub's clock is not known yet, and would not be behind this one's: the event's own decides, and gives the conversation its place.
            try state.apply(
                RecordedEvent(log: event.log, seq: seq, position: 0, origin: one.origin, hlc: one.hlc, event: event, targetSeq: target))
        }
        return writes
    }

    private func find(_ message: MessageID, _ state: Conversations, _ id: ConversationID, _ lookedAt: Seq) throws -> Seq? {
        try targets.withLock { targets in
            if let known = targets[message], known.seq != nil || known.through >= lookedAt { return known.seq }
            let seq = try state.seq(of: message, in: id, after: targets[message]?.through ?? 0)
            targets[message] = Target(seq: seq, through: lookedAt)
            return seq
        }
    }
}

extension PendingEvent {
    fileprivate var creates: Bool { if case .conversationCreated = event.content { true } else { false } }
}
