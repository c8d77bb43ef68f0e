/// An event on its way into a run. The bytes are borrowed from the journal's memory, or from an older run.
struct PendingEvent {
    var envelope: Envelope
    var body: BodyParts
    /// SHA-256(salt ‖ body) of a body that was erased.
    var commitment: Hash256?
    /// The caller's own small numbers of the log and the author, which save looking them up; negative: none. All events of a run have
    /// both, or none has.
    var logNumber = -1
    var authorNumber = -1
}

/// How a run is cut and compressed; settled by measuring (docs/archive-shape.md).
struct RunShape {
    /// Text and envelope bytes after which a run is closed.
    var rawBytesMax = 2 << 20
    var eventsMax = 32_768
    /// Texts are compressed in frames of about this many bytes, so that one message costs one frame.
    var textFrameBytes = 1 << 18
    var metaLevel = 6
    var textLevel = 6
}

/// Writes runs: ranges of the commit order as columns (docs/FORMAT.md, "Run").
struct RunEncoder: ~Copyable {
    static let magic: UInt32 = 0x3152_5643  // "CVR1"

    /// Bits of the flags column.
    enum Flag {
        static let replica: UInt8 = 1, counter: UInt8 = 2, originCounter: UInt8 = 4, explicitID: UInt8 = 8, index: UInt8 = 16,
            rest: UInt8 = 32, odd: UInt8 = 64
        static let erased: UInt8 = 128
    }

    struct Slice {
        var log: LogID
        /// As the caller numbers it.
        var logNumber: Int
        var firstSeq: Seq
        var count: Int
        var messages: Int
    }

    /// Numbers in the order of first appearance in a run, for things that the caller numbered already.
    private struct Renumbering {
        private var numbers = ContiguousArray<(run: Int, number: Int)>()
        private var run = 0

        mutating func begin() { run += 1 }

        mutating func number(of given: Int, next: Int) -> (number: Int, isNew: Bool) {
            while numbers.count <= given { numbers.append((0, 0)) }
            if numbers[given].run == run { return (numbers[given].number, false) }
            numbers[given] = (run, next)
            return (next, true)
        }
    }

    /// What a slice tells of a seq of its own: the message's id and the next chunk's index.
    private struct Known {
        var id = MessageID(high: 0, low: 0)
        var hasID = false
        var next: UInt32 = 0
    }

    private let shape: RunShape
    private let metaCompressor: ZstdCompressor
    private let textCompressor: ZstdCompressor
    private var kinds = ByteBuffer(), flags = ByteBuffer(), authors = ByteBuffer(), newAuthors = ByteBuffer(), times = ByteBuffer()
    private var originCounters = ByteBuffer(), replicas = ByteBuffer(), counters = ByteBuffer(), targets = ByteBuffer(),
        indexes = ByteBuffer()
    private var textLengths = ByteBuffer(), restLengths = ByteBuffer(), odd = ByteBuffer(), orderSlices = ByteBuffer(),
        orderCounts = ByteBuffer()
    private var hubTimes = ByteBuffer(), hubCounters = ByteBuffer(), rest = ByteBuffer(), strings = ByteBuffer(), directory = ByteBuffer()
    private var sentIDs = ByteBuffer(), explicitIDs = ByteBuffer(), commitments = ByteBuffer(), replicaIDs = ByteBuffer(),
        logIDs = ByteBuffer()
    private var logNumbers = Renumbering(), authorNumbers = Renumbering()
    private var sliceIndex = ContiguousArray<Int32>(), sorted = ContiguousArray<Int32>()
    private var known = ContiguousArray<Known>(), recent = ContiguousArray<Int>()
    /// By the replica's number: the slice that it wrote in last, and its next counter there.
    private var lanes = ContiguousArray<(slice: Int, next: UInt64)>()
    private var head = ByteBuffer(), meta = ByteBuffer(), raw = ByteBuffer(), texts = ByteBuffer(), compressed = ByteBuffer()

    init(shape: RunShape) {
        self.shape = shape
        metaCompressor = ZstdCompressor(level: shape.metaLevel)
        textCompressor = ZstdCompressor(level: shape.textLevel)
    }

    mutating func encode(_ events: [PendingEvent], at position: Position, into out: inout ByteBuffer) throws -> [Slice] {
        try events.withUnsafeBufferPointer { try encode($0, at: position, into: &out) }
    }

    /// Encodes events that stand in commit order from `position` on. Returns the slices, one a log, in order of first appearance.
    mutating func encode(_ events: UnsafeBufferPointer<PendingEvent>, at position: Position, into out: inout ByteBuffer) throws -> [Slice] {
        reset()
        // Group by log, keeping each log's order.
        let isNumbered = (events.first?.logNumber ?? -1) >= 0
        var sliceOf: [LogID: Int] = [:]
        var slices: [Slice] = []
        var previous = -1
        var repeats: UInt64 = 0
        for index in events.indices {
            let slice: Int
            var isNew = false
            if isNumbered {
                (slice, isNew) = logNumbers.number(of: events[index].logNumber, next: slices.count)
            } else if index > 0, events[index].envelope.log == events[index - 1].envelope.log {
                slice = previous
            } else if let known = sliceOf[events[index].envelope.log] {
                slice = known
            } else {
                slice = slices.count
                sliceOf[events[index].envelope.log] = slice
                isNew = true
            }
            if isNew {
                let envelope = events[index].envelope
                slices.append(Slice(log: envelope.log, logNumber: events[index].logNumber, firstSeq: envelope.seq, count: 0, messages: 0))
            }
            sliceIndex.append(Int32(slice))
            guard events[index].envelope.seq == slices[slice].firstSeq &+ Seq(slices[slice].count) else { throw CodecError(.badValue) }
            slices[slice].count += 1
            if events[index].envelope.kind == Event.Kind.messageSent.rawValue { slices[slice].messages += 1 }
            if slice == previous {
                repeats += 1
            } else {
                if previous >= 0 { orderCounts.put(varint: repeats) }
                orderSlices.put(varint: UInt64(slice))
                previous = slice
                repeats = 0
            }
        }
        if previous >= 0 { orderCounts.put(varint: repeats) }
        var hubTime: UInt64 = 0
        var hubCounter: UInt16 = 0
        for index in events.indices {
            let hlc = events[index].envelope.hlc
            // Modular differences: the clock never goes back, but the format must carry whatever it is given.
            hubTimes.put(varint: (hlc.milliseconds &- hubTime) & 0xFFFF_FFFF_FFFF)
            hubCounters.put(varint: UInt64(hlc.milliseconds == hubTime ? hlc.counter &- hubCounter : hlc.counter))
            hubTime = hlc.milliseconds
            hubCounter = hlc.counter
        }
        var starts = [Int](repeating: 0, count: slices.count + 1)
        for (index, slice) in slices.enumerated() { starts[index + 1] = starts[index] + slice.count }
        for _ in events.indices { sorted.append(0) }
        var fill = starts
        for index in events.indices {
            let slice = Int(sliceIndex[index])
            sorted[fill[slice]] = Int32(index)
            fill[slice] += 1
        }

        var userNumbers: [UserID: Int] = [:]
        var users = 0
        func number(of user: UserID, _ strings: inout ByteBuffer) -> Int {
            if let known = userNumbers[user] { return known }
            strings.put(lengthOf: user.string)
            userNumbers[user] = users
            users += 1
            return users - 1
        }
        var replicaNumbers: [ReplicaID: Int] = [:]
        var lastReplicaID: ReplicaID?
        var replica = -1
        var outside: [Seq: Known] = [:]
        var frames: [(start: Int, end: Int)] = []
        var frameStart = 0
        for (sliceNumber, slice) in slices.enumerated() {
            head.put(varint: UInt64(slice.messages) << 1 | { if case .user = slice.log { 1 } else { 0 } }())
            directory.put(varint: slice.firstSeq)
            directory.put(varint: UInt64(slice.count))
            switch slice.log {
            case .conversation(let id): logIDs.put(id)
            case .user(let user): directory.put(varint: UInt64(number(of: user, &strings)))
            }
            recent.removeAll(keepingCapacity: true)  // authors, the latest first
            known.removeAll(keepingCapacity: true)
            if !outside.isEmpty { outside.removeAll(keepingCapacity: true) }
            var lastReplica = -1
            var lastTime: UInt64 = 0
            var lastTarget: Seq = 0
            for place in starts[sliceNumber]..<starts[sliceNumber + 1] {
                let event = events[Int(sorted[place])]
                let envelope = event.envelope
                var flag: UInt8 = 0
                kinds.put(varint: UInt64(envelope.kind))
                known.append(Known())

                let author: Int
                if isNumbered {
                    let (found, isNew) = authorNumbers.number(of: event.authorNumber, next: users)
                    if isNew {
                        // A user's log may have named the user before; twice among the names does no harm.
                        strings.put(lengthOf: envelope.author.string)
                        users += 1
                    }
                    author = found
                } else {
                    author = number(of: envelope.author, &strings)
                }
                if let rank = recent.firstIndex(of: author) {
                    authors.put(varint: UInt64(rank))
                    if rank > 0 {
                        recent.remove(at: rank)
                        recent.insert(author, at: 0)
                    }
                } else {
                    authors.put(varint: UInt64(recent.count))
                    newAuthors.put(varint: UInt64(author))
                    recent.insert(author, at: 0)
                }

                let origin = envelope.origin
                if origin.replica != lastReplicaID {
                    lastReplicaID = origin.replica
                    if let number = replicaNumbers[origin.replica] {
                        replica = number
                    } else {
                        replica = replicaNumbers.count
                        replicaNumbers[origin.replica] = replica
                        replicaIDs.put(origin.replica)
                        lanes.append((-1, 1))
                    }
                }
                if replica != lastReplica {
                    flag |= Flag.replica
                    replicas.put(varint: UInt64(replica))
                    lastReplica = replica
                }
                let expected = lanes[replica].slice == sliceNumber ? lanes[replica].next : 1
                if origin.counter != expected {
                    flag |= Flag.counter
                    counters.put(varint: origin.counter &- expected)
                }
                lanes[replica] = (sliceNumber, origin.counter &+ 1)
                if origin.hlc == envelope.hlc {
                    times.put(varint: 0)
                } else {
                    // The difference of two numbers of 48 bits, so that there is room for one more.
                    let step = Int64(origin.hlc.milliseconds) - Int64(lastTime)
                    times.put(varint: UInt64(bitPattern: (step << 1) ^ (step >> 63)) + 1)
                    lastTime = origin.hlc.milliseconds
                    if origin.hlc.counter != 0 {
                        flag |= Flag.originCounter
                        originCounters.put(varint: UInt64(origin.hlc.counter))
                    }
                }

                let form = Form(kind: envelope.kind)
                let isUsual: Bool
                switch form {
                case .sent:
                    isUsual =
                        envelope.message != nil && envelope.chunkIndex == 0 && (envelope.replyTo == nil) == (envelope.targetSeq == 0)
                        && envelope.targetSeq < envelope.seq
                case .about:
                    isUsual =
                        envelope.message != nil && envelope.replyTo == nil && envelope.targetSeq != 0 && envelope.targetSeq < envelope.seq
                case .plain:
                    isUsual = envelope.message == nil && envelope.chunkIndex == 0 && envelope.targetSeq == 0 && envelope.replyTo == nil
                }
                if isUsual, envelope.extra.isEmpty {
                    switch form {
                    case .sent:
                        sentIDs.put(envelope.message!)
                        known[known.count - 1].id = envelope.message!
                        known[known.count - 1].hasID = true
                        if let replyTo = envelope.replyTo {
                            flag |= Flag.index
                            targets.put(varint: envelope.seq - envelope.targetSeq)
                            if !learn(replyTo, at: envelope.targetSeq, in: slice, &outside) {
                                flag |= Flag.explicitID
                                explicitIDs.put(replyTo)
                            }
                        }
                    case .about:
                        targets.put(varint: envelope.targetSeq == lastTarget ? 0 : envelope.seq - envelope.targetSeq)
                        lastTarget = envelope.targetSeq
                        if !learn(envelope.message!, at: envelope.targetSeq, in: slice, &outside) {
                            flag |= Flag.explicitID
                            explicitIDs.put(envelope.message!)
                        }
                        let isChunk = envelope.kind == Event.Kind.chunkAppended.rawValue
                        var wanted: UInt32 = 0
                        if isChunk {
                            if envelope.targetSeq >= slice.firstSeq {
                                let target = Int(envelope.targetSeq - slice.firstSeq)
                                wanted = known[target].next
                                known[target].next = envelope.chunkIndex &+ 1
                            } else {
                                wanted = outside[envelope.targetSeq]!.next
                                outside[envelope.targetSeq]!.next = envelope.chunkIndex &+ 1
                            }
                        }
                        if envelope.chunkIndex != wanted {
                            flag |= Flag.index
                            indexes.put(varint: UInt64(envelope.chunkIndex))
                        }
                    case .plain: break
                    }
                } else {
                    // Kinds of a newer version, or an event that another implementation wrote oddly: every field as it is.
                    flag |= Flag.odd
                    if form == .sent { sentIDs.put(envelope.message ?? MessageID(high: 0, low: 0)) }
                    odd.put(byte: (envelope.message == nil ? 0 : 1) | (envelope.replyTo == nil ? 0 : 2))
                    if let message = envelope.message { odd.put(message) }
                    if let replyTo = envelope.replyTo { odd.put(replyTo) }
                    odd.put(varint: UInt64(envelope.chunkIndex))
                    odd.put(varint: envelope.targetSeq)
                    odd.put(varint: UInt64(envelope.extra.count))
                    odd.put(envelope.extra)
                }

                if let commitment = event.commitment {
                    flag |= Flag.erased
                    commitment.withUnsafeBytes { commitments.put($0) }
                    textLengths.put(varint: 0)
                } else {
                    textLengths.put(varint: UInt64(event.body.text.count))
                    texts.put(event.body.text)
                    if texts.count - frameStart >= shape.textFrameBytes {
                        frames.append((frameStart, texts.count))
                        frameStart = texts.count
                    }
                    if !event.body.rest.isEmpty {
                        flag |= Flag.rest
                        restLengths.put(varint: UInt64(event.body.rest.count))
                        rest.put(event.body.rest)
                    }
                }
                flags.put(byte: flag)
            }
        }
        if texts.count > frameStart { frames.append((frameStart, texts.count)) }

        raw.put(varint: UInt64(lanes.count))
        raw.put(varint: UInt64(commitments.count / Hash256.byteCount))
        raw.put(varint: UInt64(explicitIDs.count / 16))
        raw.put(head.bytes)
        raw.put(logIDs.bytes)
        raw.put(sentIDs.bytes)
        raw.put(replicaIDs.bytes)
        raw.put(explicitIDs.bytes)
        raw.put(commitments.bytes)

        meta.put(varint: UInt64(users))
        meta.put(column: strings)
        meta.put(column: directory)
        meta.put(column: orderSlices)
        meta.put(column: orderCounts)
        meta.put(column: hubTimes)
        meta.put(column: hubCounters)
        meta.put(column: kinds)
        meta.put(column: flags)
        meta.put(column: authors)
        meta.put(column: newAuthors)
        meta.put(column: times)
        meta.put(column: originCounters)
        meta.put(column: replicas)
        meta.put(column: counters)
        meta.put(column: targets)
        meta.put(column: indexes)
        meta.put(column: textLengths)
        meta.put(column: restLengths)
        meta.put(column: odd)
        meta.put(column: rest)

        let metaBytes = try metaCompressor.compress(meta.bytes, into: &compressed)
        var table: [(compressed: Int, raw: Int, checksum: UInt64)] = []
        for frame in frames {
            let start = compressed.count
            let length = try textCompressor.compress(
                UnsafeRawBufferPointer(rebasing: texts.bytes[frame.start..<frame.end]), into: &compressed)
            let bytes = UnsafeRawBufferPointer(rebasing: compressed.bytes[start..<start + length])
            table.append((length, frame.end - frame.start, XXH64.hash(bytes, seed: position)))
        }
        let start = out.count
        out.put(fixed32: Self.magic)
        out.put(fixed32: 0)  // codec, dictionary and key: none but the first
        out.put(fixed32: UInt32(events.count))
        out.put(fixed32: UInt32(slices.count))
        out.put(fixed32: UInt32(raw.count))
        out.put(fixed32: UInt32(metaBytes))
        out.put(fixed32: UInt32(meta.count))
        out.put(fixed32: UInt32(table.count))
        out.put(fixed64: XXH64.hash(raw.bytes, seed: position))
        out.put(fixed64: XXH64.hash(UnsafeRawBufferPointer(rebasing: compressed.bytes[..<metaBytes]), seed: position))
        for frame in table {
            out.put(fixed32: UInt32(frame.compressed))
            out.put(fixed32: UInt32(frame.raw))
            out.put(fixed64: frame.checksum)
        }
        out.put(fixed64: XXH64.hash(UnsafeRawBufferPointer(rebasing: out.bytes[start...]), seed: position))
        out.put(raw.bytes)
        out.put(compressed.bytes)
        return slices
    }

    /// Whether the id of the message at a seq is known to be this one; it is from now on.
    private mutating func learn(_ id: MessageID, at seq: Seq, in slice: Slice, _ outside: inout [Seq: Known]) -> Bool {
        if seq >= slice.firstSeq {
            let place = Int(seq - slice.firstSeq)
            if known[place].hasID, known[place].id == id { return true }
            known[place].id = id
            known[place].hasID = true
            return false
        }
        if outside[seq]?.id == id { return true }
        outside[seq, default: Known(hasID: true)].id = id
        return false
    }

    private mutating func reset() {
        logNumbers.begin()
        authorNumbers.begin()
        sliceIndex.removeAll(keepingCapacity: true)
        sorted.removeAll(keepingCapacity: true)
        lanes.removeAll(keepingCapacity: true)
        kinds.removeAll()
        flags.removeAll()
        authors.removeAll()
        newAuthors.removeAll()
        times.removeAll()
        originCounters.removeAll()
        replicas.removeAll()
        counters.removeAll()
        targets.removeAll()
        indexes.removeAll()
        textLengths.removeAll()
        restLengths.removeAll()
        odd.removeAll()
        orderSlices.removeAll()
        orderCounts.removeAll()
        hubTimes.removeAll()
        hubCounters.removeAll()
        rest.removeAll()
        strings.removeAll()
        directory.removeAll()
        sentIDs.removeAll()
        explicitIDs.removeAll()
        commitments.removeAll()
        replicaIDs.removeAll()
        logIDs.removeAll()
        head.removeAll()
        meta.removeAll()
        raw.removeAll()
        texts.removeAll()
        compressed.removeAll()
    }

    /// Which references a kind usually has.
    enum Form {
        /// A message of its own, perhaps a reply.
        case sent
        /// About a message that stands earlier in the log.
        case about
        case plain

        init(kind: UInt32) {
            switch kind {
            case Event.Kind.messageSent.rawValue: self = .sent
            case Event.Kind.chunkAppended.rawValue...Event.Kind.receiptRead.rawValue: self = .about
            default: self = .plain
            }
        }
    }
}

extension ByteBuffer {
    fileprivate mutating func put(column: borrowing ByteBuffer) {
        put(varint: UInt64(column.count))
        put(column.bytes)
    }
}
