/// What of an event the rules of acceptance must know: the same whether it comes from a caller, the journal or the archive.
struct Effect {
    var seq: Seq
    var kind: UInt32
    var author: UserID
    var message: MessageID?
    var chunkIndex: UInt32
    var targetSeq: Seq
    var textBytes: Int
    var isStreaming: Bool
    /// Who joined or left; the participants of a creation.
    var users: [UserID]
    var replica: ReplicaID
    var counter: UInt64

    init(seq: Seq, event: Event, targetSeq: Seq, replica: ReplicaID, counter: UInt64) {
        self.seq = seq
        self.targetSeq = targetSeq
        self.replica = replica
        self.counter = counter
        author = event.author
        kind = event.kindNumber
        message = nil
        chunkIndex = 0
        textBytes = 0
        isStreaming = false
        users = []
        switch event.content {
        case .messageSent(let sent):
            message = sent.id
            textBytes = sent.text.utf8.count
            isStreaming = sent.isStreaming
        case .chunkAppended(let id, let index, let text):
            message = id
            chunkIndex = index
            textBytes = text.utf8.count
        case .conversationCreated(_, _, let participants): users = participants
        case .participantJoined(let user), .participantLeft(let user): users = [user]
        default: message = event.references.message
        }
    }

    init(_ recorded: borrowing RecordedEvent) {
        self.init(
            seq: recorded.seq, event: recorded.event, targetSeq: recorded.targetSeq ?? 0, replica: recorded.origin.replica, counter: recorded.origin.counter)
    }

    init(envelope: Envelope, body: BodyParts) throws(CodecError) {
        seq = envelope.seq
        kind = envelope.kind
        author = envelope.author
        message = envelope.message
        chunkIndex = envelope.chunkIndex
        targetSeq = envelope.targetSeq
        textBytes = body.text.count
        isStreaming = false
        users = []
        replica = envelope.origin.replica
        counter = envelope.origin.counter
        switch Event.Kind(rawValue: kind) {
        case .messageSent: isStreaming = try Self.isStreaming(rest: body.rest)
        case .conversationCreated, .participantJoined, .participantLeft:
            switch try Event(envelope: envelope, body: body).content {
            case .conversationCreated(_, _, let participants): users = participants
            case .participantJoined(let user), .participantLeft(let user): users = [user]
            default: break
            }
        default: break
        }
    }

    /// Whether a sent message's other fields open a stream.
    static func isStreaming(rest: UnsafeRawBufferPointer) throws(CodecError) -> Bool {
        var reader = ByteReader(rest)
        while !reader.isAtEnd {
            let tag = try reader.varint()
            if tag == 3 << 3 { return try reader.varint() == 1 }
            if tag >> 3 > 3 { return false }
            try reader.skip(tag: tag)
        }
        return false
    }
}
