internal import ConversationStore

/// What came of keeping a frame of events.
struct Kept {
    var events = 0
    /// Where the log ends behind what came, if more was kept with it.
    var place: Position?
    /// What must be asked for, as damage took it.
    var wishes: [Fetch] = []
    /// What must be asked for, as it is missing before what came, which was not kept.
    var holes: [Hole] = []
    /// The same between a part that is shown and the one that is to take its place.
    var bridges: [Hole] = []

    /// A wish, and how far its log went at the hub when it was made: until that is held here, nothing vouches for all.
    struct Hole {
        var wish: Fetch
        var lastSeq: Seq
    }
    /// Logs that go on where they ended, each with the last seq before that (the new last one, if a head of that came).
    var grown: [LogID: Seq] = [:]
    /// Logs of which a newest part does, or begins.
    var extended: [LogID] = []
    /// Logs of which something came for what damage took.
    var mended: [LogID] = []
    /// Those of them that have the hub's head now.
    var fitted: [LogID] = []
    /// Logs of which the hub's head was compared with what is held now, and of which more need not be vouched for: it agrees, or is in dispute.
    var judged: [LogID] = []
    /// Logs of which events came with a head, be it of what is held now or of less: as much as a newest part needs.
    var headed: [LogID] = []
    /// Logs of which doubtful events do not lead to the hub's head: nothing more of them was kept.
    var contradicted: [LogID] = []
    /// Logs of which what came does not lead to the hub's head, while all is compared: nothing more of them was kept. If the comparison finds no difference,
    /// the hub contradicts itself.
    var disputed: [LogID: ReplicaError] = [:]
    /// Logs of which a hub that was set back has other events where bodies were erased: their salts are gone, and come with the logs' first events only.
    var withoutSalts: [LogID] = []
}

extension Replica {
    /// Checks a frame of events against this replica's own logs and the heads that came with it, and keeps it: durable when it returns.
    ///
    /// - Throws: `ReplicaError`: `forked` if a head is not what the events lead to, `badPeer`; `EventLogError`.
    func keep(_ frame: Frame, _ preparation: Preparations.Preparation? = nil) throws -> Kept {
        do {
            return try keepUnchecked(frame, preparation)
        } catch let error as SegmentError {
            throw ReplicaError(.badPeer, "\(error)")
        } catch let error as CodecError {
            throw ReplicaError(.badPeer, "an event cannot be read: \(error.problem)")
        } catch let error as EventLogError where error.code == .invalidArgument {
            throw ReplicaError(.badPeer, error.message)
        }
    }

    /// The same for large segments that came one behind the other, in one commit. `nil`: they must be kept one by one, and that says what hinders.
    ///
    /// - Parameter isMoreHere: others are kept at once: what is shown of these follows while those are written.
    func keepTogether(_ segments: [LargeSegment], isMoreHere: Bool) -> [Kept]? {
        segments.count > 1 ? try? keepWhole(segments, isMoreHere: isMoreHere) : nil
    }

    private func keepUnchecked(_ frame: Frame, _ preparation: Preparations.Preparation?) throws -> Kept {
        switch frame {
        case .segment(let segment):
            if let preparation, let kept = try keepWhole([LargeSegment(frame: segment, preparation: preparation)]) { return kept[0] }
            return try keep(SegmentCodec.decode(segment.run), segment.logs)
        case .events(let frame):
            let events = try frame.items.map { item in
                guard let commitment = item.commitment else {
                    let event = try EventCodec.decode(envelope: item.envelope, body: item.body)
                    // As a segment's are: a store that held others could not give them on.
                    if let what = SegmentCodec.objection(to: event) { throw ReplicaError(.badPeer, "log \(event.log) seq \(event.seq): \(what)") }
                    return event
                }
                let event = try EventCodec.decode(envelope: item.envelope, commitment: commitment)
                switch event.event.content.kind {
                // Who takes part is never erased (FORMAT.md): no store could go on from it.
                case .conversationCreated, .participantJoined, .participantLeft:
                    throw ReplicaError(.badPeer, "log \(event.log) seq \(event.seq): the body of what is never erased is missing")
                default: return event
                }
            }
            return try keep(events, frame.logs)
        case .base(let base):
            var kept = Kept(extended: [base.log])
            try take(base, &kept)
            return kept
        default: return Kept()
        }
    }

    /// Large runs that follow what is held in all their logs go into the archive as they are. `nil`: they must be taken event by event.
    private func keepWhole(_ segments: [LargeSegment], isMoreHere: Bool = false) throws -> [Kept]? {
        // What is doubtful is compared where it can be told apart.
        guard state.withLock({ $0.outbox.isEmpty && $0.unvouched.isEmpty }) else { return nil }
        let (hasPreviews, damaged) = state.withLock { (!$0.previews.isEmpty, $0.damaged) }
        let notes = segments.map { segment in Dictionary(segment.frame.logs.map { ($0.log, $0) }) { _, last in last } }
        var kept = segments.map { _ in Kept() }
        let before = store.log.lastPosition
        let logs: [LogID]
        do {
            let runs = try zip(segments, notes).map { segment, notes in
                (run: try segment.preparation.take(), secrets: notes.compactMapValues { $0.secret.isEmpty ? nil : $0.secret })
            }
            var end = before
            for (index, (run, _)) in runs.enumerated() {
                end += Position(run.eventCount)
                kept[index].events = run.eventCount
                kept[index].place = end
            }
            let newest = try runs.map { try $0.run.newest() }
            let last = try store.log.adoptRuns(runs, foldsLater: isMoreHere) { index, log, lastSeq, tree in
                guard lastSeq >= damaged.waitsThrough(log) else { throw EventLogError(.invalidArgument, "it waits for what damage took of \(log)") }
                if hasPreviews { kept[index].events -= state.withLock { $0.previews.count(of: lastSeq + 1..<tree.end + 1, in: log) } }
                guard let head = notes[index][log]?.head else { return kept[index].grown[log] = lastSeq }
                kept[index].grown[log] = tree.end
                guard head.size == tree.end else { throw ReplicaError(.badPeer, "the head of \(log) is not that of its last event") }
                guard head.root == tree.root() else {
                    throw ReplicaError(.forked, "the hub's head of \(log) at seq \(head.size) is \(head.root), but its events lead to \(tree.root())")
                }
                kept[index].judged.append(log)
                kept[index].headed.append(log)
            }
            state.withLock { state in for event in newest { state.note(newest: event) } }
            logs = Array(last.keys)
            // What previews show must not be gone before it is shown from below.
            if hasPreviews { store.log.endFolding() }
            try settlePreviews(logs)
        } catch let error as EventLogError where error.code == .invalidArgument {
            return nil
        } catch let error as ReplicaError where error.code == .forked && isComparing {
            // What is in dispute can be told apart event by event.
            return nil
        }
        try state.withLock { state in if logs.contains(where: { state.lost.has($0) }) { try settleLost(after: before, &state) } }
        // What previews held beyond stands behind them all.
        kept[kept.count - 1].place = nil
        kept[kept.count - 1].wishes = try settleDamage(logs)
        return kept
    }

    static let wholeBytesMin = 32 << 10

    /// A preview that its log has reached from below: what it holds beyond is taken too, and it goes.
    private func settlePreviews(_ logs: [LogID]) throws {
        try state.withLock { state in
            for log in logs where state.previews.has(log) {
                let rest = try state.previews.settle(log, heldSeq: store.log.lastSeq(of: log), in: store)
                if let first = rest.first, try store.log.lastSeq(of: log) + 1 == first.seq {
                    _ = try store.log.adoptBlocking(rest, secrets: [:])
                    try confirmed(rest, &state)
                }
                let last = try store.log.lastSeq(of: log)
                if last > state.previews.baseSeq(of: log) { showSuspects(of: log, state) }
                guard state.previews.isReached(log, heldSeq: last) else { continue }
                if state.cursor != nil || state.part != nil { state.damaged.fill(log, through: last) }
                let damaged = state.damaged
                try state.previews.drop(log, in: store) { try damaged.keepHealed(&$0) }
                state.mayTellSuspects = true
            }
        }
    }

    /// What stands behind a gap that was filled is taken too. Answers what to ask for next.
    private func settleDamage(_ logs: [LogID]) throws -> [Fetch] {
        try state.withLock { state in
            if state.damaged.isEmpty { return [] }
            return try settleDamage(logs, &state)
        }
    }

    private func settleDamage(_ logs: [LogID], _ state: inout State) throws -> [Fetch] {
        let (settled, failure) = try state.damaged.settle(logs, in: store.log, heads, beside: state.previews)
        if settled.contains(where: { !state.damaged.has($0.log) }) {
            state.mayTellSuspects = true
            // What did not lead to a log's head, and has come again, is suspect no more.
            if failure == nil, !state.suspects.isEmpty { state.suspects = try Suspects(side, state.outbox.identity) }
        }
        for (log, settled) in settled {
            // Some at a time: it may be all of a log.
            var next = settled.taken?.lowerBound ?? 1
            while let last = settled.taken?.upperBound, next <= last, !state.outbox.isEmpty || state.lost.has(log) {
                let events = try store.log.events(in: log, range: next...last, limit: 4096)
                if events.isEmpty { break }
                try confirmed(events, &state)
                next += Seq(events.count)
            }
        }
        if let failure { throw failure }
        return settled.compactMap(\.1.wish)
    }

    /// The gaps that damage left: asked for at the beginning of a session.
    func damageWishes() throws -> [Fetch] {
        try state.withLock { state in try settleDamage(state.damaged.begin(), &state) }
    }

    /// What came for what damage took of logs waits beside them until all of that is here, as nothing else judges it.
    private func wait(for coming: inout Coming) throws {
        if state.withLock({ $0.damaged.isEmpty }) { return }
        var waiting: [RecordedEvent] = []
        for log in coming.order {
            let last = try store.log.lastSeq(of: log)
            let end = state.withLock { $0.damaged.waitsThrough(log) }
            coming.waitsThrough[log] = end
            let events = coming.byLog[log]!.filter { last < $0.seq && $0.seq <= end }
            if events.isEmpty { continue }
            if last > 0 {
                guard try Salts.hasAll(of: events, Self.seeds(store.log.secret(of: log))) else {
                    coming.kept.withoutSalts.append(log)
                    coming.skipped.insert(log)
                    continue
                }
            } else if events[0].seq == 1 {
                let secret = coming.notes[log]?.secret ?? []
                guard !secret.isEmpty, try Salts.hasAll(of: events, Self.seeds(secret)) else {
                    throw ReplicaError(.badPeer, "the first events of \(log) came without its secret")
                }
            }
            coming.kept.mended.append(log)
            waiting += events
        }
        if waiting.isEmpty { return }
        coming.kept.events += try state.withLock { try $0.damaged.wait(for: waiting, secrets: coming.notes.mapValues(\.secret)) }
        coming.kept.wishes += try settleDamage(coming.kept.mended)
    }

    /// Whether nothing is missing that was here before.
    package var isWhole: Bool { isWhole(in: .mine) }

    /// The same of the logs of a scope: of others the hub sends nothing.
    ///
    /// - Parameter unreadable: what the hub cannot read either.
    func isWhole(in scope: Scope, but unreadable: Set<LogID> = []) -> Bool { state.withLock { !$0.damaged.hasAny(in: scope, but: unreadable) } }

    /// Events of many logs on their way into the store.
    private struct Coming {
        var kept = Kept()
        /// Each log's, in the order in which the logs came first.
        private(set) var byLog: [LogID: [RecordedEvent]] = [:]
        private(set) var order: [LogID] = []
        private(set) var notes: [LogID: LogNote] = [:]
        /// Of logs that begin.
        var secrets: [LogID: [UInt8]] = [:]
        /// Logs of which nothing goes into the store.
        var skipped: Set<LogID> = []
        /// Up to which seq what comes of a log waits beside it.
        var waitsThrough: [LogID: Seq] = [:]
        /// Up to where the store holds each log.
        var held: [LogID: Seq] = [:]

        init(_ events: [RecordedEvent], _ notes: [LogNote]) {
            for event in events {
                if byLog[event.log] == nil { order.append(event.log) }
                byLog[event.log, default: []].append(event)
            }
            for note in notes { self.notes[note.log] = note }
        }
    }

    private func keep(_ events: [RecordedEvent], _ notes: [LogNote]) throws -> Kept {
        var coming = Coming(events, notes)
        coming.kept.headed = coming.order.filter { coming.notes[$0]?.head != nil }
        for log in coming.order {
            coming.held[log] = 0
            let came = coming.byLog[log]!
            guard came.allSatisfy({ 1...WireLimits.seqMax ~= $0.seq }) else { throw ReplicaError(.badPeer, "a seq of \(log) that no log reaches") }
            for (previous, event) in zip(came, came.dropFirst()) where event.seq != previous.seq + 1 {
                throw ReplicaError(.badPeer, "events of \(log) are out of order at seq \(event.seq)")
            }
        }
        try wait(for: &coming)
        for log in coming.order where try !coming.skipped.contains(log) && !fits(log, &coming) { coming.skipped.insert(log) }
        let taken = events.filter { $0.seq > coming.held[$0.log]! && !coming.skipped.contains($0.log) }
        coming.kept.events += taken.count
        state.withLock { state in
            if state.previews.isEmpty { return }
            for (log, came) in coming.byLog where !coming.skipped.contains(log) {
                coming.kept.events -= state.previews.count(of: max(came[0].seq, coming.held[log]! + 1)..<came[0].seq + Seq(came.count), in: log)
            }
        }
        if !taken.isEmpty { _ = try store.log.adoptBlocking(taken, secrets: coming.secrets) }
        state.withLock { $0.note(newest: taken.max { $0.hlc < $1.hlc }) }
        try settlePreviews(coming.order)
        coming.kept.wishes += try settleDamage(coming.order)
        try state.withLock { try confirmed(taken, &$0) }
        return coming.kept
    }

    /// Checks what came of a log against what is held of it and its head. Whether it goes into the store; what does not is put beside it, or asked for.
    private func fits(_ log: LogID, _ coming: inout Coming) throws -> Bool {
        let came = coming.byLog[log]!, note = coming.notes[log]
        let last = try store.log.lastSeq(of: log)
        coming.held[log] = last
        let waitsThrough = coming.waitsThrough[log] ?? 0
        let isWaiting = waitsThrough > last
        // A newest part may begin before that.
        let new = came.filter { $0.seq > (isWaiting && !state.withLock { $0.previews.has(log) } ? waitsThrough : last) }
        guard let first = new.first else {
            if let error = try contradiction(note?.head, log, last) { try self.note(error, log, heldSeq: last, &coming.kept) }
            if note?.head?.size == last { coming.kept.judged.append(log) }
            return false
        }
        guard first.seq == last + 1, !isWaiting else {
            if let head = note?.head, head.size != came.last?.seq { throw ReplicaError(.badPeer, "the head of \(log) is not that of its last event") }
            if try extendPart(of: log, with: new, note?.head, &coming.kept) {
                coming.kept.extended.append(log)
                // Of what lies below another part its head says nothing; below one that is all there is for this user nothing lies.
                if note?.head != nil, state.withLock({ $0.previews.lastSeqOfFirst(log) > 0 }) { coming.kept.judged.append(log) }
            } else if new.last!.seq > waitsThrough {
                coming.kept.holes.append(Kept.Hole(wish: try wish(for: log, heldSeq: last), lastSeq: new.last!.seq))
            }
            return false
        }
        var secret = note?.secret ?? []
        if last == 0 {
            guard !secret.isEmpty else { throw ReplicaError(.badPeer, "the first events of \(log) came without its secret") }
            coming.secrets[log] = secret
        } else {
            secret = try store.log.secret(of: log)
            guard try Salts.hasAll(of: new, Self.seeds(secret)) else {
                coming.kept.withoutSalts.append(log)
                return false
            }
        }
        if let head = note?.head {
            coming.kept.judged.append(log)
            if let error = try contradiction(head, log, heldSeq: last, new, secret) {
                try self.note(error, log, heldSeq: last, &coming.kept)
                return false
            }
            coming.kept.fitted.append(log)
        }
        coming.kept.grown[log] = last
        return true
    }

    private func take(_ base: BaseFrame, _ kept: inout Kept) throws {
        try state.withLock { state in try note(try state.previews.take(base, in: store), base.log, &state, &kept) }
    }

    private func note(_ taken: Previews.Taken, _ log: LogID, _ state: inout State, _ kept: inout Kept) throws {
        if let seqs = taken.missing {
            kept.bridges.append(Kept.Hole(wish: Fetch(log: log, from: seqs.lowerBound, through: seqs.upperBound), lastSeq: seqs.upperBound))
        }
        try confirmed(taken.shown, &state)
        showSuspects(of: log, state)
    }

    /// Of what was shown in a part's place something may be gone.
    private func showSuspects(of log: LogID, _ state: borrowing State) {
        if case .conversation(let id) = log, state.suspects.has(id) { show([id], state) }
    }

    /// Whether a log has a newest part that the events go on.
    private func extendPart(of log: LogID, with new: [RecordedEvent], _ head: LogHead?, _ kept: inout Kept) throws -> Bool {
        try state.withLock { state in
            let reach = state.previews.newestSeq(of: log)
            let known = state.previews.count(of: new[0].seq..<new[0].seq + Seq(new.count), in: log)
            guard let taken = try state.previews.extend(log, with: new, head: head, in: store) else { return false }
            // What it had by then was skipped, whatever it says.
            state.note(newest: new.filter { $0.seq > reach }.max { $0.hlc < $1.hlc })
            kept.events += new.count - known
            try note(taken, log, &state, &kept)
            return true
        }
    }

    /// What to ask for where events came without those before them, or the hub says how far a log goes: all that is missing, or, where only newest parts are wanted, such a part.
    func wish(for log: LogID, heldSeq: Seq) throws -> Fetch {
        // Of what is before the part of somebody who came later nothing is given; and another one would take the place of one that need only go on.
        let partSeq = state.withLock { max($0.previews.lastSeqOfFirst(log), $0.previews.settledSeq(of: log)) }
        if partSeq > heldSeq { return Fetch(log: log, from: partSeq + 1, through: 0) }
        guard heldSeq == 0, case .conversation = log, case .newest(_, let messages) = try savedScope() else {
            return Fetch(log: log, from: heldSeq + 1, through: 0)
        }
        return Fetch(log: log, from: 0, through: messages)
    }

    static func seeds(_ secret: [UInt8]) throws -> PuncturedSeeds {
        guard let seeds = PuncturedSeeds(secret: secret) else { throw ReplicaError(.badPeer, "a log's secret cannot be read") }
        return seeds
    }

    /// What must be asked for, as it was recorded where nothing comes by itself: where only newest parts are wanted, in a conversation that is none of those;
    /// and where the hub has known an event for long that a hub before it kept back, under a cursor that covers it.
    func wishes(for accepted: [Accepted]) throws -> [Kept.Hole] {
        let scope = try savedScope()
        return try accepted.compactMap { answer in
            guard answer.isDuplicate, answer.seq > 0, case .conversation = answer.log,
                state.withLock({ !$0.previews.has(answer.log) && Scope.covers(answer.log, $0.scopeNames) })
            else { return nil }
            let held = try store.log.lastSeq(of: answer.log)
            if case .newest(_, let messages) = scope, held == 0 {
                return Kept.Hole(wish: Fetch(log: answer.log, from: 0, through: messages), lastSeq: answer.seq)
            }
            return answer.seq > held ? Kept.Hole(wish: Fetch(log: answer.log, from: held + 1, through: 0), lastSeq: answer.seq) : nil
        }
    }

    /// How far a log goes here, in its own or in a newest part.
    func reach(of log: LogID) throws -> Seq { try max(store.log.lastSeq(of: log), state.withLock { $0.previews.reach(of: log) }) }

    var isComparing: Bool { state.withLock { $0.isComparing } }

    /// The hub is not to be blamed where what is held is doubtful itself, nor yet where the two are comparing what they have.
    private func note(_ contradiction: ReplicaError, _ log: LogID, heldSeq: Seq, _ kept: inout Kept) throws {
        if vouchedSeq(of: log) != nil { return kept.contradicted.append(log) }
        // Of other logs the hub is told nothing that it could say something else of.
        guard heldSeq > 0, state.withLock({ $0.isComparing && Scope.covers(log, $0.scopeNames) }) else { throw contradiction }
        kept.disputed[log] = contradiction
    }

    /// The events must lead from what is held to the head.
    private func contradiction(_ head: LogHead, _ log: LogID, heldSeq: Seq, _ events: [RecordedEvent], _ secret: [UInt8]) throws -> ReplicaError? {
        guard let last = events.last, head.size == last.seq else { throw ReplicaError(.badPeer, "the head of \(log) is not that of its last event") }
        let before = heldSeq == 0 ? CompactRange() : try heads.tree(of: log, through: heldSeq)
        guard let before else { throw EventLogError(.damaged, "\(store.log.path): the tree of \(log) at seq \(heldSeq) cannot be made") }
        let after = try HeadCache.extend(before, with: events, seeds: Self.seeds(secret))
        if after.root() == head.root { return nil }
        return ReplicaError(
            .forked,
            "the hub's head of \(log) at seq \(head.size) is \(head.root), but seq 1 to \(heldSeq) as held here and the events that came lead to \(after.root())"
        )
    }

    /// What is held already must agree with a head of the same size.
    private func contradiction(_ head: LogHead?, _ log: LogID, _ heldSeq: Seq) throws -> ReplicaError? {
        guard let head, head.size == heldSeq, let own = try heads.tree(of: log, through: heldSeq), own.root() != head.root else { return nil }
        return ReplicaError(.forked, "the hub's head of \(log) at seq \(heldSeq) is \(head.root), the one held here is \(own.root())")
    }
}
