import Testing

@testable import EventLog

/// Go's golang.org/x/mod/sumdb/note (example_test.go, note_test.go; BSD-3-Clause): a key that everyone knows, and what it signed.
enum PeterNeumann {
    static let verifier = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    static let signer = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
    static let text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    static let line = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
    static let note = text + "\n" + line
}

@Suite("Signed notes") struct SignedNoteTests {
    let key = try! VerifierKey(PeterNeumann.verifier)

    @Test("Go's published note verifies")
    func published() throws {
        let note = try SignedNote(parsing: PeterNeumann.note)
        #expect(note.text == PeterNeumann.text)
        #expect(note.signatures.map(\.keyHash) == [0xc74f_20a3])
        try note.verify(key)
        #expect(note.encoded == PeterNeumann.note)
        #expect(key.description == PeterNeumann.verifier)
    }

    @Test("Go's published key signs so that its published verifier takes it")
    func sign() throws {
        let signer = try SigningKey(secretText: PeterNeumann.signer)
        #expect(signer.verifierKey == key)
        #expect(signer.secretText == PeterNeumann.signer)
        #expect(!"\(signer)".contains("PRIVATE"))
        let note = try SignedNote(text: PeterNeumann.text, signedBy: signer)
        try SignedNote(parsing: note.encoded).verify(key)
        #if os(Linux)  // CryptoKit's signatures hold randomness, BoringSSL's are those of RFC 8032.
            #expect(note.encoded == PeterNeumann.note)
        #endif
    }

    @Test(
        "C2SP's example key, and one whose base64 holds a plus sign",
        arguments: [
            "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6",
        ])
    func keys(_ text: String) throws {
        #expect(try VerifierKey(text).description == text)
    }

    @Test(
        "malformed notes are refused",
        arguments: [
            "", "\n", "\n\n", PeterNeumann.text, PeterNeumann.text + "\n", String(PeterNeumann.note.dropLast()),
            "\u{1}" + PeterNeumann.note,
            PeterNeumann.note + "Unexpected line.\n", PeterNeumann.note + "\n", PeterNeumann.text + PeterNeumann.line,
            "a\r\n\n" + PeterNeumann.line,
            PeterNeumann.note.replacingFirst("— Peter", "— Peter "), PeterNeumann.note.replacingFirst("— Peter", "— Peter+"),
            PeterNeumann.note.replacingFirst("— Peter", "— Peter\u{A0}"), PeterNeumann.note.replacingFirst("— PeterNeumann", "— "),
            PeterNeumann.note.replacingFirst("— PeterNeumann", "—PeterNeumann"),
            PeterNeumann.note.replacingFirst("— PeterNeumann", "- PeterNeumann"),
            PeterNeumann.note.replacingFirst("nAM=", "nAM"), PeterNeumann.note.replacingFirst("nAM=", "nAN="),
            PeterNeumann.text + "\n— PeterNeumann x08gow==\n",
            PeterNeumann.text + "\n" + String(repeating: PeterNeumann.line, count: 101),
            String(repeating: "a\n", count: 1 << 20) + PeterNeumann.note,
        ])
    func malformed(_ note: String) {
        let error = #expect(throws: ProofError.self) { try SignedNote(parsing: note) }
        #expect(error?.step == .note)
    }

    @Test("a hundred signatures are taken; other keys' are ignored, but none is not enough")
    func signatures() throws {
        try SignedNote(parsing: PeterNeumann.text + "\n" + String(repeating: PeterNeumann.line, count: 100)).verify(key)
        let other = try SigningKey(name: "example.com/other")
        let otherLine = try SignedNote(text: PeterNeumann.text, signedBy: other).encoded.dropFirst(PeterNeumann.text.count + 1)
        try SignedNote(parsing: PeterNeumann.note + otherLine).verify(key)
        try SignedNote(parsing: PeterNeumann.note + otherLine).verify(other.verifierKey)
        let stranger = try SigningKey(name: "PeterNeumann")
        for key in [other.verifierKey, stranger.verifierKey] {
            let error = #expect(throws: ProofError.self) { try SignedNote(parsing: PeterNeumann.note).verify(key) }
            #expect(error?.step == .signature)
        }
    }

    @Test("each changed byte of a note is refused")
    func changed() {
        let good = Array(PeterNeumann.note.utf8)
        for index in good.indices {
            for bit in 0..<8 {
                var bytes = good
                bytes[index] ^= 1 << UInt8(bit)
                guard let note = String(validating: bytes, as: UTF8.self) else { continue }
                #expect(throws: ProofError.self) { try SignedNote(parsing: note).verify(key) }
            }
        }
    }

    @Test("each cut or changed byte of a verifier's key is refused")
    func changedKey() {
        let good = Array(PeterNeumann.verifier.utf8)
        for index in good.indices {
            #expect(throws: ProofError.self) { try VerifierKey(String(decoding: good[..<index], as: UTF8.self)) }
            if index > 0 { #expect(throws: ProofError.self) { try VerifierKey(String(decoding: good[index...], as: UTF8.self)) } }
            for bit in 0..<7 {
                var bytes = good
                bytes[index] ^= 1 << UInt8(bit)
                #expect(throws: ProofError.self) { try VerifierKey(String(decoding: bytes, as: UTF8.self)) }
            }
        }
        // Of the wrong length or type, with the hash made to match (Go's note_test.go).
        for text in [
            "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
            "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        ] {
            #expect(throws: ProofError.self) { try VerifierKey(text) }
        }
        for name in ["", "a b", "a+b", "a\u{2003}b", "a\nb"] { #expect(throws: ProofError.self) { try SigningKey(name: name) } }
    }
}

@Suite("Checkpoints") struct CheckpointTests {
    let root = CompactRangeTests.leaf(3)

    @Test("C2SP's example text is read and written alike")
    func example() throws {
        let text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
        let checkpoint = try Checkpoint(text: text)
        #expect(checkpoint.origin == "example.com/behind-the-sofa")
        #expect(checkpoint.size == 20_852_163)
        #expect(checkpoint.root.base64 == "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")
        #expect(checkpoint.text == text)
        #expect(try Checkpoint(text: text + "extension 1\nextension 2\n").extensions == ["extension 1", "extension 2"])
        #expect(try Checkpoint(text: text + "extension 1\n").text == text + "extension 1\n")
    }

    @Test("malformed texts are refused")
    func malformed() {
        let root = root.base64
        for text in [
            "", "\n", "a\n1\n", "a\n1\n\(root)", "\n1\n\(root)\n", "a\n01\n\(root)\n", "a\n+1\n\(root)\n", "a\n-1\n\(root)\n",
            "a\n 1\n\(root)\n", "a\n\n\(root)\n",
            "a\n18446744073709551616\n\(root)\n", "a\n1\n\(root.dropLast())\n", "a\n1\n\(root) \n", "a\n1\n\n", "a\n1\n\(root)\n\n",
            "a\n1\n\(root)\nx\n\n", "a\n0\n\(root)\n",
            "a\n١\n\(root)\n", "a\u{1}\n1\n\(root)\n",
        ] {
            let error = #expect(throws: ProofError.self, "\(text)") { try Checkpoint(text: text) }
            #expect(error?.step == .checkpoint)
        }
        #expect(throws: ProofError.self) { try Checkpoint(origin: "", size: 1, root: CompactRangeTests.leaf(1)) }
        #expect(throws: ProofError.self) { try Checkpoint(origin: "a\nb", size: 1, root: CompactRangeTests.leaf(1)) }
        #expect(throws: ProofError.self) { try Checkpoint(origin: "a", size: 1, root: CompactRangeTests.leaf(1), extensions: [""]) }
    }

    @Test("a signed checkpoint opens with its key alone, and for its origin alone")
    func signed() throws {
        let key = try SigningKey(name: "example.com/store")
        let checkpoint = try Checkpoint(origin: "example.com/store", size: 7, root: root, extensions: ["x"])
        let note = try checkpoint.signed(by: key).encoded
        #expect(try Checkpoint.open(note, key: key.verifierKey) == checkpoint)
        let stranger = try SigningKey(name: "example.com/store")
        #expect(throws: ProofError.self) { try Checkpoint.open(note, key: stranger.verifierKey) }
        #expect(throws: ProofError.self) { try checkpoint.signed(by: try SigningKey(name: "elsewhere")) }
        let elsewhere = try SignedNote(text: "elsewhere\n7\n\(root.base64)\n", signedBy: key).encoded
        let error = #expect(throws: ProofError.self) { try Checkpoint.open(elsewhere, key: key.verifierKey) }
        #expect(error?.step == .checkpoint)
    }

    @Test("what a reader has opened it opens again, and nothing else for its sake")
    func reader() throws {
        let reader = CheckpointReader()
        let (key, stranger) = (try SigningKey(name: "example.com/store"), try SigningKey(name: "example.com/store"))
        let checkpoints = try (0..<20).map { try Checkpoint(origin: "example.com/store", size: 1 + $0, root: root) }
        for checkpoint in checkpoints + checkpoints.reversed() {
            let note = try checkpoint.signed(by: key).encoded
            for _ in 0..<2 { #expect(try reader.open(note, key: key.verifierKey) == checkpoint) }
            #expect(throws: ProofError.self) { try reader.open(note, key: stranger.verifierKey) }
            #expect(throws: ProofError.self) { try reader.open("9" + note, key: key.verifierKey) }
            let mixed = try checkpoint.text + "\n" + checkpoints[3].signed(by: stranger).encoded.split(separator: "\n\n")[1]
            #expect(throws: ProofError.self) { try reader.open(mixed, key: key.verifierKey) }
        }
    }
}

@Suite("Heads") struct HeadTests {
    static let root = CompactRangeTests.leaf(3)

    @Test("an entry of the heads log is its bytes in order")
    func bytes() throws {
        let id = ConversationID(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)
        let head = Head(log: .conversation(id), size: 0x0203, root: Self.root)
        #expect(head.encoded == [0] + Array(1...16) + [0, 0, 0, 0, 0, 0, 2, 3] + Self.root.bytes)
        let user = Head(log: .user(try #require(UserID("é"))), size: 1, root: Self.root)
        #expect(user.encoded == [1, 0xC3, 0xA9] + [0, 0, 0, 0, 0, 0, 0, 1] + Self.root.bytes)
        #expect(Head(encoded: head.encoded) == head)
        #expect(Head(encoded: user.encoded) == user)
        #expect(head.leafHash == ([0] + head.encoded).withUnsafeBytes { Hash256.of($0) })
    }

    @Test("other bytes are no entry")
    func wrong() {
        let tail = [UInt8](repeating: 0, count: 8) + Self.root.bytes
        for bytes in [
            [], [0], tail, [1] + tail, [2, 65] + tail, [0] + [UInt8](repeating: 1, count: 15) + tail,
            [0] + [UInt8](repeating: 1, count: 17) + tail,
            [1, 0xFF] + tail, [1] + [UInt8](repeating: 65, count: 256) + tail,
        ] as [[UInt8]] { #expect(Head(encoded: bytes) == nil) }
    }
}

extension String {
    func replacingFirst(_ old: String, _ new: String) -> String {
        guard let range = self.firstRange(of: old) else { return self }
        return replacingCharacters(in: range, with: new)
    }

    private func firstRange(of old: String) -> Range<String.Index>? {
        indices.lazy.filter { self[$0...].hasPrefix(old) }.first.map { $0..<index($0, offsetBy: old.count) }
    }

    private func replacingCharacters(in range: Range<String.Index>, with new: String) -> String {
        String(self[..<range.lowerBound]) + new + String(self[range.upperBound...])
    }
}
