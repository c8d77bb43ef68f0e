/// A run, decoded but for its texts, which are decompressed frame by frame when asked for.
///
/// For one thread at a time.
final class DecodedRun {
    struct Slice {
        var log: LogID
        var firstSeq: Seq
        /// The places of its events in `events`.
        var range: Range<Int>
        var endSeq: Seq { firstSeq + Seq(range.count) }
    }

    struct Item {
        var kind: UInt32 = 0
        var author: UInt32 = 0
        var replica: UInt32 = 0
        var slice: UInt32 = 0
        var chunkIndex: UInt32 = 0
        var textOffset: UInt32 = 0
        var textLength: UInt32 = 0
        var restOffset: UInt32 = 0
        var restLength: UInt32 = 0
        var hasMessage = false
        var hasReply = false
        var isErased = false
        var hasExtra = false
        /// Whether the event's own clock is the hub's.
        var isHubTime = false
        var seq: Seq = 0
        var counter: UInt64 = 0
        var originHLC: UInt64 = 0
        var hlc: UInt64 = 0
        var target: Seq = 0
        var message = MessageID(high: 0, low: 0)
        var replyTo = MessageID(high: 0, low: 0)
        var position: Position = 0

        /// Whether it is a message, or a chunk of one, with nothing beside its text: most events are.
        @inline(__always) var isPlain: Bool {
            guard hasMessage, !isErased, !hasExtra, restLength == 0 else { return false }
            return kind == Event.Kind.chunkAppended.rawValue ? !hasReply : kind == Event.Kind.messageSent.rawValue && chunkIndex == 0
        }
    }

    let position: Position
    let slices: [Slice]
    let events: Items
    /// The places in `events`, in commit order.
    let order: ContiguousArray<UInt32>
    let users: [UserID]
    let replicas: [ReplicaID]
    let extras: [Int: [UInt8]]
    let commitments: [Int: Hash256]
    private let columnBytes: ColumnBytes
    private let itemMemory: ItemMemory
    private let rest: UnsafeRawBufferPointer
    private let texts: RunTexts

    /// The items of a run, in place: reading a field of one copies no more than that field.
    struct Items {
        fileprivate let memory: UnsafeMutableBufferPointer<Item>
        @inline(__always) var count: Int { memory.count }
        var indices: Range<Int> { 0..<memory.count }

        @inline(__always) subscript(place: Int) -> Item {
            _read {
                precondition(place >= 0 && place < memory.count, "no such place")
                yield memory[place]
            }
        }
    }

    /// Freed with its owner.
    private struct ItemMemory: ~Copyable {
        let memory: UnsafeMutableBufferPointer<Item>
        init(count: Int) { memory = .allocate(capacity: count) }
        deinit { memory.deallocate() }
    }

    /// The columns, decompressed; freed with their owner.
    private struct ColumnBytes: ~Copyable {
        let memory: UnsafeMutableRawBufferPointer
        init(count: Int) { memory = .allocate(byteCount: count, alignment: 16) }
        deinit { memory.deallocate() }
    }

    /// Copies the value out of the map and decodes all but the texts.
    init(_ bytes: UnsafeRawBufferPointer, at position: Position, decompressor: ZstdDecompressor) throws {
        let value = Array(bytes)
        do {
            let header = try value.withUnsafeBytes { try Header($0, at: position) }
            let columnBytes = ColumnBytes(count: header.metaBytes)
            let itemMemory = ItemMemory(count: header.events)
            let (columns, order) = try value.withUnsafeBytes { bytes in
                let ids = try header.ids(in: bytes, at: position)
                try decompressor.decompress(header.columns(in: bytes, at: position), into: columnBytes.memory)
                var columns = try RunColumnReader(header, ids: ids, columns: UnsafeRawBufferPointer(columnBytes.memory))
                try columns.readEvents(into: itemMemory.memory)
                return (columns, try columns.readOrder(from: position, into: itemMemory.memory))
            }
            self.position = position
            slices = columns.slices
            events = Items(memory: itemMemory.memory)
            self.order = order
            users = columns.users
            replicas = columns.replicas
            extras = columns.extras
            commitments = columns.commitments
            rest = columns.rest
            texts = RunTexts(value, frames: header.frames, at: position, decompressor: decompressor)
            self.columnBytes = columnBytes
            self.itemMemory = itemMemory
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }

    /// The body's parts without the text: enough for acceptance.
    func rest(at place: Int) -> UnsafeRawBufferPointer {
        let start = Int(events[place].restOffset)
        return UnsafeRawBufferPointer(rebasing: rest[start..<start + Int(events[place].restLength)])
    }

    /// The body of an event, valid as long as the run is.
    func body(at place: Int) throws -> BodyParts {
        let text = try texts.bytes(at: Int(events[place].textOffset), count: Int(events[place].textLength))
        return BodyParts(text: text, rest: rest(at: place))
    }

    /// Texts that follow each other, of which all were decompressed.
    func loadedText(_ range: Range<Int>) throws -> UnsafeRawBufferPointer { try texts.loadedBytes(range) }

    /// Decompresses all texts now: after that the run needs no decompressor, and may go to another thread.
    func loadTexts() throws { try texts.loadAll() }
}
