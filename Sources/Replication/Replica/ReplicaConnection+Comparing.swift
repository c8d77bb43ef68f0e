internal import ConversationStore
internal import EventLog

/// Comparing heads with the hub's.
extension ReplicaConnection {
    /// The hub's heads of logs of which it has something else than this replica, or of which this replica may lack something.
    func compare(_ frame: HeadsFrame) throws {
        var wishes: [Fetch] = []
        var probes: [HeadsFrame.Item] = []
        // Of logs that it was not asked about a hub has nothing to say.
        let names = scope.names
        // Of what it cannot read an honest one says nothing more.
        for item in frame.heads where Scope.covers(item.log, names) && !(frame.isProbe && unreadable[item.log] != nil) {
            let held = try comparison == nil && frame.isProbe ? replica.heldSeq(of: item.log) : replica.store.log.lastSeq(of: item.log)
            if !frame.isProbe {
                // Somebody's coming: what is held may end earlier.
                let size = item.head.size
                if let root = try held >= size ? replica.root(of: item.log, at: size) : replica.settledRoot(of: item.log, at: size), root != item.head.root {
                    // What came without a head is not held against the hub.
                    if held >= size, comparison == nil, let vouchedSeq = replica.vouchedSeq(of: item.log) {
                        try doubt(item, vouchedSeq: vouchedSeq)
                        continue
                    }
                    throw ReplicaError(.forked, "the hub's head of \(item.log) at seq \(size) is not the one held here")
                }
                let wish = try scope.isOfParts ? replica.wish(for: item.log, heldSeq: held) : Fetch(log: item.log, from: held + 1, through: 0)
                wishes.append(wish)
                // Of what goes on behind a page that is asked for the hub is told too: it waits for that.
                if wish.from == 0 { wishes.append(Fetch(log: item.log, from: item.head.size + 1, through: 0)) }
                continue
            }
            let vouchedSeq = comparison == nil ? replica.vouchedSeq(of: item.log) : nil
            guard comparison != nil || vouchedSeq != nil else { continue }
            guard item.head.size <= held else { throw ReplicaError(.badPeer, "a head of \(item.log) beyond what was asked for") }
            if let vouchedSeq {
                try doubt(item, vouchedSeq: vouchedSeq)
                continue
            }
            guard let comparison else { continue }
            switch comparison.take(item.log, heldSeq: held, size: item.head.size, isEqual: try isEqual(item)) {
            case .probe(let size):
                probes.append(HeadsFrame.Item(log: item.log, head: LogHead(size: size, root: try replica.root(of: item.log, at: size))))
            case .rewind, .nothing: break
            }
        }
        perform(session.fetch(wishes))
        if !probes.isEmpty { perform(session.compare(HeadsFrame(heads: probes, isProbe: true))) }
        try rewindIfCompared()
    }

    /// All logs at once: each rewinding writes the whole store anew.
    func rewindIfCompared() throws {
        guard let comparison, !comparison.isBusy else { return }
        if let error = comparison.contradiction { throw error }
        if comparison.rewinds.isEmpty {
            // What stands beside the logs is compared with what comes, and so is what is offered: a hub that was put forward again may have it.
            if holdsBack, !replica.hasOffers, try !replica.hasSuspects() { try sendAgain() }
            return
        }
        try replica.planRewind(comparison.rewinds)
        reopen()
    }

    /// Whether a hub's head is that of what is held.
    func isEqual(_ item: HeadsFrame.Item) throws -> Bool {
        try item.head.size == 0 || PlantedBug.skipHeadCheck.isPlanted || replica.root(of: item.log, at: item.head.size) == item.head.root
    }
}
