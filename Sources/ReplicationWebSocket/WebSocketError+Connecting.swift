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
        case let error as IOError where error.errnoCode == ECONNRESET || error.errnoCode == EPIPE:
            self.init(.malformed, "\(name) hung up\(Self.secureHint(url))")
        case let error as IOError: self.init(.unreachable, "\(name) cannot be reached: \(String(cString: strerror(error.errnoCode)))")
        case ChannelError.connectTimeout: self.init(.timeout, "\(name) did not answer in time")
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: self.init(.insecure, "no TLS with \(name): \(Self.reason(error, url, trustOption))")
        default:
            let kind = url.scheme == .webSocket ? "a WebSocket" : "an HTTP"
            self.init(.malformed, "\(name) hung up, or its answer is not that of \(kind) server\(Self.secureHint(url))")
        }
    }

    /// What speaks TLS answers a request in the clear with an alert, or not at all.
    private static func secureHint(_ url: ServerURL) -> String {
        url.scheme == .webSocket && !url.isSecure ? "; if it speaks TLS, try wss:// instead of ws://" : ""
    }

    /// An answer that is an ordinary page's.
    init(status: Int, _ phrase: String, _ url: ServerURL) {
        let isElsewhere = status == 404 && url.path.prefix(while: { $0 != "?" }) != "/v1/sync"
        self.init(
            .rejected, "\(url.authority)\(url.path) answered \(status) \(phrase)\(isElsewhere ? "; a hub is at /v1/sync" : "")", status: status)
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
