extension DecodedRun {
    func envelope(at place: Int) -> Envelope {
        let item = events[place]
        return Envelope(
            log: slices[Int(item.slice)].log, seq: item.seq,
            origin: Origin(replica: replicas[Int(item.replica)], counter: item.counter, hlc: HLC(rawValue: item.originHLC)),
            hlc: HLC(rawValue: item.hlc),
            author: users[Int(item.author)], kind: item.kind, message: item.hasMessage ? item.message : nil, chunkIndex: item.chunkIndex,
            targetSeq: item.target, replyTo: item.hasReply ? item.replyTo : nil, extra: item.hasExtra ? extras[place] ?? [] : [])
    }

    /// Appends the canonical bytes of the envelope at a place.
    func encodeEnvelope(at place: Int, into out: inout ByteBuffer) {
        let item = events[place]
        Envelope.encode(
            log: slices[Int(item.slice)].log, seq: item.seq,
            origin: Origin(replica: replicas[Int(item.replica)], counter: item.counter, hlc: HLC(rawValue: item.originHLC)),
            hlc: HLC(rawValue: item.hlc), author: users[Int(item.author)], kind: item.kind, message: item.hasMessage ? item.message : nil,
            chunkIndex: item.chunkIndex, targetSeq: item.target, replyTo: item.hasReply ? item.replyTo : nil, into: &out)
        if item.hasExtra { out.put(extras[place] ?? []) }
    }

    func effect(at place: Int) throws -> Effect {
        let item = events[place]
        let text = UnsafeRawBufferPointer(start: nil, count: 0)
        var effect = try Effect(
            envelope: envelope(at: place),
            body: item.kind == Event.Kind.participantJoined.rawValue || item.kind == Event.Kind.participantLeft.rawValue
                || item.kind == Event.Kind.conversationCreated.rawValue ? body(at: place) : BodyParts(text: text, rest: rest(at: place)))
        effect.textBytes = Int(item.textLength)
        return effect
    }

    func recorded(at place: Int) throws -> RecordedEvent { try recorded(at: place, body: body(at: place)) }

    /// - Parameter body: that of the event at the place.
    func recorded(at place: Int, body: BodyParts) throws -> RecordedEvent { try recorded(at: place, events[place], body) }

    /// - Parameter item: the one at the place, borrowed: inlined, so that it is not copied as a whole.
    @inline(__always) private func recorded(at place: Int, _ item: Item, _ body: BodyParts) throws -> RecordedEvent {
        let log = slices[Int(item.slice)].log
        var conversation = ConversationID(high: 0, low: 0)
        if case .conversation(let id) = log { conversation = id }
        do {
            let content = try Event.Content(
                kind: item.kind, message: item.hasMessage ? item.message : nil, chunkIndex: item.chunkIndex,
                replyTo: item.hasReply ? item.replyTo : nil,
                body: body, isErased: item.isErased, conversation: &conversation)
            let isPlain = !item.hasExtra && body.rest.isEmpty && Event.Kind(rawValue: item.kind) != nil
            return RecordedEvent(
                log: log, seq: item.seq, position: item.position,
                origin: Origin(replica: replicas[Int(item.replica)], counter: item.counter, hlc: HLC(rawValue: item.originHLC)),
                hlc: HLC(rawValue: item.hlc), event: Event(conversation: conversation, author: users[Int(item.author)], content: content),
                targetSeq: item.target == 0 ? nil : item.target, isErased: item.isErased,
                commitment: item.isErased ? commitments[place] : nil,
                newer: isPlain ? nil : .of(envelope(at: place), item.isErased ? nil : body))
        } catch {
            throw RunError(position: position, underlying: error)
        }
    }
}
