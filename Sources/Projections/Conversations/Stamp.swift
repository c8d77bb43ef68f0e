import EventLog

/// What last-write-wins compares: the effective time, then the origin (DESIGN.md, section 8).
///
/// The effective time is the smaller of the writer's clock and the hub's when it accepted the write, so that a clock set into the future does
/// not win for ever.
struct Stamp: Comparable, Hashable, Sendable {
    var time: UInt64
    var replica: ReplicaID
    var counter: UInt64

    init(_ event: RecordedEvent) {
        time = PlantedBug.compareWithoutClamp.isPlanted ? event.origin.hlc.rawValue : min(event.origin.hlc.rawValue, event.hlc.rawValue)
        replica = event.origin.replica
        counter = event.origin.counter
    }

    static func < (left: Stamp, right: Stamp) -> Bool {
        if left.time != right.time { return left.time < right.time }
        if left.replica != right.replica { return left.replica < right.replica }
        return left.counter < right.counter
    }
}

/// A last-write-wins register; without a stamp it was never written.
struct Register<Value: Sendable>: Sendable {
    var value: Value
    var stamp: Stamp?

    init(_ value: Value) { self.value = value }

    /// Takes a write if it wins; says whether it did.
    @discardableResult
    mutating func write(_ value: Value, _ stamp: Stamp) -> Bool {
        if let old = self.stamp, stamp <= old { return false }
        self.value = value
        self.stamp = stamp
        return true
    }
}

extension RowWriter {
    mutating func put(_ stamp: Stamp) {
        put(fixed: stamp.time)
        put(stamp.replica)
        put(stamp.counter)
    }

    mutating func put(_ stamp: Stamp?) {
        put(byte: stamp == nil ? 0 : 1)
        if let stamp { put(stamp) }
    }
}

extension RowReader {
    mutating func stamp() throws -> Stamp { Stamp(time: try fixed(), replica: try identifier(), counter: try value()) }
    mutating func optionalStamp() throws -> Stamp? { try byte() == 0 ? nil : stamp() }
}

extension Stamp {
    init(time: UInt64, replica: ReplicaID, counter: UInt64) {
        self.time = time
        self.replica = replica
        self.counter = counter
    }
}
