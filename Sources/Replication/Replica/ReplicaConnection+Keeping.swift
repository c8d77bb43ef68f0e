internal import ConversationStore
internal import EventLog

/// Keeping what comes.
extension ReplicaConnection {
    /// So many at once: each costs some megabytes.
    private static let heldMax = 4

    /// Takes a large segment, which is kept soon. Whatever else is done is done behind that (``keepHeld()``).
    func hold(_ segment: SegmentFrame, _ bytes: Int) -> Bool {
        guard segment.run.count >= Replica.wholeBytesMin, let preparation = preparations.next() else { return false }
        held.append(LargeSegment(frame: segment, preparation: preparation, bytes: bytes))
        // The next one's message is in the mailbox, or will be at once.
        if held.count == Self.heldMax || !preparations.isNextHere { keepHeld() }
        return true
    }

    func keepHeld() {
        if held.isEmpty { return }
        let segments = held
        defer { preparations.letGo(of: segments) }
        held = []
        let together = hasEnded ? nil : replica.keepTogether(segments, isMoreHere: preparations.isNextHere)
        for (index, segment) in segments.enumerated() {
            guarded {
                let frame = Frame.segment(segment.frame)
                let kept = try together?[index] ?? replica.keep(frame, segment.preparation)
                try took(kept, of: frame, segment.bytes)
                // It vouches for nothing that came behind it.
                if let progress = segment.progress { try progressed(progress, place: kept.place ?? replica.store.log.lastPosition) }
            }
        }
    }

    func keep(_ frame: Frame, _ bytes: Int) throws { try took(replica.keep(frame), of: frame, bytes) }

    private func took(_ kept: Kept, of frame: Frame, _ bytes: Int) throws {
        if !kept.withoutSalts.isEmpty {
            try replica.planAnew(kept.withoutSalts)
            return reopen()
        }
        isCaughtUp = false
        if kept.events > 0 { fruitBytes += bytes }
        observe(.received(events: kept.events, bytes: bytes))
        // Own events may come back before the answer to them.
        tellSettled()
        for (log, error) in kept.disputed {
            guard let comparison, comparison.isBusy, !fitted.contains(log) else { throw error }
            comparison.disputed[log] = error
        }
        if comparison != nil { fitted.formUnion(kept.fitted) }
        for log in kept.contradicted { retracts[log] = retracts[log] ?? replica.vouchedSeq(of: log) }
        for log in Array(kept.grown.keys) + kept.extended + kept.mended {
            // A gap below may have been filled, and what came behind it not.
            if let hole = missing[log], try replica.reach(of: log) >= hole.lastSeq { missing[log] = nil }
        }
        if case .base = frame {} else { noteVouched(kept) }
        for bridge in kept.bridges where unreadable[bridge.wish.log] == nil { (missing[bridge.wish.log], askedAt) = (bridge, now) }
        perform(session.fetch(kept.wishes + kept.bridges.map(\.wish) + notMissingYet(kept.holes)))
        perform(session.kept(bytes: bytes))
    }

    /// Those of some wishes that were not asked for yet; noted as missing until they have come.
    func notMissingYet(_ holes: [Kept.Hole]) -> [Fetch] {
        var new: [Fetch] = []
        for hole in holes where unreadable[hole.wish.log] == nil {
            if missing[hole.wish.log] == nil { new.append(hole.wish) }
            let lastSeq = max(missing[hole.wish.log]?.lastSeq ?? 0, hole.lastSeq)
            missing[hole.wish.log] = Kept.Hole(wish: missing[hole.wish.log]?.wish ?? hole.wish, lastSeq: lastSeq)
        }
        if !new.isEmpty { askedAt = now }
        return new
    }

    /// What is missing of such logs is not awaited any more.
    func noteUnreadable(_ told: Unreadable) throws {
        let names = scope.names
        var new: [LogID] = []
        var left: [LogID: Bool] = [:]
        for log in told.logs where Scope.covers(log, names) && unreadable[log] == nil {
            if !undecided.contains(log) { new.append(log) }
            let held = try replica.heldSeq(of: log)
            let seq = min(doubts[log] ?? .max, unvouched[log] ?? held)
            (unreadable[log], unvouched[log], ahead[log], missing[log]) = (seq, seq, nil, nil)
            // Where no heads are compared it came in this session, or is a newest part, which is suspect.
            left[log] = held > 0 && comparison != nil
            comparison?.giveUp(log)
        }
        try replica.leaveUncompared(left)
        // Whatever the scope: the outbox is sent all the same.
        for log in told.undecided where undecided.insert(log).inserted && unreadable[log] == nil { new.append(log) }
        // Names that it makes up must not be gathered for ever.
        guard unreadable.count + undecided.count <= WireLimits.unreadableMax else {
            throw ReplicaError(.badPeer, "the hub says of more than \(WireLimits.unreadableMax) logs that it cannot read them")
        }
        if !new.isEmpty { observe(.unreadable(new)) }
        try rewindIfCompared()
    }

    /// Logs that grew are vouched for by a head behind their last event, in that frame or a later one. Of a base the events that follow it tell.
    private func noteVouched(_ kept: Kept) {
        unvouched.merge(kept.grown) { old, _ in old }
        unvouchedParts.formUnion(kept.extended)
        unvouchedParts.subtract(kept.headed)
        for log in kept.judged {
            unvouched[log] = nil
            ahead[log] = nil
        }
    }
}
