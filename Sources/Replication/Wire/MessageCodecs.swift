package import EventLog

// What frames are made of, in the same format.

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
    func encode(into out: inout ByteBuffer) {
        part.encode(into: &out)
        out.put(whole, conversations: 5, users: 6)
    }

    init(_ fields: Fields) throws {
        part = try PartialCursor(fields)
        whole = try fields.logs(conversations: 5, users: 6)
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
    func encode(into out: inout ByteBuffer) {
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
        out.put(number: 19, takesUnreadable ? 1 : 0)
        out.put(number: 20, takesCheckpointKept ? 1 : 0)
    }

    init(_ fields: Fields) throws {
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
        // Which kinds there are is a matter of the version: a hub that speaks none of these says so.
        scope = fields.has(8) && versions.overlaps(WireLimits.versions) ? try Scope(fields.message(8)) : .mine
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
        takesUnreadable = fields.number(19) != 0
        takesCheckpointKept = fields.number(20) != 0
    }
}

extension Welcome {
    func encode(into out: inout ByteBuffer) {
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
        out.put(number: 11, isCheckpointKept ? 1 : 0)
    }

    init(_ fields: Fields) throws {
        version = UInt32(clamping: fields.number(1))
        connection = fields.fixed64(2)
        store = try fields.identifier(3)
        incarnation = fields.fixed64(4)
        time = fields.number(5)
        credit = fields.number(6)
        isGone = fields.number(7) != 0
        checkpoint = try fields.text(8)
        checkpointKey = try fields.text(10)
        isCheckpointKept = fields.number(11) != 0
        consistency = try fields.all(9).map { bytes in
            guard let hash = Hash256(bytes: bytes) else { throw CodecError(.badValue) }
            return hash
        }
    }
}

extension PushedEvent {
    func encode(into out: inout ByteBuffer) {
        out.put(bytes: 1, envelope)
        out.put(bytes: 2, body)
        out.put(number: 3, isFirstSending ? 1 : 0)
        out.put(bytes: 4, nonce)
        out.put(number: 5, restsOn)
        if let former {
            out.put(bytes: 6, former.replica.bytes)
            out.put(number: 7, former.counter)
        }
        out.put(number: 8, mayStandFrom)
    }

    init(_ fields: Fields) throws {
        envelope = fields.bytes(1)
        body = fields.bytes(2)
        isFirstSending = fields.number(3) != 0
        nonce = fields.bytes(4)
        restsOn = fields.number(5)
        former = fields.has(6) || fields.has(7) ? FormerOrigin(replica: try fields.identifier(6), counter: fields.number(7)) : nil
        mayStandFrom = fields.number(8)
        guard nonce.isEmpty || nonce.count == 16 else { throw CodecError(.badValue) }
    }
}

extension Accepted {
    func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, replica.bytes)
        out.put(number: 4, counter)
        out.put(number: 5, seq)
        out.put(fixed: 6, hlc.rawValue)
        out.put(number: 7, isDuplicate ? 1 : 0)
    }

    init(_ fields: Fields) throws {
        log = try fields.log()
        replica = try fields.identifier(3)
        counter = fields.number(4)
        seq = try fields.seq(5)
        hlc = HLC(rawValue: fields.fixed64(6))
        isDuplicate = fields.number(7) != 0
    }
}

extension Refused {
    func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, replica.bytes)
        out.put(number: 4, counter)
        out.put(text: 5, code)
        out.put(text: 6, detail.cut(toBytes: WireLimits.detailBytesMax))
    }

    init(_ fields: Fields) throws {
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
    func encode(into out: inout ByteBuffer) {
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

    init(_ fields: Fields) throws {
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
    func encode(into out: inout ByteBuffer) {
        out.put(log: log)
        out.put(bytes: 3, secret)
        if let head { out.put(head: 4, head) }
    }

    init(_ fields: Fields) throws {
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
