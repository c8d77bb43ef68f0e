@testable import ChatServer
import Crypto
import EventLog
import Foundation
import NIOCore
import NIOEmbedded
import Replication
import ReplicationWebSocket
import Testing

extension ServerTests {
    /// Against Python's HTTP server.
    @Suite("Keys at a URL") struct TokenURLTests {
        private let issuer = try! Issuer()
        private let next = P256.Signing.PrivateKey()
        private static let certificate = Python.file("localhost.pem")

        private func put(_ text: String) throws { try Data(text.utf8).write(to: issuer.directory.appendingPathComponent("jwks"), options: .atomic) }

        /// What was asked for so far.
        private var asked: Int {
            let text = (try? String(contentsOf: issuer.directory.appendingPathComponent("asked"), encoding: .utf8)) ?? ""
            return text.split(separator: "\n").count
        }

        private func serve(isSecure: Bool = false, _ body: (String) async throws -> Void) async throws {
            let tls = isSecure ? [Self.certificate, Python.file("localhost.key")] : []
            try await Python.serve("key_server.py", [issuer.directory.path] + tls, body)
        }

        private func token(_ kid: String, by key: P256.Signing.PrivateKey? = nil) throws -> String {
            try issuer.token("ES256", Issuer.claims(), header: ",\"kid\":\"\(kid)\"") { Array(try (key ?? issuer.p256).signature(for: $0).rawRepresentation) }
        }

        /// As a hub asks.
        private static func isTaken(_ token: String, _ source: TokenKeyURL) async -> Bool {
            let verifier = TokenVerifier({ source.keys }, source, issuer: "us", audience: "hub") { Issuer.now }
            return await withCheckedContinuation { continuation in
                verifier.options.authenticate(token, UserID("ada")!) { result in continuation.resume(returning: (try? result.get()) != nil) }
            }
        }

        private func error(_ url: String, authority: String? = nil, timeoutSeconds: Double = 10) async -> HubServerError? {
            do throws(HubServerError) {
                _ = try await TokenKeyURL(KeySetFetch(url, certificateAuthority: authority, timeoutSeconds: timeoutSeconds))
                return nil
            } catch {
                return error
            }
        }

        @Test("A set is fetched with TLS whose certificate is trusted, and without TLS from this machine", arguments: [false, true])
        func fetching(isSecure: Bool) async throws {
            try put(Issuer.set([("a", issuer.p256.publicKey)]))
            try await serve(isSecure: isSecure) { url in
                let keys = try await TokenKeyURL(url + "jwks?a=b", certificateAuthority: isSecure ? Self.certificate : nil)
                #expect(await Self.isTaken(try token("a"), keys))
                #expect(await !Self.isTaken(try token("a", by: next), keys))
                if isSecure {
                    let untrusted = await error(url + "jwks")
                    #expect(untrusted?.code == .unreachable && untrusted?.message.contains("--jwks-ca") == true, "\(String(describing: untrusted))")
                    let other = await error(url.replacing("localhost", with: "127.0.0.2") + "jwks", authority: Self.certificate)
                    #expect(other?.code == .unreachable, "\(String(describing: other))")
                }
            }
        }

        @Test("An address at which nobody listens leaves the answer to the host's others; a server that hangs up has answered", arguments: [false, true])
        func addresses(isConnected: Bool) throws {
            let loop = EmbeddedEventLoop()
            let answer = loop.makePromise(of: [UInt8].self)
            let channel = EmbeddedChannel(loop: loop)
            try channel.pipeline.syncOperations.addHandler(AnswerReader(ServerURL("http://localhost/jwks", .http), answer))
            if isConnected { try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).wait() }
            channel.pipeline.fireErrorCaught(ChannelError.connectTimeout(.seconds(1)))
            channel.close(promise: nil)
            loop.run()
            answer.succeed([1])
            let end = Result { try answer.futureResult.wait() }
            #expect((try? end.get()) == (isConnected ? nil : [1]))
        }

        @Test("What could come from somebody else, or is no set, is refused before a hub starts") func refusals() async throws {
            for url in [
                "http://issuer.example/jwks", "http://127.0.0.1.example/", "http://127.1/", "http://10.0.0.1/", "ftp://localhost/", "https://",
                "https://a:b@c/",
                "https://a/\r\nX: y", "https://a/#b", "https://a:99999/", "http://localhost@issuer.example/",
            ] {
                #expect(await error(url)?.code == .invalidURL, "\(url)")
            }
            #expect(await error("https://localhost/", authority: "/nowhere")?.code == .unreadable)
            #expect(await error("https://localhost/", authority: Python.file("README.md"))?.code == .invalidCertificate)
            let nobody = await error("http://127.0.0.1:1/jwks?secret=1")
            #expect(nobody?.message.contains("nobody listens") == true, "\(String(describing: nobody))")
            try put(Issuer.set([("a", issuer.p256.publicKey)], others: "{\"kty\":\"oct\",\"kid\":\"secret\",\"alg\":\"HS256\",\"k\":\"c2VjcmV0\"}"))
            try Data("{\"keys\":[]}".utf8).write(to: issuer.directory.appendingPathComponent("empty"))
            try await serve { url in
                let cases: [(String, HubServerError.Code, String)] = [
                    ("nowhere", .unreachable, "404"), ("redirect", .unreachable, "302"), ("big", .unreachable, "more than 1048576 bytes"),
                    ("endless", .unreachable, "more than 1048576 bytes"), ("cut", .unreachable, "hung up"), ("gzip", .unreachable, "compressed"),
                    ("garbage", .unreachable, "HTTP server"), ("slow", .unreachable, "in time"), ("drip", .unreachable, "in time"),
                    ("asked", .invalidTokenKey, "no JSON Web Key Set"), ("empty", .invalidTokenKey, "no public key"),
                ]
                for (path, code, words) in cases {
                    let error = await error(url + path, timeoutSeconds: path == "slow" || path == "drip" ? 1.5 : 60)
                    #expect(error?.code == code && error?.message.contains(words) == true, "\(path): \(String(describing: error))")
                }
                // A secret that everybody can read is none.
                let keys = try await TokenKeyURL(url + "jwks")
                let forged = try issuer.token("HS256", Issuer.claims(), header: ",\"kid\":\"secret\"") { issuer.hmac($0, Array("secret".utf8)) }
                #expect(await !Self.isTaken(forged, keys))
                #expect(await Self.isTaken(try token("a"), keys))
            }
        }

        @Test("A token with a new key is taken at once; names of keys that nobody has are asked about once a minute") func unknownKeys() async throws {
            try put(Issuer.set([("a", issuer.p256.publicKey)]))
            try await serve { url in
                var times = TokenKeyURL.Times()
                times.unknownKeySeconds = 0
                let eager = try await TokenKeyURL(KeySetFetch(url + "jwks"), times: times)
                let calm = try await TokenKeyURL(url + "jwks")
                #expect(asked == 2)
                // Nothing that is known, and nothing that names no key, makes anybody ask.
                for good in [try token("a"), try token("a", by: next)] { _ = await Self.isTaken(good, eager) }
                _ = await Self.isTaken(try issuer.token("ES256", Issuer.claims()), eager)
                _ = await Self.isTaken("x.y.z", eager)
                #expect(asked == 2)
                try put(Issuer.set([("b", next.publicKey)]))
                let new = try token("b", by: next)
                #expect(await Self.isTaken(new, eager))
                #expect(asked == 3)
                #expect(await !Self.isTaken(try token("a"), eager), "its key is gone")
                // All who come at once share what is under way.
                let before = asked
                let tokens = try (0..<50).map { try token("c\($0)") }
                let taken = await withTaskGroup(of: Bool.self) { group in
                    for token in tokens { group.addTask { await Self.isTaken(token, eager) } }
                    return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
                }
                #expect(taken == 0)
                #expect(asked - before < 25, "\(asked - before)")
                // A key that came right after the start is found; then a minute passes.
                let count = asked
                #expect(await Self.isTaken(new, calm))
                #expect(asked == count + 1)
                #expect(await !Self.isTaken(try token("d"), calm))
                #expect(asked == count + 1)
            }
        }

        @Test("While nothing good can be had, the last good keys count") func failing() async throws {
            try put(Issuer.set([("a", issuer.p256.publicKey)]))
            try await serve { url in
                let keys = try await TokenKeyURL(url + "jwks")
                #expect(keys.refreshSeconds == 3600)
                #expect(try await keys.refresh() == false)
                try FileManager.default.removeItem(at: issuer.directory.appendingPathComponent("jwks"))
                for (text, code) in [(nil, HubServerError.Code.unreachable), ("{}", .invalidTokenKey), ("{\"keys\":[]}", .invalidTokenKey)] {
                    if let text { try put(text) }
                    let error = await #expect(throws: HubServerError.self) { _ = try await keys.refresh() }
                    #expect(error?.code == code)
                    #expect(keys.refreshSeconds == 60)
                    #expect(await Self.isTaken(try token("a"), keys))
                }
                try put(Issuer.set([("a", next.publicKey)]))
                #expect(try await keys.refresh())
                #expect(keys.refreshSeconds == 3600)
                #expect(await Self.isTaken(try token("a", by: next), keys))
                #expect(await !Self.isTaken(try token("a"), keys))
            }
        }
    }
}
