extension Merkle {
    /// Whether a leaf hash stands at an index of the tree of `size` leaves with this root (RFC 9162, section 2.1.3.2).
    package static func verifyInclusion(index: UInt64, size: UInt64, leafHash: Hash256, proof: [Hash256], root: Hash256) -> Bool {
        guard index < size else { return false }
        var node = index
        var last = size - 1
        var hash = leafHash
        for sibling in proof {
            guard last != 0 else { return false }
            if node & 1 == 1 || node == last {
                hash = nodeHash(sibling, hash)
                while node & 1 == 0, node != 0 {
                    node >>= 1
                    last >>= 1
                }
            } else {
                hash = nodeHash(hash, sibling)
            }
            node >>= 1
            last >>= 1
        }
        return last == 0 && hash == root
    }

    /// Whether the tree of `size2` leaves with `root2` begins with the tree of `size1` leaves with `root1` (RFC 9162, section
    /// 2.1.4.2).
    ///
    /// Beyond the RFC: every tree begins with the empty one, given its root and no proof, and with itself.
    package static func verifyConsistency(size1: UInt64, size2: UInt64, proof: [Hash256], root1: Hash256, root2: Hash256) -> Bool {
        guard size1 <= size2 else { return false }
        if size1 == 0 { return proof.isEmpty && root1 == emptyRoot && (size2 > 0 || root2 == emptyRoot) }
        if size1 == size2 { return proof.isEmpty && root1 == root2 }
        guard let first = proof.first else { return false }
        // A perfect first tree is a subtree of the second: its root is where the path starts, and is left out of the proof.
        let isPerfect = size1.nonzeroBitCount == 1
        var hash1 = isPerfect ? root1 : first
        var hash2 = hash1
        var node = size1 - 1
        var last = size2 - 1
        while node & 1 == 1 {
            node >>= 1
            last >>= 1
        }
        for sibling in proof.dropFirst(isPerfect ? 0 : 1) {
            guard last != 0 else { return false }
            if node & 1 == 1 || node == last {
                hash1 = nodeHash(sibling, hash1)
                hash2 = nodeHash(sibling, hash2)
                while node & 1 == 0, node != 0 {
                    node >>= 1
                    last >>= 1
                }
            } else {
                hash2 = nodeHash(hash2, sibling)
            }
            node >>= 1
            last >>= 1
        }
        return last == 0 && hash1 == root1 && hash2 == root2
    }
}
