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
        case .unreadable(let unreadable):
            number = 20
            body.put(unreadable.logs, conversations: 1, users: 2)
            body.put(unreadable.undecided, conversations: 3, users: 4)
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
        case 20:
            self = .unreadable(Unreadable(try fields.logs(conversations: 1, users: 2), undecided: try fields.logs(conversations: 3, users: 4)))
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
