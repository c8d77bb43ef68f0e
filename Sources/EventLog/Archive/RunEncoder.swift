/// An event on its way into a run. The bytes are borrowed from the journal's memory, or from an older run.
struct PendingEvent {
    var envelope: Envelope
    var body: BodyParts
    /// SHA-256(salt ‖ body) of a body that was erased.
    var commitment: Hash256?
}

/// How a run is cut and compressed; settled by measuring (docs/ARCHITECTURE.md).
struct RunShape {
    /// Text and envelope bytes after which a run is closed.
    var rawBytesMax = 1 << 20
    var eventsMax = 16_384
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
        static let replica: UInt8 = 1, counter: UInt8 = 2, originCounter: UInt8 = 4, explicitID: UInt8 = 8, index: UInt8 = 16, rest: UInt8 = 32, odd: UInt8 = 64
        static let erased: UInt8 = 128
    }

    struct Slice {
        var log: LogID
        var firstSeq: Seq
        var count: Int
        var messages: Int
    }

    private let shape: RunShape
    private let metaCompressor: ZstdCompressor
    private let textCompressor: ZstdCompressor
    private var kinds = ByteBuffer(), flags = ByteBuffer(), authors = ByteBuffer(), newAuthors = ByteBuffer(), times = ByteBuffer()
    private var originCounters = ByteBuffer(), replicas = ByteBuffer(), counters = ByteBuffer(), targets = ByteBuffer(), indexes = ByteBuffer()
    private var textLengths = ByteBuffer(), restLengths = ByteBuffer(), odd = ByteBuffer(), orderSlices = ByteBuffer(), orderCounts = ByteBuffer()
    private var hubTimes = ByteBuffer(), hubCounters = ByteBuffer(), rest = ByteBuffer(), strings = ByteBuffer(), directory = ByteBuffer()
    private var sentIDs = ByteBuffer(), explicitIDs = ByteBuffer(), commitments = ByteBuffer(), replicaIDs = ByteBuffer(), logIDs = ByteBuffer()
    private var head = ByteBuffer(), meta = ByteBuffer(), raw = ByteBuffer(), texts = ByteBuffer(), compressed = ByteBuffer()

    init(shape: RunShape) {
        self.shape = shape
        metaCompressor = ZstdCompressor(level: shape.metaLevel)
        textCompressor = ZstdCompressor(level: shape.textLevel)
    }

    /// Encodes events that stand in commit order from `position` on. Returns the slices, one a log, in order of first appearance.
    mutating func encode(_ events: [PendingEvent], at position: Position, into out: inout ByteBuffer) throws -> [Slice] {
        reset()
        // Group by log, keeping each log's order.
        var sliceOf: [LogID: Int] = [:]
        var slices: [Slice] = []
        var sliceIndex = [Int](repeating: 0, count: events.count)
        var previous = -1
        var repeats: UInt64 = 0
        var lastLog: LogID?
        for (index, event) in events.enumerated() {
            let log = event.envelope.log
            if log != lastLog {
                if let known = sliceOf[log] {
                    sliceIndex[index] = known
                } else {
                    sliceOf[log] = slices.count
                    sliceIndex[index] = slices.count
                    slices.append(Slice(log: log, firstSeq: event.envelope.seq, count: 0, messages: 0))
                }
                lastLog = log
            } else {
                sliceIndex[index] = sliceIndex[index - 1]
            }
            let slice = sliceIndex[index]
            slices[slice].count += 1
            if event.envelope.kind == Event.Kind.messageSent.rawValue { slices[slice].messages += 1 }
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
        for event in events {
            let hlc = event.envelope.hlc
            // Modular differences: the clock never goes back, but the format must carry whatever it is given.
            hubTimes.put(varint: (hlc.milliseconds &- hubTime) & 0xFFFF_FFFF_FFFF)
            hubCounters.put(varint: UInt64(hlc.milliseconds == hubTime ? hlc.counter &- hubCounter : hlc.counter))
            hubTime = hlc.milliseconds
            hubCounter = hlc.counter
        }
        var starts = [Int](repeating: 0, count: slices.count + 1)
        for (index, slice) in slices.enumerated() { starts[index + 1] = starts[index] + slice.count }
        var sorted = [Int](repeating: 0, count: events.count)
        var fill = starts
        for index in events.indices {
            sorted[fill[sliceIndex[index]]] = index
            fill[sliceIndex[index]] += 1
        }

        var userNumbers: [UserID: Int] = [:]
        func number(of user: UserID, _ strings: inout ByteBuffer) -> Int {
            if let known = userNumbers[user] { return known }
            strings.put(lengthOf: user.string)
            userNumbers[user] = userNumbers.count
            return userNumbers.count - 1
        }
        var replicaNumbers: [ReplicaID: Int] = [:]
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
            var recent: [Int] = []  // authors, the latest first
            var lastReplica = -1
            var nextCounter: [Int: UInt64] = [:]
            var lastTime: UInt64 = 0
            var lastTarget: Seq = 0
            var ids: [Seq: MessageID] = [:]
            var nextIndex: [Seq: UInt32] = [:]
            for place in starts[sliceNumber]..<starts[sliceNumber + 1] {
                let event = events[sorted[place]]
                let envelope = event.envelope
                var flag: UInt8 = 0
                kinds.put(varint: UInt64(envelope.kind))

                let author = number(of: envelope.author, &strings)
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
                let replica: Int
                if let known = replicaNumbers[origin.replica] {
                    replica = known
                } else {
                    replica = replicaNumbers.count
                    replicaNumbers[origin.replica] = replica
                    replicaIDs.put(origin.replica)
                }
                if replica != lastReplica {
                    flag |= Flag.replica
                    replicas.put(varint: UInt64(replica))
                    lastReplica = replica
                }
                let expected = nextCounter[replica] ?? 1
                if origin.counter != expected {
                    flag |= Flag.counter
                    counters.put(varint: origin.counter &- expected)
                }
                nextCounter[replica] = origin.counter &+ 1
                times.put(zigzag: Int64(bitPattern: origin.hlc.milliseconds &- lastTime))
                lastTime = origin.hlc.milliseconds
                if origin.hlc.counter != 0 {
                    flag |= Flag.originCounter
                    originCounters.put(varint: UInt64(origin.hlc.counter))
                }

                let form = Form(kind: envelope.kind)
                let isUsual: Bool
                switch form {
                case .sent:
                    isUsual = envelope.message != nil && envelope.chunkIndex == 0 && (envelope.replyTo == nil) == (envelope.targetSeq == 0)
                        && envelope.targetSeq < envelope.seq
                case .about:
                    isUsual = envelope.message != nil && envelope.replyTo == nil && envelope.targetSeq != 0 && envelope.targetSeq < envelope.seq
                case .plain:
                    isUsual = envelope.message == nil && envelope.chunkIndex == 0 && envelope.targetSeq == 0 && envelope.replyTo == nil
                }
                if isUsual, envelope.extra.isEmpty {
                    switch form {
                    case .sent:
                        sentIDs.put(envelope.message!)
                        ids[envelope.seq] = envelope.message!
                        if let replyTo = envelope.replyTo {
                            flag |= Flag.index
                            targets.put(varint: envelope.seq - envelope.targetSeq)
                            if ids[envelope.targetSeq] != replyTo {
                                flag |= Flag.explicitID
                                explicitIDs.put(replyTo)
                                ids[envelope.targetSeq] = replyTo
                            }
                        }
                    case .about:
                        targets.put(varint: envelope.targetSeq == lastTarget ? 0 : envelope.seq - envelope.targetSeq)
                        lastTarget = envelope.targetSeq
                        if ids[envelope.targetSeq] != envelope.message! {
                            flag |= Flag.explicitID
                            explicitIDs.put(envelope.message!)
                            ids[envelope.targetSeq] = envelope.message!
                        }
                        let isChunk = envelope.kind == Event.Kind.chunkAppended.rawValue
                        let wanted = isChunk ? nextIndex[envelope.targetSeq] ?? 0 : 0
                        if envelope.chunkIndex != wanted {
                            flag |= Flag.index
                            indexes.put(varint: UInt64(envelope.chunkIndex))
                        }
                        if isChunk { nextIndex[envelope.targetSeq] = envelope.chunkIndex &+ 1 }
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

        raw.put(varint: UInt64(replicaNumbers.count))
        raw.put(varint: UInt64(commitments.count / Hash256.byteCount))
        raw.put(varint: UInt64(explicitIDs.count / 16))
        raw.put(head.bytes)
        raw.put(logIDs.bytes)
        raw.put(sentIDs.bytes)
        raw.put(replicaIDs.bytes)
        raw.put(explicitIDs.bytes)
        raw.put(commitments.bytes)

        meta.put(varint: UInt64(userNumbers.count))
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
            let length = try textCompressor.compress(UnsafeRawBufferPointer(rebasing: texts.bytes[frame.start..<frame.end]), into: &compressed)
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

    private mutating func reset() {
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
