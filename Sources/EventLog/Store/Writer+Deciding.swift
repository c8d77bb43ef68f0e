/// What becomes of a submission: its origin comes before all rules, then the rules, then what whoever sent it says of it. Nothing is changed by asking.
extension Writer {
    func decide(_ submission: borrowing Submission) throws -> Decision {
        if let origin = submission.origin {
            guard origin.counter > 0 else { return .refuse(Refusal(.malformed, "origin")) }
            if let known = try handledBefore(submission, origin) { return known }
            if isBehindConflict(submission, origin) { return .refuse(Refusal(.originConflict, "it follows an event whose counter was used before")) }
            if let seq = try seqUnderOther(submission, origin) { return .duplicate(seq) }
        }
        if let refusal = Acceptance.checkForm(submission.event) { return .refuse(refusal) }
        let decision = try decideByContent(submission)
        switch (decision, submission.event.content) {
        case (.accept, _):
            if let objection = submission.objection { return .refuse(objection) }
            return try isBaseRefused(submission) ? .refuse(Self.withoutBase(submission.event)) : decision
        // One that says the same by chance must not carry on what was broken off.
        case (.duplicate, .chunkAppended): return try isBaseRefused(submission) ? .refuse(Self.withoutBase(submission.event)) : decision
        default: return decision
        }
    }

    /// What the rules say of a submission, whoever sent it.
    private func decideByContent(_ submission: borrowing Submission) throws -> Decision {
        let event = submission.event
        guard let state = try state(of: .conversation(event.conversation)) else { return try Acceptance.decide(event, nil, self) }
        let decision = try Acceptance.decide(event, state, self, asksParticipation: !submission.isOwnHousekeeping)
        // An erased text can no longer tell; its sender's word is taken.
        guard submission.comparesChunks, case .duplicate(let seq) = decision, case .chunkAppended(let id, let index, let text) = event.content,
            let held = try self.event(of: state, at: seq), !held.isErased, case .chunkAppended(id, index, let other) = held.event.content,
            !equalBytes(text, other)
        else { return decision }
        return .refuse(Refusal(.messageConflict))
    }

    /// Whether what a submission rests on was refused. What was never handled was not: a hub that was set back knows nothing of it.
    private func isBaseRefused(_ submission: borrowing Submission) throws -> Bool {
        guard submission.restsOn > 0, let origin = submission.origin, !PlantedBug.forgetBase.isPlanted else { return false }
        if submission.isBaseRefused { return true }
        if conflicts.contains(LaneCounter(log: submission.event.log, replica: origin.replica, counter: submission.restsOn)) { return true }
        guard let state = try state(of: submission.event.log), let lane = state.row.lane(origin.replica) else { return false }
        if case .refused = state.row.lanes[lane].answer(to: submission.restsOn) { return true }
        return false
    }

    private func isBehindConflict(_ submission: borrowing Submission, _ origin: Origin) -> Bool {
        guard submission.followsConflicts, !PlantedBug.forgetConflict.isPlanted else { return false }
        if submission.isBehindConflict { return true }
        if conflicts.isEmpty { return false }
        return conflicts.contains { $0.log == submission.event.log && $0.replica == origin.replica && $0.counter < origin.counter }
    }

    private static func withoutBase(_ event: Event) -> Refusal {
        let isLater =
            switch event.content {
            case .chunkAppended, .messageCompleted, .messageInterrupted: true
            default: false
            }
        return Refusal(isLater ? .unknownMessage : .unknownConversation, "it rests on an event that was refused")
    }

    /// The lane's mark comes before any other rule (I3): what was handled once gets the same answer for ever.
    private func handledBefore(_ submission: borrowing Submission, _ origin: Origin) throws -> Decision? {
        guard let state = try state(of: submission.event.log), let position = state.row.lane(origin.replica) else { return nil }
        guard origin.counter <= state.row.lanes[position].mark, !PlantedBug.forgetLaneMark.isPlanted else { return nil }
        let lane = state.row.lanes[position]
        let (event, recall, isFirstSending) = (submission.event, submission.recall, submission.isFirstSending)
        if !isFirstSending, let answer = lane.answer(to: origin.counter) {
            switch answer {
            case .refused(let refusal): return .refuse(refusal)
            // Another event under its counter is not swallowed.
            case .duplicate(let seq) where Self.mayComeAgain(event): return .duplicate(seq)
            case .duplicate: break
            }
        }
        if let found = try found(recall, submission, origin, state) {
            if found.isOfSameTime || !submission.comparesTimes, found.isSame { return .duplicate(found.receipt.seq) }
            return .refuse(Refusal(.originConflict, "recorded at seq \(found.receipt.seq) with other content, or of another time"))
        }
        // It was refused, or a duplicate of something: another event's answer, if this one is new.
        if isFirstSending { return .refuse(Refusal(.originConflict, "used before for another event")) }
        if let seq = try seqUnderOther(submission, origin) { return .duplicate(seq) }
        // It was a duplicate of something then; it is not asked again whether it would be accepted now.
        if let refusal = Acceptance.checkForm(event) { return .refuse(refusal) }
        switch (try decideByContent(submission), event.content) {
        case (.duplicate(let seq), _): return .duplicate(seq)
        // Who joined then may have left since, and who may not speak now may have spoken then.
        case (_, .participantJoined), (_, .participantLeft): return .duplicate(state.row.seq)
        case (.refuse(let refusal), .receiptDelivered) where refusal.code != .unknownMessage,
            (.refuse(let refusal), .receiptRead) where refusal.code != .unknownMessage:
            return .duplicate(state.row.seq)
        case (.refuse, _), (.accept, _):
            // Nothing else that was a repeat once is none now: what it repeats is still there. It is another event's counter: its replica was set back, and
            // so was its memory of having sent this one for the first time.
            return .refuse(Refusal(.originConflict, "used before for another event"))
        }
    }

    /// What an origin's event is, as far as a submission knows; else it is looked for.
    private func found(_ recall: Recall?, _ submission: borrowing Submission, _ origin: Origin, _ state: LogState) throws -> Recalled? {
        if let found = recall?.found { return found }
        return try find(origin, in: state, after: recall?.through ?? 0).map { Comparand($0).compared(with: submission) }
    }

    /// Where the event stands under an origin that it had once, or may have.
    private func seqUnderOther(_ submission: borrowing Submission, _ origin: Origin) throws -> Seq? {
        try seqOfFormer(submission, origin) ?? seqOfTwin(submission)
    }

    /// Where the event stands under its former origin.
    private func seqOfFormer(_ submission: borrowing Submission, _ origin: Origin) throws -> Seq? {
        guard let former = submission.former, former.counter > 0, let state = try state(of: submission.event.log),
            state.row.mark(of: former.replica) >= former.counter
        else { return nil }
        let name = Origin(replica: former.replica, counter: former.counter, hlc: origin.hlc)
        guard let found = try found(submission.formerRecall, submission, name, state), found.isOfSameTime, found.isSame else { return nil }
        return found.receipt.seq
    }

    /// Where the event stands under any other origin, of what was looked up before (`EventStore.recallTwins`). What came since is read once in a frame.
    private func seqOfTwin(_ submission: borrowing Submission) throws -> Seq? {
        guard let position = submission.mayStandBehind, let twin = submission.twin, !PlantedBug.forgetTwins.isPlanted else { return nil }
        if let found = twin.found { return found.receipt.seq }
        guard let key = TwinKey(submission), let state = try state(of: submission.event.log) else { return nil }
        return try seqOfTwin(key, behind: position, in: state, after: twin.through) ?? frameTwins[key]?.seq
    }

    /// Where it stands behind a seq and before the frame that is being built: while the submission was looked for, others came.
    private func seqOfTwin(_ key: TwinKey, behind position: Position, in state: LogState, after seq: Seq) throws -> Seq? {
        try noteEarlier(in: state, after: seq)
        let log = state.row.id
        guard let places = earlierTwins[log]?.places[key.hlc] else { return nil }
        if earlierTwins[log]!.keys[key.hlc] == nil {
            var keys: [TwinKey: [Place]] = [:]
            for place in places {
                if let known = try event(of: state, at: place.seq).flatMap({ TwinKey($0, at: key.hlc) }) { keys[known, default: []].append(place) }
            }
            earlierTwins[log]!.keys[key.hlc] = keys
        }
        return earlierTwins[log]!.keys[key.hlc]![key]?.first { $0.seq > seq && $0.position > position }?.seq
    }

    /// Reads once, for all submissions of a frame, of what time the events are that came so. No texts of what was not archived by now: all others wait.
    private func noteEarlier(in state: LogState, after seq: Seq) throws {
        func isEarlier(_ seq: Seq) -> Bool { seq <= state.row.seq && state.position(of: seq).map { $0 < frameStart } ?? true }
        let log = state.row.id
        if !isEarlier(seq + 1) { return }
        if let known = earlierTwins[log], known.after <= seq { return }
        var found = EarlierTwins(after: seq)
        var next = seq + 1
        while isEarlier(next) {
            if let envelope = try tailEnvelope(of: next, in: state) {
                if !(Event.Kind(rawValue: envelope.kind)?.isKnownByContent ?? true), let position = state.position(of: next) {
                    for time in envelope.times { found.places[time, default: []].append(Place(seq: next, position: position)) }
                }
            } else if let event = try event(of: state, at: next), !event.isErased, !event.event.isKnownByContent {
                for time in event.times { found.places[time, default: []].append(Place(seq: next, position: event.position)) }
            }
            next += 1
        }
        earlierTwins[log] = found
    }

    /// Keeps in mind what a frame has that may come again in it.
    func noteTwin(_ submission: borrowing Submission, _ receipt: Receipt) {
        // What was not sent by a replica has one origin for ever.
        guard submission.comparesTimes, let key = TwinKey(submission) else { return }
        frameTwins[key] = receipt
    }

    /// The receipt of a submission that is a repeat of what was looked up before, or of what this frame has.
    func knownReceipt(of submission: borrowing Submission, at seq: Seq) -> Receipt? {
        for case let known? in [submission.recall?.found, submission.formerRecall?.found, submission.twin?.found] where known.receipt.seq == seq {
            return known.receipt
        }
        guard submission.mayStandBehind != nil, let receipt = TwinKey(submission).flatMap({ frameTwins[$0] }), receipt.seq == seq else { return nil }
        return receipt
    }

    /// Whether what is a duplicate of something now may be one of something else later: of all else the content names the one event that it repeats.
    static func mayComeAgain(_ event: Event) -> Bool {
        switch event.content {
        case .participantJoined, .participantLeft, .receiptDelivered, .receiptRead: true
        default: false
        }
    }
}
