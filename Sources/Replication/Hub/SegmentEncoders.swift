internal import EventLog

/// A few encoders for all connections: each holds compressors of a hundred KiB, and connections are idle most of the time.
final class SegmentEncoders: Sendable {
    /// `@unchecked Sendable`: lent to one thread at a time.
    private final class Box: @unchecked Sendable { let encoder = SegmentEncoder() }

    private let idle = Monitor<[Box]>([])
    private static let idleMax = 4

    func encode(_ events: [RecordedEvent], at position: Position = SegmentCodec.position) throws -> [UInt8] {
        let box = idle.withLock { $0.popLast() } ?? Box()
        defer { idle.withLock { if $0.count < Self.idleMax { $0.append(box) } } }
        return try box.encoder.encode(events, at: position)
    }
}
