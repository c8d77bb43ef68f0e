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
        try rows.read(id) { row in
            try timeline(id, row, range, limit: max(limit, 0))
        }
    }

    private func timeline(_ id: ConversationID, _ row: borrowing ConversationRow, _ range: TimelineRange, limit: Int) throws -> TimelinePage {
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
            let mark = row.person(user).map { row.people[$0].mark } ?? 0
            before = try messages(before: mark + 1, limit / 3, id, row)
            after = try messages(from: mark + 1, limit - before.count, id, row)
            if after.isEmpty { before = try messages(before: .max, limit, id, row) }
        }
        let messages = before.isEmpty ? after : before + after
        let first = try self.firstSeq(id, row)
        return TimelinePage(
            conversation: id, messages: messages, receipts: row.receipts,
            hasBefore: messages.first.map { $0.seq > first } ?? Self.isAnything(.before, range, row),
            hasAfter: messages.last.map { $0.seq < row.last!.seq } ?? Self.isAnything(.after, range, row), seq: row.seq)
    }

    private enum Side { case before, after }

    /// An empty page still knows whether there are messages on either side of where it stands.
    private static func isAnything(_ side: Side, _ range: TimelineRange, _ row: borrowing ConversationRow) -> Bool {
        guard let last = row.last, let first = row.fences.first else { return false }
        switch (range, side) {
        case (.before(let seq), .after): return last.seq >= seq
        case (.after(let seq), .before): return first.firstSeq <= seq
        case (.before(let seq), .before): return first.firstSeq < seq
        case (.after(let seq), .after): return last.seq > seq
        case (.around(let seq), .before): return first.firstSeq < seq
        case (.around(let seq), .after): return last.seq >= seq
        case (.newest, .after): return false
        case (.unread, _), (.newest, .before): return true
        }
    }

    private func firstSeq(_ id: ConversationID, _ row: borrowing ConversationRow) throws -> Seq { row.fences.first?.firstSeq ?? 0 }

    /// The message of just this seq.
    package func message(_ id: ConversationID, at seq: Seq) throws -> (message: Message, receipts: Receipts)? {
        try rows.read(id) { row -> (Message, Receipts)? in
            guard let number = try page(of: seq, id, row) else { return nil }
            return try readPage(number, id, row) { page in
                guard let found = try page.message(at: seq) else { return nil }
                return (Message(found, row), row.receipts)
            }
        } ?? nil
    }

    /// A message by its id: looked for from the newest on, a page at a time.
    package func message(_ id: ConversationID, _ message: MessageID) throws -> (message: Message, receipts: Receipts)? {
        guard let row = try rows.row(at: id) else { return nil }
        for number in stride(from: Int64(row.pages) - 1, through: 0, by: -1) {
            let found = try readPage(UInt64(number), id, row) { page -> Message? in
                var found: Message?
                try page.forEach { candidate in
                    if candidate.id == message { found = Message(candidate, row) }
                    return found == nil
                }
                return found
            }
            if let found { return (found, row.receipts) }
        }
        return nil
    }

    package func receipts(_ id: ConversationID) throws -> Receipts? { try rows.read(id) { $0.receipts } }

    /// The last seq of a conversation; 0 if there is none.
    package func seq(of id: ConversationID) throws -> Seq { try rows.read(id) { $0.seq } ?? 0 }

    private func messages(before seq: Seq, _ limit: Int, _ id: ConversationID, _ row: borrowing ConversationRow) throws -> [Message] {
        guard limit > 0, row.pages > 0, seq > 0 else { return [] }
        guard var number = seq > row.seq ? row.pages - 1 : try page(of: seq, id, row) else { return [] }
        // How many pages back it is, by their counts alone; then forwards, so that each message is made once and in its place.
        var count = 0
        while true {
            count += try readPage(number, id, row) { page in
                if page.firstSeq >= seq { return 0 }
                if seq > row.last?.seq ?? 0 { return page.count }
                var before = 0
                try page.forEach { message in
                    if message.seq < seq { before += 1 }
                    return message.seq < seq
                }
                return before
            }
            if count >= limit || number == 0 { break }
            number -= 1
        }
        var result: [Message] = []
        result.reserveCapacity(min(count, limit))
        var skipped = max(0, count - limit)
        while result.count < min(count, limit), number < row.pages {
            try readPage(number, id, row) { page in
                try page.forEach(skipping: &skipped) { message in
                    if result.count == limit || message.seq >= seq { return false }
                    result.append(Message(message, row))
                    return true
                }
            }
            number += 1
        }
        return result
    }

    private func messages(from seq: Seq, _ limit: Int, _ id: ConversationID, _ row: borrowing ConversationRow) throws -> [Message] {
        guard limit > 0, row.pages > 0, let last = row.last, seq <= last.seq else { return [] }
        var number = try page(of: seq, id, row) ?? 0
        var result: [Message] = []
        while number < row.pages, result.count < limit {
            try readPage(number, id, row) { page in
                try page.forEach { message in
                    if message.seq >= seq { result.append(Message(message, row)) }
                    return result.count < limit
                }
            }
            number += 1
        }
        return result
    }
}

extension ConversationRow {
    var receipts: Receipts {
        var marks: [Receipts.Mark] = []
        for person in people where person.deliveredTo != 0 || person.readTo != 0 {
            marks.append(Receipts.Mark(user: person.user, deliveredTo: person.deliveredTo, readTo: person.readTo))
        }
        if marks.count > 1 { marks.sort { $0.user < $1.user } }
        return Receipts(marks: marks)
    }
}
