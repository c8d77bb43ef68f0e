/// Why a server cannot be started.
public struct HubServerError: Error, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable {
        private enum Base { case unreadable, invalidCertificate, invalidKey, invalidTokenKey, invalidURL, unreachable, cannotListen }
        private let base: Base
        private init(_ base: Base) { self.base = base }

        /// A file that was named is not there, or may not be read.
        public static var unreadable: Self { Self(.unreadable) }
        public static var invalidCertificate: Self { Self(.invalidCertificate) }
        /// The file holds no private key, or not the certificate's.
        public static var invalidKey: Self { Self(.invalidKey) }
        /// The file, or what the URL answered, holds no key with which tokens can be checked.
        public static var invalidTokenKey: Self { Self(.invalidTokenKey) }
        /// The keys' URL is none, or would be fetched in the clear.
        public static var invalidURL: Self { Self(.invalidURL) }
        /// The keys could not be fetched: no connection, no TLS, no answer in time, or none that is good.
        public static var unreachable: Self { Self(.unreachable) }
        /// The address is taken, not ours, not allowed, or there is no such host.
        public static var cannotListen: Self { Self(.cannotListen) }
    }

    public let code: Code
    /// What, where, and what to do. Never a part of a key.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
