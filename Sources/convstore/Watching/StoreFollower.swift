import ConversationStore
import EventLog

/// Reads a store again and again, whenever another process has written to it.
///
/// A store that is open for reading shows what was there when it was opened. So the files' times are looked at, which is cheap, and the store is
/// opened anew when they changed.
struct StoreFollower {
    private static let pollMilliseconds = 50
    /// The times of files are this coarse, with room to spare: a change this young may hide another.
    private static let youngNanoseconds: Int64 = 100_000_000

    let store: StoreOption
    private var seen: FileMarks?
    private var openedAt: Int64 = 0
    private var lastCost = Duration.zero

    init(_ store: StoreOption) { self.store = store }

    /// Opens the store as it is now, for the length of the closure, which only reads: it may be asked more than once.
    mutating func read<Result>(_ body: (ConversationStore) throws -> Result) throws -> Result {
        let start = ContinuousClock.now
        defer { lastCost = ContinuousClock.now - start }
        openedAt = Int64(WallClock.milliseconds()) * 1_000_000
        seen = FileMarks.all(of: store.path)
        return try store.show(body)
    }

    /// Waits until something was written; says false when the command is to end.
    mutating func wait() -> Bool {
        // Where opening takes long, as behind a long journal, most of the time is left to others.
        var pause = max(Self.pollMilliseconds, Int((lastCost * 2).seconds * 1000))
        while true {
            switch Signals.wait(watchesReader: true, milliseconds: pause) {
            case .signal, .readerIsGone: return false
            case .readable, .writable, .timeout: break
            }
            let now = FileMarks.all(of: store.path)
            if now != seen || now.lastChange > openedAt - Self.youngNanoseconds { return true }
            pause = Self.pollMilliseconds
        }
    }
}
