import Crypto
import StoreTesting
import Testing

@testable import EventLog

@Suite("SHA-256") struct SHA256HasherTests {
    /// FIPS 180-2, appendix B, and NIST's example of a million letters.
    @Test(
        "the standard's examples",
        arguments: [
            ("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
            ("a", 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ])
    func examples(piece: String, count: Int, digest: String) {
        var hasher = SHA256Hasher()
        let bytes = Array(piece.utf8)
        for _ in 0..<count { bytes.withUnsafeBytes { hasher.update($0) } }
        #expect(hasher.finalize().hex == digest)
    }

    @Test("equals swift-crypto's at every length around blocks, in pieces of any size")
    func differential() {
        var random = SeededGenerator(seed: 1)
        for length in 0...260 {
            let bytes = (0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            let expected = Array(SHA256.hash(data: bytes))
            #expect(bytes.withUnsafeBytes { Hash256.of($0) }.bytes == expected)
            var hasher = SHA256Hasher()
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 0...80, using: &random))
                rest = rest.dropFirst(piece.count)
                if piece.count == 1 { hasher.update(piece.first!) } else { piece.withUnsafeBytes { hasher.update($0) } }
            }
            #expect(hasher.finalize().bytes == expected)
        }
    }

    @Test("equals swift-crypto's of what trees hash, at every length around blocks and around what is copied together")
    func trees() {
        var random = SeededGenerator(seed: 2)
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) } }
        let (left, right) = (Hash256(bytes: bytes(32))!, Hash256(bytes: bytes(32))!)
        #expect(SHA256Hasher.digest(7, left).bytes == Array(SHA256.hash(data: [7] + left.bytes)))
        #expect(Merkle.nodeHash(left, right).bytes == Array(SHA256.hash(data: [1] + left.bytes + right.bytes)))
        for length in [Int](0...400) + [4096, 70_000] {
            let entry = bytes(length)
            #expect(Merkle.leafHash(entry).bytes == Array(SHA256.hash(data: [0] + entry)))
            entry.withUnsafeBytes { entry in
                #expect(Merkle.bodyCommitment(salt: left, body: entry).bytes == Array(SHA256.hash(data: left.bytes + Array(entry))))
                #expect(Merkle.eventLeaf(envelope: entry, commitment: right).bytes == Array(SHA256.hash(data: [0] + Array(entry) + right.bytes)))
            }
        }
    }
}
