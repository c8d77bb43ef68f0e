/// How a store is opened.
public struct StoreOptions: Sendable {
    public enum Access: Sendable {
        /// Opens or creates; one writer in all processes.
        case readWrite
        /// Opens what exists, for appending; an absent store is an error.
        case existing
        /// Reads beside a writer in another process. What is appended after the opening is not seen.
        case readOnly
    }

    public var access: Access
    public var durability: Durability
    /// Bytes of journal kept before the archive must take them: bounds reopening and memory.
    public var journalBytesMax: Int
    /// Submissions that may wait at once; a further caller waits for room.
    public var queueDepthMax: Int
    /// The most that the archive's map may grow to, in bytes; `nil`: as large as the disk.
    public var mapBytesMax: Int?
    /// States that modules above keep in the archive.
    package var folds: [any EventFold] = []
    /// Called while opening has to fold archived events: how many are done, of how many.
    package var foldProgress: (@Sendable (UInt64, UInt64) throws -> Void)?
    /// Told of events that have just become visible, in commit order, by the thread that committed them.
    package var observer: (@Sendable ([RecordedEvent]) -> Void)?

    public init(
        access: Access = .readWrite, durability: Durability = .full, journalBytesMax: Int = 32 << 20, queueDepthMax: Int = 65_536,
        mapBytesMax: Int? = nil
    ) {
        self.access = access
        self.durability = durability
        self.journalBytesMax = journalBytesMax
        self.queueDepthMax = queueDepthMax
        self.mapBytesMax = mapBytesMax
    }
}
