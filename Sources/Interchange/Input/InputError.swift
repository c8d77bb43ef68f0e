/// Why a file could not be read: what, where, and what to do.
public struct InputError: Error, Hashable, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable {
        private enum Base { case noSuchFile, unreadable, damaged, windowTooLarge, truncated, noKnownWire, payloadTooLarge }
        private let base: Base
        private init(_ base: Base) { self.base = base }
        /// Nothing is there, or it is a directory.
        public static var noSuchFile: Self { Self(.noSuchFile) }
        /// The system refused to open or to read it, or to write the temporary copy of standard input.
        public static var unreadable: Self { Self(.unreadable) }
        /// It is no zstd data, or its bytes contradict each other. What was read before stands.
        public static var damaged: Self { Self(.damaged) }
        /// The zstd data was made to be decompressed with more memory than is given to it here.
        public static var windowTooLarge: Self { Self(.windowTooLarge) }
        /// The zstd data ends in the middle. What was read before stands.
        public static var truncated: Self { Self(.truncated) }
        /// No payload of a recorded stream is of a wire format known here.
        public static var noKnownWire: Self { Self(.noKnownWire) }
        /// A payload of a recorded stream is larger than ``RecordedStream/payloadBytesMax``.
        public static var payloadTooLarge: Self { Self(.payloadTooLarge) }
    }

    public let code: Code
    /// What, where, and what to do; never a user's text.
    public let message: String
    /// The line that it is about, counted physically from 1, where there is one.
    public let line: Int?

    public init(_ code: Code, _ message: String, line: Int? = nil) {
        self.code = code
        self.message = message
        self.line = line
    }

    public var description: String { message }
}
