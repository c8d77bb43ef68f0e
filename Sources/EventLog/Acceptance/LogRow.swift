/// What a log's acceptance needs from its past, and where its events lie: one row of the archive's table `logs`.
///
/// It is exactly the fold of the log's events up to `seq`; the writer holds one that runs ahead of the archive, the flush its own.
struct LogRow {
    struct Person {
        var user: UserID
        /// The seq at which the user came in last; 0: not a participant.
        var joinedSeq: Seq = 0
        /// The seq at which the user left last; 0: never.
        var leftSeq: Seq = 0
        /// The furthest seq that a receipt named, and the seq of that receipt.
        var deliveredTo: Seq = 0
        var deliveredSeq: Seq = 0
        var readTo: Seq = 0
        var readSeq: Seq = 0

        /// Whether the user takes part, or did once.
        var hasTakenPart: Bool { joinedSeq != 0 || leftSeq != 0 }
    }

    struct OpenStream {
        var message: MessageID
        var seq: Seq
        var author: Int
        var chunks: UInt32
        var joinedBytes: Int
    }

    /// What one replica sent to this log: handled in order up to the mark (I3).
    struct Lane {
        struct Answered {
            var counter: UInt64
            var answer: Answer
        }
        var replica: ReplicaID
        var mark: UInt64
        /// What appended nothing and nothing else tells the answer to, by ascending counter: a repeat gets the same one.
        var answered: [Answered] = []

        func answer(to counter: UInt64) -> Answer? {
            var low = 0
            var high = answered.count
            while low < high {
                let middle = (low + high) / 2
                if answered[middle].counter < counter { low = middle + 1 } else { high = middle }
            }
            return low < answered.count && answered[low].counter == counter ? answered[low].answer : nil
        }
    }

    /// The answer to a submission that appended nothing.
    enum Answer: Hashable {
        case refused(Refusal)
        /// Of what it said, this was recorded before: a joining, a leaving or a receipt, whose like may be recorded again later.
        case duplicate(Seq)

        static let duplicateCode: UInt8 = 0xFF

        func encode(into out: inout ByteBuffer) {
            switch self {
            case .refused(let refusal):
                out.put(byte: UInt8(RefusalCode.allCases.firstIndex(of: refusal.code)!))
                out.put(lengthOf: refusal.detail)
            case .duplicate(let seq):
                out.put(byte: Self.duplicateCode)
                out.put(lengthOf: String(seq))
            }
        }

        /// `nil`: a duplicate of which the event's content tells of what.
        static func decode(_ reader: inout ByteReader) throws -> Answer? {
            let code = try reader.byte()
            let detail = try reader.string()
            if code == duplicateCode {
                if detail.isEmpty { return nil }
                guard let seq = Seq(detail), String(seq) == detail, 1..<LogRow.numbersMax ~= seq else { throw CodecError(.badValue) }
                return .duplicate(seq)
            }
            guard RefusalCode.allCases.indices.contains(Int(code)) else { throw CodecError(.badValue) }
            return .refused(Refusal(RefusalCode.allCases[Int(code)], detail))
        }
    }

    /// Where a range of the log's events lies in the archive.
    struct Slice {
        var run: Position
        var index: Int
        var firstSeq: Seq
        var count: Int
        var messages: Int
    }

    var id: LogID
    /// The store's own number of the log, in the order of first appearance; names its secret in the master seed tree.
    var number: UInt64
    var seq: Seq = 0
    var messages: UInt64 = 0
    var people: [Person] = []
    var open: [OpenStream] = []
    var lanes: [Lane] = []
    var slices: [Slice] = []
    /// The Merkle tree over the archived events.
    var tree = CompactRange()
    private(set) var index: [UserID: Int] = [:]

    init(id: LogID, number: UInt64) {
        self.id = id
        self.number = number
    }

    var archivedSeq: Seq { slices.last.map { $0.firstSeq + Seq($0.count) - 1 } ?? 0 }

    func person(_ user: UserID) -> Int? { Self.person(user, people, index) }

    /// Given just what it looks at: of a row that lies in an object all would be copied, with all that it refers to.
    static func person(_ user: UserID, _ people: [Person], _ index: [UserID: Int]) -> Int? {
        if index.isEmpty {
            for position in people.indices where people[position].user == user { return position }
            return nil
        }
        return index[user]
    }

    mutating func addPerson(_ user: UserID) -> Int {
        if let known = person(user) { return known }
        people.append(Person(user: user))
        if !index.isEmpty {
            index[user] = people.count - 1
        } else if people.count > 8 {
            for (position, person) in people.enumerated() { index[person.user] = position }
        }
        return people.count - 1
    }

    var participants: Int {
        var count = 0
        for person in people where person.joinedSeq != 0 { count += 1 }
        return count
    }

    @inline(__always) func lane(_ replica: ReplicaID) -> Int? {
        for position in lanes.indices where lanes[position].replica == replica { return position }
        return nil
    }

    /// A replica's last counter that was handled; 0 if none was.
    @inline(__always) func mark(of replica: ReplicaID) -> UInt64 { lane(replica).map { lanes[$0].mark } ?? 0 }

    mutating func mark(_ replica: ReplicaID, _ counter: UInt64) {
        if let position = lane(replica) {
            if counter > lanes[position].mark { lanes[position].mark = counter }
        } else {
            lanes.append(Lane(replica: replica, mark: counter))
        }
    }

    mutating func mark(_ replica: ReplicaID, _ counter: UInt64, answered answer: Answer) {
        if let position = lane(replica), counter <= lanes[position].mark { return }
        mark(replica, counter)
        lanes[lane(replica)!].answered.append(Lane.Answered(counter: counter, answer: answer))
    }

    /// Folds what the journal says of a submission that appended nothing.
    mutating func take(_ mark: MarkRecord) {
        if let answer = mark.answer { self.mark(mark.replica, mark.counter, answered: answer) } else { self.mark(mark.replica, mark.counter) }
    }

    /// Folds an accepted event: total, never refusing.
    mutating func apply(_ effect: Effect) {
        seq = effect.seq
        mark(effect.replica, effect.counter)
        switch Event.Kind(rawValue: effect.kind) {
        case .conversationCreated:
            for user in [effect.author] + effect.users { people[addPerson(user)].joinedSeq = effect.seq }
        case .participantJoined:
            for user in effect.users { people[addPerson(user)].joinedSeq = effect.seq }
        case .participantLeft:
            for user in effect.users {
                let position = addPerson(user)
                people[position].joinedSeq = 0
                people[position].leftSeq = effect.seq
            }
        case .messageSent:
            messages += 1
            if effect.isStreaming, let message = effect.message {
                open.append(
                    OpenStream(
                        message: message, seq: effect.seq, author: addPerson(effect.author), chunks: 0, joinedBytes: effect.textBytes))
            }
        case .chunkAppended:
            for position in open.indices where open[position].seq == effect.targetSeq {
                open[position].chunks += 1
                open[position].joinedBytes += effect.textBytes
            }
        case .messageCompleted, .messageInterrupted, .messageDeleted:
            open.removeAll { $0.seq == effect.targetSeq }
        case .receiptDelivered:
            let position = addPerson(effect.author)
            if effect.targetSeq > people[position].deliveredTo {
                people[position].deliveredTo = effect.targetSeq
                people[position].deliveredSeq = effect.seq
            }
        case .receiptRead:
            let position = addPerson(effect.author)
            if effect.targetSeq > people[position].readTo {
                people[position].readTo = effect.targetSeq
                people[position].readSeq = effect.seq
            }
        default: break
        }
    }
}

extension LogRow {
    /// docs/FORMAT.md, "logs". A conversation's id is the record's key; of a user that is only a hash.
    func encode(into out: inout ByteBuffer) {
        if case .user(let user) = id { out.put(lengthOf: user.string) }
        out.put(varint: number)
        out.put(varint: seq)
        out.put(varint: messages)
        out.put(varint: UInt64(people.count))
        for person in people {
            out.put(lengthOf: person.user.string)
            let maskAt = out.count
            var mask: UInt8 = 0
            func put(_ field: Seq, _ bit: UInt8, _ out: inout ByteBuffer) {
                guard field != 0 else { return }
                mask |= bit
                out.put(varint: field)
            }
            out.put(byte: 0)
            put(person.joinedSeq, 1, &out)
            put(person.leftSeq, 2, &out)
            put(person.deliveredTo, 4, &out)
            put(person.deliveredSeq, 8, &out)
            put(person.readTo, 16, &out)
            put(person.readSeq, 32, &out)
            out.base.storeBytes(of: mask, toByteOffset: maskAt, as: UInt8.self)
        }
        out.put(varint: UInt64(open.count))
        for stream in open {
            out.put(stream.message)
            out.put(varint: stream.seq)
            out.put(varint: UInt64(stream.author))
            out.put(varint: UInt64(stream.chunks))
            out.put(varint: UInt64(stream.joinedBytes))
        }
        out.put(varint: UInt64(slices.count))
        var run: Position = 0
        var next: Seq = 1
        for slice in slices {
            out.put(varint: slice.run - run)
            out.put(varint: UInt64(slice.index))
            out.put(varint: slice.firstSeq - next)
            out.put(varint: UInt64(slice.count))
            out.put(varint: UInt64(slice.messages))
            run = slice.run
            next = slice.firstSeq + Seq(slice.count)
        }
        for hash in tree.hashes { hash.withUnsafeBytes { out.put($0) } }
    }

    /// The lanes are apart, as their replicas are the same in most logs and are written once for all, by number.
    func encodeLanes(into out: inout ByteBuffer, number: (ReplicaID) throws -> UInt64) rethrows {
        out.put(varint: UInt64(lanes.count))
        for lane in lanes {
            out.put(varint: try number(lane.replica))
            out.put(varint: lane.mark)
            out.put(varint: UInt64(lane.answered.count))
            var last: UInt64 = 0
            for answered in lane.answered {
                out.put(varint: answered.counter - last)
                answered.answer.encode(into: &out)
                last = answered.counter
            }
        }
    }

    /// Numbers that no store reaches: what follows counts on from those below, which then cannot overflow.
    static var numbersMax: UInt64 { 1 << 60 }

    /// Of a log whose last seq is that: its slices, and the tree over their events.
    static func places(_ reader: inout ByteReader, _ seq: Seq) throws(CodecError) -> (slices: [Slice], tree: CompactRange) {
        var slices: [Slice] = []
        var run: Position = 0
        var next: Seq = 1
        for _ in 0..<(try reader.count()) {
            let (runStep, index, seqStep) = (try reader.varint(), try reader.varint(), try reader.varint())
            let (count, messages) = (try reader.varint(), try reader.varint())
            guard max(runStep, index, seqStep) < Self.numbersMax, 1...Self.numbersMax ~= count, messages <= count else { throw CodecError(.badValue) }
            run += runStep
            next += seqStep
            guard run < Self.numbersMax, next + count - 1 <= seq else { throw CodecError(.badValue) }
            slices.append(Slice(run: run, index: Int(index), firstSeq: next, count: Int(count), messages: Int(messages)))
            next += count
        }
        // The row is the fold of just the events that lie in its slices: one that said more would have us look for what is not there.
        guard next - 1 == seq else { throw CodecError(.badValue) }
        let hashes = CompactRange.levels(begin: 0, end: next - 1).count
        guard let tree = CompactRange(end: next - 1, encoded: try reader.take(hashes * Hash256.byteCount)) else {
            throw CodecError(.badValue)
        }
        return (slices, tree)
    }

    /// Reads what `encode` and `encodeLanes` wrote. Throws `CodecError` for all else, also where the checksum held: whoever forges a value can make one.
    init(key: [UInt8], decoding bytes: UnsafeRawBufferPointer, replica: (UInt64) throws -> ReplicaID) throws {
        var reader = ByteReader(bytes)
        let id: LogID
        switch key.first {
        case 0:
            guard let conversation = ConversationID(bytes: key.dropFirst()) else { throw CodecError(.badValue) }
            id = .conversation(conversation)
        case 1: id = .user(try reader.user())
        default: throw CodecError(.badValue)
        }
        self.init(id: id, number: try reader.varint())
        seq = try reader.varint()
        messages = try reader.varint()
        guard max(number, seq) < Self.numbersMax, messages <= seq else { throw CodecError(.badValue) }
        for _ in 0..<(try reader.count()) {
            let position = addPerson(try reader.user())
            let mask = try reader.byte()
            func field(_ bit: UInt8) throws(CodecError) -> Seq { mask & bit == 0 ? 0 : try reader.varint() }
            // In the order in which they were written.
            people[position].joinedSeq = try field(1)
            people[position].leftSeq = try field(2)
            people[position].deliveredTo = try field(4)
            people[position].deliveredSeq = try field(8)
            people[position].readTo = try field(16)
            people[position].readSeq = try field(32)
        }
        for _ in 0..<(try reader.count()) {
            let stream = OpenStream(
                message: try reader.identifier(), seq: try reader.varint(), author: Int(clamping: try reader.varint()),
                chunks: UInt32(clamping: try reader.varint()), joinedBytes: Int(clamping: try reader.varint()))
            guard stream.author < people.count, 1...max(seq, 1) ~= stream.seq, stream.chunks < 1 << 31, stream.joinedBytes < Self.numbersMax else {
                throw CodecError(.badValue)
            }
            open.append(stream)
        }
        (slices, tree) = try Self.places(&reader, seq)
        for _ in 0..<(try reader.count()) {
            var lane = Lane(replica: try replica(reader.varint()), mark: try reader.varint())
            var last: UInt64 = 0
            for _ in 0..<(try reader.count()) {
                let (counter, overflows) = last.addingReportingOverflow(try reader.varint())
                guard !overflows, let answer = try Answer.decode(&reader) else { throw CodecError(.badValue) }
                last = counter
                lane.answered.append(Lane.Answered(counter: last, answer: answer))
            }
            lanes.append(lane)
        }
        guard reader.isAtEnd else { throw CodecError(.notCanonical) }
    }
}

extension ByteReader {
    /// A number of things that follow, each of at least one byte: so that a bad count cannot make us allocate.
    mutating func count() throws(CodecError) -> Int {
        let value = try varint()
        guard value <= UInt64(remaining) else { throw CodecError(.truncated) }
        return Int(value)
    }
}
