/// What went wrong, where, and what to do: the one error of this module that crosses its boundary.
public struct EventLogError: Error, Sendable, CustomStringConvertible {
    public struct Code: Hashable, Sendable {
        private enum Base {
            case noSuchStore, cannotCreate, busy, newerFormat, notAStore, damaged, unsupportedFileSystem, diskFull, inputOutput, unknownOutcome, closed,
                noSuchLog, projectionMissing,
                readOnly, invalidArgument
        }
        private let base: Base
        private init(_ base: Base) { self.base = base }
        /// Nothing is there, or it is not a store.
        public static var noSuchStore: Self { Self(.noSuchStore) }
        /// The directory cannot be made.
        public static var cannotCreate: Self { Self(.cannotCreate) }
        /// Another process (named in the message), or this one, has the store open for writing. Try again later.
        public static var busy: Self { Self(.busy) }
        /// A newer version of convstore wrote it; both versions are named.
        public static var newerFormat: Self { Self(.newerFormat) }
        /// The directory holds something else.
        public static var notAStore: Self { Self(.notAStore) }
        /// The bytes contradict their checksums or each other. Retrying cannot help: run `convstore verify`.
        public static var damaged: Self { Self(.damaged) }
        /// A network file system, on which neither the locks nor the map hold.
        public static var unsupportedFileSystem: Self { Self(.unsupportedFileSystem) }
        /// No room. Nothing was written, unless the message says so (`erase`); free some and try again.
        public static var diskFull: Self { Self(.diskFull) }
        /// The system refused a read, a write or a sync.
        public static var inputOutput: Self { Self(.inputOutput) }
        /// A write or sync failed half-way: whether the events are kept is known after reopening. Retrying is safe (I3).
        public static var unknownOutcome: Self { Self(.unknownOutcome) }
        /// The store was closed.
        public static var closed: Self { Self(.closed) }
        public static var noSuchLog: Self { Self(.noSuchLog) }
        /// A projection's rows are missing or of another version, and the store is open for reading only.
        public static var projectionMissing: Self { Self(.projectionMissing) }
        public static var readOnly: Self { Self(.readOnly) }
        public static var invalidArgument: Self { Self(.invalidArgument) }
    }

    public let code: Code
    /// What, where, and what to do; never a user's text.
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
