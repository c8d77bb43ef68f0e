/// The 64-bit hash of the xxHash specification (doc/xxhash_spec.md, 0.1.1): against accidents, not against an adversary.
package enum XXH64 {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        guard let start = bytes.baseAddress else { return finish(seed &+ prime5) }
        let end = start + bytes.count
        var next = start
        var hash: UInt64
        if bytes.count >= 32 {
            var lane1 = seed &+ prime1 &+ prime2
            var lane2 = seed &+ prime2
            var lane3 = seed
            var lane4 = seed &- prime1
            let last = end - 32
            repeat {
                lane1 = round(lane1, load(next))
                lane2 = round(lane2, load(next + 8))
                lane3 = round(lane3, load(next + 16))
                lane4 = round(lane4, load(next + 24))
                next += 32
            } while next <= last
            hash = rotate(lane1, 1) &+ rotate(lane2, 7) &+ rotate(lane3, 12) &+ rotate(lane4, 18)
            hash = merge(merge(merge(merge(hash, lane1), lane2), lane3), lane4)
        } else {
            hash = seed &+ prime5
        }
        hash &+= UInt64(bytes.count)
        while end - next >= 8 {
            hash = rotate(hash ^ round(0, load(next)), 27) &* prime1 &+ prime4
            next += 8
        }
        if end - next >= 4 {
            let word = UInt64(UInt32(littleEndian: next.loadUnaligned(as: UInt32.self)))
            hash = rotate(hash ^ (word &* prime1), 23) &* prime2 &+ prime3
            next += 4
        }
        while next < end {
            hash = rotate(hash ^ (UInt64(next.load(as: UInt8.self)) &* prime5), 11) &* prime1
            next += 1
        }
        return finish(hash)
    }

    /// Two parts, each where it lies: the first one's hash is the second one's seed. Not the hash of the two put together.
    package static func hash(first: UnsafeRawBufferPointer, second: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        hash(second, seed: hash(first, seed: seed))
    }

    @inline(__always)
    private static func load(_ address: UnsafeRawPointer) -> UInt64 { UInt64(littleEndian: address.loadUnaligned(as: UInt64.self)) }

    @inline(__always)
    private static func rotate(_ value: UInt64, _ bits: UInt64) -> UInt64 { value &<< bits | value &>> (64 &- bits) }

    @inline(__always)
    private static func round(_ lane: UInt64, _ input: UInt64) -> UInt64 { rotate(lane &+ input &* prime2, 31) &* prime1 }

    @inline(__always)
    private static func merge(_ hash: UInt64, _ lane: UInt64) -> UInt64 { (hash ^ round(0, lane)) &* prime1 &+ prime4 }

    private static func finish(_ hash: UInt64) -> UInt64 {
        var hash = hash
        hash ^= hash &>> 33
        hash &*= prime2
        hash ^= hash &>> 29
        hash &*= prime3
        return hash ^ (hash &>> 32)
    }
}
