extension DecodedRun {
    /// What a run's ids and columns say of its events.
    struct Columns {
        let slices: [Slice]
        let order: ContiguousArray<UInt32>
        let users: [UserID]
        let replicas: [ReplicaID]
        let extras: [Int: [UInt8]]
        let commitments: [Int: Hash256]
        /// The bodies' other fields, one behind the other.
        let rest: UnsafeRawBufferPointer

        /// Reads the section of the ids and the decompressed columns, which the result borrows.
        ///
        /// - Parameter items: room for the header's number of events; all of it is filled unless this throws.
        init(
            _ header: Header, ids: UnsafeRawBufferPointer, columns: UnsafeRawBufferPointer, at position: Position,
            into items: UnsafeMutableBufferPointer<Item>
        ) throws {
            var slices: [Slice] = []
            /// The items that are filled.
            var filled = 0
            var order = ContiguousArray<UInt32>()
            var users: [UserID] = []
            var replicas: [ReplicaID] = []
            var extras: [Int: [UInt8]] = [:]
            var commitments: [Int: Hash256] = [:]
            let textBytes = header.frames.reduce(0) { $0 + $1.raw }
            guard textBytes <= UInt32.max else { throw CodecError(.tooLarge) }

            var raw = ByteReader(ids)
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

            var columns = ByteReader(columns)
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

            // Each event has a byte there: a bad count cannot make us allocate.
            guard header.events <= min(kinds.remaining, flags.remaining) else { throw CodecError(.truncated) }
            var textOffset = 0
            var restOffset = 0
            var targetIDs = RunTargets()
            var recent: [UInt32] = []
            // By the replica's number: the slice that it wrote in last, and its next counter there.
            var lanes = ContiguousArray<(slice: Int, next: UInt64)>(repeating: (-1, 1), count: replicas.count)
            for (sliceNumber, head) in heads.enumerated() {
                let firstSeq = try directory.varint()
                let count = try directory.varint()
                guard count > 0, count <= UInt64(header.events - filled), firstSeq < 1 << 60 else { throw CodecError(.badValue) }
                let log: LogID
                if head & 1 == 0 {
                    log = .conversation(try logIDs.identifier())
                } else {
                    let number = try directory.varint()
                    guard number < UInt64(users.count) else { throw CodecError(.badValue) }
                    log = .user(users[Int(number)])
                }
                slices.append(Slice(log: log, firstSeq: firstSeq, range: filled..<filled + Int(count)))
                recent.removeAll(keepingCapacity: true)
                var replica: UInt32 = .max
                var time: UInt64 = 0
                var lastTarget: Seq = 0
                targetIDs.begin(first: firstSeq, count: Int(count))
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
                    }
                    guard replica != .max else { throw CodecError(.badValue) }
                    item.replica = replica
                    item.counter = lanes[Int(replica)].slice == sliceNumber ? lanes[Int(replica)].next : 1
                    if flag & RunEncoder.Flag.counter != 0 { item.counter &+= try counters.varint() }
                    lanes[Int(replica)] = (sliceNumber, item.counter &+ 1)
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
                            extras[filled] = Array(extra)
                        }
                    } else {
                        switch form {
                        case .sent:
                            item.message = try sentIDs.identifier()
                            item.hasMessage = true
                            targetIDs[seq] = item.message
                            if flag & RunEncoder.Flag.index != 0 {
                                item.target = seq &- (try targets.varint())
                                item.hasReply = true
                                if flag & RunEncoder.Flag.explicitID != 0 {
                                    item.replyTo = try explicitIDs.identifier()
                                    targetIDs[item.target] = item.replyTo
                                } else {
                                    guard let id = targetIDs[item.target] else { throw CodecError(.badValue) }
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
                                targetIDs[item.target] = item.message
                            } else {
                                guard let id = targetIDs[item.target] else { throw CodecError(.badValue) }
                                item.message = id
                            }
                            let isChunk = kind == Event.Kind.chunkAppended.rawValue
                            item.chunkIndex = isChunk ? targetIDs.nextIndex : 0
                            if flag & RunEncoder.Flag.index != 0 {
                                guard let index = UInt32(exactly: try indexes.varint()) else { throw CodecError(.badValue) }
                                item.chunkIndex = index
                            }
                            if isChunk { targetIDs.nextIndex = item.chunkIndex &+ 1 }
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
                        commitments[filled] = Hash256(try commitmentBytes.take(Hash256.byteCount))
                    }
                    if flag & RunEncoder.Flag.rest != 0 {
                        let length = try restLengths.varint()
                        guard length <= UInt64(rest.count - restOffset) else { throw CodecError(.truncated) }
                        item.restOffset = UInt32(restOffset)
                        item.restLength = UInt32(length)
                        restOffset += Int(length)
                    }
                    items.initializeElement(at: filled, to: item)
                    filled += 1
                }
            }
            guard filled == header.events, textOffset == textBytes, restOffset == rest.count, kinds.isAtEnd, flags.isAtEnd else {
                throw CodecError(.badValue)
            }

            order.reserveCapacity(filled)
            var next = slices.map(\.range.lowerBound)
            var hubTime: UInt64 = 0
            var hubCounter: UInt16 = 0
            while order.count < filled {
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
                    items[place].hlc = hubTime << 16 | UInt64(hubCounter)
                    if items[place].isHubTime { items[place].originHLC = items[place].hlc }
                    items[place].position = position + UInt64(order.count)
                    order.append(UInt32(place))
                }
                next[Int(slice)] = first + Int(count) + 1
            }
            self.rest = rest
            self.slices = slices
            self.order = order
            self.users = users
            self.replicas = replicas
            self.extras = extras
            self.commitments = commitments
        }
    }
}
