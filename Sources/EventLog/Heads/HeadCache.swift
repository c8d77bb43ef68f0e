internal import Synchronization

/// The trees of a store's logs at any seq, each event hashed once: what a hub tells with the events that it sends, and checks what it is told by.
///
/// Safe to use from any thread. Keeps the logs that were asked for last.
package final class HeadCache: Sendable {
    /// The end of one log. `@unchecked Sendable`: touched only with its monitor's lock held.
    private final class Newest: @unchecked Sendable {
        /// The tree that the leaves follow, and the one that they lead to.
        var base = CompactRange()
        var tree = CompactRange()
        var leaves: ContiguousArray<Hash256> = []
        let hashing = Hashing()
    }

    /// What lies before that. Has a lock of its own: who asks for an old head, which may take long, holds up nobody who wants the newest.
    /// `@unchecked Sendable`: touched only with its monitor's lock held.
    private final class Past: @unchecked Sendable {
        var trees = PastTrees()
        let hashing = Hashing()
    }

    private struct Entry: Sendable {
        let newest = Monitor(Newest())
        let past = Monitor(Past())
    }

    /// Salts, and the secrets that they come from.
    private final class Hashing {
        var hasher: HasherBox?
        var ring: KeyRing.Version?
    }

    private final class HasherBox {
        var hasher: LeafHasher
        init(_ seeds: PuncturedSeeds) { hasher = LeafHasher(seeds) }
    }

    private struct Logs {
        var entries: [LogID: (entry: Entry, lastUse: UInt64)] = [:]
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
    /// From the archived seq on it costs what was not hashed before. An older one is hashed from the log's beginning the first time; later ones from a
    /// tree that was passed then, not more than a thirty-second of the log (or 1,024 events) away.
    package func tree(of log: LogID, through seq: Seq) throws -> CompactRange? {
        var effort = Effort()
        return try tree(of: log, through: seq, &effort)
    }

    /// The same, and adds the events that were hashed for it.
    package func tree(of log: LogID, through seq: Seq, _ effort: inout Effort) throws -> CompactRange? {
        if seq == 0 { return CompactRange() }
        let entry = entry(log)
        enum Place { case known(CompactRange?), older }
        let place = try entry.newest.withLock { newest -> Place in
            if seq > newest.tree.size { try advance(log, seq, newest, &effort) }
            if seq > newest.tree.size { return .known(nil) }
            if seq == newest.tree.size { return .known(newest.tree) }
            guard seq >= newest.base.size else { return .older }
            var tree = newest.base
            for leaf in newest.leaves[..<Int(seq - tree.size)] { tree.append(leaf) }
            return .known(tree)
        }
        guard case .known(let tree) = place else { return try entry.past.withLock { try older(log, seq, $0, &effort) } }
        return tree
    }

    private func older(_ log: LogID, _ seq: Seq, _ past: Past, _ effort: inout Effort) throws -> CompactRange? {
        var tree = past.trees.nearest(seq)
        if let archived = try places(log)?.tree, archived.size <= seq, archived.size > tree.size { tree = archived }
        try forEachLeaf(of: log, after: tree.size, through: seq, past.hashing, &effort) { leaf in
            tree.append(leaf)
            past.trees.note(tree)
        }
        return tree.size == seq ? tree : nil
    }

    private func entry(_ log: LogID) -> Entry {
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
            let entry = Entry()
            logs.entries[log] = (entry, logs.uses)
            return entry
        }
    }

    private func places(_ log: LogID) throws -> LogPlaces? {
        try store.archive.environment.read { [store] in try store.archive.places(log, $0) }
    }

    private func advance(_ log: LogID, _ seq: Seq, _ newest: Newest, _ effort: inout Effort) throws {
        // Beyond the journal's events of the log, the archive may be further than we are.
        let (_, tailFirst, positions) = store.tailPlaces(of: log)
        if positions.isEmpty || newest.tree.size + 1 < tailFirst, let archived = try places(log)?.tree, archived.size > newest.tree.size {
            // Asked for an older one first: the archived tree is where the next begins all the same.
            newest.base = archived
            newest.tree = archived
            newest.leaves = []
        }
        guard seq > newest.tree.size else { return }
        try forEachLeaf(of: log, after: newest.tree.size, through: seq, newest.hashing, &effort) { leaf in
            newest.tree.append(leaf)
            newest.leaves.append(leaf)
        }
        if newest.leaves.count > Self.leavesMax {
            let gone = newest.leaves.count - Self.leavesMax / 2
            for leaf in newest.leaves[..<gone] { newest.base.append(leaf) }
            newest.leaves.removeFirst(gone)
        }
    }

    private func forEachLeaf(
        of log: LogID, after size: Seq, through seq: Seq, _ hashing: Hashing, _ effort: inout Effort, _ body: (Hash256) -> Void
    ) throws {
        if size == seq { return }
        // Whatever was forgotten since, no hasher here may know it.
        let ring = store.keys.withLock { $0.ring.version }
        if hashing.ring !== ring {
            hashing.hasher = nil
            hashing.ring = ring
        }
        let box: HasherBox
        if let known = hashing.hasher {
            box = known
        } else {
            guard try store.writer.withLock({ try $0.number(of: log) }) != nil else { return }
            box = HasherBox(try store.seeds(of: log))
            hashing.hasher = box
        }
        try store.forEachCanonical(of: log, from: size + 1, through: seq) { seq, envelope, bytes, erased in
            guard let leaf = box.hasher.leaf(seq, envelope, bytes, erased) else {
                throw Archive.damaged(store.path, "the salt of log \(log) seq \(seq) is missing")
            }
            effort.events += 1
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
