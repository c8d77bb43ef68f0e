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
        fileprivate var isHubTime = false
        var seq: Seq = 0
        var counter: UInt64 = 0
        var originHLC: UInt64 = 0
        var hlc: UInt64 = 0
        var target: Seq = 0
        var message = MessageID(high: 0, low: 0)
        var replyTo = MessageID(high: 0, low: 0)
        var position: Position = 0
    }

    private struct Frame {
        var offset: Int
        var compressed: Int
        var rawStart: Int
        var rawBytes: Int
        var checksum: UInt64
    }

    let position: Position
    private(set) var slices: [Slice] = []
    private(set) var events = ContiguousArray<Item>()
    /// The places in `events`, in commit order.
    private(set) var order = ContiguousArray<UInt32>()
    private(set) var users: [UserID] = []
    private(set) var replicas: [ReplicaID] = []
    private(set) var extras: [Int: [UInt8]] = [:]
    private(set) var commitments: [Int: Hash256] = [:]
    private var value: [UInt8]
    private var meta: UnsafeMutableRawBufferPointer
    private var restBase = 0
    private var frames: [Frame] = []
    private var textBase: UnsafeMutableRawPointer?
    private var isLoaded: [Bool] = []
    private let decompressor: ZstdDecompressor

    /// Copies the value out of the map and decodes all but the texts.
    init(_ bytes: UnsafeRawBufferPointer, at position: Position, decompressor: ZstdDecompressor) throws {
        self.position = position
        self.decompressor = decompressor
        value = Array(bytes)
        meta = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        do {
            try value.withUnsafeBytes { try parse($0) }
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }

    deinit {
        meta.deallocate()
        textBase?.deallocate()
    }

    /// The sections of a run, checked as far as the header goes.
    struct Header {
        var events: Int
        var slices: Int
        var raw: Range<Int>
        var meta: Range<Int>
        var metaBytes: Int
        var rawChecksum: UInt64
        var metaChecksum: UInt64
        var frames: [(range: Range<Int>, raw: Int, checksum: UInt64)] = []

        init(_ bytes: UnsafeRawBufferPointer, at position: Position) throws {
            var reader = ByteReader(bytes)
            guard try reader.fixed32() == RunEncoder.magic, try reader.fixed32() == 0 else { throw CodecError(.badValue) }
            events = Int(try reader.fixed32())
            slices = Int(try reader.fixed32())
            let rawBytes = Int(try reader.fixed32())
            let compressed = Int(try reader.fixed32())
            metaBytes = Int(try reader.fixed32())
            let count = Int(try reader.fixed32())
            rawChecksum = try reader.fixed64()
            metaChecksum = try reader.fixed64()
            guard count <= reader.remaining / 16, metaBytes <= 256 << 20, events <= metaBytes, slices <= events else {
                throw CodecError(.badValue)
            }
            var table: [(Int, Int, UInt64)] = []
            for _ in 0..<count { table.append((Int(try reader.fixed32()), Int(try reader.fixed32()), try reader.fixed64())) }
            let end = reader.offset
            guard try reader.fixed64() == XXH64.hash(UnsafeRawBufferPointer(rebasing: bytes[..<end]), seed: position) else {
                throw ChecksumMismatch(part: "header")
            }
            raw = reader.offset..<reader.offset + rawBytes
            meta = raw.upperBound..<raw.upperBound + compressed
            var offset = meta.upperBound
            for entry in table {
                guard entry.1 <= 64 << 20 else { throw CodecError(.tooLarge) }
                frames.append((offset..<offset + entry.0, entry.1, entry.2))
                offset += entry.0
            }
            guard offset == bytes.count else { throw CodecError(.truncated) }
        }
    }

    /// The ids of a slice's own messages, without decompressing anything.
    static func messageIDs(_ bytes: UnsafeRawBufferPointer, at position: Position, slice wanted: Int) throws -> [MessageID] {
        let header = try Header(bytes, at: position)
        let section = UnsafeRawBufferPointer(rebasing: bytes[header.raw])
        guard XXH64.hash(section, seed: position) == header.rawChecksum else { throw ChecksumMismatch(part: "ids") }
        var reader = ByteReader(section)
        for _ in 0..<3 { _ = try reader.varint() }
        var before = 0
        var mine = 0
        var conversations = 0
        for slice in 0..<header.slices {
            let entry = try reader.varint()
            if entry & 1 == 0 { conversations += 1 }
            guard entry >> 1 <= UInt64(header.events) else { throw CodecError(.badValue) }
            if slice < wanted { before += Int(clamping: entry >> 1) } else if slice == wanted { mine = Int(clamping: entry >> 1) }
        }
        guard before < 1 << 30, mine < 1 << 30 else { throw CodecError(.badValue) }
        _ = try reader.take((conversations + before) * 16)
        var result: [MessageID] = []
        result.reserveCapacity(mine)
        for _ in 0..<mine { result.append(try reader.identifier()) }
        return result
    }

    private func parse(_ bytes: UnsafeRawBufferPointer) throws {
        // Filled as locals: each access to a class's own would be checked for exclusivity.
        var slices: [Slice] = []
        var events = ContiguousArray<Item>()
        var order = ContiguousArray<UInt32>()
        var users: [UserID] = []
        var replicas: [ReplicaID] = []
        var extras: [Int: [UInt8]] = [:]
        var commitments: [Int: Hash256] = [:]
        let header = try Header(bytes, at: position)
        let rawSection = UnsafeRawBufferPointer(rebasing: bytes[header.raw])
        guard XXH64.hash(rawSection, seed: position) == header.rawChecksum else { throw ChecksumMismatch(part: "ids") }
        let metaSection = UnsafeRawBufferPointer(rebasing: bytes[header.meta])
        guard XXH64.hash(metaSection, seed: position) == header.metaChecksum else { throw ChecksumMismatch(part: "columns") }
        meta = .allocate(byteCount: header.metaBytes, alignment: 16)
        try decompressor.decompress(metaSection, into: meta)

        var start = 0
        for frame in header.frames {
            frames.append(
                Frame(
                    offset: frame.range.lowerBound, compressed: frame.range.count, rawStart: start, rawBytes: frame.raw,
                    checksum: frame.checksum))
            start += frame.raw
        }
        isLoaded = Array(repeating: false, count: frames.count)
        let textBytes = start
        guard textBytes <= UInt32.max else { throw CodecError(.tooLarge) }

        var raw = ByteReader(rawSection)
        let replicaCount = Int(clamping: try raw.varint())
        let commitmentCount = Int(clamping: try raw.varint())
        let explicitCount = Int(clamping: try raw.varint())
        var heads: [UInt64] = []
        heads.reserveCapacity(header.slices)
        var messages = 0
        var conversations = 0
        for _ in 0..<header.slices {
            let entry = try raw.varint()
            guard entry >> 1 <= UInt64(header.events) else { throw CodecError(.badValue) }
            heads.append(entry)
            messages += Int(entry >> 1)
            if entry & 1 == 0 { conversations += 1 }
        }
        guard replicaCount <= header.events, commitmentCount <= header.events, explicitCount <= 2 * header.events,
            messages <= header.events,
            raw.remaining == 16 * (conversations + messages + replicaCount + explicitCount) + Hash256.byteCount * commitmentCount
        else { throw CodecError(.badValue) }
        var logIDs = ByteReader(try raw.take(16 * conversations))
        var sentIDs = ByteReader(try raw.take(16 * messages))
        for _ in 0..<replicaCount { replicas.append(try raw.identifier()) }
        var explicitIDs = ByteReader(try raw.take(16 * explicitCount))
        var commitmentBytes = ByteReader(try raw.take(Hash256.byteCount * commitmentCount))

        let whole = UnsafeRawBufferPointer(meta)
        var columns = ByteReader(whole)
        let userCount = try columns.count()
        var strings = ByteReader(try columns.lengthPrefixed())
        for _ in 0..<userCount { users.append(try strings.user()) }
        var directory = ByteReader(try columns.lengthPrefixed())
        var orderSlices = ByteReader(try columns.lengthPrefixed())
        var orderCounts = ByteReader(try columns.lengthPrefixed())
        var hubTimes = ByteReader(try columns.lengthPrefixed())
        var hubCounters = ByteReader(try columns.lengthPrefixed())
        var kinds = ByteReader(try columns.lengthPrefixed())
        var flags = ByteReader(try columns.lengthPrefixed())
        var authors = ByteReader(try columns.lengthPrefixed())
        var newAuthors = ByteReader(try columns.lengthPrefixed())
        var times = ByteReader(try columns.lengthPrefixed())
        var originCounters = ByteReader(try columns.lengthPrefixed())
        var replicaColumn = ByteReader(try columns.lengthPrefixed())
        var counters = ByteReader(try columns.lengthPrefixed())
        var targets = ByteReader(try columns.lengthPrefixed())
        var indexes = ByteReader(try columns.lengthPrefixed())
        var textLengths = ByteReader(try columns.lengthPrefixed())
        var restLengths = ByteReader(try columns.lengthPrefixed())
        var odd = ByteReader(try columns.lengthPrefixed())
        let rest = try columns.lengthPrefixed()
        guard columns.isAtEnd else { throw CodecError(.notCanonical) }
        restBase = rest.isEmpty ? 0 : rest.baseAddress! - whole.baseAddress!

        events.reserveCapacity(header.events)
        var textOffset = 0
        var restOffset = 0
        var ids = TargetTable()
        var recent: [UInt32] = []
        var lanes: [(replica: UInt32, next: UInt64)] = []
        for (sliceNumber, head) in heads.enumerated() {
            let firstSeq = try directory.varint()
            let count = try directory.varint()
            guard count > 0, count <= UInt64(header.events - events.count), firstSeq < 1 << 60 else { throw CodecError(.badValue) }
            let log: LogID
            if head & 1 == 0 {
                log = .conversation(try logIDs.identifier())
            } else {
                let number = try directory.varint()
                guard number < UInt64(users.count) else { throw CodecError(.badValue) }
                log = .user(users[Int(number)])
            }
            slices.append(Slice(log: log, firstSeq: firstSeq, range: events.count..<events.count + Int(count)))
            recent.removeAll(keepingCapacity: true)
            var replica: UInt32 = .max
            lanes.removeAll(keepingCapacity: true)
            var lane = -1
            var time: UInt64 = 0
            var lastTarget: Seq = 0
            ids.begin(first: firstSeq, count: Int(count))
            for seq in firstSeq..<firstSeq + count {
                var item = Item()
                item.seq = seq
                item.slice = UInt32(sliceNumber)
                guard let kind = UInt32(exactly: try kinds.varint()) else { throw CodecError(.badValue) }
                item.kind = kind
                let flag = try flags.byte()
                let rank = try authors.varint()
                if rank == 0, let first = recent.first {
                    item.author = first
                } else if rank < UInt64(recent.count) {
                    item.author = recent.remove(at: Int(rank))
                    recent.insert(item.author, at: 0)
                } else {
                    guard rank == UInt64(recent.count), case let number = try newAuthors.varint(), number < UInt64(users.count) else {
                        throw CodecError(.badValue)
                    }
                    item.author = UInt32(number)
                    recent.insert(item.author, at: 0)
                }
                if flag & RunEncoder.Flag.replica != 0 {
                    let number = try replicaColumn.varint()
                    guard number < UInt64(replicas.count) else { throw CodecError(.badValue) }
                    replica = UInt32(number)
                    if let known = lanes.firstIndex(where: { $0.replica == replica }) {
                        lane = known
                    } else {
                        lane = lanes.count
                        lanes.append((replica, 1))
                    }
                }
                guard lane >= 0 else { throw CodecError(.badValue) }
                item.replica = replica
                item.counter = lanes[lane].next
                if flag & RunEncoder.Flag.counter != 0 { item.counter &+= try counters.varint() }
                lanes[lane].next = item.counter &+ 1
                let step = try times.varint()
                if step == 0 {
                    item.isHubTime = true
                } else {
                    time = time &+ ((step &- 1) >> 1 ^ (0 &- ((step &- 1) & 1)))
                    item.originHLC = time << 16
                    if flag & RunEncoder.Flag.originCounter != 0 { item.originHLC |= (try originCounters.varint()) & 0xFFFF }
                }

                let form = RunEncoder.Form(kind: kind)
                if flag & RunEncoder.Flag.odd != 0 {
                    if form == .sent { _ = try sentIDs.take(16) }
                    let mask = try odd.byte()
                    if mask & 1 != 0 {
                        item.message = try odd.identifier()
                        item.hasMessage = true
                    }
                    if mask & 2 != 0 {
                        item.replyTo = try odd.identifier()
                        item.hasReply = true
                    }
                    guard let index = UInt32(exactly: try odd.varint()) else { throw CodecError(.badValue) }
                    item.chunkIndex = index
                    item.target = try odd.varint()
                    let extra = try odd.lengthPrefixed()
                    if !extra.isEmpty {
                        item.hasExtra = true
                        extras[events.count] = Array(extra)
                    }
                } else {
                    switch form {
                    case .sent:
                        item.message = try sentIDs.identifier()
                        item.hasMessage = true
                        ids[seq] = item.message
                        if flag & RunEncoder.Flag.index != 0 {
                            item.target = seq &- (try targets.varint())
                            item.hasReply = true
                            if flag & RunEncoder.Flag.explicitID != 0 {
                                item.replyTo = try explicitIDs.identifier()
                                ids[item.target] = item.replyTo
                            } else {
                                guard let id = ids[item.target] else { throw CodecError(.badValue) }
                                item.replyTo = id
                            }
                        }
                    case .about:
                        let distance = try targets.varint()
                        item.target = distance == 0 ? lastTarget : seq &- distance
                        lastTarget = item.target
                        item.hasMessage = true
                        if flag & RunEncoder.Flag.explicitID != 0 {
                            item.message = try explicitIDs.identifier()
                            ids[item.target] = item.message
                        } else {
                            guard let id = ids[item.target] else { throw CodecError(.badValue) }
                            item.message = id
                        }
                        let isChunk = kind == Event.Kind.chunkAppended.rawValue
                        item.chunkIndex = isChunk ? ids.nextIndex : 0
                        if flag & RunEncoder.Flag.index != 0 {
                            guard let index = UInt32(exactly: try indexes.varint()) else { throw CodecError(.badValue) }
                            item.chunkIndex = index
                        }
                        if isChunk { ids.nextIndex = item.chunkIndex &+ 1 }
                    case .plain: break
                    }
                }

                let length = try textLengths.varint()
                guard length <= UInt64(textBytes - textOffset) else { throw CodecError(.truncated) }
                item.textOffset = UInt32(textOffset)
                item.textLength = UInt32(length)
                textOffset += Int(length)
                if flag & RunEncoder.Flag.erased != 0 {
                    item.isErased = true
                    commitments[events.count] = Hash256(try commitmentBytes.take(Hash256.byteCount))
                }
                if flag & RunEncoder.Flag.rest != 0 {
                    let length = try restLengths.varint()
                    guard length <= UInt64(rest.count - restOffset) else { throw CodecError(.truncated) }
                    item.restOffset = UInt32(restOffset)
                    item.restLength = UInt32(length)
                    restOffset += Int(length)
                }
                events.append(item)
            }
        }
        guard events.count == header.events, textOffset == textBytes, restOffset == rest.count, kinds.isAtEnd, flags.isAtEnd else {
            throw CodecError(.badValue)
        }

        order.reserveCapacity(events.count)
        var next = slices.map(\.range.lowerBound)
        var hubTime: UInt64 = 0
        var hubCounter: UInt16 = 0
        while order.count < events.count {
            let slice = try orderSlices.varint()
            guard slice < UInt64(slices.count) else { throw CodecError(.badValue) }
            let count = try orderCounts.varint()
            let first = next[Int(slice)]
            guard count < UInt64(slices[Int(slice)].range.upperBound - first) else { throw CodecError(.badValue) }
            for place in first...first + Int(count) {
                let step = try hubTimes.varint()
                let counter = UInt16(truncatingIfNeeded: try hubCounters.varint())
                hubCounter = step == 0 ? hubCounter &+ counter : counter
                hubTime = (hubTime &+ step) & 0xFFFF_FFFF_FFFF
                events[place].hlc = hubTime << 16 | UInt64(hubCounter)
                if events[place].isHubTime { events[place].originHLC = events[place].hlc }
                events[place].position = position + UInt64(order.count)
                order.append(UInt32(place))
            }
            next[Int(slice)] = first + Int(count) + 1
        }
        self.slices = slices
        self.events = events
        self.order = order
        self.users = users
        self.replicas = replicas
        self.extras = extras
        self.commitments = commitments
    }

    /// The message ids and next chunk indexes by the seq of the message.
    private struct TargetTable {
        private struct Entry {
            var id = MessageID(high: 0, low: 0)
            var hasID = false
            var next: UInt32 = 0
        }

        private var first: Seq = 0
        private var count: UInt64 = 0
        private var own = ContiguousArray<Entry>()
        /// Of messages of earlier runs.
        private var outside: [Seq: Entry] = [:]
        private var last: Seq = 0

        mutating func begin(first: Seq, count: Int) {
            self.first = first
            self.count = UInt64(count)
            own.removeAll(keepingCapacity: true)
            for _ in 0..<count { own.append(Entry()) }
            if !outside.isEmpty { outside.removeAll(keepingCapacity: true) }
            last = 0
        }

        /// The next chunk's index of the target that was asked for or set last.
        var nextIndex: UInt32 {
            get { last &- first < count ? own[Int(last &- first)].next : outside[last]?.next ?? 0 }
            set {
                if last &- first < count {
                    own[Int(last &- first)].next = newValue
                } else {
                    outside[last]?.next = newValue
                }
            }
        }

        subscript(seq: Seq) -> MessageID? {
            mutating get {
                if seq &- first < count {
                    guard own[Int(seq &- first)].hasID else { return nil }
                    last = seq
                    return own[Int(seq &- first)].id
                }
                guard let found = outside[seq] else { return nil }
                last = seq
                return found.id
            }
            set {
                guard let newValue else { return }
                last = seq
                if seq &- first < count {
                    own[Int(seq &- first)].id = newValue
                    own[Int(seq &- first)].hasID = true
                } else {
                    outside[seq, default: Entry()].id = newValue
                    outside[seq]?.hasID = true
                }
            }
        }
    }

    /// Decompresses the frame in which a text lies, if it is not yet.
    private func load(textOf item: Item) throws {
        guard item.textLength > 0 else { return }
        var low = 0
        var high = frames.count
        while low < high {
            let middle = (low + high) / 2
            if frames[middle].rawStart + frames[middle].rawBytes <= Int(item.textOffset) { low = middle + 1 } else { high = middle }
        }
        if isLoaded[low] { return }
        let frame = frames[low]
        if textBase == nil {
            let total = frames.last.map { $0.rawStart + $0.rawBytes } ?? 0
            textBase = .allocate(byteCount: total, alignment: 16)
        }
        do {
            try value.withUnsafeBytes { bytes in
                let section = UnsafeRawBufferPointer(rebasing: bytes[frame.offset..<frame.offset + frame.compressed])
                guard XXH64.hash(section, seed: position) == frame.checksum else { throw ChecksumMismatch(part: "texts") }
                try decompressor.decompress(
                    section, into: UnsafeMutableRawBufferPointer(start: textBase! + frame.rawStart, count: frame.rawBytes))
            }
        } catch {
            throw RunError(position: position, underlying: error)
        }
        isLoaded[low] = true
        guard Int(item.textOffset) + Int(item.textLength) <= frame.rawStart + frame.rawBytes else {
            throw RunError(position: position, underlying: CodecError(.badValue))
        }
    }

    /// The body's parts without the text: enough for acceptance.
    func rest(at place: Int) -> UnsafeRawBufferPointer {
        let item = events[place]
        let start = restBase + Int(item.restOffset)
        return UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(meta)[start..<start + Int(item.restLength)])
    }

    /// The body of an event, valid as long as the run is.
    func body(at place: Int) throws -> BodyParts {
        let item = events[place]
        try load(textOf: item)
        let text = UnsafeRawBufferPointer(
            start: textBase.map { UnsafeRawPointer($0) + Int(item.textOffset) }, count: textBase == nil ? 0 : Int(item.textLength))
        return BodyParts(text: text, rest: rest(at: place))
    }

    func envelope(at place: Int) -> Envelope {
        let item = events[place]
        return Envelope(
            log: slices[Int(item.slice)].log, seq: item.seq,
            origin: Origin(replica: replicas[Int(item.replica)], counter: item.counter, hlc: HLC(rawValue: item.originHLC)),
            hlc: HLC(rawValue: item.hlc),
            author: users[Int(item.author)], kind: item.kind, message: item.hasMessage ? item.message : nil, chunkIndex: item.chunkIndex,
            targetSeq: item.target, replyTo: item.hasReply ? item.replyTo : nil, extra: item.hasExtra ? extras[place] ?? [] : [])
    }

    func effect(at place: Int) throws -> Effect {
        let item = events[place]
        let text = UnsafeRawBufferPointer(start: nil, count: 0)
        var effect = try Effect(
            envelope: envelope(at: place),
            body: item.kind == Event.Kind.participantJoined.rawValue || item.kind == Event.Kind.participantLeft.rawValue
                || item.kind == Event.Kind.conversationCreated.rawValue ? body(at: place) : BodyParts(text: text, rest: rest(at: place)))
        effect.textBytes = Int(item.textLength)
        return effect
    }

    func recorded(at place: Int) throws -> RecordedEvent {
        let item = events[place]
        let log = slices[Int(item.slice)].log
        let body = try body(at: place)
        var conversation = ConversationID(high: 0, low: 0)
        if case .conversation(let id) = log { conversation = id }
        do {
            let content = try Event.Content(
                kind: item.kind, message: item.hasMessage ? item.message : nil, chunkIndex: item.chunkIndex,
                replyTo: item.hasReply ? item.replyTo : nil,
                body: body, isErased: item.isErased, conversation: &conversation)
            return RecordedEvent(
                log: log, seq: item.seq, position: item.position,
                origin: Origin(replica: replicas[Int(item.replica)], counter: item.counter, hlc: HLC(rawValue: item.originHLC)),
                hlc: HLC(rawValue: item.hlc), event: Event(conversation: conversation, author: users[Int(item.author)], content: content),
                targetSeq: item.target == 0 ? nil : item.target, isErased: item.isErased,
                commitment: item.isErased ? commitments[place] : nil)
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }
}

/// A checksum did not hold.
struct ChecksumMismatch: Error, CustomStringConvertible {
    let part: String
    var description: String { "the checksum of the \(part) does not match" }
}

/// A run that cannot be read.
struct RunError: Error, CustomStringConvertible {
    let position: Position
    let underlying: any Error
    var description: String { "the run at position \(position): \(underlying)" }
}
