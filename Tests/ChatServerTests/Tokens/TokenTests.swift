@testable import ChatServer
import Crypto
import CryptoExtras
import EventLog
import Foundation
import Replication
import Testing

@Suite("Tokens") struct TokenTests {
    private func verifier(_ keys: TokenKeys, issuer: String? = "us", audience: String? = "hub") -> TokenVerifier {
        TokenVerifier({ keys }, issuer: issuer, audience: audience) { Issuer.now }
    }

    private func flaw(_ result: Result<Identity, TokenVerifier.Flaw>) -> TokenVerifier.Flaw? {
        if case .failure(let flaw) = result { flaw } else { nil }
    }

    @Test("Each algorithm's tokens are taken with its key, and with no other", arguments: ["ES256", "EdDSA", "RS256", "PS256", "HS256"])
    func algorithms(_ algorithm: String) async throws {
        let issuer = try Issuer()
        let files = [
            "ES256": try issuer.file(issuer.p256.publicKey.pemRepresentation), "EdDSA": try issuer.file(ed25519PEM(issuer.ed25519.publicKey)),
            "RS256": try issuer.file(issuer.rsa.publicKey.pemRepresentation), "PS256": try issuer.file(issuer.rsa.publicKey.pemRepresentation),
            "HS256": try issuer.file(String(decoding: issuer.secret, as: UTF8.self) + "\n"),
        ]
        let token = try issuer.token(algorithm, Issuer.claims())
        for (name, file) in files {
            let result = verifier(try await .file(file)).verify(token)
            if file == files[algorithm] || Set([name, algorithm]) == ["RS256", "PS256"] {
                #expect(try result.get() == Identity(user: UserID("ada")!, isService: false, expiresAt: 1_800_000_630_000))
            } else {
                #expect(flaw(result) == .algorithm)
            }
        }
    }

    /// RFC 8410: what stands before the 32 bytes is always the same.
    private func ed25519PEM(_ key: Curve25519.Signing.PublicKey) -> String {
        let der: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00] + Array(key.rawRepresentation)
        return "-----BEGIN PUBLIC KEY-----\n\(Data(der).base64EncodedString())\n-----END PUBLIC KEY-----\n"
    }

    @Test("A secret may be base64, and must be long") func secrets() async throws {
        let issuer = try Issuer()
        let keys = try await TokenKeys.file(issuer.file("base64:" + Data(issuer.secret).base64EncodedString() + "\n"))
        #expect(throws: Never.self) { try verifier(keys).verify(issuer.token("HS256", Issuer.claims())).get() }
        for text in ["short", "base64:AAAA", "base64:*", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", issuer.p256.pemRepresentation] {
            let path = try issuer.file(text)
            await #expect(throws: HubServerError.self) { _ = try await TokenKeys.file(path) }
        }
    }

    @Test("What others know, or may guess, is not taken for a secret: a public key in another form, a set of keys, a page, zeros") func noSecrets() async throws
    {
        let issuer = try Issuer()
        let pem = issuer.p256.publicKey.pemRepresentation
        for text in [
            pem.split(separator: "\n").dropFirst().joined(separator: "\n"), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ ada@example",
            Issuer.set([("a", issuer.p256.publicKey)]),
            "<!DOCTYPE html><title>404 Not Found</title>", String(repeating: "\0", count: 64),
        ] {
            let path = try issuer.file(text)
            await #expect(throws: HubServerError.self, "\(text)") { _ = try await TokenKeys.file(path) }
        }
        let path = try issuer.file("")
        try issuer.p256.publicKey.derRepresentation.write(to: URL(filePath: path))
        await #expect(throws: HubServerError.self) { _ = try await TokenKeys.file(path) }
    }

    @Test("What claims say decides") func claims() async throws {
        let issuer = try Issuer()
        let verifier = verifier(try await .file(issuer.file(issuer.p256.publicKey.pemRepresentation)))
        let cases: [(String, TokenVerifier.Flaw?)] = [
            (Issuer.claims(), nil), (Issuer.claims(aud: "[\"other\",\"hub\"]"), nil), (Issuer.claims(exp: "1799999971"), nil),
            (Issuer.claims(nbf: "1800000029"), nil),
            (Issuer.claims(more: ",\"https:\\/\\/us\\/role\":\"a\\\"b\",\"x\":{\"sub\":1}"), nil), (Issuer.claims(iss: "7"), .issuer),
            (Issuer.claims(more: ",\"a\\/b\":1,\"a/b\":1"), .malformed),
            (Issuer.claims(exp: "1800000600.5"), nil), (Issuer.claims(more: ",\"more\":{\"sub\":1,\"sub\":2}"), nil),
            (Issuer.claims(exp: "1799999970"), .expired), (Issuer.claims(nbf: "1800000031"), .notYetValid), (Issuer.claims(exp: nil), .expiry),
            (Issuer.claims(exp: "null"), .expiry), (Issuer.claims(exp: "-1"), .expiry), (Issuer.claims(exp: "1e18"), .expiry),
            (Issuer.claims(exp: "\"1800000600\""), .malformed),
            (Issuer.claims(iss: nil), .issuer), (Issuer.claims(iss: "\"them\""), .issuer), (Issuer.claims(aud: nil), .audience),
            (Issuer.claims(aud: "[]"), .audience),
            (Issuer.claims(aud: "\"other\""), .audience), (Issuer.claims(aud: "7"), .malformed), (Issuer.claims(sub: nil), .subject),
            (Issuer.claims(sub: "\"\""), .subject),
            (Issuer.claims(sub: "\"\(String(repeating: "x", count: 256))\""), .subject), (Issuer.claims(sub: "7"), .malformed),
            (Issuer.claims(more: ",\"sub\":\"eve\""), .malformed), (Issuer.claims(more: ",\"s\\u0075b\":\"eve\""), .malformed),
            (Issuer.claims(more: ",\"service\":\"yes\""), .malformed),
            ("[]", .malformed), ("", .malformed), ("{", .malformed), (String(repeating: "[", count: 5000), .malformed),
            // Expired and wrong is wrong: nothing is learnt from it.
            (Issuer.claims(exp: "1", aud: "\"other\""), .audience),
        ]
        for (claims, expected) in cases { #expect(flaw(verifier.verify(try issuer.token("ES256", claims))) == expected, "\(claims.prefix(200))") }
        #expect(try verifier.verify(issuer.token("ES256", Issuer.claims(more: ",\"service\":true"))).get().isService)
    }

    @Test("An audience that was not asked for is somebody else's") func audience() async throws {
        let issuer = try Issuer()
        let verifier = verifier(try await .file(issuer.file(issuer.p256.publicKey.pemRepresentation)), issuer: nil, audience: nil)
        #expect(flaw(verifier.verify(try issuer.token("ES256", Issuer.claims()))) == .audience)
        #expect(flaw(verifier.verify(try issuer.token("ES256", Issuer.claims(aud: "[]")))) == .audience)
        #expect(flaw(verifier.verify(try issuer.token("ES256", Issuer.claims(aud: nil)))) == nil)
        #expect(flaw(verifier.verify(try issuer.token("ES256", Issuer.claims(iss: "{}", aud: nil)))) == nil)
    }

    @Test("Nothing in a token's header opens a way around the key") func forgeries() async throws {
        let issuer = try Issuer()
        let pem = issuer.p256.publicKey.pemRepresentation
        let verifier = verifier(try await .file(issuer.file(pem)))
        let claims = Issuer.claims()
        let good = try issuer.token("ES256", claims)
        let parts = good.split(separator: ".").map(String.init)
        var cases: [(String, TokenVerifier.Flaw)] = [
            (try issuer.token("none", claims), .algorithm), (try issuer.token("None", claims), .algorithm), (try issuer.token("", claims), .algorithm),
            (try issuer.token("HS256", claims) { issuer.hmac($0, Array(pem.utf8)) }, .algorithm),
            (try issuer.token("HS256", claims) { issuer.hmac($0, Array(issuer.p256.publicKey.rawRepresentation)) }, .algorithm),
            (try issuer.token("ES256", claims) { issuer.hmac($0, Array(pem.utf8)) }, .signature),
            (try issuer.token("ES256", claims) { _ in [] }, .signature),
            (try issuer.token("ES256", claims) { _ in Array(repeating: 0, count: 64) }, .signature),
            (try issuer.token("ES256", claims) { Array(try issuer.p256.signature(for: $0).derRepresentation) }, .signature),
            (try issuer.token("ES256", claims) { Array(try P256.Signing.PrivateKey().signature(for: $0).rawRepresentation) }, .signature),
            (parts[0] + "." + Issuer.encode(Array(Issuer.claims(sub: "\"eve\"").utf8)) + "." + parts[2], .signature),
            (parts[0] + "." + parts[1] + ".", .signature),
            (parts[0] + "." + parts[1], .malformed), (good + ".x", .malformed), (good + "=", .malformed), ("", .malformed), ("..", .malformed),
            ("garbage", .malformed),
            ("\u{0}\u{1B}[2J", .malformed), (String(repeating: "A", count: 20_000), .tooLong),
        ]
        for header in [",\"alg\":\"none\"", ",\"a\\u006cg\":\"none\""] { cases.append((try issuer.token("ES256", claims, header: header), .malformed)) }
        for header in [",\"crit\":[\"x\"]", ",\"jku\":\"https://evil/\"", ",\"jwk\":{}", ",\"x5u\":\"file:///\"", ",\"x5c\":[\"\"]", ",\"typ\":\"other\""] {
            cases.append((try issuer.token("ES256", claims, header: header), .header))
        }
        for (token, expected) in cases { #expect(flaw(verifier.verify(token)) == expected, "\(token.prefix(120))") }
        for type in ["JWT", "at+jwt", "application/at+jwt", "Application/JWT"] {
            #expect(flaw(verifier.verify(try issuer.token("ES256", claims, header: ",\"typ\":\"\(type)\""))) == nil, "\(type)")
        }
        for type in ["application/", "text/jwt", "application/application/jwt"] {
            #expect(flaw(verifier.verify(try issuer.token("ES256", claims, header: ",\"typ\":\"\(type)\""))) == .header, "\(type)")
        }
        // Flipping any bit of it makes another token of it, or none.
        for index in good.utf8.indices where good.utf8[index] != UInt8(ascii: ".") {
            var bytes = Array(good.utf8)
            bytes[good.utf8.distance(from: good.startIndex, to: index)] ^= 1
            #expect(flaw(verifier.verify(String(decoding: bytes, as: UTF8.self))) != nil)
        }
    }

    @Test("A kid picks a key of the set, and nothing else") func sets() async throws {
        let issuer = try Issuer()
        let other = P256.Signing.PrivateKey()
        let strange = "{\"kty\":\"oct\",\"kid\":\"secret\",\"k\":\"AAAA\"},{\"kty\":\"XYZ\",\"kid\":\"new\"}"
        let verifier = verifier(try await .set(issuer.jwks([("a", issuer.p256.publicKey), ("b", other.publicKey)], others: strange)))
        let cases: [(String, TokenVerifier.Flaw?)] = [
            (",\"kid\":\"a\"", nil), (",\"kid\":\"b\"", .signature), ("", .unnamedKey), (",\"kid\":\"c\"", .unknownKey), (",\"kid\":\"secret\"", .unknownKey),
            (",\"kid\":\"../../etc/passwd\"", .unknownKey), (",\"kid\":\"' OR 1=1\"", .unknownKey), (",\"kid\":\"\"", .unknownKey), (",\"kid\":7", .malformed),
        ]
        for (header, expected) in cases { #expect(flaw(verifier.verify(try issuer.token("ES256", Issuer.claims(), header: header))) == expected, "\(header)") }
        #expect(flaw(verifier.verify(try issuer.token("HS256", Issuer.claims(), header: ",\"kid\":\"a\""))) == .algorithm)
        let single = self.verifier(try await .set(issuer.jwks([("a", issuer.p256.publicKey)])))
        #expect(flaw(single.verify(try issuer.token("ES256", Issuer.claims()))) == nil)
        for text in ["{}", "{\"keys\":[]}", "[]", "x", "{\"keys\":[\(strange)]}"] {
            let path = try issuer.file(text)
            await #expect(throws: HubServerError.self) { _ = try await TokenKeys.set(path) }
        }
    }

    @Test("Keys of a set that have no kid are told apart by their algorithms") func unnamedKeys() async throws {
        let issuer = try Issuer()
        let ed25519 = "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"\(Issuer.encode(Array(issuer.ed25519.publicKey.rawRepresentation)))\"}"
        func entry(_ key: P256.Signing.PrivateKey) -> String { String(Issuer.set([("a", key.publicKey)]).dropFirst(9).dropLast(2)) }
        func p256(_ key: P256.Signing.PrivateKey) -> String { entry(key).replacing(",\"kid\":\"a\"", with: "") }
        func set(_ keys: String...) throws -> String { try issuer.file("{\"keys\":[\(keys.joined(separator: ","))]}") }
        let both = verifier(try await .set(set(p256(issuer.p256), ed25519)))
        for (algorithm, header) in [("ES256", ""), ("EdDSA", ""), ("ES256", ",\"kid\":\"x\""), ("EdDSA", ",\"kid\":\"y\"")] {
            #expect(flaw(both.verify(try issuer.token(algorithm, Issuer.claims(), header: header))) == nil, "\(algorithm)\(header)")
        }
        #expect(flaw(both.verify(try issuer.token("RS256", Issuer.claims()))) == .unnamedKey)
        // One with a name may be of a key that is still to be fetched.
        for count in 1...2 {
            let set = verifier(try await .set(count == 1 ? set(p256(issuer.p256)) : set(p256(issuer.p256), ed25519)))
            for (algorithm, header, flaw) in [
                ("ES256", "", TokenVerifier.Flaw.signature), ("ES256", ",\"kid\":\"x\"", .unknownKey), ("RS256", ",\"kid\":\"x\"", .unknownKey),
            ] {
                let forged = try issuer.token(algorithm, Issuer.claims(), header: header) {
                    Array(try P256.Signing.PrivateKey().signature(for: $0).rawRepresentation)
                }
                #expect(self.flaw(set.verify(forged)) == flaw, "\(count) \(algorithm)\(header)")
            }
        }
        // Where others have names, a name that is none of theirs is that of a key to come.
        let other = P256.Signing.PrivateKey()
        let mixed = verifier(try await .set(set(entry(other), ed25519)))
        #expect(flaw(mixed.verify(try issuer.token("EdDSA", Issuer.claims()))) == nil)
        #expect(flaw(mixed.verify(try issuer.token("EdDSA", Issuer.claims(), header: ",\"kid\":\"x\""))) == .unknownKey)
        await #expect(throws: HubServerError.self) { _ = try await TokenKeys.set(set(p256(issuer.p256), p256(other))) }
    }

    @Test("A file of keys that changes counts from the next look on; one that cannot be used leaves the keys as they were") func changingKeys() async throws {
        let issuer = try Issuer()
        let next = P256.Signing.PrivateKey()
        let path = try issuer.jwks([("a", next.publicKey)])
        let file = try await TokenKeyFile(path, .set)
        let verifier = TokenVerifier({ file.keys }, issuer: "us", audience: "hub") { Issuer.now }
        let token = try issuer.token("ES256", Issuer.claims(), header: ",\"kid\":\"a\"")
        #expect(flaw(verifier.verify(token)) == .signature)
        #expect(try await file.refresh() == false)

        func put(_ text: String) throws {
            let other = try issuer.file(text)
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: other, toPath: path)
        }
        try put("no keys")
        await #expect(throws: HubServerError.self) { _ = try await file.refresh() }
        #expect(try await file.refresh() == false, "said once")
        #expect(flaw(verifier.verify(token)) == .signature)
        try put(String(contentsOfFile: issuer.jwks([("a", issuer.p256.publicKey)]), encoding: .utf8))
        #expect(try await file.refresh())
        #expect(flaw(verifier.verify(token)) == nil)
    }

    @Test("A peer learns that its token expired, and of all else nothing") func publicMessages() async throws {
        let issuer = try Issuer()
        let verifier = verifier(try await .file(issuer.file(issuer.p256.publicKey.pemRepresentation)))
        func failure(_ token: String) -> AuthenticationFailure? { if case .failure(let failure) = verifier.check(token) { failure } else { nil } }
        #expect(failure(try issuer.token("ES256", Issuer.claims(exp: "1")))?.isExpired == true)
        let others = [
            try issuer.token("none", Issuer.claims()), try issuer.token("ES256", Issuer.claims(aud: "\"other\"")),
            try issuer.token("ES256", Issuer.claims(sub: nil)),
            try issuer.token("ES256", Issuer.claims(exp: "1")) { _ in Array(repeating: 1, count: 64) }, "garbage",
        ].map(failure)
        #expect(Set(others) == [AuthenticationFailure(isExpired: false, reason: "the token is not valid")])
    }
}
