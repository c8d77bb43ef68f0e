internal import Synchronization

/// The trees of a store's logs at any seq, each event hashed once: what a hub tells with the events that it sends, and checks what it is told by.
///
/// Safe to use from any thread. Keeps the logs that were asked for last.
package final class HeadCache: Sendable {
    /// One log's. `@unchecked Sendable`: touched only with its monitor's lock held.
    private final class Entry: @unchecked Sendable {
        /// The tree that the leaves follow, and the one that they lead to.
        var base = CompactRange()
        var newest = CompactRange()
        var leaves: ContiguousArray<Hash256> = []
        /// A tree before `base`, from which the next older one asked for may go on.
        var past = CompactRange()
        /// Salts of `newest` and of `past`, and the secrets that they come from.
        var newestHasher: HasherBox?
        var pastHasher: HasherBox?
        var ring: KeyRing.Version?
    }

    private final class HasherBox {
        var hasher: LeafHasher
        init(_ seeds: PuncturedSeeds) { hasher = LeafHasher(seeds) }
    }

    private struct Logs {
        var entries: [LogID: (entry: Monitor<Entry>, lastUse: UInt64)] = [:]
        var uses: UInt64 = 0
    }

    private let store: EventStore
    private let logsMax: Int
    private let logs = Monitor(Logs())
    /// Leaves kept of a log: older trees are hashed anew.
    private static let leavesMax = 1024

    package init(store: EventStore, logsMax: Int = 1024) {
        self.store = store
        self.logsMax = max(logsMax, 1)
    }

    /// The tree over a log's first `seq` events; `nil` if it has fewer that are visible.
    ///
    /// From the archived seq on it costs what was not hashed before; an older one is hashed from the log's beginning, or from the last older one.
    package func tree(of log: LogID, through seq: Seq) throws -> CompactRange? {
        if seq == 0 { return CompactRange() }
        return try entry(log).withLock { entry in try tree(log, seq, entry) }
    }

    private func entry(_ log: LogID) -> Monitor<Entry> {
        logs.withLock { logs in
            logs.uses += 1
            if let known = logs.entries[log] {
                logs.entries[log]!.lastUse = logs.uses
                return known.entry
            }
            if logs.entries.count >= logsMax {
                // An eighth at a time, so that looking for the oldest is paid for by many.
                let oldest = logs.entries.map { ($0.value.lastUse, $0.key) }.sorted { $0.0 < $1.0 }.prefix(logsMax / 8 + 1)
                for (_, log) in oldest { logs.entries[log] = nil }
            }
            let entry = Monitor(Entry())
            logs.entries[log] = (entry, logs.uses)
            return entry
        }
    }

    private func tree(_ log: LogID, _ seq: Seq, _ entry: Entry) throws -> CompactRange? {
        // Whatever was forgotten since, no hasher here may know it.
        let ring = store.keys.withLock { $0.ring.version }
        if entry.ring !== ring {
            entry.newestHasher = nil
            entry.pastHasher = nil
            entry.ring = ring
        }
        if seq > entry.newest.size { try advance(log, seq, entry) }
        if seq > entry.newest.size { return nil }
        if seq == entry.newest.size { return entry.newest }
        if seq >= entry.base.size {
            var tree = entry.base
            for leaf in entry.leaves[..<Int(seq - tree.size)] { tree.append(leaf) }
            return tree
        }
        if entry.past.size > seq {
            entry.past = CompactRange()
            entry.pastHasher = nil
        }
        if let row = try row(log), row.tree.size <= seq, row.tree.size > entry.past.size {
            entry.past = row.tree
        }
        var past = entry.past
        try forEachLeaf(of: log, after: past.size, through: seq, &entry.pastHasher) { past.append($0) }
        entry.past = past
        return past.size == seq ? past : nil
    }

    private func row(_ log: LogID) throws -> LogRow? {
        try store.archive.environment.read { [store] in try store.archive.row(log, $0) }
    }

    private func advance(_ log: LogID, _ seq: Seq, _ entry: Entry) throws {
        // Beyond the journal's events of the log, its row may be further than we are.
        let (_, tailFirst, positions) = store.tailPlaces(of: log)
        if positions.isEmpty || entry.newest.size + 1 < tailFirst, let row = try row(log), row.tree.size > entry.newest.size {
            // Asked for an older one first: the archived tree is where the next begins all the same.
            entry.base = row.tree
            entry.newest = row.tree
            entry.leaves = []
        }
        guard seq > entry.newest.size else { return }
        try forEachLeaf(of: log, after: entry.newest.size, through: seq, &entry.newestHasher) { leaf in
            entry.newest.append(leaf)
            entry.leaves.append(leaf)
        }
        if entry.leaves.count > Self.leavesMax {
            let gone = entry.leaves.count - Self.leavesMax / 2
            for leaf in entry.leaves[..<gone] { entry.base.append(leaf) }
            entry.leaves.removeFirst(gone)
        }
    }

    private func forEachLeaf(
        of log: LogID, after size: Seq, through seq: Seq, _ hasher: inout HasherBox?, _ body: (Hash256) -> Void
    ) throws {
        if size == seq { return }
        let box: HasherBox
        if let known = hasher {
            box = known
        } else {
            guard try store.writer.withLock({ try $0.number(of: log) }) != nil else { return }
            box = HasherBox(try store.seeds(of: log))
            hasher = box
        }
        try store.forEachCanonical(of: log, from: size + 1, through: seq) { seq, envelope, bytes, erased in
            guard let leaf = box.hasher.leaf(seq, envelope, bytes, erased) else {
                throw Archive.damaged(store.path, "the salt of log \(log) seq \(seq) is missing")
            }
            body(leaf)
        }
    }

    /// The tree with further events of its log, as they would be hashed once they are kept: so that a replica can compare the root before.
    ///
    /// - Throws: `EventLogError` with code `invalidArgument`: the events do not follow the tree, or one comes with a body whose salt was forgotten.
    package static func extend(_ tree: CompactRange, with events: [RecordedEvent], seeds: PuncturedSeeds) throws -> CompactRange {
        var tree = tree
        var hasher = LeafHasher(seeds)
        for event in events {
            guard tree.begin == 0, event.seq == tree.size + 1 else {
                throw EventLogError(.invalidArgument, "log \(event.log): seq \(event.seq) cannot follow a tree of \(tree.size) events (I2)")
            }
            guard event.isErased == (event.commitment != nil), let leaf = hasher.leaf(event) else {
                throw EventLogError(.invalidArgument, "log \(event.log) seq \(event.seq): neither a salt nor a commitment is there for its body (I6)")
            }
            tree.append(leaf)
        }
        return tree
    }
}
