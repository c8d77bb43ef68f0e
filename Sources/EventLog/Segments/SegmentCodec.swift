/// Events as they travel: a run (docs/FORMAT.md, section 4.1) whose first position is 1, as nothing of a store's own is inside.
package enum SegmentCodec {
    /// A seq that no log reaches: what is counted from it does not overflow.
    private static let seqMax: Seq = 1 << 62
    /// A segment's position, on which its checksums rest.
    package static let position: Position = 1
    /// No stored run holds more events.
    package static let eventsMax = RunShape().eventsMax
    /// No stored run holds more bytes, decompressed: its texts and one more event, and the envelopes' columns, were each author another one.
    package static let rawBytesMax = 24 << 20

    /// One segment of events in commit order; each log's must follow each other. ``SegmentEncoder`` encodes many.
    ///
    /// - Throws: `SegmentError` with code `malformed`, should a log's seqs have a hole.
    package static func encode(_ events: [RecordedEvent]) throws -> [UInt8] { try SegmentEncoder().encode(events) }

    /// The events of a segment, in commit order; positions are 0. The bytes may come from anybody: memory is bounded by the two limits, and what is
    /// not the canonical form of events that a store may hold is refused.
    ///
    /// - Parameter rawBytesMax: of columns and texts together, decompressed.
    /// - Throws: `SegmentError`.
    package static func decode(_ bytes: [UInt8], eventsMax: Int = eventsMax, rawBytesMax: Int = rawBytesMax) throws -> [RecordedEvent] {
        let run = try bytes.withUnsafeBytes { try open($0, eventsMax: eventsMax, rawBytesMax: rawBytesMax) }
        var result: [RecordedEvent] = []
        result.reserveCapacity(run.order.count)
        var check = EventCheck()
        for place in run.order { result.append(try check.event(of: run, at: Int(place))) }
        return result
    }

    /// Decodes the columns, and checks what concerns the whole: limits, and that each log has one slice.
    static func open(_ bytes: UnsafeRawBufferPointer, eventsMax: Int, rawBytesMax: Int) throws -> DecodedRun {
        do {
            // Before anything is allocated for it.
            let header = try DecodedRun.Header(bytes, at: position)
            guard header.events > 0 else { throw SegmentError(.malformed, "no events") }
            guard header.events <= eventsMax else { throw SegmentError(.tooLarge, "\(header.events) events") }
            var raw = header.metaBytes
            for frame in header.frames { raw += frame.raw }
            guard raw <= rawBytesMax else { throw SegmentError(.tooLarge, "\(raw) bytes") }
            let run = try DecodedRun(bytes, at: position, decompressor: ZstdDecompressor())
            var logs: Set<LogID> = []
            for slice in run.slices {
                guard 1..<seqMax ~= slice.firstSeq, logs.insert(slice.log).inserted else { throw SegmentError(.malformed, "slices that no store writes") }
            }
            try checkIDs(run, bytes)
            return run
        } catch let error as SegmentError {
            throw error
        } catch {
            throw SegmentError(.malformed, "\(error)")
        }
    }

    /// The list of the messages' ids, which is read without the events, must say the same as they.
    private static func checkIDs(_ run: DecodedRun, _ bytes: UnsafeRawBufferPointer) throws {
        let listed = try DecodedRun.messageIDs(bytes, at: position)
        guard listed.count == run.slices.count else { throw SegmentError(.malformed, "ids of other slices") }
        for (slice, ids) in zip(run.slices, listed) {
            var ids = ids[...]
            for place in slice.range where run.events[place].kind == Event.Kind.messageSent.rawValue {
                guard run.events[place].hasMessage, ids.popFirst() == run.events[place].message else { throw SegmentError(.malformed, "ids of other messages") }
            }
            guard ids.isEmpty else { throw SegmentError(.malformed, "ids of other messages") }
        }
    }

    /// Why an event that was decoded is none that a store may hold; `nil` if it is.
    package static func objection(to recorded: RecordedEvent) -> String? {
        guard 1..<seqMax ~= recorded.seq else { return "no seq of a store" }
        guard recorded.event.content.kind != nil else { return nil }
        if let target = recorded.targetSeq, target >= recorded.seq { return "no event of a store" }
        return recorded.isErased ? nil : Acceptance.checkForm(recorded.event).map { "\($0.code.rawValue)" }
    }

    /// Checks events one by one; reuses its buffers.
    struct EventCheck: ~Copyable {
        private(set) var envelope = ByteBuffer()
        private(set) var body = ByteBuffer()
        private var again = ByteBuffer()

        /// Whether just fields of newer versions follow the known ones.
        private borrowing func isCanonical() -> Bool {
            (try? EventCodec.checkCanonical(body: body.bytes, known: again.bytes)) != nil
        }

        /// Checks the event at a place as ``event(of:at:)`` does, and does not make it if it can be judged where it lies.
        mutating func check(_ run: DecodedRun, at place: Int) throws {
            guard run.events[place].isPlain, try isSound(plain: place, of: run) else {
                _ = try event(of: run, at: place)
                return
            }
            envelope.removeAll()
            body.removeAll()
            run.encodeEnvelope(at: place, into: &envelope)
            try run.body(at: place).encode(into: &body)
        }

        /// Whether an event of a usual kind is surely one that a store may hold: from its parts its bytes are made in one way only.
        private func isSound(plain place: Int, of run: DecodedRun) throws -> Bool {
            guard case .conversation = run.slices[Int(run.events[place].slice)].log, run.events[place].target < run.events[place].seq,
                run.events[place].textLength <= EventLimits.textBytesMax
            else { return false }
            do {
                return try run.body(at: place).text.isUTF8
            } catch {
                throw SegmentError(.malformed, "\(error)")
            }
        }

        /// The event at a place, of which `envelope` and `body` hold the canonical bytes then (no body, if it was erased).
        mutating func event(of run: DecodedRun, at place: Int) throws -> RecordedEvent {
            let item = run.events[place]
            let parts: BodyParts
            var recorded: RecordedEvent
            do {
                parts = try run.body(at: place)
                recorded = try run.recorded(at: place, body: parts)
            } catch {
                throw SegmentError(.malformed, "\(error)")
            }
            recorded.position = 0
            let (log, seq) = (recorded.log, item.seq)
            func refuse(_ what: String, _ code: SegmentError.Code = .malformed) -> SegmentError {
                SegmentError(code, "log \(log) seq \(seq): \(what)")
            }
            let kind = Event.Kind(rawValue: item.kind)
            // Whoever looks at a text's length alone would take it for none.
            guard !parts.text.isEmpty || BodyParts(body: parts.rest).text.isEmpty else { throw refuse("a text among the rest of its body") }
            guard item.kind != 0, item.target < seq || kind == nil else { throw refuse("no event of a store") }
            guard kind == nil || recorded.event.log == log else { throw refuse("an event of another log") }
            guard kind == nil || recorded.event.references == (item.hasMessage ? item.message : nil, item.chunkIndex, item.hasReply ? item.replyTo : nil) else {
                throw refuse("references of another kind")
            }
            envelope.removeAll()
            body.removeAll()
            run.encodeEnvelope(at: place, into: &envelope)
            parts.encode(into: &body)
            // Whole fields of newer versions, ascending.
            guard !item.hasExtra || (try? Envelope(canonical: envelope.bytes)) == run.envelope(at: place) else {
                throw refuse("an envelope that is not canonical")
            }
            guard envelope.count + body.count <= EventLimits.eventBytesMax + 4096 else { throw refuse("too large", .tooLarge) }
            if recorded.isErased {
                guard body.count == 0 else { throw refuse("a body that was erased") }
                switch kind {
                case .conversationCreated, .participantJoined, .participantLeft: throw refuse("what is never erased")
                default: return recorded
                }
            }
            again.removeAll()
            recorded.event.encodeBody(into: &again)
            guard again.count == body.count && again.bytes.isEqual(to: body.bytes) || kind != nil && recorded.newer != nil && isCanonical() else {
                throw refuse("a body that is not canonical")
            }
            if kind != nil, let refusal = Acceptance.checkForm(recorded.event) {
                throw refuse("\(refusal.code.rawValue)", refusal.code == .tooLarge ? .tooLarge : .malformed)
            }
            return recorded
        }
    }
}
