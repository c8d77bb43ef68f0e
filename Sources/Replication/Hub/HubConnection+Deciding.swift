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
            submissions += decision.submissions
            decisions.append((decision, push.bytes))
        }
        pushes.removeFirst(decisions.count)
        guard !submissions.isEmpty else { return decided(decisions, []) }
        do {
            allowance.spend(try hub.origins.recall(&submissions))
        } catch {
            return guarded { throw error }
        }
        hub.options.execution.append(hub.store.log, submissions) { [self, decisions] result in
            mailbox.post { [self] in
                switch result {
                case .success(let outcomes): decided(decisions, outcomes[...])
                case .failure(let error):
                    // Not answered: the replica will ask again, which is safe (I3).
                    guarded { throw error }
                }
            }
        }
    }

    private func decided(_ decisions: [(decision: PushDecision, bytes: Int)], _ outcomes: ArraySlice<AppendOutcome>) {
        isPushing = false
        var outcomes = outcomes
        for (decision, bytes) in decisions {
            let count = decision.submissions.count
            var answers = decision.answers(Array(outcomes.prefix(count)))
            outcomes = outcomes.dropFirst(count)
            for index in answers.accepted.indices where answers.accepted[index].isDuplicate {
                allowance.spend(Effort(events: Self.duplicateCost))
                // A repeat of what happened after its author had left never comes to the peer, which must not wait for it.
                answers.accepted[index].seq = min(answers.accepted[index].seq, visibleSeq(answers.accepted[index].log))
            }
            hub.counters.decided(accepted: answers.accepted.count, refused: answers.refused.count)
            perform(session.pushed(answers.accepted, refused: answers.refused, bytes: bytes, at: now))
        }
        decideNext()
    }

    /// Reading an event to compare it costs about as much as hashing so many.
    private static let duplicateCost = 64

    func pass(_ typing: Typing) {
        guard let identity = session.who, hub.withIndex({ $0.isMember(typing.user, of: typing.conversation) }),
            identity.isService || identity.user == typing.user
        else { return }
        for connection in hub.connections(in: typing.conversation, but: self) { connection.deliver(typing) }
    }
}
