/// Why there is no connection to a hub.
public struct WebSocketError: Error, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable {
        private enum Base { case invalidURL, unreadable, invalidCertificates, refused, unreachable, timeout, insecure, rejected, malformed }
        private let base: Base
        private init(_ base: Base) { self.base = base }

        /// The URL is not one of a WebSocket. Retrying cannot help.
        public static var invalidURL: Self { Self(.invalidURL) }
        /// The file of certificates to trust is not there, or may not be read.
        public static var unreadable: Self { Self(.unreadable) }
        /// The file of certificates to trust holds none. Retrying cannot help.
        public static var invalidCertificates: Self { Self(.invalidCertificates) }
        /// Nobody listens there.
        public static var refused: Self { Self(.refused) }
        /// There is no such host, or no way to it.
        public static var unreachable: Self { Self(.unreachable) }
        public static var timeout: Self { Self(.timeout) }
        /// TLS could not be agreed on: the certificate is not trusted, or it is no TLS.
        public static var insecure: Self { Self(.insecure) }
        /// The server answered with an ordinary HTTP status instead.
        public static var rejected: Self { Self(.rejected) }
        /// The answer is not that of a WebSocket server, or the connection was lost while it came.
        public static var malformed: Self { Self(.malformed) }
    }

    public let code: Code
    public let message: String
    /// The HTTP status, if the server `rejected`.
    public let status: Int?

    public init(_ code: Code, _ message: String, status: Int? = nil) {
        self.code = code
        self.message = message
        self.status = status
    }

    public var description: String { message }
}
