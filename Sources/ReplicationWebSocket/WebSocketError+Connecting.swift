import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension WebSocketError {
    /// What an error of a connection means for people.
    ///
    /// - Parameter trustOption: which option names the certificates to trust.
    package init(_ error: any Error, _ url: ServerURL, trustOption: String = "--tls-ca") {
        let name = url.authority
        switch error {
        case let error as WebSocketError: self = error
        case let error as NIOConnectionError:
            let causes = error.connectionErrors.map(\.error)
            if causes.isEmpty {
                self.init(.unreachable, "there is no host \(url.host)")
            } else {
                // Of several addresses, that of a host which is there says most.
                let all = causes.map { WebSocketError($0, url, trustOption: trustOption) }
                self = all.first { $0.code == .refused } ?? all.first { $0.code == .timeout } ?? all[0]
            }
        case let error as IOError where error.errnoCode == ECONNREFUSED: self.init(.refused, "nobody listens at \(name)")
        case let error as IOError where error.errnoCode == ECONNRESET || error.errnoCode == EPIPE: self.init(.malformed, "\(name) hung up")
        case let error as IOError: self.init(.unreachable, "\(name) cannot be reached: \(String(cString: strerror(error.errnoCode)))")
        case ChannelError.connectTimeout: self.init(.timeout, "\(name) did not answer in time")
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: self.init(.insecure, "no TLS with \(name): \(Self.reason(error, url, trustOption))")
        default: self.init(.malformed, "\(name) hung up, or its answer is not that of \(url.scheme == .webSocket ? "a WebSocket" : "an HTTP") server")
        }
    }

    /// The library's errors are known by their texts only, which name files of its sources.
    private static func reason(_ error: any Error, _ url: ServerURL, _ trustOption: String) -> String {
        let text = String(describing: error)
        if text.contains("CERTIFICATE_VERIFY_FAILED") { return "its certificate is not trusted; name who signed it (\(trustOption) FILE)" }
        if text.contains("WRONG_VERSION_NUMBER") { return url.scheme == .webSocket ? "it speaks none; try ws:// instead of wss://" : "it speaks none" }
        if error as? NIOSSLExtraError == .failedToValidateHostname { return "its certificate is that of another host" }
        return "the handshake failed"
    }
}
