internal import ConversationStore
internal import Replication

/// What a device's application asks its hub for.
extension DeviceNode {
    /// Asks for something else, from the next session on.
    func ask(for scope: Scope) {
        if scope == self.scope { return }
        world.log("\(name): asks for \(scope)")
        self.scope = scope
        enter { _ in connection?.end() }
    }

    /// Fetches what is missing below something that it shows.
    func fillSome(_ replica: Replica) {
        guard let hole = replica.holes.sorted(by: { $0.log < $1.log }).first else { return }
        connection?.fill(hole.log)
    }

    /// Erases a body of its own copy, for ever.
    func eraseSome(_ replica: Replica) throws {
        let logs = try simulation.hub.history.ends(for: user).keys.sorted().filter { try replica.store.log.lastSeq(of: $0) > 0 }
        if logs.isEmpty { return }
        let log = world.random.element(logs)
        let seq = 1 + Seq(world.random.below(Int(try replica.store.log.lastSeq(of: log))))
        guard let event = try replica.store.log.event(in: log, at: seq) else { return }
        // Before it is done: a crash may come behind it.
        erased[log, default: []].insert(seq)
        release(event.event)
        world.log("\(name): erases \(log) \(seq)")
        do {
            try replica.store.log.erase(log: log, seq: seq)
        } catch let error as EventLogError where error.code == .invalidArgument {
            world.log("\(name): not erased: \(error)")
        }
    }

    func covers(_ log: LogID) -> Bool {
        guard case .conversation(let id) = log, case .conversations(let ids) = scope else { return true }
        return ids.contains(id)
    }

    /// Whether it must hold all of a log that its user may see, and not only the newest part.
    func wantsWhole(_ log: LogID) -> Bool {
        if case .conversation = log, case .newest = scope { return false }
        return covers(log)
    }

    /// Logs of which it does not hold what it asked for.
    func lacking(_ replica: Replica) -> [String] {
        var lacking: [String] = []
        forEachLack(replica) { log, held, part, end in
            lacking.append("\(log) at \(held), its newest part at \(part?.lastSeq ?? 0), of \(end), asked at \(asked)")
            return true
        }
        return lacking
    }

    func isLacking(_ replica: Replica) -> Bool {
        var isLacking = false
        forEachLack(replica) { _, _, _, _ in
            isLacking = true
            return false
        }
        return isLacking
    }

    /// Visits the logs of which it does not hold what it asked for, until the closure says false.
    private func forEachLack(_ replica: Replica, _ body: (LogID, _ held: Seq, Replica.Part?, _ end: Seq) -> Bool) {
        let parts = Dictionary(uniqueKeysWithValues: replica.parts.map { ($0.log, $0) })
        simulation.hub.history.forEachEnd(for: user) { log, end in
            let held = (try? replica.store.log.lastSeq(of: log)) ?? 0
            let part = parts[log]
            let last = max(held, part?.lastSeq ?? 0)
            let isEnough: Bool
            if wantsWhole(log) {
                isEnough = last == end && (held == end || part?.isFirst ?? false)
            } else if covers(log) {
                // Of what it holds all that followed, and all that followed since it asked.
                isEnough = last == end || last == 0 && !simulation.hub.history.stands(log, end, behind: asked)
            } else {
                isEnough = true
            }
            return isEnough || body(log, held, part, end)
        }
    }
}
