import Foundation
import Testing

@testable import EventLog

@Suite("Merkle proofs") struct MerkleProofTests {
    private struct InclusionVector: Decodable {
        let name: String
        let leafIdx: UInt64
        let treeSize: UInt64
        let root: String
        let leafHash: String
        let proof: [String]?
        let wantErr: Bool
    }

    private struct ConsistencyVector: Decodable {
        let name: String
        let size1: UInt64
        let size2: UInt64
        let root1: String
        let root2: String
        let proof: [String]?
        let wantErr: Bool
    }

    private func vectors<Vector: Decodable>(_ name: String) throws -> [Vector] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fixtures/merkle")
        let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
        return try text.split(separator: "\n").map { try JSONDecoder().decode(Vector.self, from: Data($0.utf8)) }
    }

    /// `nil` if one of them is no hash at all.
    private func hashes(_ texts: [String]?) -> [Hash256]? {
        let hashes = (texts ?? []).map { Hash256(base64: $0) }
        return hashes.contains(nil) ? nil : hashes.compactMap { $0 }
    }

    @Test("transparency-dev's inclusion vectors")
    func inclusionVectors() throws {
        let vectors: [InclusionVector] = try vectors("inclusion.jsonl")
        #expect(vectors.count == 59)
        for vector in vectors {
            var accepted = false
            if let root = Hash256(base64: vector.root), let leaf = Hash256(base64: vector.leafHash), let proof = hashes(vector.proof) {
                accepted = Merkle.verifyInclusion(index: vector.leafIdx, size: vector.treeSize, leafHash: leaf, proof: proof, root: root)
            }
            #expect(accepted == !vector.wantErr, "\(vector.name)")
        }
    }

    @Test("transparency-dev's consistency vectors")
    func consistencyVectors() throws {
        let vectors: [ConsistencyVector] = try vectors("consistency.jsonl")
        #expect(vectors.count == 43)
        for vector in vectors {
            var accepted = false
            if let root1 = Hash256(base64: vector.root1), let root2 = Hash256(base64: vector.root2), let proof = hashes(vector.proof) {
                accepted = Merkle.verifyConsistency(size1: vector.size1, size2: vector.size2, proof: proof, root1: root1, root2: root2)
            }
            #expect(accepted == !vector.wantErr, "\(vector.name)")
        }
    }

    private static let leaves = (0..<70).map(CompactRangeTests.leaf)
    private static let roots = (0...70).map { CompactRangeTests.root(leaves[..<$0]) }

    private func prove(_ prover: MerkleProver, size: Int) -> [Hash256] {
        var prover = prover
        for leaf in Self.leaves[..<size] { prover.append(leaf) }
        #expect(prover.root == Self.roots[size])
        return prover.proof
    }

    /// Each way to damage a proof a little: a bit of a hash, a hash left out, doubled, added, two swapped.
    private func damaged(_ proof: [Hash256]) -> [[Hash256]] {
        var result: [[Hash256]] = [proof + [Hash256()]]
        for index in proof.indices {
            for byte in [0, 13, 31] {
                var bytes = proof[index].bytes
                bytes[byte] ^= 0x10
                var copy = proof
                copy[index] = Hash256(bytes: bytes)!
                result.append(copy)
            }
            var copy = proof
            copy.remove(at: index)
            result.append(copy)
            copy.insert(contentsOf: [proof[index], proof[index]], at: index)
            result.append(copy)
            if index > 0, proof[index] != proof[index - 1] {
                copy = proof
                copy.swapAt(index, index - 1)
                result.append(copy)
            }
        }
        return result
    }

    @Test("every leaf of every small tree is proved; no other leaf, index, size, root or proof passes")
    func inclusion() {
        for size in 1...70 {
            let root = Self.roots[size]
            for index in 0..<size {
                let proof = prove(MerkleProver(inclusionOf: UInt64(index), size: UInt64(size)), size: size)
                func passes(_ index: Int, _ size: Int, _ leaf: Hash256, _ proof: [Hash256], _ root: Hash256) -> Bool {
                    Merkle.verifyInclusion(
                        index: UInt64(bitPattern: Int64(index)), size: UInt64(size), leafHash: leaf, proof: proof, root: root)
                }
                let leaf = Self.leaves[index]
                #expect(passes(index, size, leaf, proof, root))
                #expect(proof.count <= Int(UInt64(size).bitWidth - UInt64(size - 1).leadingZeroBitCount))
                if size > 32, index % 5 != 0 { continue }
                for other in -1...size where other != index { #expect(!passes(other, size, leaf, proof, root)) }
                #expect(!passes(index, size, Self.roots[0], proof, root))
                #expect(!passes(index, size, leaf, proof, Self.roots[size - 1]))
                for proof in damaged(proof) { #expect(!passes(index, size, leaf, proof, root)) }
            }
        }
    }

    @Test("every small tree is proved to begin with every smaller; no other size, root or proof passes")
    func consistency() {
        for size2 in 0...70 {
            for size1 in 0...size2 {
                let proof = prove(MerkleProver(consistencyFrom: UInt64(size1), to: UInt64(size2)), size: size2)
                func passes(_ size1: Int, _ size2: Int, _ proof: [Hash256], _ root1: Hash256, _ root2: Hash256) -> Bool {
                    Merkle.verifyConsistency(size1: UInt64(size1), size2: UInt64(size2), proof: proof, root1: root1, root2: root2)
                }
                let (root1, root2) = (Self.roots[size1], Self.roots[size2])
                #expect(passes(size1, size2, proof, root1, root2))
                if size2 > 32, size1 % 5 != 0 { continue }
                for other in 0...size2 where other != size1 { #expect(!passes(other, size2, proof, root1, root2)) }
                for proof in damaged(proof) { #expect(!passes(size1, size2, proof, root1, root2)) }
                if size1 != size2 { #expect(!passes(size2, size1, proof, root2, root1)) }
                if size1 > 0 {
                    #expect(!passes(size1, size2, proof, root1, Hash256()))
                    #expect(!passes(size1, size2, proof, Hash256(), root2))
                }
            }
        }
    }

    @Test("the empty tree has only its own root")
    func empty() {
        #expect(!Merkle.verifyConsistency(size1: 0, size2: 5, proof: [], root1: Self.roots[1], root2: Self.roots[5]))
        #expect(!Merkle.verifyConsistency(size1: 0, size2: 0, proof: [], root1: Self.roots[0], root2: Self.roots[1]))
        #expect(!Merkle.verifyConsistency(size1: 0, size2: 5, proof: [Self.roots[5]], root1: Self.roots[0], root2: Self.roots[5]))
    }

    @Test("a proof of a tree with 2^63 leaves and more overflows nowhere")
    func huge() {
        let proof = [Hash256](repeating: Hash256(), count: 64)
        #expect(!Merkle.verifyInclusion(index: .max - 1, size: .max, leafHash: Hash256(), proof: proof, root: Hash256()))
        #expect(!Merkle.verifyConsistency(size1: .max - 1, size2: .max, proof: proof, root1: Hash256(), root2: Hash256()))
        #expect(!Merkle.verifyConsistency(size1: 1 << 63, size2: .max, proof: proof, root1: Hash256(), root2: Hash256()))
        #expect(MerkleProver.inclusionRanges(index: .max - 1, size: .max).count <= 64)
        #expect(MerkleProver.consistencyRanges(from: .max - 1, to: .max).count <= 64)
    }
}
