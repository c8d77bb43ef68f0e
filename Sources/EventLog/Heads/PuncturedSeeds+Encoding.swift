/// The bytes of a set: the spine's depth (1 byte) and seed (32), then for each subtree in the order of its leaves its level (1), its
/// number (8, big-endian) and its seed (32). The whole tree is 33 bytes. One set of forgotten leaves has one encoding.
extension PuncturedSeeds {
    private static let spineBytes = 33
    private static let subtreeBytes = 41

    var encodedBytes: Int { Self.spineBytes + subtrees.count * Self.subtreeBytes }

    package var encoded: [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(encodedBytes)
        result.append(UInt8(spine.depth))
        spine.seed.withUnsafeBytes { result.append(contentsOf: $0) }
        for subtree in subtrees {
            result.append(UInt8(subtree.level))
            withUnsafeBytes(of: subtree.number.bigEndian) { result.append(contentsOf: $0) }
            subtree.seed.withUnsafeBytes { result.append(contentsOf: $0) }
        }
        return result
    }

    package init?(encoded: [UInt8]) {
        let seeds = encoded.withUnsafeBytes { Self(encoded: $0) }
        guard let seeds else { return nil }
        self = seeds
    }

    /// `nil` for bytes that `encoded` cannot have given (as far as structure shows it: a seed's value cannot be wrong).
    package init?(encoded: UnsafeRawBufferPointer) {
        guard encoded.count >= Self.spineBytes, (encoded.count - Self.spineBytes) % Self.subtreeBytes == 0 else { return nil }
        guard encoded[0] <= 64, let seed = Hash256(UnsafeRawBufferPointer(rebasing: encoded[1..<Self.spineBytes])) else { return nil }
        var subtrees: [Subtree] = []
        subtrees.reserveCapacity((encoded.count - Self.spineBytes) / Self.subtreeBytes)
        for start in stride(from: Self.spineBytes, to: encoded.count, by: Self.subtreeBytes) {
            let level = Int(encoded[start])
            let number = UInt64(bigEndian: encoded.loadUnaligned(fromByteOffset: start + 1, as: UInt64.self))
            guard number > 0, level <= number.leadingZeroBitCount,
                let seed = Hash256(UnsafeRawBufferPointer(rebasing: encoded[start + 9..<start + Self.subtreeBytes]))
            else { return nil }
            subtrees.append(Subtree(level: level, number: number, seed: seed))
        }
        self.init(spine: Spine(depth: Int(encoded[0]), seed: seed), subtrees: subtrees)
        guard isCanonical else { return nil }
    }

    /// What a log's secret says (``EventStore/secret(of:)``): a root, or a set of seeds; `nil` for other bytes.
    package init?(secret: [UInt8]) {
        if secret.count == Hash256.byteCount, let root = Hash256(bytes: secret) { self.init(root: root) } else { self.init(encoded: secret) }
    }

    /// Ordered, disjoint, below the spine, and no two halves of what would be one whole subtree.
    var isCanonical: Bool {
        var previous: Subtree?
        for subtree in subtrees {
            guard 63 - subtree.number.leadingZeroBitCount + subtree.level < spine.depth else { return false }
            if let previous {
                guard previous.last < subtree.first else { return false }
                if previous.level == subtree.level, previous.number ^ 1 == subtree.number { return false }
            }
            previous = subtree
        }
        if let previous, previous.number == 1, previous.level == spine.depth - 1 { return false }
        return true
    }
}
