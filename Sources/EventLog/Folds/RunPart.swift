/// Events of one log that follow each other, lent to a fold as they lie in a run that was taken in: most of them need not be made to be folded.
package struct RunPart {
    /// What a part consists of.
    package enum Piece {
        case message(SentMessage)
        case chunks(Chunks)
        /// Any other event.
        case event(RecordedEvent)
    }

    /// A user's message with nothing beside its text.
    package struct SentMessage {
        package var id: MessageID
        package var seq: Seq
        package var author: UserID
        package var hlc: HLC
        /// By its author's clock, in milliseconds since 1970.
        package var sentAt: UInt64
        package var replyTo: MessageID?
        /// UTF-8, valid as long as the part is lent.
        package var text: UnsafeRawBufferPointer
    }

    /// Chunks of one message that follow each other.
    package struct Chunks {
        package var target: Seq
        /// Of the last one.
        package var seq: Seq
        package var count: UInt32
        /// Their texts, one behind the other: UTF-8, valid as long as the part is lent.
        package var text: UnsafeRawBufferPointer
    }

    private let run: DecodedRun
    private let places: Range<Int>
    /// What a position in the run is counted from.
    private let base: Position

    init(_ run: DecodedRun, _ places: Range<Int>, base: Position) {
        self.run = run
        self.places = places
        self.base = base
    }

    package var log: LogID { run.slices[Int(run.events[places.lowerBound].slice)].log }
    var firstPosition: Position { base + run.events[places.lowerBound].position }

    /// Hands out what the part consists of, in order. Chunks of which each would be folded alike come as one.
    package func forEachPiece(_ body: (borrowing Piece) throws -> Void) throws {
        var place = places.lowerBound
        while place < places.upperBound {
            let first = place
            place += 1
            guard run.events[first].isPlain else {
                try body(.event(event(at: first)))
                continue
            }
            let item = run.events[first]
            if item.kind == Event.Kind.messageSent.rawValue {
                try body(
                    .message(
                        SentMessage(
                            id: item.message, seq: item.seq, author: run.users[Int(item.author)], hlc: HLC(rawValue: item.hlc),
                            sentAt: HLC(rawValue: item.originHLC).milliseconds, replyTo: item.hasReply ? item.replyTo : nil,
                            text: run.text(from: first, through: first))))
                continue
            }
            while place < places.upperBound, run.events[place].isPlain, run.events[place].kind == item.kind, run.events[place].target == item.target {
                place += 1
            }
            // Each text begins where the one before it ends, as none of the chunks was left out.
            try body(
                .chunks(
                    Chunks(
                        target: item.target, seq: run.events[place - 1].seq, count: UInt32(place - first),
                        text: run.text(from: first, through: place - 1))))
        }
    }

    package func forEachEvent(_ body: (RecordedEvent) throws -> Void) throws { for place in places { try body(event(at: place)) } }

    private func event(at place: Int) throws -> RecordedEvent {
        var event = try run.recorded(at: place)
        event.position += base
        return event
    }
}

extension DecodedRun {
    /// The texts of events that follow each other, of a run whose texts are loaded.
    fileprivate func text(from first: Int, through last: Int) throws -> UnsafeRawBufferPointer {
        try loadedText(Int(events[first].textOffset)..<Int(events[last].textOffset + events[last].textLength))
    }
}

/// A run's events from one rank to another, in commit order, as they are folded at once.
struct RunWindow {
    let run: DecodedRun
    let ranks: Range<Int>
    /// The same events by log.
    let parts: [RunPart]
    /// Whether a user's log has other events than preferences: they name no conversation, and are folded as if of that with the number 0, which somebody may
    /// have. Then it counts which was committed first.
    let dependsOnOrder: Bool
    fileprivate let base: Position

    var lastPosition: Position { base + run.events[Int(run.order[ranks.upperBound - 1])].position }

    func forEachEvent(_ body: (borrowing RecordedEvent) throws -> Void) throws {
        for rank in ranks {
            var event = try run.recorded(at: Int(run.order[rank]))
            event.position += base
            try body(event)
        }
    }

    /// Calls the closure with one window after the other, of so many events each.
    static func forEach(of run: DecodedRun, base: Position, count: Int, _ body: (RunWindow) -> Void) {
        // By slice: its first event that is in no window yet.
        var next = run.slices.map(\.range.lowerBound)
        var start = 0
        while start < run.order.count {
            let end = min(start + count, run.order.count)
            // Of the run's own positions, which are one for each rank.
            let limit = run.position + Position(end)
            var parts: [RunPart] = []
            var dependsOnOrder = false
            for (slice, first) in next.enumerated() {
                var place = first
                while place < run.slices[slice].range.upperBound, run.events[place].position < limit { place += 1 }
                if place == first { continue }
                parts.append(RunPart(run, first..<place, base: base))
                next[slice] = place
                guard case .user = run.slices[slice].log else { continue }
                for place in first..<place where run.events[place].isErased || run.events[place].kind != Event.Kind.preferenceSet.rawValue {
                    dependsOnOrder = true
                }
            }
            body(RunWindow(run: run, ranks: start..<end, parts: parts, dependsOnOrder: dependsOnOrder, base: base))
            start = end
        }
    }
}
