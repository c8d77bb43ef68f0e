public import EventLog

/// Gives the events of an imported file their origins, so that importing it again changes nothing (I3): the replica is the
/// UUIDv8 of the content's SHA-256, the counter the count of the line in its log, and the HLC the line's `at` with counter 0.
public struct ImportOrigins: Sendable {
    public let replica: ReplicaID
    private var counters: [LogID: UInt64] = [:]

    public init(digest: ContentDigest) { replica = digest.identifier() }

    /// Counts a line whose log is known, whether it was refused or not, and answers its number in that log: 1, 2, 3 …
    @discardableResult
    public mutating func count(_ log: LogID) -> UInt64 {
        counters[log, default: 0] += 1
        return counters[log, default: 0]
    }

    /// Counts a line and answers its origin. `at` is in milliseconds since 1970.
    public mutating func origin(in log: LogID, at: UInt64) -> Origin {
        Origin(replica: replica, counter: count(log), hlc: HLC(milliseconds: min(at, Timestamp.maximum)))
    }
}
