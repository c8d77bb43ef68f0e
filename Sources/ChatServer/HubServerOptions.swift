import Foundation
import NIOCore
import NIOSSL
package import ReplicationWebSocket

/// Where and how a hub's server listens.
public struct HubServerOptions: Sendable {
    public var host: String
    /// 0: any that is free.
    public var port: Int
    public var tls: ServerTLS?
    /// Web pages of which origins may connect (`https://chat.example`); `*` allows all. Programs that are no browsers send no origin, and always may.
    public var allowedOrigins: Set<String> = []
    /// Sockets at once; more are answered with 503.
    public var socketsMax = 10_000
    /// Of what was sent to all peers and is not yet with the system: of events no more is sent to those who read slowly.
    package var outgoing = ByteBudget(bytesMax: 256 << 20)
    /// Of what came of messages that are not whole yet: one peer may send 8 MiB, but not many at once.
    package var unfinished = ByteBudget(bytesMax: 256 << 20)
    /// Of peers that have not said who they are.
    package var unfinishedFirst = ByteBudget(bytesMax: 64 << 20)
    /// For TLS and the request's head, and then again for the first message.
    package var handshakeSeconds = 10
    /// How long a peer may take to answer a close.
    package var closeMilliseconds = 2000
    /// For an HTTP connection between requests.
    package var idleSeconds = 30

    public init(host: String = "127.0.0.1", port: Int = 0, tls: ServerTLS? = nil) {
        self.host = host
        self.port = port
        self.tls = tls
    }
}

/// A certificate with its chain, and its key: two PEM files.
public struct ServerTLS: Sendable {
    public var certificateFile: String
    public var keyFile: String

    public init(certificateFile: String, keyFile: String) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }

    func context() throws(HubServerError) -> NIOSSLContext {
        for file in [certificateFile, keyFile] where !FileManager.default.isReadableFile(atPath: file) {
            throw HubServerError.unreadable(file)
        }
        let chain: [NIOSSLCertificateSource]
        do {
            chain = try NIOSSLCertificate.fromPEMFile(certificateFile).map { .certificate($0) }
        } catch {
            throw HubServerError(.invalidCertificate, "\(certificateFile) holds no certificates in PEM")
        }
        do {
            let key = try NIOSSLPrivateKey(file: keyFile, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(certificateChain: chain, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["http/1.1"]
            // The WebSocket's own closing has already said that nothing more comes.
            configuration.shutdownTimeout = .seconds(1)
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw HubServerError(.invalidKey, "\(keyFile) cannot be used as the private key (PEM, without a passphrase) of \(certificateFile)")
        }
    }
}
