/// A run's bytes in blocks, by which two stores find out where their copies of it differ.
package enum RunBlocks {
    package static let blockBytes = 4096
    /// Bytes of a block's check on the wire.
    package static let checkBytes = 8

    /// A check of each block, ascending: XXH64 with seed 0. The last block may be shorter.
    package static func checks(of bytes: [UInt8]) -> [UInt64] {
        bytes.withUnsafeBytes { bytes in
            starts(bytes.count).map { start in
                XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + blockBytes, bytes.count)]))
            }
        }
    }

    /// Whether a damaged run has a check for each of its blocks.
    package static func hasAllChecks(_ damaged: DamagedRun) -> Bool {
        damaged.checks.count == damaged.byteCount / blockBytes + (damaged.byteCount % blockBytes == 0 ? 0 : 1)
    }

    /// The blocks of which another copy has other checks; `nil`: it has not as many blocks.
    package static func blocks(of bytes: [UInt8], unlike checks: [UInt64]) -> [RunBlock]? {
        let own = Self.checks(of: bytes)
        guard own.count == checks.count else { return nil }
        return own.indices.filter { own[$0] != checks[$0] }.map { number in
            let start = number * blockBytes
            return RunBlock(number: number, bytes: Array(bytes[start..<min(start + blockBytes, bytes.count)]))
        }
    }

    /// Puts blocks in their places. Answers whether each was one of these bytes'.
    package static func put(_ blocks: [RunBlock], into bytes: inout [UInt8]) -> Bool {
        for block in blocks {
            guard 0..<(bytes.count + blockBytes - 1) / blockBytes ~= block.number else { return false }
            let start = block.number * blockBytes
            guard block.bytes.count == min(blockBytes, bytes.count - start) else { return false }
            bytes.replaceSubrange(start..<start + block.bytes.count, with: block.bytes)
        }
        return true
    }

    private static func starts(_ count: Int) -> StrideTo<Int> { stride(from: 0, to: count, by: blockBytes) }
}

/// One block of a run as it should be.
package struct RunBlock: Hashable, Sendable {
    package var number: Int
    package var bytes: [UInt8]

    package init(number: Int, bytes: [UInt8]) {
        self.number = number
        self.bytes = bytes
    }
}

/// A run of which bytes are damaged: what another store must know to tell what they should be.
package struct DamagedRun: Hashable, Sendable {
    /// A log of which it holds events, and the first of those: by this another store finds the run.
    package var log: LogID
    package var seq: Seq
    /// Where the run begins in the store that asks: all its checksums rest on that.
    package var position: Position
    package var byteCount: Int
    /// Of its blocks as they are now.
    package var checks: [UInt64]
    /// All its events, in their order: another store that holds no such run encodes it from these. Empty: not told.
    package var spans: [EventSpan]

    package init(log: LogID, seq: Seq, position: Position, byteCount: Int, checks: [UInt64], spans: [EventSpan] = []) {
        self.log = log
        self.seq = seq
        self.position = position
        self.byteCount = byteCount
        self.checks = checks
        self.spans = spans
    }
}
