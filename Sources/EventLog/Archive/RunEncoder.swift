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
    var textFrameBytes = 1 << 19
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

    private let shape: RunShape
    private let metaCompressor: ZstdCompressor
    private let textCompressor: ZstdCompressor
    private var columns = RunColumns()
    private var raw = ByteBuffer(), meta = ByteBuffer(), compressed = ByteBuffer()

    // Of the run at hand.
    private var logNumbers = Renumbering(), authorNumbers = Renumbering()
    private var isNumbered = false
    private var userNumbers: [UserID: Int] = [:]
    private var replicaNumbers: [ReplicaID: Int] = [:]
    /// The last event's, by name and by number.
    private var lastReplica: (id: ReplicaID?, number: Int) = (nil, -1)
    /// By the replica's number: the slice that it wrote in last, and its next counter there.
    private var lanes = ContiguousArray<(slice: Int, next: UInt64)>()
    /// By the event's place: its slice, and the events' places slice by slice.
    private var sliceIndex = ContiguousArray<Int32>(), sorted = ContiguousArray<Int32>()
    private var frames: [Range<Int>] = []
    private var frameStart = 0

    // Of the slice at hand.
    private var slice = SliceState()

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
        let slices = try group(events)
        putHubTimes(events)
        sort(slices)
        var start = 0
        for (number, slice) in slices.enumerated() {
            begin(slice, number)
            for place in start..<start + slice.count { put(events[Int(sorted[place])]) }
            start += slice.count
        }
        if columns.texts.count > frameStart { frames.append(frameStart..<columns.texts.count) }
        columns.putIDs(replicas: lanes.count, into: &raw)
        columns.putColumns(into: &meta)
        try write(events: events.count, slices: slices.count, at: position, into: &out)
        return slices
    }

    private mutating func reset() {
        columns.removeAll()
        raw.removeAll()
        meta.removeAll()
        compressed.removeAll()
        logNumbers.begin()
        authorNumbers.begin()
        userNumbers = [:]
        replicaNumbers = [:]
        lastReplica = (nil, -1)
        lanes.removeAll(keepingCapacity: true)
        sliceIndex.removeAll(keepingCapacity: true)
        sorted.removeAll(keepingCapacity: true)
        frames = []
        frameStart = 0
    }

    // The order of the commits.

    /// Finds the slices, and writes how they take turns.
    private mutating func group(_ events: UnsafeBufferPointer<PendingEvent>) throws -> [Slice] {
        isNumbered = (events.first?.logNumber ?? -1) >= 0
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
                if previous >= 0 { columns.orderCounts.put(varint: repeats) }
                columns.orderSlices.put(varint: UInt64(slice))
                previous = slice
                repeats = 0
            }
        }
        if previous >= 0 { columns.orderCounts.put(varint: repeats) }
        return slices
    }

    private mutating func putHubTimes(_ events: UnsafeBufferPointer<PendingEvent>) {
        var time: UInt64 = 0
        var counter: UInt16 = 0
        for index in events.indices {
            let hlc = events[index].envelope.hlc
            // Modular differences: the clock never goes back, but the format must carry whatever it is given.
            columns.hubTimes.put(varint: (hlc.milliseconds &- time) & 0xFFFF_FFFF_FFFF)
            columns.hubCounters.put(varint: UInt64(hlc.milliseconds == time ? hlc.counter &- counter : hlc.counter))
            time = hlc.milliseconds
            counter = hlc.counter
        }
    }

    /// Sorts the events' places by slice, each slice's in their order.
    private mutating func sort(_ slices: [Slice]) {
        var fill = [Int](repeating: 0, count: slices.count)
        for index in slices.indices.dropFirst() { fill[index] = fill[index - 1] + slices[index - 1].count }
        for _ in sliceIndex { sorted.append(0) }
        for (index, slice) in sliceIndex.enumerated() {
            sorted[fill[Int(slice)]] = Int32(index)
            fill[Int(slice)] += 1
        }
    }

    // Slices.

    private mutating func begin(_ slice: Slice, _ number: Int) {
        let isUsers = if case .user = slice.log { true } else { false }
        columns.heads.put(varint: UInt64(slice.messages) << 1 | (isUsers ? 1 : 0))
        columns.directory.put(varint: slice.firstSeq)
        columns.directory.put(varint: UInt64(slice.count))
        switch slice.log {
        case .conversation(let id): columns.logIDs.put(id)
        case .user(let user):
            let user = self.number(of: user)
            columns.directory.put(varint: UInt64(user))
        }
        self.slice.begin(number, firstSeq: slice.firstSeq)
    }

    private mutating func number(of user: UserID) -> Int {
        if let known = userNumbers[user] { return known }
        userNumbers[user] = columns.userCount
        return columns.add(user)
    }

    private mutating func put(_ event: borrowing PendingEvent) {
        var flags: UInt8 = 0
        columns.kinds.put(varint: UInt64(event.envelope.kind))
        slice.known.append(Known())
        putAuthor(event)
        putOrigin(event.envelope.origin, hub: event.envelope.hlc, &flags)
        putReferences(event.envelope, &flags)
        putBody(event, &flags)
        columns.flags.put(byte: flags)
    }

    /// Authors by how recently they wrote in the slice.
    @inline(__always)
    private mutating func putAuthor(_ event: borrowing PendingEvent) {
        let author: Int
        if isNumbered {
            let (found, isNew) = authorNumbers.number(of: event.authorNumber, next: columns.userCount)
            // A user's log may have named the user before; twice among the names does no harm.
            if isNew { _ = columns.add(event.envelope.author) }
            author = found
        } else {
            author = number(of: event.envelope.author)
        }
        if let rank = slice.recent.firstIndex(of: author) {
            columns.authors.put(varint: UInt64(rank))
            if rank > 0 {
                slice.recent.remove(at: rank)
                slice.recent.insert(author, at: 0)
            }
        } else {
            columns.authors.put(varint: UInt64(slice.recent.count))
            columns.newAuthors.put(varint: UInt64(author))
            slice.recent.insert(author, at: 0)
        }
    }

    /// The replica where it is another than before, the counter where it is not the next, the time where it is not the hub's.
    @inline(__always)
    private mutating func putOrigin(_ origin: Origin, hub: HLC, _ flags: inout UInt8) {
        if origin.replica != lastReplica.id { lastReplica = (origin.replica, number(of: origin.replica)) }
        let replica = lastReplica.number
        if replica != slice.replica {
            flags |= Flag.replica
            columns.replicas.put(varint: UInt64(replica))
            slice.replica = replica
        }
        let expected = lanes[replica].slice == slice.number ? lanes[replica].next : 1
        if origin.counter != expected {
            flags |= Flag.counter
            columns.counters.put(varint: origin.counter &- expected)
        }
        lanes[replica] = (slice.number, origin.counter &+ 1)
        if origin.hlc == hub {
            columns.times.put(varint: 0)
        } else {
            // The difference of two numbers of 48 bits, so that there is room for one more.
            let step = Int64(origin.hlc.milliseconds) - Int64(slice.time)
            columns.times.put(varint: UInt64(bitPattern: (step << 1) ^ (step >> 63)) + 1)
            slice.time = origin.hlc.milliseconds
            if origin.hlc.counter != 0 {
                flags |= Flag.originCounter
                columns.originCounters.put(varint: UInt64(origin.hlc.counter))
            }
        }
    }

    private mutating func number(of replica: ReplicaID) -> Int {
        if let known = replicaNumbers[replica] { return known }
        let number = replicaNumbers.count
        replicaNumbers[replica] = number
        columns.replicaIDs.put(replica)
        lanes.append((-1, 1))
        return number
    }

    @inline(__always)
    private mutating func putReferences(_ envelope: borrowing Envelope, _ flags: inout UInt8) {
        let form = Form(kind: envelope.kind)
        guard form.isUsual(envelope), envelope.extra.isEmpty else { return putOdd(envelope, form, &flags) }
        switch form {
        case .sent:
            columns.sentIDs.put(envelope.message!)
            slice.note(envelope.message!)
            guard let replyTo = envelope.replyTo else { return }
            flags |= Flag.index
            columns.targets.put(varint: envelope.seq - envelope.targetSeq)
            putID(replyTo, at: envelope.targetSeq, &flags)
        case .about:
            columns.targets.put(varint: envelope.targetSeq == slice.target ? 0 : envelope.seq - envelope.targetSeq)
            slice.target = envelope.targetSeq
            putID(envelope.message!, at: envelope.targetSeq, &flags)
            let isChunk = envelope.kind == Event.Kind.chunkAppended.rawValue
            let wanted = isChunk ? slice.nextIndex(at: envelope.targetSeq, then: envelope.chunkIndex &+ 1) : 0
            if envelope.chunkIndex != wanted {
                flags |= Flag.index
                columns.indexes.put(varint: UInt64(envelope.chunkIndex))
            }
        case .plain: break
        }
    }

    @inline(__always)
    private mutating func putID(_ id: MessageID, at seq: Seq, _ flags: inout UInt8) {
        if slice.learn(id, at: seq) { return }
        flags |= Flag.explicitID
        columns.explicitIDs.put(id)
    }

    /// Kinds of a newer version, or an event that another implementation wrote oddly: every field as it is.
    private mutating func putOdd(_ envelope: borrowing Envelope, _ form: Form, _ flags: inout UInt8) {
        flags |= Flag.odd
        if form == .sent { columns.sentIDs.put(envelope.message ?? MessageID(high: 0, low: 0)) }
        columns.odd.put(byte: (envelope.message == nil ? 0 : 1) | (envelope.replyTo == nil ? 0 : 2))
        if let message = envelope.message { columns.odd.put(message) }
        if let replyTo = envelope.replyTo { columns.odd.put(replyTo) }
        columns.odd.put(varint: UInt64(envelope.chunkIndex))
        columns.odd.put(varint: envelope.targetSeq)
        columns.odd.put(varint: UInt64(envelope.extra.count))
        columns.odd.put(envelope.extra)
    }

    @inline(__always)
    private mutating func putBody(_ event: borrowing PendingEvent, _ flags: inout UInt8) {
        if let commitment = event.commitment {
            flags |= Flag.erased
            commitment.withUnsafeBytes { columns.commitments.put($0) }
            columns.textLengths.put(varint: 0)
            return
        }
        columns.textLengths.put(varint: UInt64(event.body.text.count))
        columns.texts.put(event.body.text)
        if columns.texts.count - frameStart >= shape.textFrameBytes {
            frames.append(frameStart..<columns.texts.count)
            frameStart = columns.texts.count
        }
        if !event.body.rest.isEmpty {
            flags |= Flag.rest
            columns.restLengths.put(varint: UInt64(event.body.rest.count))
            columns.rest.put(event.body.rest)
        }
    }

    // The whole.

    /// The header, the section of the ids, and what is compressed.
    private mutating func write(events: Int, slices: Int, at position: Position, into out: inout ByteBuffer) throws {
        let metaBytes = try metaCompressor.compress(meta.bytes, into: &compressed)
        var table: [(compressed: Int, raw: Int, checksum: UInt64)] = []
        for frame in frames {
            let start = compressed.count
            let length = try textCompressor.compress(UnsafeRawBufferPointer(rebasing: columns.texts.bytes[frame]), into: &compressed)
            let bytes = UnsafeRawBufferPointer(rebasing: compressed.bytes[start..<start + length])
            table.append((length, frame.count, XXH64.hash(bytes, seed: position)))
        }
        let start = out.count
        out.put(fixed32: Self.magic)
        out.put(fixed32: 0)  // codec, dictionary and key: none but the first
        out.put(fixed32: UInt32(events))
        out.put(fixed32: UInt32(slices))
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

        /// Whether an envelope of this form has the fields that such have, and no others.
        @inline(__always)
        func isUsual(_ envelope: borrowing Envelope) -> Bool {
            switch self {
            case .sent:
                envelope.message != nil && envelope.chunkIndex == 0 && (envelope.replyTo == nil) == (envelope.targetSeq == 0)
                    && envelope.targetSeq < envelope.seq
            case .about:
                envelope.message != nil && envelope.replyTo == nil && envelope.targetSeq != 0 && envelope.targetSeq < envelope.seq
            case .plain: envelope.message == nil && envelope.chunkIndex == 0 && envelope.targetSeq == 0 && envelope.replyTo == nil
            }
        }
    }
}

extension RunEncoder {
    /// What a slice tells of a message's seq: its id and the next chunk's index.
    private struct Known {
        var id = MessageID(high: 0, low: 0)
        var hasID = false
        var next: UInt32 = 0
    }

    /// What a reader knows of a slice behind the events that are written, and need not be told.
    private struct SliceState {
        private(set) var number = 0
        private var firstSeq: Seq = 0
        /// Authors, the latest first.
        var recent = ContiguousArray<Int>()
        /// The last event's replica, the last time that was not the hub's, and the last target.
        var replica = -1
        var time: UInt64 = 0
        var target: Seq = 0
        /// Of the slice's own seqs, and of those before it.
        var known = ContiguousArray<Known>()
        private var outside: [Seq: Known] = [:]

        mutating func begin(_ number: Int, firstSeq: Seq) {
            self.number = number
            self.firstSeq = firstSeq
            recent.removeAll(keepingCapacity: true)
            (replica, time, target) = (-1, 0, 0)
            known.removeAll(keepingCapacity: true)
            if !outside.isEmpty { outside.removeAll(keepingCapacity: true) }
        }

        /// The event at hand is a message of this id.
        @inline(__always)
        mutating func note(_ id: MessageID) {
            known[known.count - 1].id = id
            known[known.count - 1].hasID = true
        }

        /// Whether the id of the message at a seq is known to be this one; it is from now on.
        @inline(__always)
        mutating func learn(_ id: MessageID, at seq: Seq) -> Bool {
            if seq >= firstSeq {
                let place = Int(seq - firstSeq)
                if known[place].hasID, known[place].id == id { return true }
                known[place].id = id
                known[place].hasID = true
                return false
            }
            if outside[seq]?.id == id { return true }
            outside[seq, default: Known(hasID: true)].id = id
            return false
        }

        /// The index that a reader expects of the message's next chunk; a seq that was learnt.
        @inline(__always)
        mutating func nextIndex(at seq: Seq, then next: UInt32) -> UInt32 {
            if seq >= firstSeq {
                defer { known[Int(seq - firstSeq)].next = next }
                return known[Int(seq - firstSeq)].next
            }
            defer { outside[seq]!.next = next }
            return outside[seq]!.next
        }
    }
}
