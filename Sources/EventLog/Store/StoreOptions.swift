/// How a store is opened.
public struct StoreOptions: Sendable {
    public enum Access: Sendable {
        /// Opens or creates; one writer in all processes.
        case readWrite
        /// Opens what exists, for appending; an absent store is an error.
        case existing
        /// Reads beside a writer in another process. What is appended after the opening is not seen. With projections it keeps the archive as
        /// it was, so that a writer's file grows until it is closed: open anew rather than keep it.
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
    /// About how much memory the states of logs may take that are kept only because they may be asked for again, in bytes: 32 MiB. What a log's next
    /// event is judged by is kept as long as the journal needs it.
    public var cacheBytes: Int
    /// States that modules above keep in the archive.
    package var folds: [any EventFold] = []
    /// Called while opening has to fold archived events: how many are done, of how many.
    package var foldProgress: (@Sendable (UInt64, UInt64) throws -> Void)?
    /// Told of events that have just become visible, in commit order, by the thread that committed them; of none when a relaxed store's sync showed
    /// in the log what was folded before. The events may have to be made for it: it asks for them if it needs them.
    package var observer: (@Sendable (_ events: () -> [RecordedEvent]) -> Void)?
    /// The file `sync` that a store is made with, if it is made: nobody sees it without, whenever its making is cut off.
    package var side: [SideStore.TableName: [SideStore.Record]]?
    /// For whoever saves what can be read: logs whose secrets cannot be are as good as absent, and the others' can be had.
    package var skipsUnreadableSecrets = false
    /// The store starts no thread: whoever appends leads, and a commit ends with the flush that it asked for. For one thread, as in a simulation.
    package var runsInline = false
    /// Milliseconds since 1970 for the events that the store accepts; `nil`: the system's clock.
    package var wallClock: (@Sendable () -> UInt64)?
    /// Time that only passes, by which folded rows are saved; `nil`: the system's.
    package var uptime: (@Sendable () -> Duration)?

    public init(
        access: Access = .readWrite, durability: Durability = .full, journalBytesMax: Int = 32 << 20, queueDepthMax: Int = 65_536,
        mapBytesMax: Int? = nil, cacheBytes: Int = 32 << 20
    ) {
        self.access = access
        self.durability = durability
        self.journalBytesMax = journalBytesMax
        self.queueDepthMax = queueDepthMax
        self.mapBytesMax = mapBytesMax
        self.cacheBytes = cacheBytes
    }
}

extension StoreOptions {
    /// Time that only passes.
    var now: Duration { uptime?() ?? UptimeClock.now() }
}
