import Testing

@testable import EventLog

@Suite("Compact range") struct CompactRangeTests {
    /// The leaves and roots of sizes 0 to 8 in Certificate Transparency's own tests (certificate-transparency, merkle tests).
    static let entries = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    static let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ]

    static func leaf(_ index: UInt64) -> Hash256 {
        withUnsafeBytes(of: index.bigEndian) { Merkle.leafHash($0) }
    }

    /// RFC 6962's own recursive definition.
    static func root(_ leaves: ArraySlice<Hash256>) -> Hash256 {
        if leaves.isEmpty { return Merkle.emptyRoot }
        if leaves.count == 1 { return leaves.first! }
        let half = leaves.startIndex + Int(Merkle.split(UInt64(leaves.count)))
        return Merkle.nodeHash(root(leaves[..<half]), root(leaves[half...]))
    }

    @Test("the roots of Certificate Transparency's own vectors")
    func vectors() throws {
        var range = CompactRange()
        #expect(range.root().hex == Self.roots[0])
        for (entry, root) in zip(Self.entries, Self.roots.dropFirst()) {
            range.append(Merkle.leafHash(try #require(Hex.decode(entry))))
            #expect(range.root().hex == root)
        }
    }

    @Test("the root is RFC 6962's at every size, over as many hashes as the size has ones")
    func everySize() {
        let leaves = (0..<300).map(Self.leaf)
        var range = CompactRange()
        for size in 0...300 {
            #expect(range.root() == Self.root(leaves[..<size]))
            #expect(range.hashes.count == size.nonzeroBitCount)
            #expect(CompactRange(end: UInt64(size), encoded: range.encoded) == range)
            #expect(CompactRange(end: UInt64(size), encoded: range.encoded + [0]) == nil)
            #expect(size == 0 || CompactRange(end: UInt64(size), encoded: range.encoded.dropLast()) == nil)
            if size < 300 { range.append(leaves[size]) }
        }
    }

    @Test("ranges that touch join to the range over both")
    func join() {
        let leaves = (0..<70).map(Self.leaf)
        func range(_ begin: Int, _ end: Int) -> CompactRange {
            var result = CompactRange(begin: UInt64(begin))
            for index in begin..<end { result.append(leaves[index]) }
            return result
        }
        for begin in stride(from: 0, to: 70, by: 3) {
            for end in begin...70 {
                let expected = range(begin, end)
                #expect(expected.hashes.count == CompactRange.levels(begin: UInt64(begin), end: UInt64(end)).count)
                for middle in stride(from: begin, through: end, by: 7) {
                    var joined = range(begin, middle)
                    joined.append(range(middle, end))
                    #expect(joined == expected)
                }
            }
        }
    }

    @Test("an event's leaf is a hash of the envelope and the body's commitment, of any size", arguments: [0, 1, 63, 991, 992, 993, 5000])
    func eventLeaf(_ count: Int) {
        let envelope = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let salt = Self.leaf(7)
        let commitment = envelope.withUnsafeBytes { Merkle.bodyCommitment(salt: salt, body: $0) }
        #expect(commitment == (salt.bytes + envelope).withUnsafeBytes { Hash256.of($0) })
        let leaf = envelope.withUnsafeBytes { Merkle.eventLeaf(envelope: $0, commitment: commitment) }
        #expect(leaf == ([0] + envelope + commitment.bytes).withUnsafeBytes { Hash256.of($0) })
        #expect(leaf == Merkle.leafHash(envelope + commitment.bytes))
    }
}

@Suite("Hash forms") struct Hash256Tests {
    @Test("base64 and hexadecimal come back equal")
    func forms() {
        for index in 0..<200 as Range<UInt64> {
            let hash = CompactRangeTests.leaf(index)
            #expect(Hash256(base64: hash.base64) == hash)
            #expect(Hash256(hex: hash.hex) == hash)
            #expect(Hash256(bytes: hash.bytes) == hash)
        }
        #expect(Hash256(bytes: [1, 2]) == nil)
        #expect(Hash256(base64: "") == nil)
        #expect(Hash256(hex: "zz") == nil)
    }

    @Test(
        "RFC 4648's vectors",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
        ])
    func vectors(_ plain: String, _ encoded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
    }

    @Test(
        "loose base64 is refused",
        arguments: ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==\n", "Zg==Zg==", "====", "Z===", "Zm 8=", "Zm-8", "Zm8=A", "=AAA"])
    func loose(_ text: String) {
        #expect(Base64.decode(text) == nil)
    }
}
