import Testing

@testable import EventLog

@Suite("Proof files") struct ProofFileTests {
    /// A log of nine events and a store of five heads, signed twice.
    struct World {
        let key = try! SigningKey(name: "example.com/store")
        let log = LogID.conversation(ConversationID(high: 0xFEED, low: 0xBEEF))
        let salts = SeedTree(root: CompactRangeTests.leaf(99))
        let envelopes = (0..<9).map { [UInt8]("envelope \($0)".utf8) }
        let bodies = (0..<9).map { [UInt8]("body \($0) ".utf8) }

        func leaf(_ index: Int) -> Hash256 {
            let commitment = bodies[index].withUnsafeBytes { Merkle.bodyCommitment(salt: salts.leaf(at: UInt64(index)), body: $0) }
            return envelopes[index].withUnsafeBytes { Merkle.eventLeaf(envelope: $0, commitment: commitment) }
        }

        func head(_ size: Int) -> Head {
            var range = CompactRange()
            for index in 0..<size { range.append(leaf(index)) }
            return Head(log: log, size: UInt64(size), root: range.root())
        }

        func run(_ prover: MerkleProver, _ leaves: [Hash256]) -> [Hash256] {
            var prover = prover
            for leaf in leaves { prover.append(leaf) }
            return prover.proof
        }

        var entries: [Head] {
            let users = ["ann", "bob\n\"\\\u{1}", "é"].map { Head(log: .user(UserID($0)!), size: 3, root: CompactRangeTests.leaf(5)) }
            return [users[0], head(4), users[1], head(9), users[2]]
        }

        func checkpoint(_ size: Int) -> String {
            var range = CompactRange()
            for entry in entries[..<size] { range.append(entry.leafHash) }
            let checkpoint = try! Checkpoint(origin: key.verifierKey.name, size: UInt64(size), root: range.root())
            return try! checkpoint.signed(by: key).encoded
        }

        func attestation(_ index: Int, in size: Int = 5) -> ProofFile.Attestation {
            let proof = run(MerkleProver(inclusionOf: UInt64(index), size: UInt64(size)), entries[..<size].map(\.leafHash))
            return ProofFile.Attestation(index: UInt64(index), proof: proof, checkpoint: checkpoint(size), key: key.verifierKey)
        }

        func inclusion(_ index: Int, shown: Bool, attested: Bool) -> ProofFile {
            let proof = run(MerkleProver(inclusionOf: UInt64(index), size: 9), (0..<9).map(leaf))
            let salt = salts.leaf(at: UInt64(index))
            let commitment = bodies[index].withUnsafeBytes { Merkle.bodyCommitment(salt: salt, body: $0) }
            return .inclusion(
                ProofFile.Inclusion(
                    seq: UInt64(index + 1), envelope: envelopes[index],
                    body: shown ? .shown(bodies[index], salt: salt) : .hidden(commitment: commitment),
                    head: head(9), proof: proof, attestation: attested ? attestation(3) : nil))
        }

        func consistency(_ size: Int, attested: Bool) -> ProofFile {
            let proof = run(MerkleProver(consistencyFrom: UInt64(size), to: 9), (0..<9).map(leaf))
            return .consistency(
                ProofFile.Consistency(from: head(size), to: head(9), proof: proof, attestation: attested ? attestation(3) : nil))
        }

        func checkpoints(_ size: Int) -> ProofFile {
            let proof = run(MerkleProver(consistencyFrom: UInt64(size), to: 5), entries.map(\.leafHash))
            return .checkpoints(
                ProofFile.Checkpoints(checkpoint1: checkpoint(size), checkpoint2: checkpoint(5), key: key.verifierKey, proof: proof))
        }
    }

    let world = World()

    private func read(_ file: ProofFile) throws -> ProofFile {
        let again = try ProofFile(json: Array(file.json.utf8))
        #expect(again == file)
        #expect(again.json == file.json)
        return again
    }

    @Test("every event's inclusion passes, with and without its body and a checkpoint")
    func inclusion() throws {
        for index in 0..<9 {
            for shown in [true, false] {
                let plain = try read(world.inclusion(index, shown: shown, attested: false)).check()
                #expect(plain == .included(seq: UInt64(index + 1), head: world.head(9), bodyShown: shown, signed: nil))
                let file = try read(world.inclusion(index, shown: shown, attested: true))
                guard case .included(_, let head, _, let signed?) = try file.check(expectedKey: world.key.verifierKey) else {
                    throw Missing()
                }
                #expect(head == world.head(9))
                #expect(signed.checkpoint.size == 5)
                #expect(signed.isKeyExpected)
                guard case .included(_, _, _, let unexpected?) = try file.check() else { throw Missing() }
                #expect(!unexpected.isKeyExpected)
                #expect("\(try file.check())".contains("own word"))
            }
        }
    }
    struct Missing: Error {}

    @Test("every consistency passes, of a log and of checkpoints")
    func consistency() throws {
        for size in 0...9 {
            #expect(
                try read(world.consistency(size, attested: false)).check() == .grew(from: world.head(size), to: world.head(9), signed: nil))
            _ = try read(world.consistency(size, attested: true)).check(expectedKey: world.key.verifierKey)
        }
        for size in 0...5 {
            guard
                case .checkpointsGrew(let from, let to, let signed) = try read(world.checkpoints(size)).check(
                    expectedKey: world.key.verifierKey)
            else { throw Missing() }
            #expect(from.size == UInt64(size) && to.size == 5 && signed.checkpoint == to)
        }
    }

    @Test("a log of a user with quotes and control characters in the name comes back")
    func user() throws {
        let head = world.entries[2]
        let file = ProofFile.consistency(ProofFile.Consistency(from: head, to: head, proof: [], attestation: world.attestation(2)))
        _ = try read(file).check(expectedKey: world.key.verifierKey)
    }

    @Test("the step that fails is named")
    func steps() throws {
        let stranger = try SigningKey(name: "example.com/store").verifierKey
        func step(_ file: ProofFile, _ key: VerifierKey? = nil) -> ProofError.Step? {
            #expect(throws: ProofError.self) { try file.check(expectedKey: key) }?.step
        }
        #expect(step(world.inclusion(3, shown: true, attested: false), world.key.verifierKey) == .key)
        #expect(step(world.inclusion(3, shown: true, attested: true), stranger) == .key)
        #expect(step(world.consistency(3, attested: false), stranger) == .key)
        #expect(step(world.checkpoints(3), stranger) == .key)
        guard case .inclusion(let good) = world.inclusion(3, shown: true, attested: true) else { throw Missing() }
        func inclusion(seq: Seq? = nil, body: ProofFile.Inclusion.Body? = nil, head: Head? = nil, attestation: ProofFile.Attestation?)
            -> ProofFile
        {
            .inclusion(
                ProofFile.Inclusion(
                    seq: seq ?? good.seq, envelope: good.envelope, body: body ?? good.body, head: head ?? good.head, proof: good.proof,
                    attestation: attestation))
        }
        #expect(step(inclusion(seq: 0, attestation: nil)) == .inclusion)
        #expect(step(inclusion(seq: 5, attestation: nil)) == .inclusion)
        #expect(step(inclusion(body: .shown(Array("another body".utf8), salt: world.salts.leaf(at: 3)), attestation: nil)) == .inclusion)
        #expect(step(inclusion(body: .shown(world.bodies[3], salt: world.salts.leaf(at: 4)), attestation: nil)) == .inclusion)
        #expect(
            step(inclusion(head: Head(log: .user(UserID("eve")!), size: 9, root: good.head.root), attestation: good.attestation)) == .heads)
        #expect(step(inclusion(attestation: world.attestation(1))) == .heads)
        let attestation = try #require(good.attestation)
        let forged = attestation.checkpoint.replacingFirst("\n5\n", "\n6\n")
        func attested(_ note: String, _ key: VerifierKey) -> ProofFile {
            inclusion(attestation: ProofFile.Attestation(index: 3, proof: attestation.proof, checkpoint: note, key: key))
        }
        #expect(step(attested(forged, attestation.key)) == .signature)
        #expect(step(attested(attestation.checkpoint, stranger)) == .signature)
        #expect(step(attested("nonsense", attestation.key)) == .note)
        #expect(step(attested(try SignedNote(text: "no checkpoint\n", signedBy: world.key).encoded, attestation.key)) == .checkpoint)
        #expect(step(.consistency(ProofFile.Consistency(from: world.head(3), to: world.head(9), proof: []))) == .consistency)
        let swapped = ProofFile.Checkpoints(
            checkpoint1: world.checkpoint(5), checkpoint2: world.checkpoint(3), key: world.key.verifierKey, proof: [])
        #expect(step(.checkpoints(swapped)) == .consistency)
    }

    @Test("no changed byte of a file passes as something else")
    func changed() throws {
        let key = world.key.verifierKey
        for file in [
            world.inclusion(3, shown: true, attested: true), world.inclusion(8, shown: false, attested: true),
            world.consistency(3, attested: true),
            world.checkpoints(3),
        ] {
            let good = Array(file.json.utf8)
            let finding = try file.check(expectedKey: key)
            var refused = 0
            for index in good.indices {
                for mask in [0x01, 0x02, 0x20, 0x80] as [UInt8] {
                    var bytes = good
                    bytes[index] ^= mask
                    guard let changed = try? ProofFile(json: bytes).check(expectedKey: key) else {
                        refused += 1
                        continue
                    }
                    // What remains is another way to write the same: the case of an id's digits or of an escape, white space.
                    #expect(changed == finding, "byte \(index) ^ \(mask)")
                }
            }
            #expect(refused > good.count * 4 - 100)
            for count in 0..<(good.count - 1) where count % 7 == 0 || count > good.count - 20 {
                let error = #expect(throws: ProofError.self) { try ProofFile(json: Array(good.prefix(count))) }
                #expect(error?.step == .file)
            }
        }
    }

    @Test("files with missing, unknown or ill-typed fields are refused")
    func malformed() throws {
        let good = world.inclusion(3, shown: true, attested: true).json
        for (old, new) in [
            ("convstore-proof-v1", "convstore-proof-v2"), ("\"kind\":\"inclusion\"", "\"kind\":\"other\""),
            ("\"kind\":\"inclusion\"", "\"kind\":\"consistency\""),
            ("\"seq\":4", "\"seq\":\"4\""), ("\"seq\":4", "\"seq\":-4"), ("\"seq\":4", "\"seq\":4.5"), ("\"seq\":4", "\"seq\":null"),
            ("\"seq\":4", "\"seq\":18446744073709551616"), ("\"seq\":4,", ""), ("\"seq\":4", "\"seq\":4,\"more\":1"),
            ("\"salt\"", "\"commitment\""),
            ("\"proof\":[", "\"proof\":[\"\","), ("\"proof\":[", "\"proof\":[\"QQ==\","), ("\"proof\":[", "\"proof\":[7,"),
            ("\"index\":3", "\"index\":3,\"more\":1"),
            ("\"attestation\":{", "\"attestation\":7,\"x\":{"), ("\"log\":\"0000", "\"log\":\"x000"),
            ("\"log\":\"", "\"log\":\"user:\",\"log2\":\""),
            ("\"envelope\":\"", "\"envelope\":\"="),
        ] {
            let bad = good.replacingFirst(old, new)
            #expect(bad != good)
            let error = #expect(throws: ProofError.self, "\(new)") { try ProofFile(json: Array(bad.utf8)) }
            #expect(error?.step == .file)
        }
        for text in ["", "[]", "null", "{}", "7", good + good, String(repeating: "[", count: 100_000)] {
            #expect(throws: ProofError.self) { try ProofFile(json: Array(text.utf8)) }
        }
    }
}
