/// Changes valid bytes a little, the same for the same seed: what a decoder must stand.
package struct Mutation: Sendable {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }

    private mutating func next(_ count: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return Int(truncatingIfNeeded: (value ^ value >> 31) >> 1) % count
    }

    /// One to four changes: a flipped bit, another byte, the greatest varint in a byte's place, a byte more or less, the end cut off.
    package mutating func of(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0...next(4) where !bytes.isEmpty {
            let place = next(bytes.count)
            switch next(7) {
            case 0, 1: bytes[place] ^= 1 << UInt8(next(8))
            case 2: bytes[place] = UInt8(next(256))
            case 3: bytes.replaceSubrange(place...place, with: [UInt8](repeating: 0xFF, count: 9) + [1])
            case 4: bytes.replaceSubrange(place...place, with: [UInt8](repeating: 0xFF, count: next(8) + 1) + [0x7F])
            case 5: if next(2) == 0 { bytes.remove(at: place) } else { bytes.insert(UInt8(next(256)), at: place) }
            default: if next(8) == 0 { bytes.removeLast(bytes.count - place) }
            }
        }
        return bytes
    }
}
