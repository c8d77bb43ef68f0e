import CZstd
import Testing

@testable import EventLog

@Suite("XXH64") struct XXH64Tests {
    /// The input of the vectors in xxHash's own tests: the high byte of a number that is multiplied on and on.
    private static func sanityInput(_ count: Int) -> [UInt8] {
        var generator: UInt64 = 2_654_435_761
        return (0..<count).map { _ in
            defer { generator &*= 11_400_714_785_074_694_797 }
            return UInt8(generator >> 56)
        }
    }

    private static func hash(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 { bytes.withUnsafeBytes { XXH64.hash($0, seed: seed) } }

    @Test(
        "xxHash's published vectors",
        arguments: [
            (0, 0, 0xEF46_DB37_51D8_E999), (0, 2_654_435_761, 0xAC75_FDA2_929B_17EF), (1, 0, 0xE934_A84A_DB05_2768),
            (1, 2_654_435_761, 0x5014_6076_43A9_B4C3), (4, 0, 0x9136_A0DC_A574_57EE), (14, 0, 0x8282_DCC4_994E_35C8),
            (14, 2_654_435_761, 0xC3BD_6BF6_3DEB_6DF0), (222, 0, 0xB641_AE8C_B691_C174), (222, 2_654_435_761, 0x20CB_8AB7_AE10_C14A),
        ] as [(Int, UInt64, UInt64)]
    )
    func vectors(_ count: Int, _ seed: UInt64, _ expected: UInt64) {
        #expect(Self.hash(Self.sanityInput(count), seed: seed) == expected)
    }

    @Test("text whose hash is widely known")
    func text() {
        #expect(Self.hash(Array("xxhash".utf8)) == 0x32DD_3895_2C4B_C720)
        #expect(Self.hash(Array("a".utf8)) == 0xD24E_C4F1_A98C_6E5B)
        #expect(Self.hash(Array("abc".utf8)) == 0x44BC_2CF5_AD77_0999)
    }

    @Test("libzstd's content checksum is its low half")
    func zstd() throws {
        let input = Self.sanityInput(300_001)
        for count in Array(0...300) + [1_000, 4_095, 65_536, 300_000] {
            for start in 0...(count % 2) {  // Also unaligned.
                let bytes = Array(input[start..<(start + count)])
                let slice = input.withUnsafeBytes { XXH64.hash(UnsafeRawBufferPointer(rebasing: $0[start..<(start + count)])) }
                #expect(slice == Self.hash(bytes))
                #expect(UInt32(truncatingIfNeeded: slice) == Self.zstdChecksum(bytes), "\(count) bytes")
            }
        }
    }

    @Test("two parts are neither their concatenation nor each other's exchange")
    func twoParts() {
        let input = Self.sanityInput(100)
        input.withUnsafeBytes { bytes in
            let first = UnsafeRawBufferPointer(rebasing: bytes[..<40])
            let second = UnsafeRawBufferPointer(rebasing: bytes[40...])
            let both = XXH64.hash(first: first, second: second)
            #expect(both == XXH64.hash(second, seed: XXH64.hash(first)))
            #expect(both != XXH64.hash(bytes))
            #expect(both != XXH64.hash(first: second, second: first))
        }
    }

    private static func zstdChecksum(_ bytes: [UInt8]) -> UInt32 {
        let context = ZSTD_createCCtx()
        defer { ZSTD_freeCCtx(context) }
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)
        var frame = [UInt8](repeating: 0, count: ZSTD_compressBound(bytes.count))
        let count = ZSTD_compress2(context, &frame, frame.count, bytes, bytes.count)
        return frame[(count - 4)..<count].reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
}
