import EventLog
@testable import Replication
import Testing

@Suite("Frames of mutated bytes") struct FrameFuzzTests {
    /// SplitMix64: the same bytes from the same seed, everywhere.
    struct Randomness: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var z = state
            z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
            return z ^ z >> 31
        }
    }

    @Test("a known field of another wire type makes a message unreadable") func wireTypes() throws {
        for body: [UInt8] in [[1 << 3, 5], [1 << 3 | 5, 7, 0, 0, 0], [1 << 3 | 2, 1, 0]] {
            #expect(throws: FrameError.self) { _ = try Frame(decoding: FrameVectorTests.frame(12, body)) }
        }
        #expect(try Frame(decoding: FrameVectorTests.frame(12, [1 << 3 | 1, 5, 0, 0, 0, 0, 0, 0, 0])) == .ping(5))
        // Inside: of a FETCH's wish the field `from`, 3.
        let log: [UInt8] = [1 << 3 | 2, 16] + [UInt8](0..<16)
        for (from, isRead) in [([3 << 3, 1], true), ([3 << 3 | 1, 1, 0, 0, 0, 0, 0, 0, 0], false), ([3 << 3 | 2, 1, 0], false)] as [([UInt8], Bool)] {
            let wish = log + from
            let frame = FrameVectorTests.frame(8, [1 << 3 | 2, UInt8(wish.count)] + wish)
            #expect(((try? Frame(decoding: frame)) != nil) == isRead, "\(from)")
        }
    }

    @Test("nothing traps, and what is read is written and read again as the same", arguments: [1, 2, 3, 4] as [UInt64])
    func mutated(_ seed: UInt64) throws {
        var random = Randomness(state: seed)
        let samples = FrameSamples.all.map { $0.frame.encoded() }
        var read = 0
        for _ in 0..<5000 {
            var bytes = samples.randomElement(using: &random)!
            let number = bytes[0]
            for _ in 0...Int.random(in: 0..<2, using: &random) {
                let at = Int.random(in: 0...bytes.count, using: &random)
                switch Int.random(in: 0..<6, using: &random) {
                case 0 where at < bytes.count: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 1 where at < bytes.count: bytes[at] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &random)!
                case 2 where at < bytes.count: bytes.remove(at: at)
                case 3: bytes.insert(UInt8.random(in: 0...255, using: &random), at: at)
                case 4: bytes.removeLast(bytes.count - at)
                default: bytes.insert(contentsOf: samples.randomElement(using: &random)!.prefix(20), at: at)
                }
            }
            // Half of them with their length set right, so that what is inside is looked at.
            if number < 0x80, Bool.random(using: &random), bytes.count > 2 { bytes = FrameVectorTests.frame(number >> 3, Array(bytes[2...])) }
            guard let frame = try? Frame(decoding: bytes) else { continue }
            read += 1
            let again = frame.encoded()
            #expect(try Frame(decoding: again) == frame, "seed \(seed): \(hex(bytes))")
            #expect(again == (try Frame(decoding: again).encoded()), "seed \(seed): \(hex(bytes))")
        }
        #expect(read > 400)
    }
}
