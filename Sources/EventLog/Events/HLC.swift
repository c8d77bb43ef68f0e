/// A hybrid logical clock's value: 48 bits of milliseconds since 1970, 16 bits of counter (Kulkarni et al. 2014).
public struct HLC: Hashable, Comparable, Sendable {
    public let rawValue: UInt64

    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The first value of a millisecond.
    @inlinable public init(milliseconds: UInt64, counter: UInt16 = 0) { rawValue = milliseconds << 16 | UInt64(counter) }

    @inlinable public var milliseconds: UInt64 { rawValue >> 16 }
    @inlinable public var counter: UInt16 { UInt16(truncatingIfNeeded: rawValue) }

    @inlinable public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// The next value of a hub's clock: the wall clock if it went on, else this value's successor. The last value has none: it stays.
    @inlinable public func next(wallMilliseconds: UInt64) -> HLC {
        HLC(rawValue: max(wallMilliseconds << 16, rawValue == .max ? rawValue : rawValue + 1))
    }
}

/// Who made an event, the how-many-eth it made in that log, and when by its own clock. (replica, log, counter) is the
/// event's identity for exactly-once (I3).
public struct Origin: Hashable, Sendable {
    public var replica: ReplicaID
    public var counter: UInt64
    public var hlc: HLC

    public init(replica: ReplicaID, counter: UInt64, hlc: HLC) {
        self.replica = replica
        self.counter = counter
        self.hlc = hlc
    }
}
