internal import ConversationStore
public import EventLog

/// An event of this replica's own that no hub has accepted yet.
public struct OutboxEntry: Hashable, Sendable, Identifiable {
    public enum State: Hashable, Sendable {
        /// Not sent yet: it can still be changed or withdrawn.
        case pending
        /// Sent; the answer has not come, or not arrived.
        case sent
        case failed(code: String, detail: String)
    }

    /// In the order made. It stays the same, but that what a hub lost goes before all else, and what is tried again behind what was sent since.
    public private(set) var id: UInt64
    public var event: Event
    /// The counter is 0 until it is sent.
    public var origin: Origin
    public var state: State = .pending
    /// What it depends on has failed: it is sent when that is.
    public var isWaiting = false

    /// What `origin.replica` was made of.
    var nonce: [UInt8]
    /// The counter of the event of its lane on which it rested when it was sent; 0: on none.
    var restsOn: UInt64 = 0
    /// Of what a hub lost: under which origin it was recorded. In another life of the hub it stands so.
    var former: FormerOrigin?
    /// Some hub may know it: it was sent, or is offered anew as a hub had lost it. One that failed and is tried again, or whose counter was another's, is sent
    /// as a new event; in another life of the hub it may stand all the same. So may what waits when a counter turns out to be another's: this replica was set back.
    package var wasSent = false
    /// Where the hub says that it recorded it, until that is held here and was compared.
    var accepted: Record?
    /// It was counted as accepted, which may happen again on a new connection.
    var isCounted = false
    /// What the hub recorded did not come in the session that told of it: the scope left it out, or it lies in a hole.
    var isElsewhere = false

    /// Whether the hub has it, as far as is known, and it does not come. Each session asks again: the hub may be set back.
    public var isAccepted: Bool { state == .sent && isElsewhere }

    struct Record: Hashable, Sendable {
        var seq: Seq
        /// It stands there as something else that says the same, or did so before it was sent.
        var isRepeat: Bool
    }

    /// It was sent, and the hub has not said what became of it.
    var isUnanswered: Bool { state == .sent && accepted == nil }

    public var isFailed: Bool { if case .failed = state { true } else { false } }

    /// It has failed, and does not stand at the hub.
    var isRefused: Bool { isFailed && state != Self.isOfErased }

    init(id: UInt64, event: Event, origin: Origin, nonce: [UInt8]) {
        self.id = id
        self.event = event
        self.origin = origin
        self.nonce = nonce
    }

    /// The same under another id.
    func with(id: UInt64) -> OutboxEntry {
        var entry = self
        entry.id = id
        return entry
    }

    /// The same, as what it rests on was offered anew, and refused.
    var orphaned: OutboxEntry { without("it depends on an event that a hub lost, and then refused") }

    /// The same, as that was refused on which it rested when it was sent.
    var refusedWithBase: OutboxEntry { without("it depends on an event that the hub refused") }

    private func without(_ detail: String) -> OutboxEntry {
        var entry = self
        entry.state = .failed(code: codeWithoutBase, detail: detail)
        return entry
    }
}

extension OutboxEntry {
    /// docs/FORMAT.md, "Side store".
    func encoded() -> [UInt8] {
        let (envelope, body) = EventCodec.encode(recorded)
        var out = ByteBuffer(capacity: envelope.count + body.count + 64)
        let (kind, code, detail): (UInt8, String, String) =
            switch state {
            case .pending: (0, "", "")
            case .sent: (1, "", "")
            case .failed(let code, let detail): (2, code, detail)
            }
        out.put(byte: kind)
        out.put(varint: wasSent ? 1 : 0)
        out.put(nonce)
        out.put(lengthOf: code)
        out.put(lengthOf: detail)
        out.put(varint: UInt64(envelope.count))
        out.put(envelope)
        out.put(varint: UInt64(body.count))
        out.put(body)
        if restsOn > 0 || isAccepted || former != nil { out.put(varint: restsOn) }
        if isAccepted || former != nil { out.put(byte: (isAccepted ? 1 : 0) | (former == nil ? 0 : 4)) }
        if let former {
            out.put(former.replica.bytes)
            out.put(varint: former.counter)
        }
        return out.array()
    }

    init(id: UInt64, decoding bytes: UnsafeRawBufferPointer) throws {
        var reader = ByteReader(bytes)
        let kind = try reader.byte()
        wasSent = try reader.varint() > 0
        nonce = Array(try reader.take(16))
        let code = try reader.string()
        let detail = try reader.string()
        let envelope = Array(try reader.lengthPrefixed())
        let body = Array(try reader.lengthPrefixed())
        if !reader.isAtEnd { restsOn = try reader.varint() }
        if !reader.isAtEnd {
            let flags = try reader.byte()
            isElsewhere = flags & 1 != 0
            // As it was written before.
            if flags & 2 != 0 { wasSent = true }
            if flags & 4 != 0 { former = FormerOrigin(replica: try reader.identifier(), counter: try reader.varint()) }
        }
        isCounted = isElsewhere
        guard reader.isAtEnd, kind <= 2 else { throw CodecError(.badValue) }
        let recorded = try EventCodec.decode(envelope: envelope, body: body)
        self.id = id
        event = recorded.event
        origin = recorded.origin
        state = kind == 0 ? .pending : kind == 1 ? .sent : .failed(code: code, detail: detail)
    }

    /// As it goes to the hub: without what the hub decides.
    var recorded: RecordedEvent {
        RecordedEvent(log: event.log, seq: 0, position: 0, origin: origin, hlc: HLC(rawValue: 0), event: event, targetSeq: nil)
    }

    /// - Parameter position: behind which the hub may have it under another origin.
    func pushed(isFirstSending: Bool, sessionReplica: ReplicaID, mayStandBehind position: Position? = nil) -> PushedEvent {
        let (envelope, body) = EventCodec.encode(recorded)
        return PushedEvent(
            envelope: envelope, body: body, isFirstSending: isFirstSending, nonce: origin.replica == sessionReplica ? [] : nonce, restsOn: restsOn,
            former: PlantedBug.repeatOffers.isPlanted ? nil : former, mayStandFrom: position.map { $0 + 1 } ?? 0)
    }

    /// What a hub would say of it if that were missing on which it rests.
    var codeWithoutBase: String {
        let code: RefusalCode = neededMessages.isEmpty ? .unknownConversation : .unknownMessage
        return code.rawValue
    }

    /// The messages that it needs to be there.
    var neededMessages: [MessageID] { event.neededMessages }
}

extension Event {
    /// The messages that it needs to be there.
    var neededMessages: [MessageID] {
        switch content {
        case .messageSent(let message): message.replyTo.map { [$0] } ?? []
        case .chunkAppended(let id, _, _), .messageCompleted(let id, _, _), .messageInterrupted(let id, _), .messageEdited(let id, _), .messageDeleted(let id),
            .reactionSet(let id, _, _), .receiptDelivered(let id), .receiptRead(let id):
            [id]
        default: []
        }
    }
}

extension PendingEvent {
    init(_ entry: OutboxEntry) {
        var failure: Refusal?
        if case .failed(let code, let detail) = entry.state { failure = Refusal(RefusalCode(rawValue: code) ?? .malformed, detail) }
        self.init(entry.event, origin: entry.origin, failure: failure, isWaiting: entry.isWaiting)
    }
}
