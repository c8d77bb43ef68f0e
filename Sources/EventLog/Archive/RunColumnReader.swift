/// Reads the section of the ids and the decompressed columns of a run, event by event, as `RunEncoder` wrote them. It borrows the bytes.
///
/// Whatever the bytes are, what it gives is in bounds: slices are ranges of the events, numbers name what is there, texts and rests lie in theirs.
struct RunColumnReader {
    private(set) var slices: [DecodedRun.Slice] = []
    private(set) var users: [UserID] = []
    private(set) var replicas: [ReplicaID] = []
    /// By the event's place.
    private(set) var extras: [Int: [UInt8]] = [:]
    private(set) var commitments: [Int: Hash256] = [:]
    /// The bodies' other fields, one behind the other.
    let rest: UnsafeRawBufferPointer

    private let eventCount: Int, textBytes: Int
    /// A slice's count of messages, twice, and whether it is a user's log.
    private var heads: [UInt64] = []
    // Ids.
    private var logIDs: ByteReader, sentIDs: ByteReader, explicitIDs: ByteReader, commitmentBytes: ByteReader
    // The run's columns.
    private var directory: ByteReader, orderSlices: ByteReader, orderCounts: ByteReader, hubTimes: ByteReader, hubCounters: ByteReader
    // The events'.
    private var kinds: ByteReader, flags: ByteReader, authors: ByteReader, newAuthors: ByteReader, times: ByteReader, originCounters: ByteReader
    private var replicaColumn: ByteReader, counters: ByteReader, targets: ByteReader, indexes: ByteReader, textLengths: ByteReader
    private var restLengths: ByteReader, odd: ByteReader

    /// How many events, and bytes of texts and rests, are read.
    private var filled = 0, textOffset = 0, restOffset = 0
    /// By the replica's number: the slice that it wrote in last, and its next counter there.
    private var lanes: ContiguousArray<(slice: Int, next: UInt64)>

    // What the slice at hand has told.
    private var targetIDs = RunTargets()
    /// Authors, the latest first.
    private var recent: [UInt32] = []
    private var replica: UInt32 = .max
    /// The last time that was not the hub's.
    private var time: UInt64 = 0
    private var lastTarget: Seq = 0

    init(_ header: DecodedRun.Header, ids: UnsafeRawBufferPointer, columns: UnsafeRawBufferPointer) throws(CodecError) {
        eventCount = header.events
        textBytes = header.frames.reduce(0) { $0 + $1.raw }
        guard textBytes <= UInt32.max else { throw CodecError(.tooLarge) }

        var raw = ByteReader(ids)
        let replicaCount = Int(clamping: try raw.varint())
        let commitmentCount = Int(clamping: try raw.varint())
        let explicitCount = Int(clamping: try raw.varint())
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
        logIDs = ByteReader(try raw.take(16 * conversations))
        sentIDs = ByteReader(try raw.take(16 * messages))
        for _ in 0..<replicaCount { replicas.append(try raw.identifier()) }
        explicitIDs = ByteReader(try raw.take(16 * explicitCount))
        commitmentBytes = ByteReader(try raw.take(Hash256.byteCount * commitmentCount))
        lanes = ContiguousArray(repeating: (-1, 1), count: replicas.count)

        var columns = ByteReader(columns)
        let userCount = try columns.count()
        var strings = ByteReader(try columns.lengthPrefixed())
        for _ in 0..<userCount { users.append(try strings.user()) }
        directory = ByteReader(try columns.lengthPrefixed())
        orderSlices = ByteReader(try columns.lengthPrefixed())
        orderCounts = ByteReader(try columns.lengthPrefixed())
        hubTimes = ByteReader(try columns.lengthPrefixed())
        hubCounters = ByteReader(try columns.lengthPrefixed())
        kinds = ByteReader(try columns.lengthPrefixed())
        flags = ByteReader(try columns.lengthPrefixed())
        authors = ByteReader(try columns.lengthPrefixed())
        newAuthors = ByteReader(try columns.lengthPrefixed())
        times = ByteReader(try columns.lengthPrefixed())
        originCounters = ByteReader(try columns.lengthPrefixed())
        replicaColumn = ByteReader(try columns.lengthPrefixed())
        counters = ByteReader(try columns.lengthPrefixed())
        targets = ByteReader(try columns.lengthPrefixed())
        indexes = ByteReader(try columns.lengthPrefixed())
        textLengths = ByteReader(try columns.lengthPrefixed())
        restLengths = ByteReader(try columns.lengthPrefixed())
        odd = ByteReader(try columns.lengthPrefixed())
        rest = try columns.lengthPrefixed()
        guard columns.isAtEnd else { throw CodecError(.notCanonical) }
        // Each event has a byte there: a bad count cannot make us allocate.
        guard header.events <= min(kinds.remaining, flags.remaining) else { throw CodecError(.truncated) }
    }

    /// Reads all events, slice by slice.
    ///
    /// - Parameter items: room for the header's number of events; all of it is filled unless this throws.
    mutating func readEvents(into items: UnsafeMutableBufferPointer<DecodedRun.Item>) throws(CodecError) {
        for number in heads.indices {
            let slice = try nextSlice(number)
            slices.append(slice)
            recent.removeAll(keepingCapacity: true)
            (time, lastTarget) = (0, 0)
            targetIDs.begin(first: slice.firstSeq, count: slice.range.count)
            for seq in slice.firstSeq..<slice.endSeq {
                items.initializeElement(at: filled, to: try item(seq, number))
                filled += 1
            }
        }
        guard filled == eventCount, textOffset == textBytes, restOffset == rest.count, kinds.isAtEnd, flags.isAtEnd else {
            throw CodecError(.badValue)
        }
    }

    private mutating func nextSlice(_ number: Int) throws(CodecError) -> DecodedRun.Slice {
        let firstSeq = try directory.varint()
        let count = try directory.varint()
        guard count > 0, count <= UInt64(eventCount - filled), firstSeq < 1 << 60 else { throw CodecError(.badValue) }
        replica = .max
        return DecodedRun.Slice(log: try log(heads[number]), firstSeq: firstSeq, range: filled..<filled + Int(count))
    }

    private mutating func log(_ head: UInt64) throws(CodecError) -> LogID {
        if head & 1 == 0 { return .conversation(try logIDs.identifier()) }
        let number = try directory.varint()
        guard number < UInt64(users.count) else { throw CodecError(.badValue) }
        return .user(users[Int(number)])
    }

    @inline(__always)
    private mutating func item(_ seq: Seq, _ slice: Int) throws(CodecError) -> DecodedRun.Item {
        var item = DecodedRun.Item()
        item.seq = seq
        item.slice = UInt32(slice)
        guard let kind = UInt32(exactly: try kinds.varint()) else { throw CodecError(.badValue) }
        item.kind = kind
        let flag = try flags.byte()
        item.author = try author()
        try readOrigin(of: &item, flag)
        if flag & RunEncoder.Flag.odd != 0 { try readOdd(&item) } else { try readReferences(of: &item, flag) }
        try readBody(of: &item, flag)
        return item
    }

    /// Authors by how recently they wrote in the slice.
    @inline(__always)
    private mutating func author() throws(CodecError) -> UInt32 {
        let rank = try authors.varint()
        if rank == 0, let first = recent.first { return first }
        let author: UInt32
        if rank < UInt64(recent.count) {
            author = recent.remove(at: Int(rank))
        } else {
            guard rank == UInt64(recent.count), case let number = try newAuthors.varint(), number < UInt64(users.count) else {
                throw CodecError(.badValue)
            }
            author = UInt32(number)
        }
        recent.insert(author, at: 0)
        return author
    }

    @inline(__always)
    private mutating func readOrigin(of item: inout DecodedRun.Item, _ flag: UInt8) throws(CodecError) {
        item.counter = try readLane(Int(item.slice), flag)
        item.replica = replica
        let step = try times.varint()
        if step == 0 {
            item.isHubTime = true
        } else {
            time = time &+ ((step &- 1) >> 1 ^ (0 &- ((step &- 1) & 1)))
            item.originHLC = time << 16
            if flag & RunEncoder.Flag.originCounter != 0 { item.originHLC |= (try originCounters.varint()) & 0xFFFF }
        }
    }

    /// The next event's counter; `replica` is then who made it.
    @inline(__always)
    private mutating func readLane(_ slice: Int, _ flag: UInt8) throws(CodecError) -> UInt64 {
        if flag & RunEncoder.Flag.replica != 0 {
            let number = try replicaColumn.varint()
            guard number < UInt64(replicas.count) else { throw CodecError(.badValue) }
            replica = UInt32(number)
        }
        guard replica != .max else { throw CodecError(.badValue) }
        var counter = lanes[Int(replica)].slice == slice ? lanes[Int(replica)].next : 1
        if flag & RunEncoder.Flag.counter != 0 { counter &+= try counters.varint() }
        lanes[Int(replica)] = (slice, counter &+ 1)
        return counter
    }

    @inline(__always)
    private mutating func readReferences(of item: inout DecodedRun.Item, _ flag: UInt8) throws(CodecError) {
        switch RunEncoder.Form(kind: item.kind) {
        case .sent:
            item.message = try sentIDs.identifier()
            item.hasMessage = true
            targetIDs[item.seq] = item.message
            if flag & RunEncoder.Flag.index != 0 {
                item.target = item.seq &- (try targets.varint())
                item.hasReply = true
                item.replyTo = try id(of: item.target, flag)
            }
        case .about:
            let distance = try targets.varint()
            item.target = distance == 0 ? lastTarget : item.seq &- distance
            lastTarget = item.target
            item.hasMessage = true
            item.message = try id(of: item.target, flag)
            let isChunk = item.kind == Event.Kind.chunkAppended.rawValue
            item.chunkIndex = isChunk ? targetIDs.nextIndex : 0
            if flag & RunEncoder.Flag.index != 0 {
                guard let index = UInt32(exactly: try indexes.varint()) else { throw CodecError(.badValue) }
                item.chunkIndex = index
            }
            if isChunk { targetIDs.nextIndex = item.chunkIndex &+ 1 }
        case .plain: break
        }
    }

    /// The id of the message at a seq, as it was told before or is now.
    @inline(__always)
    private mutating func id(of target: Seq, _ flag: UInt8) throws(CodecError) -> MessageID {
        if flag & RunEncoder.Flag.explicitID != 0 {
            let id = try explicitIDs.identifier() as MessageID
            targetIDs[target] = id
            return id
        }
        guard let id = targetIDs[target] else { throw CodecError(.badValue) }
        return id
    }

    /// Every field as it is.
    private mutating func readOdd(_ item: inout DecodedRun.Item) throws(CodecError) {
        if RunEncoder.Form(kind: item.kind) == .sent { _ = try sentIDs.take(16) }
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
            extras[filled] = Array(extra)
        }
    }

    @inline(__always)
    private mutating func readBody(of item: inout DecodedRun.Item, _ flag: UInt8) throws(CodecError) {
        let length = try textLengths.varint()
        guard length <= UInt64(textBytes - textOffset) else { throw CodecError(.truncated) }
        item.textOffset = UInt32(textOffset)
        item.textLength = UInt32(length)
        textOffset += Int(length)
        if flag & RunEncoder.Flag.erased != 0 {
            item.isErased = true
            commitments[filled] = Hash256(try commitmentBytes.take(Hash256.byteCount))
        }
        if flag & RunEncoder.Flag.rest != 0 {
            let length = try restLengths.varint()
            guard length <= UInt64(rest.count - restOffset) else { throw CodecError(.truncated) }
            item.restOffset = UInt32(restOffset)
            item.restLength = UInt32(length)
            restOffset += Int(length)
        }
    }

    /// Reads the order of the commits, and gives the events their positions and the hub's times.
    ///
    /// - Parameter items: what ``readEvents(into:)`` has filled.
    /// - Returns: the places of the events, in that order.
    mutating func readOrder(
        from position: Position, into items: UnsafeMutableBufferPointer<DecodedRun.Item>
    ) throws(CodecError) -> ContiguousArray<UInt32> {
        var order = ContiguousArray<UInt32>()
        order.reserveCapacity(filled)
        var next: [Int] = []
        next.reserveCapacity(slices.count)
        for slice in slices { next.append(slice.range.lowerBound) }
        var clock = HubClock()
        while order.count < filled {
            let slice = try orderSlices.varint()
            guard slice < UInt64(slices.count) else { throw CodecError(.badValue) }
            let count = try orderCounts.varint()
            let first = next[Int(slice)]
            guard count < UInt64(slices[Int(slice)].range.upperBound - first) else { throw CodecError(.badValue) }
            for place in first...first + Int(count) {
                items[place].hlc = try nextHubTime(&clock)
                if items[place].isHubTime { items[place].originHLC = items[place].hlc }
                items[place].position = position + UInt64(order.count)
                order.append(UInt32(place))
            }
            next[Int(slice)] = first + Int(count) + 1
        }
        return order
    }

    private struct HubClock {
        var time: UInt64 = 0
        var counter: UInt16 = 0
    }

    @inline(__always)
    private mutating func nextHubTime(_ clock: inout HubClock) throws(CodecError) -> UInt64 {
        let step = try hubTimes.varint()
        let counter = UInt16(truncatingIfNeeded: try hubCounters.varint())
        clock.counter = step == 0 ? clock.counter &+ counter : counter
        clock.time = (clock.time &+ step) & 0xFFFF_FFFF_FFFF
        return clock.time << 16 | UInt64(clock.counter)
    }
}

extension RunColumnReader {
    /// Reads of one event no more than its stamp, and of those before it what that rests on: instead of ``readEvents(into:)`` and what follows it.
    ///
    /// - Parameter index: the event's among those of its slice.
    /// - Returns: the slice, too; `nil`: there is no such event.
    mutating func readStamp(slice number: Int, event index: Int, from position: Position) throws(CodecError) -> (slice: DecodedRun.Slice, EventStamp)? {
        guard heads.indices.contains(number), index >= 0 else { return nil }
        for earlier in 0..<number {
            let count = try nextSlice(earlier).range.count
            for _ in 0..<count { _ = try readLane(earlier, try flags.byte()) }
            filled += count
        }
        let slice = try nextSlice(number)
        guard index < slice.range.count else { return nil }
        for _ in 0..<index { _ = try readLane(number, try flags.byte()) }
        let counter = try readLane(number, try flags.byte())
        let (place, hlc) = try readCommit(slice: number, event: index)
        return (slice, EventStamp(position: position + place, hlc: HLC(rawValue: hlc), replica: replicas[Int(replica)], counter: counter))
    }

    /// How many events of the run were committed before one, and the hub's time of it.
    private mutating func readCommit(slice number: Int, event index: Int) throws(CodecError) -> (place: UInt64, hlc: UInt64) {
        var place: UInt64 = 0
        var ofSlice: UInt64 = 0
        var clock = HubClock()
        while true {
            let isOfSlice = try orderSlices.varint() == UInt64(number)
            let more = try orderCounts.varint()
            guard more < UInt64(eventCount) - place else { throw CodecError(.badValue) }
            for _ in 0...more {
                let hlc = try nextHubTime(&clock)
                if isOfSlice, ofSlice == UInt64(index) { return (place, hlc) }
                place += 1
                if isOfSlice { ofSlice += 1 }
            }
        }
    }
}
