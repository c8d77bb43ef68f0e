internal import ConversationStore
internal import EventLog

/// What a peer pushes.
extension HubConnection {
    /// PUSHes that came while the last was decided share one commit: else a peer that pushes one event at a time waits for a sync of the disk for each.
    func decideNext() {
        // Who repeats what is old long and often waits: it has to be looked for.
        guard !isPushing, !pushes.isEmpty, let identity = session.who, allowance.isLeft(at: now) else { return }
        isPushing = true
        var decisions: [(decision: PushDecision, bytes: Int)] = []
        var submissions: [Submission] = []
        for push in pushes {
            guard decisions.isEmpty || submissions.count + push.events.count <= WireLimits.pushEventsMax else { break }
            guard let decision = PushDecision(push.events, from: identity, replica: replica) else {
                return perform(session.end(Bye(.protocolError, "an event's envelope cannot be read")))
            }
            noteRefused(decision.refusals)
            submissions += decision.submissions
            decisions.append((decision, push.bytes))
        }
        pushes.removeFirst(decisions.count)
        for index in submissions.indices where submissions[index].restsOn > 0 {
            guard let origin = submissions[index].origin else { continue }
            let base = PushedName(log: submissions[index].event.log, replica: origin.replica, counter: submissions[index].restsOn)
            submissions[index].isBaseRefused = refusedNames.contains(base)
        }
        // How long it takes to look through a log must not tell a stranger that there is one.
        let lookup = SubmissionLookup(submissions) { [hub] id in identity.isService ? nil : hub.withIndex { $0.seqWithout(identity.user, in: id) } }
        asked = Asked(decisions: decisions, lookup: lookup)
        lookOn()
    }

    /// Looks up what was pushed as far as the allowance lasts, much of it in turns, then has all decided.
    func lookOn(inTurn: Bool = false) {
        allowance.beginSlice(isShort: !inTurn)
        while asked != nil, session.isOpen {
            do {
                var effort = Effort()
                defer { allowance.spend(effort) }
                guard let log = try asked!.lookup.next(hub.origins, &effort) else { return try decideWhatWasLookedUp() }
                if stuckLogs.contains(log) {
                    asked!.lookup.giveUp()
                    continue
                }
                guard allowance.isLeft(at: now) else { return }
                guard allowance.isSliceLeft, try inTurn || !asked!.lookup.isLong(hub.origins) else { return takeTurn() }
                do {
                    effort.events += try asked!.lookup.read(hub.origins, &twins, limit: allowance.sliceLeft).events
                } catch let error as EventLogError where error.code == .damaged {
                    // Of other logs all is decided.
                    noteDamage(of: log, error.description)
                    asked!.lookup.giveUp()
                }
            } catch {
                return guarded { throw error }
            }
        }
    }

    private func decideWhatWasLookedUp() throws {
        guard let found = asked, let identity = session.who else { return }
        asked = nil
        var submissions = found.lookup.submissions
        // Now: who may open the history, and for whom the peer may write, may have changed while others were looked for.
        for index in submissions.indices where !identity.isService && !stuckLogs.contains(submissions[index].event.log) {
            if submissions[index].event.author != identity.user {
                submissions[index].objection = Refusal(.forbidden, "the author is not the token's user")
                continue
            }
            do {
                if try hub.opensHistory(submissions[index].event, by: identity.user) { submissions[index].objection = Refusal(.forbidden, "history") }
            } catch let error as EventLogError where error.code == .damaged {
                noteDamage(of: submissions[index].event.log, error.description)
            }
        }
        decide(PushBatch(found.decisions, submissions))
    }

    /// Nothing more is decided of a log of which something cannot be read, in this session: a lane is handled in order.
    private func noteDamage(of log: LogID, _ damage: String) {
        guard stuckLogs.insert(log).inserted else { return }
        hub.options.log("log \(log): what is pushed cannot be decided: \(damage)")
        // A stranger is not told that there is such a log. Of what they push nothing has to be read.
        var isTold = takesUnreadable
        if case .conversation(let id) = log, isStranger(to: id) { isTold = false }
        if isTold { undecidedLogs.insert(log) } else { isDamaged = true }
    }

    /// Logs of which something is not decided, and the peer does not know why.
    private var untoldStuckLogs: Int { stuckLogs.count - undecidedLogs.count }

    /// Behind the answers to what was decided: the peer may wait for none of these logs' then.
    private func tellUndecided() {
        let untold = undecidedLogs.subtracting(toldUndecidedLogs)
        if untold.isEmpty { return }
        toldUndecidedLogs = undecidedLogs
        let (logs, most) = (untold.sorted(), WireLimits.logs(inMessagesOf: feed.messageBytesMax))
        for start in stride(from: 0, to: logs.count, by: most) {
            transmit(.unreadable(Unreadable(undecided: Array(logs[start..<min(start + most, logs.count)]))))
        }
    }

    /// Has the store decide what of a batch it was not asked yet.
    private func decide(_ batch: PushBatch) {
        var batch = batch
        guard let part = batch.next(&stuckLogs) else { return decided(batch) }
        let submissions = part.map { index in
            var submission = batch.submissions[index]
            submission.isBehindConflict = isBehindConflict(submission)
            return submission
        }
        hub.options.execution.append(hub.store.log, submissions) { [self, batch] result in
            mailbox.post { [self] in
                var batch = batch
                switch result {
                case .success(let outcomes):
                    batch.take(outcomes, of: part)
                    for (index, outcome) in zip(part, outcomes) {
                        if case .undecided(let damage) = outcome { noteDamage(of: batch.submissions[index].event.log, damage) }
                    }
                    // A batch may be decided in parts, where the disk is full.
                    noteConflicts(outcomes, of: submissions)
                    hub.endShortage(of: part.map { batch.submissions[$0] })
                case .failure(let error as EventLogError) where error.code == .diskFull:
                    if let alone = batch.hadNoRoom(for: part, &stuckLogs) { hub.noteShortage(of: batch.submissions[alone], error) }
                    hub.noteStore()
                // Not answered: the replica will ask again, which is safe (I3).
                case .failure(let error): return guarded { throw error }
                }
                decide(batch)
            }
        }
    }

    private func noteConflicts(_ outcomes: [AppendOutcome], of submissions: [Submission]) {
        for (outcome, submission) in zip(outcomes, submissions) {
            guard case .refused(let refusal) = outcome, refusal.code == .originConflict, let origin = submission.origin else { continue }
            let lane = PushedLane(log: submission.event.log, replica: origin.replica)
            conflicts[lane] = min(conflicts[lane] ?? .max, origin.counter)
        }
    }

    private func isBehindConflict(_ submission: Submission) -> Bool {
        guard !conflicts.isEmpty, let origin = submission.origin else { return false }
        return conflicts[PushedLane(log: submission.event.log, replica: origin.replica)].map { $0 < origin.counter } ?? false
    }

    private func decided(_ batch: PushBatch) {
        isPushing = false
        guard let identity = session.who else { return }
        // Who knows of what cannot be read need not send it again soon.
        if stuckSince == nil, untoldStuckLogs > 0 { stuckSince = now }
        for (decision, bytes, outcomes) in batch.decided {
            var answers = decision.answers(outcomes, isStranger: isStranger(to:))
            noteRefused(answers.refused)
            // What stands under the id was read to compare it.
            for answer in answers.refused where answer.code == RefusalCode.messageConflict.rawValue { allowance.spend(Effort(events: Self.duplicateCost)) }
            for index in answers.accepted.indices where answers.accepted[index].isDuplicate {
                allowance.spend(Effort(events: Self.duplicateCost))
                // A repeat of what happened after its author had left never comes to the peer, which must not wait for it, nor know when it was. What its
                // scope leaves out it may see all the same.
                let visible = hub.withIndex { $0.visibleSeq(of: answers.accepted[index].log, for: identity, seesEverything: seesEverything) }
                guard answers.accepted[index].seq > visible else { continue }
                answers.accepted[index].seq = visible
                answers.accepted[index].hlc = HLC(rawValue: 0)
            }
            hub.counters.decided(accepted: answers.accepted.count, refused: answers.refused.count)
            perform(session.pushed(answers.accepted, refused: answers.refused, bytes: bytes, at: now))
        }
        // Names that a peer makes up must not be gathered for ever.
        if untoldStuckLogs > Self.stuckLogsMax || tellsTooManyUnreadable { return endStuck() }
        tellUndecided()
        // Behind the answers: the peer begins anew, under another id.
        if conflicts.count > Self.conflictsMax {
            return perform(session.end(Bye(.overloaded, "too many counters turned out to be other events'", retryAfterMilliseconds: 0)))
        }
        decideNext()
    }

    /// Whether the peer never took part in a conversation. A service may see all of them.
    private func isStranger(to conversation: ConversationID) -> Bool {
        guard let identity = session.who, !identity.isService else { return false }
        return hub.withIndex { $0.isStranger(identity.user, to: conversation) }
    }

    /// What rests on them comes in later PUSHes.
    private func noteRefused(_ refused: [Refused]) {
        // A peer that has so many refused can only spoil what it says itself.
        if refusedNames.count + refused.count > Self.refusedNamesMax { refusedNames = [] }
        for answer in refused { refusedNames.insert(PushedName(log: answer.log, replica: answer.replica, counter: answer.counter)) }
    }

    private static let refusedNamesMax = 1024

    /// Ends the session some time after something could not be decided, so that it is sent again.
    func endIfStuck() {
        if let stuckSince, now.milliseconds(since: stuckSince) >= (isDamaged ? Self.damagedMilliseconds : Self.stuckMilliseconds) { endStuck() }
    }

    private func endStuck() {
        let isFull = !isDamaged && untoldStuckLogs > 0
        perform(session.end(isFull ? Bye(.storeFull, "the hub's disk is full", retryAfterMilliseconds: 1000) : Self.damaged))
    }

    static let damaged = Bye(.internalError, "bytes of the hub's store are damaged: its log says which", retryAfterMilliseconds: 5000)

    private static let stuckMilliseconds: UInt64 = 60_000, damagedMilliseconds: UInt64 = 10_000, stuckLogsMax = 4096, conflictsMax = 1024

    /// Reading an event to compare it costs about as much as hashing so many.
    private static let duplicateCost = 64

    func pass(_ typing: Typing) {
        guard let identity = session.who, hub.withIndex({ $0.isMember(typing.user, of: typing.conversation) }),
            identity.isService || identity.user == typing.user
        else { return }
        for connection in hub.connections(in: typing.conversation, but: self) { connection.deliver(typing) }
    }
}

/// Where a peer's events of a log are counted.
struct PushedLane: Hashable {
    var log: LogID
    var replica: ReplicaID
}

/// Under what a pushed event is known.
struct PushedName: Hashable {
    var log: LogID
    var replica: ReplicaID
    var counter: UInt64
}
