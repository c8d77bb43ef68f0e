package import EventLog

/// Frames in Protocol Buffers wire format (docs/convstore.proto, message `Frame`). Unknown fields are skipped: newer versions may add some.
extension Frame {
    package func encoded() -> [UInt8] {
        var body = ByteBuffer(capacity: 256)
        let number: Int
        switch self {
        case .hello(let hello):
            number = 1
            hello.encode(into: &body)
        case .welcome(let welcome):
            number = 2
            welcome.encode(into: &body)
        case .push(let events):
            number = 3
            for event in events { body.put(message: 1) { event.encode(into: &$0) } }
        case .accepted(let answers):
            number = 4
            for answer in answers { body.put(message: 1) { answer.encode(into: &$0) } }
        case .refused(let answers):
            number = 5
            for answer in answers { body.put(message: 1) { answer.encode(into: &$0) } }
        case .segment(let segment):
            number = 6
            body.reserve(segment.run.count + 64)
            body.put(bytes: 1, segment.run)
            for note in segment.logs { body.put(message: 2) { note.encode(into: &$0) } }
        case .events(let events):
            number = 7
            for item in events.items {
                body.put(message: 1) {
                    $0.put(bytes: 1, item.envelope)
                    if let commitment = item.commitment { $0.put(bytes: 3, commitment.bytes) } else { $0.put(bytes: 2, item.body) }
                }
            }
            for note in events.logs { body.put(message: 2) { note.encode(into: &$0) } }
        case .fetch(let wishes, let damaged):
            number = 8
            for wish in wishes {
                body.put(message: 1) {
                    $0.put(log: wish.log)
                    $0.put(number: 3, wish.from)
                    $0.put(number: 4, wish.through)
                }
            }
            for run in damaged { body.put(message: 2) { run.encode(into: &$0) } }
        case .caughtUp(let caughtUp):
            number = 9
            body.put(message: 1) { caughtUp.cursor.encode(into: &$0) }
        case .credit(let bytes):
            number = 10
            body.put(number: 1, bytes)
        case .typing(let typing):
            number = 11
            body.put(bytes: 1, typing.conversation.bytes)
            body.put(text: 2, typing.user.string)
            body.put(number: 3, typing.isTyping ? 1 : 0)
        case .ping(let id):
            number = 12
            body.put(fixed: 1, id)
        case .pong(let id):
            number = 13
            body.put(fixed: 1, id)
        case .bye(let bye):
            number = 14
            body.put(number: 1, UInt64(bye.code.rawValue))
            body.put(text: 2, bye.reason.cut(toBytes: WireLimits.reasonBytesMax))
            body.put(number: 3, min(bye.retryAfterMilliseconds, WireLimits.retryAfterMillisecondsMax))
        case .token(let token):
            number = 15
            body.put(text: 1, token)
        case .heads(let heads):
            number = 16
            for item in heads.heads {
                body.put(message: 1) {
                    $0.put(log: item.log)
                    $0.put(head: 3, item.head)
                }
            }
            body.put(number: 2, heads.isProbe ? 1 : 0)
            body.put(number: 3, heads.isLast ? 1 : 0)
        case .base(let base):
            number = 17
            body.put(log: base.log)
            body.put(bytes: 3, base.base)
            body.put(number: 4, base.seq)
            body.put(bytes: 5, base.range)
            body.put(bytes: 6, base.secret)
            body.put(number: 7, base.isFirst ? 1 : 0)
        case .repair(let repair):
            number = 18
            body.put(number: 1, repair.position)
            for block in repair.blocks {
                body.put(message: 2) {
                    $0.put(number: 1, UInt64(block.number))
                    $0.put(bytes: 2, block.bytes)
                }
            }
        case .progress(let progress):
            number = 19
            progress.encode(into: &body)
        }
        var out = ByteBuffer(capacity: body.count + 16)
        out.put(varint: UInt64(number) << 3 | 2)
        out.put(varint: UInt64(body.count))
        out.put(body.bytes)
        return out.array()
    }

    /// Reads one frame. Bytes of a peer: anything wrong is an error, nothing is believed.
    package init(decoding bytes: [UInt8]) throws(FrameError) {
        guard bytes.count <= WireLimits.messageBytesMax else { throw FrameError(.tooLarge) }
        do {
            self = try bytes.withUnsafeBytes { bytes in
                var reader = ByteReader(bytes)
                let tag = try reader.varint()
                guard tag & 7 == 2 else { throw CodecError(.badField) }
                return try Fields.read(reader.lengthPrefixed()) { fields in
                    guard reader.isAtEnd else { throw CodecError(.badField) }
                    return try Self(number: tag >> 3, fields)
                }
            }
        } catch {
            throw FrameError((error as? CodecError)?.problem ?? .badValue)
        }
    }

    private init(number: UInt64, _ fields: Fields) throws {
        switch number {
        case 1: self = .hello(try Hello(fields))
        case 2: self = .welcome(try Welcome(fields))
        case 3: self = .push(try fields.messages(1, PushedEvent.init))
        case 4: self = .accepted(try fields.messages(1, Accepted.init))
        case 5: self = .refused(try fields.messages(1, Refused.init))
        case 6: self = .segment(SegmentFrame(run: fields.bytes(1), logs: try fields.messages(2, LogNote.init)))
        case 7:
            let items = try fields.messages(1) { item in
                EventsFrame.Item(envelope: item.bytes(1), body: item.bytes(2), commitment: try item.has(3) ? item.hash(3) : nil)
            }
            self = .events(EventsFrame(items: items, logs: try fields.messages(2, LogNote.init)))
        case 8:
            let wishes = try fields.messages(1) { Fetch(log: try $0.log(), from: try $0.seq(3), through: try $0.seq(4)) }
            self = .fetch(wishes, damaged: try fields.messages(2, DamagedRun.init))
        case 9: self = .caughtUp(CaughtUp(cursor: try Cursor(fields.message(1))))
        case 10: self = .credit(fields.number(1))
        case 11: self = .typing(Typing(conversation: try fields.identifier(1), user: try fields.user(2), isTyping: fields.number(3) != 0))
        case 12: self = .ping(fields.fixed64(1))
        case 13: self = .pong(fields.fixed64(1))
        case 14:
            let code = Bye.Code(rawValue: UInt32(clamping: fields.number(1))) ?? .internalError
            self = .bye(
                Bye(
                    code, try fields.text(2).cut(toBytes: WireLimits.reasonBytesMax),
                    retryAfterMilliseconds: min(fields.number(3), WireLimits.retryAfterMillisecondsMax)))
        case 15: self = .token(try fields.text(1))
        case 16:
            let heads = try fields.messages(1) { HeadsFrame.Item(log: try $0.log(), head: try $0.head(3)) }
            self = .heads(HeadsFrame(heads: heads, isProbe: fields.number(2) != 0, isLast: fields.number(3) != 0))
        case 17:
            self = .base(
                BaseFrame(
                    log: try fields.log(), base: fields.bytes(3), seq: try fields.seq(4), range: fields.bytes(5), secret: fields.bytes(6),
                    isFirst: fields.number(7) != 0))
        case 18:
            let blocks = try fields.messages(2) { RunBlock(number: Int(clamping: $0.number(1)), bytes: $0.bytes(2)) }
            self = .repair(RepairFrame(position: try fields.seq(1), blocks: blocks))
        case 19: self = .progress(try Progress(fields))
        default: throw CodecError(.badField)
        }
    }
}

/// What is wrong with a peer's bytes.
package struct FrameError: Error, CustomStringConvertible {
    package let problem: CodecError.Problem
    package init(_ problem: CodecError.Problem) { self.problem = problem }
    package var description: String { "a message is no frame: \(problem)" }
}

extension Cursor {
    package func encode(into out: inout ByteBuffer) {
        out.put(bytes: 1, store.bytes)
        out.put(fixed: 2, incarnation)
        out.put(number: 3, position)
    }

    package init(_ fields: Fields) throws {
        self.init(store: try fields.identifier(1), incarnation: fields.fixed64(2), position: try fields.seq(3))
    }
}

extension PartialCursor {
    package func encode(into out: inout ByteBuffer) {
        out.put(message: 1) { cursor.encode(into: &$0) }
        out.put(number: 2, wholeFrom)
        out.put(number: 3, partFrom)
        out.put(number: 4, partThrough)
    }

    package init(_ fields: Fields) throws {
        let cursor = try Cursor(fields.message(1))
        guard let known = Self(cursor: cursor, wholeFrom: fields.number(2), partFrom: fields.number(3), partThrough: fields.number(4)) else {
            throw CodecError(.badValue)
        }
        self = known
    }
}

extension Progress {
    fileprivate func encode(into out: inout ByteBuffer) {
        part.encode(into: &out)
        for log in whole {
            switch log {
            case .conversation(let id): out.put(bytes: 5, id.bytes)
            case .user(let user): out.put(text: 6, user.string)
            }
        }
    }

    fileprivate init(_ fields: Fields) throws {
        part = try PartialCursor(fields)
        whole = try fields.identifiers(5).map { .conversation($0) } + fields.users(6).map { .user($0) }
    }
}

extension Scope {
    /// Said beside what belongs to it: an empty list must not read as all conversations, nor a newer version's scope as a wider one.
    private enum Kind: UInt64 { case mine, everything, conversations, newest }

    func encode(into out: inout ByteBuffer) {
        func put(_ kind: Kind) { out.put(number: 1, kind.rawValue) }
        switch self {
        case .mine: put(.mine)
        case .everything: put(.everything)
        case .conversations(let ids):
            put(.conversations)
            for id in ids { out.put(bytes: 2, id.bytes) }
        case .newest(let conversations, let messages):
            put(.newest)
            out.put(number: 3, conversations)
            out.put(number: 4, messages)
        }
    }

    init(_ fields: Fields) throws {
        switch Kind(rawValue: fields.number(1)) {
        case .mine: self = .mine
        case .everything: self = .everything
        case .conversations: self = .conversations(try fields.identifiers(2))
        case .newest: self = .newest(conversations: fields.number(3), messages: fields.number(4))
        case nil: throw CodecError(.badValue)
        }
    }
}

extension Hello {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(number: 1, UInt64(versions.lowerBound))
        out.put(number: 2, UInt64(versions.upperBound))
        out.put(bytes: 3, replica.bytes)
        out.put(bytes: 4, nonce)
        out.put(text: 5, user.string)
        out.put(text: 6, token)
        if let cursor { out.put(message: 7) { cursor.encode(into: &$0) } }
        if scope != .mine { out.put(message: 8) { scope.encode(into: &$0) } }
        out.put(number: 9, credit)
        for event in pushed { out.put(message: 10) { event.encode(into: &$0) } }
        out.put(number: 11, checkpointSize)
        out.put(number: 12, wantsFirstScreen ? 1 : 0)
        if let newest {
            out.put(message: 13) {
                $0.put(log: newest.log)
                $0.put(number: 3, newest.seq)
                $0.put(fixed: 4, newest.hlc.rawValue)
                $0.put(bytes: 5, newest.replica.bytes)
                $0.put(number: 6, newest.counter)
            }
        }
        out.put(number: 14, sendsAgain ? 1 : 0)
        if let checkpointRoot { out.put(bytes: 15, checkpointRoot.bytes) }
        out.put(number: 16, takesProgress ? 1 : 0)
        if let progress { out.put(message: 17) { progress.encode(into: &$0) } }
        out.put(number: 18, messageBytes)
    }

    fileprivate init(_ fields: Fields) throws {
        let low = UInt32(clamping: fields.number(1))
        let high = UInt32(clamping: fields.number(2))
        guard low > 0, low <= high else { throw CodecError(.badValue) }
        versions = low...high
        replica = try fields.identifier(3)
        nonce = fields.bytes(4)
        user = try fields.user(5)
        token = try fields.text(6)
        guard nonce.count == 16, token.utf8.count <= WireLimits.tokenBytesMax else { throw CodecError(.badValue) }
        cursor = fields.has(7) ? try Cursor(fields.message(7)) : nil
        scope = fields.has(8) ? try Scope(fields.message(8)) : .mine
        credit = fields.number(9)
        pushed = try fields.messages(10, PushedEvent.init)
        checkpointSize = try fields.seq(11)
        wantsFirstScreen = fields.number(12) != 0
        if fields.has(13) {
            let held = try fields.message(13)
            newest = HeldEvent(
                log: try held.log(), seq: try held.seq(3), hlc: HLC(rawValue: held.fixed64(4)), replica: try held.identifier(5), counter: held.number(6))
        }
        sendsAgain = fields.number(14) != 0
        checkpointRoot = fields.has(15) ? try fields.hash(15) : nil
        takesProgress = fields.number(16) != 0
        progress = fields.has(17) ? try PartialCursor(fields.message(17)) : nil
        messageBytes = fields.number(18)
    }
}

extension Welcome {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(number: 1, UInt64(version))
        out.put(fixed: 2, connection)
        out.put(bytes: 3, store.bytes)
        out.put(fixed: 4, incarnation)
        out.put(number: 5, time)
        out.put(number: 6, credit)
        out.put(number: 7, isGone ? 1 : 0)
        out.put(text: 8, checkpoint)
        for hash in consistency { out.put(bytes: 9, hash.bytes) }
        out.put(text: 10, checkpointKey)
    }

    fileprivate init(_ fields: Fields) throws {
        version = UInt32(clamping: fields.number(1))
        connection = fields.fixed64(2)
        store = try fields.identifier(3)
        incarnation = fields.fixed64(4)
        time = fields.number(5)
        credit = fields.number(6)
        isGone = fields.number(7) != 0
        checkpoint = try fields.text(8)
        checkpointKey = try fields.text(10)
        consistency = try fields.all(9).map { bytes in
            guard let hash = Hash256(bytes: bytes) else { throw CodecError(.badValue) }
            return hash
        }
    }
}

extension PushedEvent {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(bytes: 1, envelope)
        out.put(bytes: 2, body)
        out.put(number: 3, isFirstSending ? 1 : 0)
        out.put(bytes: 4, nonce)
        out.put(number: 5, restsOn)
    }

    fileprivate init(_ fields: Fields) throws {
        envelope = fields.bytes(1)
        body = fields.bytes(2)
        isFirstSending = fields.number(3) != 0
        nonce = fields.bytes(4)
        restsOn = fields.number(5)
        guard nonce.isEmpty || nonce.count == 16 else { throw CodecError(.badValue) }
    }
}

extension Accepted {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, replica.bytes)
        out.put(number: 4, counter)
        out.put(number: 5, seq)
        out.put(fixed: 6, hlc.rawValue)
        out.put(number: 7, isDuplicate ? 1 : 0)
    }

    fileprivate init(_ fields: Fields) throws {
        log = try fields.log()
        replica = try fields.identifier(3)
        counter = fields.number(4)
        seq = try fields.seq(5)
        hlc = HLC(rawValue: fields.fixed64(6))
        isDuplicate = fields.number(7) != 0
    }
}

extension Refused {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, replica.bytes)
        out.put(number: 4, counter)
        out.put(text: 5, code)
        out.put(text: 6, detail.cut(toBytes: WireLimits.detailBytesMax))
    }

    fileprivate init(_ fields: Fields) throws {
        log = try fields.log()
        replica = try fields.identifier(3)
        counter = fields.number(4)
        code = try fields.text(5)
        // The answer counts, not how much is said about it.
        detail = try fields.text(6).cut(toBytes: WireLimits.detailBytesMax)
        guard 1...64 ~= code.utf8.count else { throw CodecError(.badValue) }
    }
}

extension DamagedRun {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(number: 3, seq)
        out.put(number: 4, position)
        out.put(number: 5, UInt64(byteCount))
        var sums = ByteBuffer(capacity: checks.count * RunBlocks.checkBytes)
        for check in checks { sums.put(fixed64: check) }
        out.put(bytes: 6, sums.array())
        for span in spans {
            out.put(message: 7) {
                $0.put(log: span.log)
                $0.put(number: 3, span.firstSeq)
                $0.put(number: 4, UInt64(span.count))
            }
        }
    }

    fileprivate init(_ fields: Fields) throws {
        let sums = fields.bytes(6)
        guard sums.count % RunBlocks.checkBytes == 0 else { throw CodecError(.badValue) }
        let checks = try sums.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            return try (0..<bytes.count / RunBlocks.checkBytes).map { _ in try reader.fixed64() }
        }
        let spans = try fields.messages(7) { span in
            let (first, count) = (try span.seq(3), span.number(4))
            guard first > 0, 1...UInt64(SegmentCodec.eventsMax) ~= count else { throw CodecError(.badValue) }
            return EventSpan(log: try span.log(), firstSeq: first, count: Int(count))
        }
        self.init(
            log: try fields.log(), seq: try fields.seq(3), position: try fields.seq(4), byteCount: Int(try fields.seq(5)), checks: checks, spans: spans)
    }
}

extension LogNote {
    fileprivate func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, secret)
        if let head { out.put(head: 4, head) }
    }

    fileprivate init(_ fields: Fields) throws {
        log = try fields.log()
        secret = fields.bytes(3)
        guard secret.isEmpty || PuncturedSeeds(secret: secret) != nil else { throw CodecError(.badValue) }
        head = fields.has(4) ? try fields.head(4) : nil
    }
}

extension String {
    /// Its first scalars that take no more than so many bytes of UTF-8.
    package func cut(toBytes most: Int) -> String {
        guard utf8.count > most else { return self }
        var end = utf8.index(utf8.startIndex, offsetBy: most)
        while UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

extension ByteBuffer {
    /// Fields that hold their default are left out.
    fileprivate mutating func put(number field: Int, _ value: UInt64) {
        if value == 0 { return }
        put(varint: UInt64(field) << 3)
        put(varint: value)
    }

    fileprivate mutating func put(fixed field: Int, _ value: UInt64) {
        if value == 0 { return }
        put(varint: UInt64(field) << 3 | 1)
        put(fixed64: value)
    }

    fileprivate mutating func put(bytes field: Int, _ value: [UInt8]) {
        if value.isEmpty { return }
        put(varint: UInt64(field) << 3 | 2)
        put(varint: UInt64(value.count))
        put(value)
    }

    fileprivate mutating func put(text field: Int, _ value: String) {
        if value.isEmpty { return }
        put(varint: UInt64(field) << 3 | 2)
        put(lengthOf: value)
    }

    fileprivate mutating func put(message field: Int, _ body: (inout ByteBuffer) -> Void) {
        var inner = ByteBuffer(capacity: 128)
        body(&inner)
        put(varint: UInt64(field) << 3 | 2)
        put(varint: UInt64(inner.count))
        put(inner.bytes)
    }

    fileprivate mutating func put(log: LogID) {
        switch log {
        case .conversation(let id): put(bytes: 1, id.bytes)
        case .user(let user): put(text: 2, user.string)
        }
    }

    fileprivate mutating func put(head field: Int, _ head: LogHead) {
        put(message: field) {
            $0.put(number: 1, head.size)
            $0.put(bytes: 2, head.root.bytes)
        }
    }
}
