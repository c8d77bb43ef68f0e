/// Proves that a store's log of heads only grew, for each peer that comes, without reading the log for each.
///
/// Keeps the hashes of its tree from subtrees of 256 entries up: half a byte an entry. Entries are immutable, so what was read once stays true; what a newer
/// checkpoint added is read when it is first asked for. A proof then reads at most 512 entries.
///
/// Safe to use from any thread.
package final class HeadsLogProver: Sendable {
    private let store: EventStore
    /// `levels[k][i]`: the root over the 2^(8 + k) entries from i · 2^(8 + k) on.
    private let levels = Monitor<[[Hash256]]>([[]])

    private static let blockEntries: UInt64 = 256

    package init(store: EventStore) { self.store = store }

    /// The store's last checkpoint, as it was signed and opened; `nil` if none was made. A newer one may be signed at any time: what is said of a log of heads
    /// must all be of one.
    package func newest() throws -> (note: String, checkpoint: Checkpoint)? {
        guard let note = try store.checkpoint() else { return nil }
        return (note, try CheckpointReader.shared.open(note, key: store.verifier))
    }

    /// That the log of heads as a checkpoint of this store signed it begins with its first `size` entries; empty if it has fewer, or just as many.
    ///
    /// - Throws: `EventLogError` with code `damaged`: the entries do not give the signed root.
    package func consistency(from size: UInt64, to signed: Checkpoint) throws -> [Hash256] {
        guard size < signed.size else { return [] }
        return try levels.withLock { levels in
            try extend(&levels, to: signed)
            return try MerkleProver.consistencyRanges(from: size, to: signed.size).map { try root($0, levels) }
        }
    }

    /// The root of its first `size` entries, at least one; `nil` if the checkpoint signed fewer.
    ///
    /// - Throws: `EventLogError` with code `damaged`: the entries do not give the signed root.
    package func root(at size: UInt64, in signed: Checkpoint) throws -> Hash256? {
        if size >= signed.size { return size == signed.size ? signed.root : nil }
        return try levels.withLock { levels in
            try extend(&levels, to: signed)
            return try root(0..<size, levels)
        }
    }

    private func extend(_ levels: inout [[Hash256]], to signed: Checkpoint) throws {
        try extend(&levels, to: signed.size)
        guard try root(0..<signed.size, levels) == signed.root else {
            throw Archive.damaged(store.path, "the log of heads does not give the checkpoint's root (I6)")
        }
    }

    private func extend(_ levels: inout [[Hash256]], to size: UInt64) throws {
        while UInt64(levels[0].count + 1) * Self.blockEntries <= size {
            let first = UInt64(levels[0].count) * Self.blockEntries
            var hash = try block(first..<first + Self.blockEntries)
            var level = 0
            while true {
                levels[level].append(hash)
                guard levels[level].count.isMultiple(of: 2) else { break }
                hash = Merkle.nodeHash(levels[level][levels[level].count - 2], hash)
                level += 1
                if level == levels.count { levels.append([]) }
            }
        }
    }

    /// The root over entries that are a subtree of RFC 6962's recursion.
    private func root(_ range: Range<UInt64>, _ levels: [[Hash256]]) throws -> Hash256 {
        let count = range.upperBound - range.lowerBound
        if count.nonzeroBitCount == 1, count >= Self.blockEntries {
            let level = count.trailingZeroBitCount - Self.blockEntries.trailingZeroBitCount
            if level < levels.count, range.lowerBound / count < UInt64(levels[level].count) { return levels[level][Int(range.lowerBound / count)] }
        }
        if count <= Self.blockEntries { return try block(range) }
        let middle = range.lowerBound + Merkle.split(count)
        return Merkle.nodeHash(try root(range.lowerBound..<middle, levels), try root(middle..<range.upperBound, levels))
    }

    private func block(_ range: Range<UInt64>) throws -> Hash256 {
        var tree = CompactRange(begin: range.lowerBound)
        try store.forEachHeadsEntry(from: range.lowerBound, through: range.upperBound) { _, leaf in tree.append(leaf) }
        return tree.subtreeRoot
    }
}
