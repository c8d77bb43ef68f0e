public import EventLog

/// Which messages of a conversation are wanted.
public enum TimelineRange: Sendable, Hashable {
    case newest
    /// Those before a seq, and those after it, next to it.
    case before(Seq)
    case after(Seq)
    /// From the first that a user has not read, with a third of the page before it for context.
    case unread(UserID)
    /// With a message of this seq in the middle.
    case around(Seq)
}

extension Conversations {
    /// A page of at most `limit` messages; `nil` if there is no such conversation.
    package func timeline(_ id: ConversationID, _ range: TimelineRange, limit: Int) throws -> TimelinePage? {
        try rows.lend(id) { row in
            try timeline(id, row, range, limit: max(limit, 0))
        }
    }

    private func timeline(_ id: ConversationID, _ row: LentRow, _ range: TimelineRange, limit: Int) throws -> TimelinePage {
        var before: [Message] = []
        var after: [Message] = []
        switch range {
        case .newest: before = try messages(before: .max, limit, id, row)
        case .before(let seq): before = try messages(before: seq, limit, id, row)
        case .after(let seq): after = try messages(from: seq == .max ? .max : seq + 1, limit, id, row)
        case .around(let seq):
            before = try messages(before: seq, limit / 2, id, row)
            after = try messages(from: seq, limit - before.count, id, row)
        case .unread(let user):
            let mark = row.person(user).map { row.pointee.people[$0].mark } ?? 0
            before = try messages(before: mark + 1, limit / 3, id, row)
            after = try messages(from: mark + 1, limit - before.count, id, row)
            if after.isEmpty { before = try messages(before: .max, limit, id, row) }
        }
        let messages = before.isEmpty ? after : after.isEmpty ? before : before + after
        let ends = try ends(id, row)
        return TimelinePage(
            conversation: id, messages: messages, receipts: row.receipts,
            hasBefore: messages.first.map { $0.seq > ends!.first } ?? Self.isAnything(.before, range, ends),
            hasAfter: messages.last.map { $0.seq < ends!.last } ?? Self.isAnything(.after, range, ends), seq: overlay?.confirmedSeq ?? row.pointee.seq,
            hole: try hole(at: messages, id, row))
    }

    private enum Side { case before, after }

    /// An empty page still knows whether there are messages on either side of where it stands.
    private static func isAnything(_ side: Side, _ range: TimelineRange, _ ends: (first: Seq, last: Seq)?) -> Bool {
        guard let (first, last) = ends else { return false }
        switch (range, side) {
        case (.before(let seq), .after): return last >= seq
        case (.after(let seq), .before): return first <= seq
        case (.before(let seq), .before): return first < seq
        case (.after(let seq), .after): return last > seq
        case (.around(let seq), .before): return first < seq
        case (.around(let seq), .after): return last >= seq
        case (.newest, .after): return false
        case (.unread, _), (.newest, .before): return true
        }
    }

    /// The seqs of the first and the last message that are shown.
    private func ends(_ id: ConversationID, _ row: LentRow) throws -> (first: Seq, last: Seq)? {
        let held = try heldEnds(id, row)
        guard overlay?.hole != nil, let stale = try belowHole(id, { try $0.heldEnds(id, $1) }) ?? nil else { return held }
        return (stale.first, held?.last ?? stale.last)
    }

    /// The same, without those below a hole.
    private func heldEnds(_ id: ConversationID, _ row: LentRow) throws -> (first: Seq, last: Seq)? {
        guard row.pointee.pages > firstPage, let last = row.pointee.last?.seq else { return nil }
        if row.pointee.pages == 1 { return (row.pointee.openFirstSeq, last) }
        guard let first = row.pointee.fences.first?.firstSeq else { return nil }
        return (firstPage == 0 ? first : try readPage(firstPage, id, row) { $0.firstSeq }, last)
    }

    /// The hole, if it lies between some messages, or if none that is shown lies between them and it.
    private func hole(at messages: [Message], _ id: ConversationID, _ row: LentRow) throws -> ClosedRange<Seq>? {
        guard let overlay, overlay.isHoleOpen else { return nil }
        guard let hole = overlay.hole, let first = messages.first?.seq, let last = messages.last?.seq else { return overlay.hole }
        if first > hole.upperBound { return try heldEnds(id, row)?.first == first ? hole : nil }
        if last < hole.lowerBound { return try belowHole(id, { try $0.heldEnds(id, $1)?.last }) == last ? hole : nil }
        return hole
    }

    /// Lends what is known of a conversation below its hole; `nil` if nothing is.
    private func belowHole<R>(_ id: ConversationID, _ body: (Conversations, LentRow) throws -> R) throws -> R? {
        guard let below = overlay?.below else { return nil }
        return try below.rows.lend(id) { row in try body(below, row) }
    }

    /// The message of just this seq.
    package func message(_ id: ConversationID, at seq: Seq) throws -> (message: Message, receipts: Receipts)? {
        try rows.lend(id) { row -> (Message, Receipts)? in
            if let hole = overlay?.hole, seq <= hole.upperBound {
                return try overlay.flatMap { overlay in try overlay.below.message(id, at: seq).map { (overlay.stale($0.message), row.receipts) } }
            }
            guard let number = try page(of: seq, id, row) else { return nil }
            return try readPage(number, id, row) { [overlay] page in
                try page.read(seq) { (try overlay.shown($0, row), row.receipts) }
            }
        } ?? nil
    }

    /// A message by its id: looked for from the newest on, a page at a time.
    package func message(_ id: ConversationID, _ message: MessageID) throws -> (message: Message, receipts: Receipts)? {
        try rows.lend(id) { row -> (Message, Receipts)? in
            for number in stride(from: Int64(row.pointee.pages) - 1, through: Int64(firstPage), by: -1) {
                let found = try readPage(UInt64(number), id, row) { [overlay] page -> Message? in
                    var found: Message?
                    try page.forEach { candidate in
                        if candidate.id == message { found = try overlay.shown(candidate, row) }
                        return found == nil
                    }
                    return found
                }
                if let found { return (found, row.receipts) }
            }
            guard let overlay, overlay.hole != nil else { return nil }
            return try overlay.below.message(id, message).map { (overlay.stale($0.message), row.receipts) }
        } ?? nil
    }

    /// The seq at which a message was sent, looked for from the newest on; those up to `known` are not asked.
    func seq(of message: MessageID, in id: ConversationID, after known: Seq) throws -> Seq? {
        let found =
            try rows.lend(id) { row -> Seq? in
                var number = row.pointee.pages
                while number > firstPage {
                    number -= 1
                    var found: Seq?
                    let first = try readPage(number, id, row) { page in
                        try page.forEach { candidate in
                            if candidate.id == message { found = candidate.seq }
                            return found == nil
                        }
                        return page.firstSeq
                    }
                    if let found { return found }
                    if first <= known { return nil }
                }
                return nil
            } ?? nil
        guard found == nil, let overlay, overlay.hole != nil else { return found }
        return try overlay.below.seq(of: message, in: id, after: known)
    }

    /// The seqs of messages to which something was done that the hub has not accepted.
    package var unsettledSeqs: [Seq] { overlay.map { Array($0.writes.all.keys) } ?? [] }

    package func receipts(_ id: ConversationID) throws -> Receipts? { try rows.lend(id) { $0.receipts } }

    /// What an attribute of a conversation is; `nil` if it has none of the name, or there is no such conversation.
    package func attribute(_ name: String, of id: ConversationID) throws -> String? { try rows.lend(id) { $0.pointee.attribute(name) } ?? nil }

    /// By what a conversation stands in lobbies (`LobbyRow.order`); `nil` if there is none.
    package func order(of id: ConversationID) throws -> HLC? { try rows.lend(id) { $0.pointee.order } }

    /// The last seq of a conversation; 0 if there is none.
    package func seq(of id: ConversationID) throws -> Seq { try rows.lend(id) { $0.pointee.seq } ?? 0 }

    private func messages(before seq: Seq, _ limit: Int, _ id: ConversationID, _ row: LentRow) throws -> [Message] {
        let held = try heldMessages(before: seq, limit, id, row)
        guard let overlay, overlay.hole != nil, held.count < limit else { return held }
        let stale = try belowHole(id) { try $0.heldMessages(before: seq, limit - held.count, id, $1) } ?? []
        return stale.map(overlay.stale) + held
    }

    private func messages(from seq: Seq, _ limit: Int, _ id: ConversationID, _ row: LentRow) throws -> [Message] {
        guard let overlay, let hole = overlay.hole, seq <= hole.upperBound else { return try heldMessages(from: seq, limit, id, row) }
        let stale = try belowHole(id) { try $0.heldMessages(from: seq, limit, id, $1) } ?? []
        return stale.map(overlay.stale) + (try heldMessages(from: hole.upperBound + 1, limit - stale.count, id, row))
    }

    private func heldMessages(before seq: Seq, _ limit: Int, _ id: ConversationID, _ row: LentRow) throws -> [Message] {
        guard limit > 0, row.pointee.pages > firstPage, seq > 0 else { return [] }
        guard var number = seq > row.pointee.seq ? row.pointee.pages - 1 : try page(of: seq, id, row), number >= firstPage else { return [] }
        // How many pages back it is, by their counts alone; then forwards, so that each message is made once and in its place.
        var count = 0
        while true {
            count += try readPage(number, id, row) { page in
                if page.firstSeq >= seq { return 0 }
                if seq > row.pointee.last?.seq ?? 0 { return page.count }
                var before = 0
                try page.forEach { message in
                    if message.seq < seq { before += 1 }
                    return message.seq < seq
                }
                return before
            }
            if count >= limit || number == firstPage { break }
            number -= 1
        }
        var result: [Message] = []
        result.reserveCapacity(min(count, limit))
        var skipped = max(0, count - limit)
        while result.count < min(count, limit), number < row.pointee.pages {
            try readPage(number, id, row) { [overlay] page in
                try page.forEach(skipping: &skipped) { message in
                    if result.count == limit || message.seq >= seq { return false }
                    try overlay.append(message, row, to: &result)
                    return true
                }
            }
            number += 1
        }
        return result
    }

    private func heldMessages(from seq: Seq, _ limit: Int, _ id: ConversationID, _ row: LentRow) throws -> [Message] {
        guard limit > 0, row.pointee.pages > firstPage, let last = row.pointee.last, seq <= last.seq else { return [] }
        var number = max(try page(of: seq, id, row) ?? 0, firstPage)
        var result: [Message] = []
        while number < row.pointee.pages, result.count < limit {
            try readPage(number, id, row) { [overlay] page in
                try page.forEach { message in
                    if message.seq >= seq { try overlay.append(message, row, to: &result) }
                    return result.count < limit
                }
            }
            number += 1
        }
        return result
    }
}
